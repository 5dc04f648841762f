//! The configuration that was published last, and a change of it that is under way.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Table, all, put, remove};
use crate::state::{StateError, StateFile};

pub(super) const TABLE: Table = Table::new("configuration");
const PUBLISHED: &str = "published";
const PENDING: &str = "pending";

/// One revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// Its name: a hash of its text.
    pub id: String,
    /// Its text; `None` where a secret stands in it.
    pub text: Option<Arc<str>>,
}

/// What serves, and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// The file that it belongs to.
    pub file: PathBuf,
    /// It serves.
    pub serving: Stored,
    /// It served before.
    pub previous: Option<Stored>,
    /// It was accepted and will serve once the work that holds it up has ended.
    pub waiting: Option<Stored>,
    /// The generation that was published with it.
    pub generation: u64,
    /// When, in seconds since 1970.
    pub at: u64,
}

/// A change for which the file is about to be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The file.
    pub file: PathBuf,
    /// The revision that it will hold.
    pub wanted: String,
    /// What it held.
    pub before: Stored,
}

/// What was published last, and the change that was under way when nobody could end it.
///
/// # Errors
/// [`StateError::Storage`].
pub fn kept(file: &StateFile) -> Result<(Option<Published>, Option<Pending>), StateError> {
    let read = file.read()?;
    let (mut published, mut pending) = (None, None);
    for (key, value) in all::<serde_json::Value>(&read, TABLE)? {
        match &*key {
            PUBLISHED => published = serde_json::from_value(value).map(Some).map_err(damaged)?,
            PENDING => pending = serde_json::from_value(value).map(Some).map_err(damaged)?,
            _ => {}
        }
    }
    Ok((published, pending))
}

/// Keeps what serves now: the change that led to it has ended.
///
/// # Errors
/// [`StateError`].
pub async fn publish(file: &StateFile, published: Published) -> Result<(), StateError> {
    let text = published.serving.text.as_ref().map_or(0, |text| text.len());
    let write = move |write: &redb::WriteTransaction| {
        put(write, TABLE, PUBLISHED, &published)?;
        remove(write, TABLE, PENDING)
    };
    file.write(3 * text, write).await
}

/// Keeps what is about to be done to the file: only then may it be done.
///
/// # Errors
/// [`StateError`].
pub async fn begin(file: &StateFile, pending: Pending) -> Result<(), StateError> {
    let text = pending.before.text.as_ref().map_or(0, |text| text.len());
    file.write(text, move |write| put(write, TABLE, PENDING, &pending))
        .await
}

/// The change has ended, and what serves has not changed.
///
/// # Errors
/// [`StateError`].
pub async fn end(file: &StateFile) -> Result<(), StateError> {
    file.write(0, |write| remove(write, TABLE, PENDING)).await
}

/// The same, for those who may block.
///
/// # Errors
/// [`StateError`].
pub fn end_now(file: &StateFile) -> Result<(), StateError> {
    file.write_now(|write| remove(write, TABLE, PENDING))
}

fn damaged(error: serde_json::Error) -> StateError {
    StateError::Storage(Arc::new(redb::Error::Corrupted(format!(
        "the configuration's record: {error}"
    ))))
}
