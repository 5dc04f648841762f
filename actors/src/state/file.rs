//! The file: written by one thread, read as it was at one moment.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::backends::InMemoryBackend;
use redb::{
    Builder, Database, DatabaseError, ReadTransaction, ReadableDatabase, StorageError, TableDefinition, TableError,
    WriteTransaction,
};

use understudy_messages::clock::Clock;

use super::StateError;
use super::held::{Held, Open};
use super::writer::Writer;

/// How its records are written. A larger one is refused by those that know this one.
const FORMAT: u64 = 1;
/// What the file says of itself.
pub(super) const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");
/// The key of the format.
const FORMAT_KEY: &str = "format";
/// The room for pages that were read or written lately, in bytes.
const CACHE: usize = 32 << 20;

/// What is written to find out whether there is room again: more than a turn takes, most often.
pub(super) const PROBE: TableDefinition<'static, (), &'static [u8]> = TableDefinition::new("probe");
const PROBE_BYTES: usize = 64 << 10;

/// What the process has kept, and the way to keep more.
#[derive(Debug)]
pub struct StateFile {
    writer: Writer,
    held: Arc<Held>,
}

/// What a file says of itself.
pub(super) enum Format {
    /// There is none.
    Absent,
    /// It can be read.
    Known,
    /// It was not closed in order: only its owner can tell.
    NotClosed,
}

impl StateFile {
    /// Opens a file, or makes it. What was begun and not committed when its last owner died is not in it.
    pub(super) fn open(path: &Path, clock: &Clock) -> Result<Self, StateError> {
        let was_closed = match look(path)? {
            Format::Absent => {
                create(path).map_err(|error| StateError::Io {
                    path: path.to_owned(),
                    error,
                })?;
                true
            }
            Format::Known => true,
            Format::NotClosed => false,
        };
        let (place, was_closed) = (path.to_owned(), AtomicBool::new(was_closed));
        let open = move || {
            let was_closed = was_closed.swap(false, Ordering::AcqRel);
            let database = guarded(&place, || checking(was_closed).open(&place))?;
            check_format(&place, &database)?;
            Ok(database)
        };
        Self::opened(Box::new(open), clock)
    }

    /// A file that is opened in a way of its own, now and whenever it has failed.
    pub(super) fn opened(open: Open, clock: &Clock) -> Result<Self, StateError> {
        let database = open()?;
        Self::of(Held::new(database, Some(open), clock.clone()))
    }

    pub(super) fn in_memory() -> Result<Self, StateError> {
        let database = builder().create_with_backend(InMemoryBackend::new());
        let database = database.map_err(|error| StateError::Storage(Arc::new(error.into())))?;
        Self::of(Held::new(database, None, Clock::real()))
    }

    fn of(held: Held) -> Result<Self, StateError> {
        let held = Arc::new(held);
        let writer = Writer::start(held.clone())?;
        Ok(Self { writer, held })
    }

    /// Makes a change, and returns when it is on the disk: together with others that came at the same time, and apart from
    /// them when it fails. `change` may be run twice, does nothing but write to its transaction, and holds about `bytes`.
    ///
    /// Waits while too many are queued. Cancel safe: a change is queued whole or not at all, and one that is queued is made.
    ///
    /// # Errors
    /// [`StateError`]; then nothing of the change is there.
    pub async fn write(
        &self,
        bytes: usize,
        change: impl Fn(&WriteTransaction) -> Result<(), redb::Error> + Send + 'static,
    ) -> Result<(), StateError> {
        self.writer.write(bytes, true, Box::new(change)).await
    }

    /// As [`StateFile::write`], but it returns when readers see the change: it is on the disk after the next change that is
    /// waited for until there, or when the file is closed.
    ///
    /// # Errors
    /// As [`StateFile::write`].
    pub async fn write_soon(
        &self,
        bytes: usize,
        change: impl Fn(&WriteTransaction) -> Result<(), redb::Error> + Send + 'static,
    ) -> Result<(), StateError> {
        self.writer.write(bytes, false, Box::new(change)).await
    }

    /// Whether something could not be written since [`StateFile::probe`] last found that all can be.
    pub fn is_failing(&self) -> bool {
        self.held.is_failing()
    }

    /// How many changes readers see that are not on the disk yet: those of [`StateFile::write_soon`].
    pub fn owed(&self) -> usize {
        self.held.owed()
    }

    /// Finds out whether there is room again, by writing something that is large.
    ///
    /// # Errors
    /// [`StateError`]; then it is still failing.
    pub async fn probe(&self) -> Result<(), StateError> {
        let filler = vec![0; PROBE_BYTES];
        let put = move |write: &WriteTransaction| {
            write.open_table(PROBE)?.insert((), &*filler)?;
            Ok(())
        };
        let take_back = |write: &WriteTransaction| {
            write.open_table(PROBE)?.remove(())?;
            Ok(())
        };
        self.write(PROBE_BYTES, put).await?;
        self.write(0, take_back).await?;
        self.held.is_well();
        Ok(())
    }

