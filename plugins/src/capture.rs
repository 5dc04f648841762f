//! A plugin's source as it was at one moment: what its instance runs from, whatever happens to the folder afterwards.
//!
//! The folder is copied whole, so that a later edit counts at the next reload and not before, and so that the code that
//! served can be put back though its files are gone. A capture goes when nobody holds it any more, on a thread that removes captures
//! and does nothing else; what a process that was killed leaves behind is swept away by the next owner of the folder.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use self::remover::Remover;
pub use self::sweep::Swept;

mod remover;
mod sweep;

/// The most files of one plugin.
pub const MOST_FILES: usize = 20_000;
/// The most bytes of one plugin.
pub const MOST_BYTES: u64 = 256 << 20;
/// How deep its folders may lie in each other.
const DEEPEST: usize = 32;
/// Folders that are no part of a plugin's code.
const LEFT_OUT: [&str; 2] = [".git", "__pycache__"];

/// Captures of one process, each in a folder of its own.
#[derive(Debug)]
pub struct Captures {
    folder: PathBuf,
    /// Where they go when `folder` does not take them.
    spare: Option<PathBuf>,
    /// The folders that somebody holds, and what removes them.
    remover: Arc<Remover>,
}

/// One plugin's source.
#[derive(Debug)]
pub struct Capture {
    digest: [u8; 32],
    folder: PathBuf,
    remover: Arc<Remover>,
}

/// A folder that cannot be captured.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// A file cannot be read or written.
    #[error("{} cannot be captured: {}", .path.display(), .error.kind())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is too much in it.
    #[error("its folder holds more than {MOST_FILES} files or {} MiB: move data out of it", MOST_BYTES >> 20)]
    TooLarge,
    /// A link leads out of it.
    #[error("{} leads out of the plugin's folder", .0.display())]
    Escapes(PathBuf),
}

impl Captures {
    /// Captures below `folder`, which is made when the first one is taken.
    pub fn below(folder: PathBuf) -> Self {
        Self {
            folder,
            spare: None,
            remover: Arc::default(),
        }
    }

    /// The same; those that do not find room there go below `spare`.
    pub fn below_or(folder: PathBuf, spare: PathBuf) -> Self {
        let mut captures = Self::below(folder);
        captures.spare = Some(spare);
        captures
    }

    /// Copies a plugin's folder. It blocks: call it where that does no harm.
    ///
    /// # Errors
    /// [`CaptureError`]; nothing is left behind.
    pub fn take(&self, folder: &Path) -> Result<Arc<Capture>, CaptureError> {
        match (self.take_below(&self.folder, folder), &self.spare) {
            (Err(CaptureError::Io { path, error }), Some(spare)) if path.starts_with(&self.folder) => {
                let (path, spare_path) = (path.display(), spare.display());
                tracing::warn!(%path, error = %error.kind(), spare = %spare_path, "captures do not go where state lies");
                self.take_below(spare, folder)
            }
            (taken, _) => taken,
        }
    }

    fn take_below(&self, place: &Path, folder: &Path) -> Result<Arc<Capture>, CaptureError> {
        fs::create_dir_all(place).map_err(io_error(place))?;
        let copy = self.new_folder(place)?;
        // from here on whatever fails takes the copy with it
        let mut capture = Capture {
            digest: [0; 32],
            folder: copy.clone(),
            remover: self.remover.clone(),
        };
        let mut copying = Copying {
            root: folder,
            hasher: Sha256::new(),
            files: 0,
            bytes: 0,
        };
        copying.folder(folder, &copy, 0)?;
        capture.digest = copying.hasher.finalize().into();
        Ok(Arc::new(capture))
    }

    /// Waits until what nobody holds any more is gone. It blocks.
    pub fn settle(&self) {
        self.remover.finish();
    }

    /// A folder that nobody has: not even one that could not be swept away.
    fn new_folder(&self, place: &Path) -> Result<PathBuf, CaptureError> {
        // several gateways of one process may share the place
        static TAKEN: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = TAKEN.fetch_add(1, Ordering::Relaxed);
            let copy = place.join(format!("{}-{number}", std::process::id()));
            let mut held = self.remover.held();
            match DirBuilder::new().mode(0o700).create(&copy) {
                Ok(()) => {
                    held.insert(copy.clone());
                    return Ok(copy);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(io_error(&copy)(error)),
            }
        }
    }
}

impl Drop for Captures {
    /// What nobody holds any more is gone then, and with it the folder when nothing is left in it.
    fn drop(&mut self) {
        self.remover.finish();
        let _in_use = fs::remove_dir(&self.folder);
        let _in_use = self.spare.as_ref().map(fs::remove_dir);
    }
}

impl Capture {
    /// SHA-256 of all names and contents.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// The digest as it is shown.
    pub fn digest_text(&self) -> String {
        let hex = self.digest.iter().map(|byte| format!("{byte:02x}"));
        format!("sha256:{}", hex.collect::<String>())
    }

    /// Where the copy lies.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.remover.remove(std::mem::take(&mut self.folder));
    }
}

struct Copying<'a> {
    root: &'a Path,
    hasher: Sha256,
    files: usize,
    bytes: u64,
}

