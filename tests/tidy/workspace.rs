//! The files of the workspace, read once and held in memory.

use std::fs;
use std::io;
use std::path::Path;

use crate::source::Source;

/// A text file; `path` counts from the workspace root, with forward slashes.
pub(crate) struct File {
    pub path: String,
    pub text: String,
}

/// All text files, and those in Rust taken apart.
pub(crate) struct Workspace {
    pub files: Vec<File>,
    pub sources: Vec<Source>,
}

/// What holds nothing of ours; `.git` is a file in a linked worktree.
const SKIPPED: [&str; 5] = [".git", ".idea", ".venv", "node_modules", "target"];

impl Workspace {
    /// Reads everything below the workspace root.
    pub(crate) fn read() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut files = Vec::new();
        collect(&root, "", &mut files)?;
        Ok(Self::of(files))
    }

    /// A workspace of these files: for samples.
    pub(crate) fn of(files: Vec<File>) -> Self {
        let sources = files
            .iter()
            .filter(|file| file.path.ends_with(".rs"))
            .map(|file| Source::read(&file.path, &file.text))
            .collect();
        Self { files, sources }
    }

    /// A workspace of one file: for samples.
    pub(crate) fn sample(path: &str, text: &str) -> Self {
        let (path, text) = (path.to_owned(), text.to_owned());
        Self::of(vec![File { path, text }])
    }
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<File>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() {
            // what is not UTF-8 is no text
            if let Ok(text) = String::from_utf8(fs::read(entry.path())?) {
                files.push(File { path, text });
            }
        }
    }
    Ok(())
}
