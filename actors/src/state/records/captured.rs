//! What the plugins that serve were made of.

use std::path::Path;

use serde::{Deserialize, Serialize};
use understudy_messages::ids::Name;

use super::{Table, all, all_written, put};
use crate::state::{StateError, StateFile};

pub(super) const TABLE: Table = Table::new("captures");

/// The source of one plugin that serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// The hash of all its files, as it is shown.
    pub digest: String,
    /// The generation that it came with.
    pub generation: u64,
    /// When, in seconds since 1970.
    pub at: u64,
}

/// What serves, or served last, by plugin.
///
/// # Errors
/// [`StateError::Storage`].
pub fn captured(file: &StateFile) -> Result<Vec<(Name, Captured)>, StateError> {
    let found = all(&file.read()?, TABLE)?;
    Ok(found
        .into_iter()
        .map(|(id, captured)| (Name::from(id), captured))
        .collect())
}

/// The same of a folder that nobody holds and that was closed in order; nothing where there is none. It blocks.
///
/// # Errors
/// [`StateError`].
pub fn recorded(folder: &Path) -> Result<Vec<(Name, Captured)>, StateError> {
    let Some(read) = crate::state::dir::peek(folder)? else {
        return Ok(Vec::new());
    };
    let found = all(&read, TABLE)?;
    Ok(found
        .into_iter()
        .map(|(id, captured)| (Name::from(id), captured))
        .collect())
}

/// Keeps what serves now, `(plugin, digest)`: a plugin that stayed as it is keeps its generation.
///
/// # Errors
/// [`StateError`].
pub async fn note_captured(
    file: &StateFile,
    serving: Vec<(Name, String)>,
    generation: u64,
    at: u64,
) -> Result<(), StateError> {
    let write = move |write: &redb::WriteTransaction| {
        let known = all_written::<Captured>(write, TABLE)?;
        write.delete_table(TABLE)?;
        serving.iter().try_for_each(|(id, digest)| {
            let same = known.iter().find(|(known, it)| known == &**id && it.digest == *digest);
            let new = || Captured {
                digest: digest.clone(),
                generation,
                at,
            };
            put(
                write,
                TABLE,
                id,
                &same.map_or_else(new, |(_, captured)| captured.clone()),
            )
        })
    };
    file.write(0, write).await
}
