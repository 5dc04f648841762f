//! A copy of the file as it is at one moment, while it is read and written, and a look at such a copy.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use redb::{Key, ReadTransaction, ReadableTable, TableDefinition, TableError, TableHandle, Value, WriteTransaction};
use serde::Serialize;

use super::file::{META, PROBE, builder, peek};
use super::{State, StateError, records};

/// Copies the tables of one part.
pub type Copier = fn(&ReadTransaction, &WriteTransaction) -> Result<(), redb::Error>;

/// What is in a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Backup {
    /// How many sessions there are.
    pub sessions: u64,
    /// How many responses that requests may go on from.
    pub responses: u64,
    /// How many of both cannot be read.
    pub damaged: u64,
}

/// Copies one table, if there is one.
pub(crate) fn copied<K: Key + 'static, V: Value + 'static>(
    from: &ReadTransaction,
    to: &WriteTransaction,
    table: TableDefinition<'static, K, V>,
) -> Result<(), redb::Error> {
    let source = match from.open_table(table) {
        Ok(source) => source,
        Err(TableError::TableDoesNotExist(_)) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let mut copy = to.open_table(table)?;
    for entry in source.iter()? {
        let (key, value) = entry?;
        copy.insert(key.value(), value.value())?;
    }
    Ok(())
}

/// Writes everything as it is at one moment into a new file, which only its owner can read; others go on reading and writing
/// meanwhile. What is at `to` is replaced when the copy is whole. It blocks.
///
/// # Errors
/// [`StateError`]; then `to` is as it was.
pub fn backup(state: &State, to: &Path, parts: &[Copier]) -> Result<(), StateError> {
    let io_error = |error: io::Error| StateError::Io {
        path: to.to_owned(),
        error,
    };
    let read = state.file().read()?;
    let new = to.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(&new).map_err(io_error)?;
    let write = || -> Result<(), redb::Error> {
        let database = builder().create(&new)?;
        let transaction = database.begin_write()?;
        copied(&read, &transaction, META)?;
        records::copy(&read, &transaction)?;
        parts.iter().try_for_each(|copy| copy(&read, &transaction))?;
        all_are_there(&read, &transaction)?;
        transaction.commit()?;
        Ok(database.close()?)
    };
    let written = write().map_err(|error| match error {
        redb::Error::Io(error) => io_error(error),
        error => StateError::Storage(Arc::new(error)),
    });
    let placed = written.and_then(|()| fs::rename(&new, to).map_err(io_error));
    if placed.is_err() {
        let _never_begun = fs::remove_file(&new);
    }
    placed?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(io_error)
}

/// A table that nobody copies is no backup.
fn all_are_there(from: &ReadTransaction, to: &WriteTransaction) -> Result<(), redb::Error> {
    let copied: BTreeSet<String> = to.list_tables()?.map(|table| table.name().to_owned()).collect();
    for table in from.list_tables()? {
        let name = table.name();
        if name != PROBE.name() && !copied.contains(name) {
            return Err(redb::Error::Corrupted(format!("nothing is known of the table {name}")));
        }
    }
    Ok(())
}

/// Looks at a file that nobody has open, and leaves it as it is: what is in it. `count` reads all of its sessions. It blocks.
///
/// # Errors
/// [`StateError`]: it cannot be used, and what to do.
pub fn check(
    path: &Path,
    count: fn(&ReadTransaction) -> Result<Backup, redb::Error>,
) -> Result<Option<Backup>, StateError> {
    let Some(read) = peek(path)? else {
        return Ok(None);
    };
    let counted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| count(&read)));
    let damaged = |why: String| StateError::Damaged {
        path: path.to_owned(),
        why,
    };
    match counted {
        Ok(Ok(found)) => Ok(Some(found)),
        Ok(Err(error)) => Err(damaged(error.to_string())),
        Err(_panic) => Err(damaged("it cannot be read".to_owned())),
    }
}
