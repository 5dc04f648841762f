//! The files that a plugin may read: those below its own folder and below its roots, and no others.
//!
//! Containment is by components, after symbolic links were followed: `/ws` does not admit `/ws-evil`, nor a link in it that
//! leads out. A path outside is refused before anybody looks whether something is there.

use std::fs::{self, Metadata};
use std::io::{ErrorKind, Read};
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

/// The largest file that is read.
const LARGEST: u64 = 16 * 1024 * 1024;

/// As many entries of a folder are listed.
const MOST_ENTRIES: usize = 10_000;

/// Where a plugin may read.
#[derive(Clone, Debug)]
pub(super) struct Files {
    folder: PathBuf,
    roots: Vec<PathBuf>,
}

/// Why a file was not read, in Node's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {what}, {} '{}'", .call, .path.display())]
pub(super) struct FileError {
    /// Node's code.
    pub(super) code: &'static str,
    what: &'static str,
    call: &'static str,
    path: PathBuf,
}

impl Files {
    /// The folder of the plugin, which relative paths start from, and other roots.
    pub(super) fn new(folder: PathBuf, roots: Vec<PathBuf>) -> Self {
        Self { folder, roots }
    }

    /// A path made absolute, without `.` and `..`.
    pub(super) fn resolve(&self, path: &str) -> PathBuf {
        let mut resolved = PathBuf::new();
        for component in self.folder.join(path).components() {
            match component {
                Component::ParentDir => {
                    resolved.pop();
                }
                Component::CurDir => {}
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => resolved.push(component),
            }
        }
        resolved
    }

    /// The bytes of a file.
    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        let (path, facts) = self.find(path, "open")?;
        let refuse = |code, what| error(code, what, "open", &path);
        if facts.is_dir() {
            return Err(refuse("EISDIR", "illegal operation on a directory"));
        }
        // a pipe would hold the plugin's thread until somebody writes
        if !facts.is_file() {
            return Err(refuse("EACCES", "not a plain file"));
        }
        let file = fs::File::open(&path).map_err(|why| of(&why, "open", &path))?;
        let mut bytes = Vec::new();
        let mut limited = file.take(LARGEST + 1);
        limited.read_to_end(&mut bytes).map_err(|why| of(&why, "read", &path))?;
        match bytes.len() as u64 > LARGEST {
            true => Err(refuse("EFBIG", "file too large")),
            false => Ok(bytes),
        }
    }

    /// What is known of a file or folder.
    pub(super) fn stat(&self, path: &str) -> Result<Value, FileError> {
        let (_, facts) = self.find(path, "stat")?;
        let modified = facts
            .modified()
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let kind = match (facts.is_file(), facts.is_dir()) {
            (true, _) => "file",
            (_, true) => "folder",
            _ => "other",
        };
        let modified = modified.map_or(0.0, |since| since.as_secs_f64() * 1000.0);
        Ok(json!({ "kind": kind, "size": facts.len(), "mtimeMs": modified }))
    }

    /// What is in a folder, by name.
    pub(super) fn list(&self, path: &str) -> Result<Value, FileError> {
        let (path, _) = self.find(path, "scandir")?;
        let failed = |why: &std::io::Error| of(why, "scandir", &path);
        let mut entries = Vec::new();
        for entry in fs::read_dir(&path).map_err(|why| failed(&why))?.take(MOST_ENTRIES) {
            let entry = entry.map_err(|why| failed(&why))?;
            let kind = match entry.file_type() {
                Ok(kind) if kind.is_file() => "file",
                Ok(kind) if kind.is_dir() => "folder",
                Ok(kind) if kind.is_symlink() => "link",
                _ => "other",
            };
            entries.push((entry.file_name().to_string_lossy().into_owned(), kind));
        }
        entries.sort();
        let entries = entries
            .into_iter()
            .map(|(name, kind)| json!({ "name": name, "kind": kind }));
        Ok(entries.collect())
    }

    /// Where a path leads to.
    pub(super) fn real(&self, path: &str) -> Result<PathBuf, FileError> {
        self.find(path, "realpath").map(|(path, _)| path)
    }

    /// The true path of something that may be read, and what is known of it.
    fn find(&self, path: &str, call: &'static str) -> Result<(PathBuf, Metadata), FileError> {
        let path = self.resolve(path);
        let outside = || error("EACCES", "outside of what this plugin may read", call, &path);
        let roots = || [&self.folder].into_iter().chain(&self.roots);
        let real_roots: Vec<PathBuf> = roots().filter_map(|root| root.canonicalize().ok()).collect();
        if !roots().chain(&real_roots).any(|root| path.starts_with(root)) {
            return Err(outside());
        }
        let real = path.canonicalize().map_err(|why| of(&why, call, &path))?;
        if !real_roots.iter().any(|root| real.starts_with(root)) {
            return Err(outside());
        }
        let facts = real.metadata().map_err(|why| of(&why, call, &path))?;
        Ok((real, facts))
    }
}

fn error(code: &'static str, what: &'static str, call: &'static str, path: &Path) -> FileError {
    FileError {
        code,
        what,
        call,
        path: path.to_owned(),
    }
}

fn of(why: &std::io::Error, call: &'static str, path: &Path) -> FileError {
    let (code, what) = match why.kind() {
        ErrorKind::NotFound => ("ENOENT", "no such file or directory"),
        ErrorKind::NotADirectory => ("ENOTDIR", "not a directory"),
        ErrorKind::IsADirectory => ("EISDIR", "illegal operation on a directory"),
        ErrorKind::PermissionDenied => ("EACCES", "permission denied"),
        ErrorKind::InvalidInput => ("EINVAL", "not a path"),
        _ => ("EIO", "input or output failed"),
    };
    error(code, what, call, path)
}
