//! The canon of each workspace, read when it has changed.
//!
//! Whoever asks pays for one look at each file (a `canonicalize` and a `stat`), on a thread that may block; the files are read
//! again only when a look differs, or when a file is so young that a look cannot tell. Only turns that a reason falls on ask,
//! or every turn in the mode `always`; a repeated canon costs no look at all.

use std::collections::HashSet;
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::file::{self, Look, Trouble};
use super::recent::Recent;
use super::text::{self, Canon, Loss};

/// How many workspaces are remembered at the least.
const WORKSPACES: usize = 1_000;
/// How many threads may be at work on files, or hang on a file system that does not answer.
const READERS: usize = 16;

/// The canon of all workspaces, as one instance's settings name the files.
pub(super) struct Library {
    files: Vec<String>,
    shelves: Mutex<Recent<String, Arc<Shelf>>>,
    readers: Arc<Semaphore>,
}

/// What was last found in one workspace.
#[derive(Debug, Default)]
struct Shelf {
    looks: Vec<Look>,
    settled: bool,
    canon: Option<Arc<Canon>>,
    /// What has been said about its files.
    remarks: HashSet<Remark>,
}

type Remark = (String, &'static str);

impl Library {
    pub(super) fn new(files: Vec<String>) -> Self {
        Self {
            files,
            shelves: Mutex::new(Recent::new(WORKSPACES)),
            readers: Arc::new(Semaphore::new(READERS)),
        }
    }

    /// The canon of a workspace as it is now; `None` when it has none. **Cancel safety:** safe; a look that has begun goes on.
    pub(super) async fn read(self: &Arc<Self>, workspace: &str, now: SystemTime) -> Option<Arc<Canon>> {
        let permit = self.readers.clone().acquire_owned().await.ok()?;
        let (library, workspace) = (self.clone(), workspace.to_owned());
        let reading = spawn_blocking(move || {
            let canon = library.read_now(&workspace, now);
            drop(permit);
            canon
        });
        reading.await.ok()?
    }

    pub(super) fn read_now(&self, workspace: &str, now: SystemTime) -> Option<Arc<Canon>> {
        let before = self.lock().entry(workspace.to_owned()).clone();
        let root = fs::canonicalize(workspace);
        let looks: Vec<Look> = self
            .files
            .iter()
            .map(|name| match &root {
                Ok(root) => file::look(root, name),
                Err(_) => Look::Not(Trouble::Missing),
            })
            .collect();
        if before.settled && before.looks == looks {
            return before.canon.clone();
        }
        let shelf = Arc::new(self.shelf(looks, &before, now));
        // compared with what is there by now, so that two readers do not both say it
        let replaced = std::mem::replace(self.lock().entry(workspace.to_owned()), shelf.clone());
        for (name, words) in shelf.remarks.difference(&replaced.remarks) {
            tracing::warn!(workspace, file = name, "a canon file {words}");
        }
        shelf.canon.clone()
    }

    fn shelf(&self, looks: Vec<Look>, before: &Shelf, now: SystemTime) -> Shelf {
        let mut remarks = HashSet::new();
        let mut texts = Vec::new();
        for (name, look) in self.files.iter().zip(&looks) {
            match look.read() {
                Ok(text) => texts.push((&**name, text)),
                Err(trouble) => {
                    remarks.insert((name.clone(), trouble.words()));
                }
            }
        }
        let (canon, losses) = text::compose(texts.iter().map(|(name, text)| (*name, &**text)));
        remarks.extend(losses.into_iter().map(|(name, loss)| (name.to_owned(), words(loss))));
        let same = before.canon.clone().filter(|before| Some(&**before) == canon.as_ref());
        Shelf {
            settled: looks.iter().all(|look| look.is_settled(now)),
            looks,
            canon: same.or(canon.map(Arc::new)),
            remarks,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Recent<String, Arc<Shelf>>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn words(loss: Loss) -> &'static str {
    match loss {
        Loss::Cut => "is longer than there is room for: it is cut",
        Loss::LeftOut => "is left out: there is no room for it",
    }
}

#[cfg(test)]
mod tests;
