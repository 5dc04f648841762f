//! What is learnt of providers. The key of a record is JSON too: it says what was learnt of.

use redb::{ReadableTable, TableDefinition, WriteTransaction};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Table;
use crate::state::{StateError, StateFile};

pub(super) const WINDOWS: Table = Table::new("windows");
/// What credentials are mixed with before they stand in a key.
pub(super) const SALT: TableDefinition<'static, (), &'static [u8]> = TableDefinition::new("windows_salt");

/// The salt of a file, and all records.
pub(crate) type Read<K, V> = (Vec<u8>, Vec<(K, V)>);

/// Reads what was learnt. It blocks.
///
/// # Errors
/// [`StateError`].
pub(crate) fn read<K: DeserializeOwned, V: DeserializeOwned>(file: &StateFile) -> Result<Read<K, V>, StateError> {
    let fresh: [u8; 16] = *uuid::Uuid::new_v4().as_bytes();
    file.write_now(|write| {
        write.open_table(WINDOWS)?;
        let mut salt = write.open_table(SALT)?;
        if salt.get(())?.is_none() {
            salt.insert((), &fresh[..])?;
        }
        Ok(())
    })?;
    let read = file.read()?;
    let records = || -> Result<_, redb::Error> {
        let salt = read.open_table(SALT)?.get(())?;
        let mut found = Vec::new();
        for entry in read.open_table(WINDOWS)?.iter()? {
            let (key, value) = entry?;
            let record = serde_json::from_str(key.value())
                .and_then(|subject| Ok((subject, serde_json::from_slice(value.value())?)));
            match record {
                Ok(record) => found.push(record),
                Err(error) => tracing::error!(%error, "a record of a provider cannot be read"),
            }
        }
        Ok((salt.map(|salt| salt.value().to_vec()).unwrap_or_default(), found))
    };
    records().map_err(StateError::from)
}

/// Writes some records, and removes others.
pub(crate) fn write<K: Serialize, V: Serialize>(
    write: &WriteTransaction,
    put: &[(K, V)],
    gone: &[K],
) -> Result<(), redb::Error> {
    let unwritable = |error: serde_json::Error| redb::Error::Corrupted(error.to_string());
    let mut table = write.open_table(WINDOWS)?;
    for (subject, mark) in put {
        let key = serde_json::to_string(subject).map_err(unwritable)?;
        table.insert(&*key, &*serde_json::to_vec(mark).map_err(unwritable)?)?;
    }
    for subject in gone {
        table.remove(&*serde_json::to_string(subject).map_err(unwritable)?)?;
    }
    Ok(())
}