    /// As [`StateFile::write`], for those who may block: before anything serves.
    ///
    /// # Errors
    /// As [`StateFile::write`].
    pub fn write_now(&self, change: impl Fn(&WriteTransaction) -> Result<(), redb::Error>) -> Result<(), StateError> {
        let database = self.held.database()?;
        let write = || -> Result<(), redb::Error> {
            let transaction = database.begin_write()?;
            change(&transaction)?;
            Ok(transaction.commit()?)
        };
        write().map_err(|error| StateError::Storage(Arc::new(error)))
    }

    /// Everything as it is committed now, for as long as it is held. Reading may block.
    ///
    /// # Errors
    /// [`StateError::Storage`].
    pub fn read(&self) -> Result<ReadTransaction, StateError> {
        let database = self.held.database()?;
        let begun = database.begin_read();
        begun.map_err(|error| StateError::Storage(Arc::new(error.into())))
    }

    /// Nothing more is read or written; what is queued is written first. It blocks.
    pub(super) fn close(&self) {
        self.writer.close();
        self.held.close();
    }
}

/// Looks at every page of a file. One that was not closed in order may have lost what was being written; in one that was, a last
/// commit that is not what was written is damage, and what it held must not be missing without a word.
pub(super) fn checking(was_closed: bool) -> Builder {
    /// What is told of a check at its beginning, and when the last commit is found whole.
    const BEGIN: f64 = 0.1;
    const WHOLE: f64 = 0.5;
    let mut builder = builder();
    builder.set_check_integrity_on_open(true);
    builder.set_repair_callback(move |check| match (BEGIN..WHOLE).contains(&check.progress()) {
        true if was_closed => check.abort(),
        true => tracing::warn!("the last commit of the state is not whole: going on from the one before it"),
        false => {}
    });
    builder
}

pub(super) fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE);
    builder
}

/// Looks at a file and leaves it as it is.
pub(super) fn look(path: &Path) -> Result<Format, StateError> {
    if !path.try_exists().map_err(|error| StateError::Io {
        path: path.to_owned(),
        error,
    })? {
        return Ok(Format::Absent);
    }
    let opened = catch_unwind(AssertUnwindSafe(|| builder().open_read_only(path)));
    match opened {
        Ok(Ok(database)) => check_format(path, &database).map(|()| Format::Known),
        Ok(Err(DatabaseError::RepairAborted)) => Ok(Format::NotClosed),
        Ok(Err(error)) => Err(refusal(path, error)),
        Err(_panic) => Err(damaged(path, "it cannot be read")),
    }
}

/// Reads a file that nobody has open, and leaves it as it is; nothing where there is none, or where only an owner can read it.
pub(super) fn peek(path: &Path) -> Result<Option<ReadTransaction>, StateError> {
    match look(path)? {
        Format::Absent | Format::NotClosed => Ok(None),
        Format::Known => {
            let read = || Ok(builder().open_read_only(path)?.begin_read()?);
            let read = read().map_err(|error: redb::Error| StateError::Storage(Arc::new(error)))?;
            Ok(Some(read))
        }
    }
}

/// Whole or not at all: a file that was begun when its owner died is begun anew.
fn create(path: &Path) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    let write = || -> Result<(), redb::Error> {
        let database = builder().create(&new)?;
        say_format(&database)?;
        Ok(database.close()?)
    };
    write().map_err(io::Error::other)?;
    fs::rename(&new, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Says in a new file how it is written.
pub(super) fn say_format(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(META)?.insert(FORMAT_KEY, FORMAT)?;
    Ok(transaction.commit()?)
}

fn check_format(path: &Path, database: &impl ReadableDatabase) -> Result<(), StateError> {
    let read = || -> Result<Option<u64>, redb::Error> {
        match database.begin_read()?.open_table(META) {
            Ok(table) => Ok(table.get(FORMAT_KEY)?.map(|format| format.value())),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    };
    match read() {
        Ok(Some(FORMAT)) => Ok(()),
        Ok(Some(found)) if found > FORMAT => Err(StateError::Newer {
            path: path.to_owned(),
            found,
            known: FORMAT,
        }),
        Ok(_) => Err(damaged(path, "it does not say how it is written")),
        Err(error) => Err(damaged(path, &error.to_string())),
    }
}

fn guarded<T>(path: &Path, open: impl FnOnce() -> Result<T, DatabaseError>) -> Result<T, StateError> {
    match catch_unwind(AssertUnwindSafe(open)) {
        Ok(opened) => opened.map_err(|error| refusal(path, error)),
        Err(_panic) => Err(damaged(path, "it cannot be read")),
    }
}

fn refusal(path: &Path, error: DatabaseError) -> StateError {
    match error {
        DatabaseError::RepairAborted => damaged(path, "its last commit is not what was written"),
        DatabaseError::Storage(StorageError::Io(error))
            if !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
        {
            StateError::Io {
                path: path.to_owned(),
                error,
            }
        }
        error => damaged(path, &error.to_string()),
    }
}

fn damaged(path: &Path, why: &str) -> StateError {
    StateError::Damaged {
        path: path.to_owned(),
        why: why.to_owned(),
    }
}
