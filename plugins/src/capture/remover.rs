//! Removes captures that nobody holds any more, off the threads of those who held them: thousands of files may lie in one.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::gone_already;

/// How many captures may wait to be removed; whoever lets go of one more removes it himself.
const WAITING: usize = 256;

/// The folders of captures that are there, and the thread that removes them: it begins with the first.
#[derive(Debug, Default)]
pub(super) struct Remover {
    held: Arc<Held>,
    thread: Mutex<Option<Thread>>,
}

/// Folders that are not to be swept away.
type Held = Mutex<BTreeSet<PathBuf>>;

#[derive(Debug)]
struct Thread {
    waiting: SyncSender<PathBuf>,
    runs: JoinHandle<()>,
}

impl Remover {
    /// The folders that somebody holds or that are about to be removed.
    pub(super) fn held(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a capture removed.
    pub(super) fn remove(&self, folder: PathBuf) {
        let mut thread = self.thread();
        if thread.is_none() {
            *thread = begin(&self.held, WAITING);
        }
        let left = match &*thread {
            Some(thread) => thread.waiting.try_send(folder).err().map(unsent),
            None => Some(folder),
        };
        drop(thread);
        if let Some(folder) = left {
            remove(&self.held, folder);
        }
    }

    /// Waits until all that was to be removed is gone. It blocks.
    pub(super) fn finish(&self) {
        let thread = self.thread().take();
        if let Some(Thread { waiting, runs }) = thread {
            drop(waiting);
            let _panicked = runs.join();
        }
    }

    fn thread(&self) -> MutexGuard<'_, Option<Thread>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        self.finish();
    }
}

/// `None` where no thread is to be had.
fn begin(held: &Arc<Held>, waiting: usize) -> Option<Thread> {
    let (waiting, folders) = mpsc::sync_channel(waiting);
    let held = held.clone();
    let runs = thread::Builder::new().name("captures".to_owned());
    let runs = runs.spawn(move || run(&held, &folders)).ok()?;
    Some(Thread { waiting, runs })
}

fn run(held: &Held, folders: &Receiver<PathBuf>) {
    while let Ok(folder) = folders.recv() {
        remove(held, folder);
    }
}

/// The files first: as long as they are there nobody else has a name for them.
fn remove(held: &Held, folder: PathBuf) {
    let removed = fs::remove_dir_all(&folder).or_else(gone_already);
    if let Err(error) = removed {
        tracing::warn!(capture = %folder.display(), error = %error.kind(), "a capture was not removed");
    }
    held.lock().unwrap_or_else(PoisonError::into_inner).remove(&folder);
}

fn unsent(error: mpsc::TrySendError<PathBuf>) -> PathBuf {
    match error {
        mpsc::TrySendError::Full(folder) | mpsc::TrySendError::Disconnected(folder) => folder,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("understudy-remover-{}-{name}", std::process::id()));
        fs::create_dir_all(folder.join("lib")).expect("a folder");
        folder
    }

    /// A remover that holds these, and whose thread takes nothing.
    fn stuck(folders: &[PathBuf], waiting: usize) -> (Remover, Receiver<PathBuf>) {
        let remover = Remover::default();
        remover.held().extend(folders.iter().cloned());
        let (waiting, taken) = mpsc::sync_channel(waiting);
        let runs = thread::spawn(|| {});
        *remover.thread() = Some(Thread { waiting, runs });
        (remover, taken)
    }

    #[test]
    fn whoever_lets_go_of_a_capture_does_not_remove_it() {
        let one = folder("one");
        let (remover, taken) = stuck(std::slice::from_ref(&one), 1);
        remover.remove(one.clone());
        assert!(
            one.exists() && remover.held().contains(&one),
            "its name is nobody else's yet"
        );
        remove(&remover.held, taken.recv().expect("handed over"));
        assert!(!one.exists() && remover.held().is_empty());
    }

    #[test]
    fn one_more_than_may_wait_is_removed_by_whoever_lets_go_of_it() {
        let [first, second] = ["first", "second"].map(folder);
        let (remover, taken) = stuck(&[first.clone(), second.clone()], 1);
        remover.remove(first.clone());
        remover.remove(second.clone());
        assert!(first.exists() && !second.exists());
        remove(&remover.held, taken.recv().expect("handed over"));
    }

    #[test]
    fn one_that_cannot_be_removed_keeps_no_other_from_it() {
        let [file, other] = ["file", "other"].map(folder);
        fs::remove_dir_all(&file).expect("removed");
        fs::write(&file, "no folder").expect("written");
        let remover = Remover::default();
        remover.remove(file.clone());
        remover.remove(other.clone());
        remover.finish();
        assert!(file.exists() && !other.exists());
        fs::remove_file(file).expect("removed");
    }

    #[test]
    fn what_was_to_be_removed_is_gone_when_nobody_is_left() {
        let one = folder("last");
        let remover = Remover::default();
        remover.remove(one.clone());
        drop(remover);
        assert!(!one.exists());
    }
}
