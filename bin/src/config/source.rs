//! What a configuration was read from: its text, and the file that holds it.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use sha2::{Digest, Sha256};

use super::compiled::Compiled;
use super::raw::{self, Node, Value};

/// How many bytes of its text's hash name a revision.
const REVISION: usize = 8;

/// What a configuration was read from.
#[derive(Clone, Default)]
pub(crate) struct Source {
    /// As it was written: it may hold secrets.
    pub(crate) text: Arc<str>,
    /// The file, if it came from one.
    pub(crate) file: Option<Arc<Path>>,
    /// What may bring providers that it names: read again, it is read with these.
    pub(crate) compiled: Compiled,
}

impl Source {
    /// The name of this very text.
    pub(crate) fn revision(&self) -> String {
        revision_of(&self.text)
    }

    /// The references that stand where secrets do.
    pub(crate) fn references(&self) -> References {
        References(raw::parse(&self.text).ok())
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source(..)")
    }
}

/// The name of a text.
pub(crate) fn revision_of(text: &str) -> String {
    let mut name = String::new();
    for byte in Sha256::digest(text).iter().take(REVISION) {
        // writing to a string cannot fail
        let _ = write!(name, "{byte:02x}");
    }
    name
}

/// Removes what processes that are no more have left beside the file, half written. Nothing depends on it: what cannot be
/// removed stays.
pub(crate) fn sweep(file: &Path) {
    let Ok(file) = fs::canonicalize(file) else { return };
    let (Some(name), Some(folder)) = (file.file_name().and_then(OsStr::to_str), file.parent()) else {
        return;
    };
    let left = |entry: &DirEntry| -> Option<u32> {
        let other = entry.file_name();
        let pid = other
            .to_str()?
            .strip_prefix(name)?
            .strip_prefix('.')?
            .strip_suffix(".new")?;
        pid.parse().ok()
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if left(&entry).is_some_and(is_gone) {
            let _gone_meanwhile = fs::remove_file(entry.path());
        }
    }
}

/// Whether nobody writes under this id: this process has only begun.
fn is_gone(pid: u32) -> bool {
    let known = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid == std::process::id() || known.is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// Puts `text` in the place of what the file holds: whole or not at all, with the same permissions.
pub(crate) fn write(file: &Path, text: &str) -> io::Result<()> {
    // a link stays a link
    let file = fs::canonicalize(file)?;
    let mut name = file.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.new", std::process::id()));
    let new = file.with_file_name(name);
    let written = write_beside(&new, &file, text).and_then(|()| fs::rename(&new, &file));
    // the name is on the disk as well before anybody goes by it
    let written = written.and_then(|()| file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all()));
    if written.is_err() {
        let _was_never_there = fs::remove_file(&new);
    }
    written
}

fn write_beside(new: &Path, file: &Path, text: &str) -> io::Result<()> {
    let mut written: File = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(new)?;
    written.set_permissions(fs::metadata(file)?.permissions())?;
    written.write_all(text.as_bytes())?;
    written.sync_all()
}

/// The document as it was written, asked for references to variables.
#[derive(Debug)]
pub(crate) struct References(Option<Node>);

impl References {
    /// No document: every secret is hidden.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// What stands at a place, if it is a reference and nothing else.
    pub(crate) fn at(&self, path: &[&str], place: usize) -> Option<String> {
        let mut value = &self.0.as_ref()?.value;
        for key in path {
            let Value::Map(entries) = value else { return None };
            let (_, node) = entries.iter().find(|(name, _)| name == key)?;
            value = &node.value;
        }
        match value {
            Value::Text(text) => Some(text),
            Value::List(items) => match &items.get(place)?.value {
                Value::Text(text) => Some(text),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => None,
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Map(_) => None,
        }
        .filter(|text| is_reference(text))
        .cloned()
    }
}

fn is_reference(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_references_are_told_of_a_secret() {
        let text =
            "providers: { a: { api_key: \"${KEY}\" }, b: { api_keys: [plain, \"${B}\"] }, c: { api_key: \"x${C}\" } }";
        let source = Source {
            text: text.into(),
            ..Source::default()
        };
        let references = source.references();
        let at = |provider, key, place| references.at(&["providers", provider, key], place);
        assert_eq!(at("a", "api_key", 0).as_deref(), Some("${KEY}"));
        assert_eq!((at("b", "api_keys", 0), at("c", "api_key", 0)), (None, None));
        assert_eq!(at("b", "api_keys", 1).as_deref(), Some("${B}"));
        assert!(!format!("{source:?}").contains("plain"));
    }

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("understudy-source-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("understudy.yaml");
        fs::write(&file, "old").expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("set");
        write(&file, "new").expect("written");
        assert_eq!(fs::read_to_string(&file).expect("read"), "new");
        let mode = fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(fs::read_dir(&folder).expect("there").count(), 1, "nothing else is left");
        fs::remove_dir_all(&folder).expect("removed");
    }
}
