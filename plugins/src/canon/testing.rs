//! Workspaces on disk, for tests.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// A folder that is gone when this is dropped.
pub(super) struct Folder {
    path: PathBuf,
    made: SystemTime,
}

impl Folder {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("understudy-canon-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self {
            path,
            made: SystemTime::now(),
        }
    }

    /// A workspace with one canon file.
    pub(super) fn with(text: &str) -> Self {
        let folder = Self::new();
        folder.write("AGENTS.md", text);
        folder
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The folder itself, or one below it, as a workspace.
    pub(super) fn workspace(&self, name: &str) -> String {
        let path = if name.is_empty() {
            self.path.clone()
        } else {
            self.path(name)
        };
        path.to_str().expect("plain").to_owned()
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("written");
    }

    /// Writes a file as if that had happened an hour before the folder was made, and `later` seconds after that.
    pub(super) fn write_aged(&self, name: &str, text: &str, later: u64) {
        self.write(name, text);
        let modified = self.made - Duration::from_secs(3600) + Duration::from_secs(later);
        let file = File::options().write(true).open(self.path(name)).expect("opened");
        file.set_modified(modified).expect("aged");
    }

    pub(super) fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).expect("removed");
    }

    pub(super) fn link(&self, name: &str, to: impl AsRef<Path>) {
        symlink(to, self.path(name)).expect("linked");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _best_effort = fs::remove_dir_all(&self.path);
    }
}
