//! One file of a workspace: looked at, and read.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::text::FILE_LIMIT;

/// Bytes that surely hold more characters than a file may have.
const MOST_BYTES: u64 = (FILE_LIMIT as u64 + 1) * 4;
/// A file that changed so shortly ago may change again without its time or length telling.
const SETTLED: Duration = Duration::from_secs(2);

/// What looking at a file shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A file that may be read.
    There {
        path: PathBuf,
        modified: Option<SystemTime>,
        length: u64,
    },
    /// Nothing that may be read.
    Not(Trouble),
}

/// Why a file is not part of the canon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    Missing,
    Outside,
    NoFile,
    Unreadable,
}

impl Trouble {
    /// What to say of the file.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Missing => "is not there",
            Self::Outside => "leads out of the workspace: refused",
            Self::NoFile => "is not a plain file",
            Self::Unreadable => "cannot be read",
        }
    }

    fn of(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::Missing,
            _ => Self::Unreadable,
        }
    }
}

/// Whether a name can lead to nowhere but below the folder that it counts from, links apart.
pub(super) fn is_relative(name: &str) -> bool {
    let mut parts = Path::new(name).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Looks at a file below `workspace`, whose own links are resolved already. The links of the file are resolved, and where
/// they lead is compared by whole components: a neighbour whose name begins like the workspace's is outside.
pub(super) fn look(workspace: &Path, name: &str) -> Look {
    if !is_relative(name) {
        return Look::Not(Trouble::Outside);
    }
    let path = match fs::canonicalize(workspace.join(name)) {
        Ok(path) => path,
        Err(error) => return Look::Not(Trouble::of(&error)),
    };
    if !path.starts_with(workspace) {
        return Look::Not(Trouble::Outside);
    }
    match fs::metadata(&path) {
        // a pipe would be waited for
        Ok(found) if found.is_file() => Look::There {
            path,
            modified: found.modified().ok(),
            length: found.len(),
        },
        Ok(_) => Look::Not(Trouble::NoFile),
        Err(error) => Look::Not(Trouble::of(&error)),
    }
}

impl Look {
    /// Whether the same look at another time means the same content: a file that changed just before `now`, or has no time,
    /// may have changed once more within one tick of its file system.
    pub(super) fn is_settled(&self, now: SystemTime) -> bool {
        match self {
            Self::There { modified, .. } => {
                let age = modified.and_then(|modified| now.duration_since(modified).ok());
                age.is_some_and(|age| age >= SETTLED)
            }
            Self::Not(_) => true,
        }
    }

    /// The file's text, not much more of it than may be used; bytes that are no UTF-8 are replaced.
    pub(super) fn read(&self) -> Result<String, Trouble> {
        let path = match self {
            Self::There { path, .. } => path,
            Self::Not(trouble) => return Err(*trouble),
        };
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes))
            .map_err(|error| Trouble::of(&error))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