impl Copying<'_> {
    fn folder(&mut self, from: &Path, to: &Path, depth: usize) -> Result<(), CaptureError> {
        if depth > DEEPEST {
            return Err(CaptureError::TooLarge);
        }
        let entries = fs::read_dir(from).map_err(io_error(from))?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(io_error(from))?.file_name());
            self.files += 1;
            if self.files > MOST_FILES {
                return Err(CaptureError::TooLarge);
            }
        }
        names.sort();
        for name in names {
            if LEFT_OUT.iter().any(|left_out| name == *left_out) {
                continue;
            }
            let (from, to) = (from.join(&name), to.join(&name));
            let real = from.canonicalize().map_err(io_error(&from))?;
            if !real.starts_with(self.root) {
                return Err(CaptureError::Escapes(from));
            }
            let facts = fs::metadata(&real).map_err(io_error(&from))?;
            self.hasher.update(name.as_encoded_bytes());
            if facts.is_dir() {
                self.hasher.update(b"\0d");
                fs::create_dir(&to).map_err(io_error(&to))?;
                self.folder(&real, &to, depth + 1)?;
                self.hasher.update(b"\0e");
            } else if facts.is_file() {
                self.file(&real, &to, &facts)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, from: &Path, to: &Path, facts: &fs::Metadata) -> Result<(), CaptureError> {
        let mut source = File::open(from)
            .map_err(io_error(from))?
            .take(MOST_BYTES + 1 - self.bytes);
        let mut copy = File::create(to).map_err(io_error(to))?;
        let (mut buffer, mut length) = (vec![0; 64 << 10], 0_u64);
        self.hasher.update(b"\0f");
        loop {
            let read = source.read(&mut buffer).map_err(io_error(from))?;
            if read == 0 {
                break;
            }
            length += read as u64;
            self.hasher.update(&buffer[..read]);
            copy.write_all(&buffer[..read]).map_err(io_error(to))?;
        }
        self.hasher.update(length.to_le_bytes());
        self.bytes += length;
        if self.bytes > MOST_BYTES {
            return Err(CaptureError::TooLarge);
        }
        // whoever runs it needs its mode, and it must not be written to by others
        fs::set_permissions(to, facts.permissions()).map_err(io_error(to))
    }
}

/// Somebody else has cleared it away.
fn gone_already(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> CaptureError {
    let path = path.to_owned();
    move |error| CaptureError::Io { path, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that goes with its test.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("understudy-capture-{}-{name}", std::process::id()));
            let _old = fs::remove_dir_all(&path);
            fs::create_dir_all(path.join("plugin/lib")).expect("a folder");
            let path = path.canonicalize().expect("real");
            Self(path)
        }

        fn write(&self, name: &str, text: &str) {
            fs::write(self.plugin().join(name), text).expect("written");
        }

        fn plugin(&self) -> PathBuf {
            self.0.join("plugin")
        }

        fn captures(&self) -> Captures {
            Captures::below(self.0.join("captures"))
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_capture_stays_as_it_was_and_goes_with_its_last_holder() {
        let place = Place::new("stays");
        place.write("index.js", "one");
        place.write("lib/part.js", "part");
        let captures = place.captures();
        let capture = captures.take(&place.plugin()).expect("captured");
        place.write("index.js", "two");
        let read = |name: &str| fs::read_to_string(capture.folder().join(name)).expect("readable");
        assert_eq!(
            (read("index.js"), read("lib/part.js")),
            ("one".to_owned(), "part".to_owned())
        );
        let folder = capture.folder().to_owned();
        drop(capture);
        captures.settle();
        assert!(!folder.exists());
    }

    #[test]
    fn the_digest_tells_contents_names_and_places_apart() {
        let place = Place::new("digest");
        let captures = place.captures();
        let digest = |changes: &[(&str, &str)]| {
            for (name, text) in changes {
                place.write(name, text);
            }
            captures.take(&place.plugin()).expect("captured").digest()
        };
        let first = digest(&[("a.js", "x")]);
        assert_eq!(digest(&[]), first);
        let second = digest(&[("a.js", "y")]);
        let third = digest(&[("lib/a.js", "y")]);
        assert!(first != second && second != third);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_out_of_the_folder_is_refused_and_nothing_is_left() {
        let place = Place::new("link");
        std::os::unix::fs::symlink(std::env::temp_dir(), place.plugin().join("out")).expect("linked");
        let captures = place.captures();
        let error = captures.take(&place.plugin()).expect_err("refused");
        assert!(matches!(error, CaptureError::Escapes(_)), "{error}");
        captures.settle();
        assert_eq!(fs::read_dir(place.0.join("captures")).expect("there").count(), 0);
    }

    #[test]
    fn a_capture_goes_to_the_spare_place_when_the_first_does_not_take_it() {
        let place = Place::new("spare");
        place.write("index.js", "one");
        fs::write(place.0.join("captures"), "a file").expect("written");
        assert!(place.captures().take(&place.plugin()).is_err());
        let captures = Captures::below_or(place.0.join("captures"), place.0.join("spare"));
        let capture = captures.take(&place.plugin()).expect("captured");
        assert!(capture.folder().starts_with(place.0.join("spare")));
    }

    #[test]
    fn what_is_wrong_with_the_source_is_not_tried_elsewhere() {
        let place = Place::new("source");
        let captures = Captures::below_or(place.0.join("captures"), place.0.join("spare"));
        assert!(captures.take(&place.0.join("nothing")).is_err());
        assert!(!place.0.join("spare").exists());
    }
}
