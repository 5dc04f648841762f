//! The files of the workspace, read once and held in memory.

use std::fs;
use std::io;
use std::path::Path;

use crate::source::{self, Source};

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

/// What holds nothing of ours; `.git` may be a file.
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
        let rust = || files.iter().filter(|file| file.path.ends_with(".rs"));
        let test_modules: Vec<String> = rust()
            .flat_map(|file| source::test_modules(&file.path, &file.text))
            .collect();
        let read = |file: &File| {
            let all_test = is_test(&file.path, &test_modules);
            Source::read(&file.path, &file.text, all_test)
        };
        let sources = rust().map(read).collect();
        Self { files, sources }
    }

    /// A workspace of one file: for samples.
    pub(crate) fn sample(path: &str, text: &str) -> Self {
        let (path, text) = (path.to_owned(), text.to_owned());
        Self::of(vec![File { path, text }])
    }
}

/// Whether a file belongs to a package or folder of tests, or to a module declared under `#[cfg(test)]`.
fn is_test(path: &str, modules: &[String]) -> bool {
    let in_module = |module: &String| {
        let rest = path.strip_prefix(module.as_str());
        rest.is_some_and(|rest| rest.starts_with(['.', '/']))
    };
    let mut parts = path.split('/');
    parts.any(|part| part == "tests" || part == "benches") || modules.iter().any(in_module)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_packages_and_modules_declared_as_tests_hold_no_production_code() {
        let declaring = "#[cfg(test)]\npub(crate) mod testing;\nmod real;\n#[cfg(test)]\nmod inline { mod real; }\n";
        let paths = [
            "a/src/b/testing.rs",
            "a/src/b/testing/part.rs",
            "a/benches/speed.rs",
            "tests/src/lib.rs",
            "a/src/b/real.rs",
            "a/src/b/testing_ground.rs",
            "a/src/testing.rs",
        ];
        for parent in ["a/src/b.rs", "a/src/b/mod.rs"] {
            let file = |path: &str, text: &str| File {
                path: path.to_owned(),
                text: text.to_owned(),
            };
            let mut files = vec![file(parent, declaring)];
            files.extend(paths.map(|path| file(path, "fn a() {}\n")));
            let lines = Workspace::of(files)
                .sources
                .iter()
                .map(|source| source.production_lines)
                .collect::<Vec<_>>();
            assert_eq!(lines, [1, 0, 0, 0, 0, 1, 1, 1]);
        }
    }
}
