//! What outlives the process: one folder that one process owns, and one file in it.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`dir`](StateDir) | the folder, and the lock that says whose it is |
//! | [`file`](StateFile) | the file: one writer that commits groups, readers that see a moment |
//! | `held` | its database, opened again after a failure |
//! | `copy` | a copy of the file while it is written, and a look at one |
//! | [`records`] | the configuration that was published, guards, captures |
//!
//! Without a folder the same file lies in memory. What may be secret is never stored.

mod copy;
mod dir;
mod file;
mod held;
mod identity;
pub mod records;
mod writer;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use understudy_messages::clock::Clock;

pub(crate) use self::copy::copied;
pub use self::copy::{Backup, Copier, backup, check};
pub use self::dir::{Inspected, StateDir, inspect};
pub use self::file::StateFile;
pub use self::identity::Identity;
use self::records::Guards;
pub use self::writer::Change;

/// The state of one process. Clones are the same state; the folder is let go with the last of them.
#[derive(Clone, Debug)]
pub struct State(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: StateFile,
    guards: Guards,
    dir: Option<StateDir>,
}

impl Inner {
    fn close(&self) {
        self.file.close();
        self.dir.iter().for_each(StateDir::release);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

/// Why there is no state, or why something of it could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another process owns the folder.
    #[error("the state directory {} belongs to {}: stop it, or give this one another `state.dir`", .dir.display(), told(.holder))]
    Held {
        /// Which.
        dir: PathBuf,
        /// Who, if it has said so.
        holder: Option<Box<Identity>>,
    },
    /// A path cannot be used.
    #[error("{} cannot be used for state: {error}: correct its owner and mode, or set another `state.dir`", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A later version has written it.
    #[error("{} has format {found}, and this version knows {known}: start the later version, or set another `state.dir`", .path.display())]
    Newer {
        /// Which.
        path: PathBuf,
        /// What it says.
        found: u64,
        /// What is known.
        known: u64,
    },
    /// It is not what was written.
    #[error(
        "{} is damaged ({why}), and nothing of it was changed: look at it with `understudy state check`, put back a copy, or move it away to begin without state",
        .path.display()
    )]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// A record could not be read or written.
    #[error("state could not be read or written: {0}: look at the disk: it is tried again")]
    Storage(Arc<redb::Error>),
    /// A write has failed, and the file could not be opened again yet.
    #[error("state cannot be read or written for now: make room on its disk, or correct its mode; it is tried again")]
    Failing,
    /// Nothing is written any more.
    #[error("state is not written any more: restart")]
    Closed,
}

impl From<redb::Error> for StateError {
    fn from(error: redb::Error) -> Self {
        Self::Storage(Arc::new(error))
    }
}

fn told(holder: &Option<Box<Identity>>) -> String {
    holder.as_ref().map_or_else(
        || "another process that has not said who it is".to_owned(),
        |holder| holder.to_string(),
    )
}

impl State {
    /// Takes a folder, which is made if there is none, for as long as the process lives. It blocks.
    ///
    /// # Errors
    /// [`StateError`]; nothing that was there has been changed.
    pub fn open(folder: &Path, clock: &Clock) -> Result<Self, StateError> {
        let dir = StateDir::take(folder, clock)?;
        let file = StateFile::open(&dir.file(), clock)?;
        Self::of(file, Some(dir))
    }

    /// A file that is read anew whenever something of it is looked at.
    #[cfg(test)]
    pub(crate) fn uncached(folder: &Path) -> Result<Self, StateError> {
        let path = StateDir::take(folder, &Clock::real())?.file();
        let open = move || {
            let mut builder = redb::Builder::new();
            let opened = builder.set_cache_size(0).open(&path);
            opened.map_err(|error| StateError::Storage(Arc::new(error.into())))
        };
        Self::of(StateFile::opened(Box::new(open), &Clock::real())?, None)
    }

    /// State that ends with the process.
    ///
    /// # Errors
    /// [`StateError`] when memory cannot hold a file.
    pub fn in_memory() -> Result<Self, StateError> {
        Self::of(StateFile::in_memory()?, None)
    }

    fn of(file: StateFile, dir: Option<StateDir>) -> Result<Self, StateError> {
        let guards = Guards::read(&file)?;
        Ok(Self(Arc::new(Inner { file, guards, dir })))
    }

    /// Writes what is queued, and lets the folder go: from here on there is no state. It blocks.
    pub fn close(&self) {
        self.0.close();
    }

    /// The folder; `None` where state lies in memory.
    pub fn dir(&self) -> Option<&StateDir> {
        self.0.dir.as_ref()
    }

    /// The file.
    pub fn file(&self) -> &StateFile {
        &self.0.file
    }

    /// The guards that have to serve.
    pub fn guards(&self) -> &Guards {
        &self.0.guards
    }
}
