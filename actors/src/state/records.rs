//! What is kept, beside sessions. Each record is JSON: a field may be added, and what one does not know is passed over.

mod captured;
mod configuration;
mod guards;
pub(crate) mod learnt;

use std::time::UNIX_EPOCH;

use redb::{ReadTransaction, ReadableTable, TableDefinition, TableError, WriteTransaction};
use serde::Serialize;
use serde::de::DeserializeOwned;
use understudy_messages::clock::Clock;

use super::copied;

pub use self::captured::{Captured, captured, note_captured, recorded};
pub use self::configuration::{Pending, Published, Stored, begin, end, end_now, kept, publish};
pub use self::guards::Guards;

type Table = TableDefinition<'static, &'static str, &'static [u8]>;

/// Copies all of it into another file.
pub(super) fn copy(from: &ReadTransaction, to: &WriteTransaction) -> Result<(), redb::Error> {
    for table in [captured::TABLE, configuration::TABLE, guards::TABLE, learnt::WINDOWS] {
        copied(from, to, table)?;
    }
    copied(from, to, learnt::SALT)
}

/// All records of a table by key; none where there is no table yet.
fn all<T: DeserializeOwned>(read: &ReadTransaction, table: Table) -> Result<Vec<(String, T)>, redb::Error> {
    match read.open_table(table) {
        Ok(table) => records(&table),
        Err(TableError::TableDoesNotExist(_)) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// The same, as a change finds them.
fn all_written<T: DeserializeOwned>(write: &WriteTransaction, table: Table) -> Result<Vec<(String, T)>, redb::Error> {
    records(&write.open_table(table)?)
}

fn records<T: DeserializeOwned>(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
) -> Result<Vec<(String, T)>, redb::Error> {
    let mut found = Vec::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        let value = serde_json::from_slice(value.value());
        let value = value.map_err(|error| redb::Error::Corrupted(format!("the record {}: {error}", key.value())))?;
        found.push((key.value().to_owned(), value));
    }
    Ok(found)
}

fn put(write: &WriteTransaction, table: Table, key: &str, record: &impl Serialize) -> Result<(), redb::Error> {
    let text = serde_json::to_vec(record).map_err(|error| redb::Error::Corrupted(error.to_string()))?;
    write.open_table(table)?.insert(key, &*text)?;
    Ok(())
}

fn remove(write: &WriteTransaction, table: Table, key: &str) -> Result<(), redb::Error> {
    write.open_table(table)?.remove(key)?;
    Ok(())
}

/// Now, in seconds since 1970.
pub fn unix_seconds(clock: &Clock) -> u64 {
    clock
        .wall()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
