//! Finds plugins in folders: reads manifests and refuses what is not safe, before any code runs (contract §5.4).

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use understudy_messages::ids::Name;

use crate::manifest::{FILE, LONGEST, Manifest};

/// How many folders of one load path are looked at.
const MOST_FOLDERS: usize = 1_000;

/// A plugin that was found and may be loaded.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its folder, with all links resolved.
    pub folder: PathBuf,
    /// What it says of itself.
    pub manifest: Arc<Manifest>,
}

/// Something that people should know about what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The plugin, where it is known: one that is refused keeps its id.
    pub id: Option<Name>,
    /// Where.
    pub source: PathBuf,
    /// What has the same id and is used in its place.
    pub active: Option<PathBuf>,
    /// Whether the plugin cannot be loaded.
    pub refused: bool,
    /// What is the matter.
    pub message: String,
}

/// What was found in some folders.
#[derive(Clone, Debug, Default)]
pub struct Discovery {
    /// Plugins, each id once, in the order in which they were found.
    pub found: Vec<Found>,
    /// What people should know.
    pub findings: Vec<Finding>,
}

impl Discovery {
    /// Looks into folders: each is a plugin, or holds plugins. Of two with one id the first is kept.
    pub fn look(paths: &[PathBuf]) -> Self {
        let mut discovery = Self::default();
        for path in paths {
            match folders(path) {
                Ok(folders) => folders.iter().for_each(|folder| discovery.add(folder)),
                Err(why) => discovery.note(None, path, true, why),
            }
        }
        discovery.drop_doubles();
        discovery
    }

    fn add(&mut self, folder: &Path) {
        match read(folder) {
            Ok((found, warnings)) => {
                for warning in warnings {
                    self.note(Some(found.manifest.id.clone()), folder, false, warning);
                }
                self.found.push(found);
            }
            Err((id, message)) => self.note(id, folder, true, message),
        }
    }

    fn note(&mut self, id: Option<Name>, source: &Path, refused: bool, message: String) {
        self.findings.push(Finding {
            id,
            source: source.to_owned(),
            active: None,
            refused,
            message,
        });
    }

    fn drop_doubles(&mut self) {
        let mut kept: BTreeMap<String, PathBuf> = BTreeMap::new();
        for found in std::mem::take(&mut self.found) {
            let id = found.manifest.id.clone();
            match kept.get(&id.to_ascii_lowercase()) {
                Some(first) if *first == found.folder => {}
                Some(first) => {
                    let message = format!("is not loaded: {} has the same id and comes first", first.display());
                    let active = Some(first.clone());
                    self.note(Some(id), &found.folder, false, message);
                    if let Some(finding) = self.findings.last_mut() {
                        finding.active = active;
                    }
                }
                None => {
                    kept.insert(id.to_ascii_lowercase(), found.folder.clone());
                    self.found.push(found);
                }
            }
        }
    }
}

/// The folder itself where it is a plugin, else the folders in it that are, by name.
fn folders(path: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error: io::Error| format!("cannot be read: {}", error.kind());
    let path = path.canonicalize().map_err(unreadable)?;
    if path.join(FILE).exists() {
        return Ok(vec![path]);
    }
    refuse_unsafe(&path)?;
    let mut folders = Vec::new();
    for entry in fs::read_dir(&path).map_err(unreadable)?.take(MOST_FOLDERS) {
        let folder = entry.map_err(unreadable)?.path();
        if folder.join(FILE).exists() {
            folders.push(folder);
        }
    }
    folders.sort();
    Ok(folders)
}

type Refused = (Option<Name>, String);

fn read(folder: &Path) -> Result<(Found, Vec<String>), Refused> {
    let unreadable = |error: io::Error| (None, format!("cannot be read: {}", error.kind()));
    let folder = folder.canonicalize().map_err(unreadable)?;
    let text = read_bounded(&folder.join(FILE)).map_err(unreadable)?;
    let (manifest, warnings) =
        Manifest::read(&text).map_err(|error| (error.id, format!("{FILE} {}", error.message)))?;
    check(&folder, &manifest).map_err(|why| (Some(manifest.id.clone()), why))?;
    let manifest = Arc::new(manifest);
    Ok((Found { folder, manifest }, warnings))
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LONGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LONGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

/// Whether it is safe to run what lies here: nobody else may change it, and its entry is its own.
fn check(folder: &Path, manifest: &Manifest) -> Result<(), String> {
    for path in [folder.to_owned(), folder.join(FILE)] {
        refuse_unsafe(&path)?;
    }
    let Some(entry) = &manifest.entry else { return Ok(()) };
    let climbs = entry
        .components()
        .any(|part| !matches!(part, Component::Normal(_) | Component::CurDir));
    if climbs {
        return Err("has an entry outside of its folder".to_owned());
    }
    let path = folder.join(entry);
    let path = path
        .canonicalize()
        .map_err(|error| format!("has an entry that cannot be read: {}", error.kind()))?;
    if !path.starts_with(folder) {
        return Err("has an entry outside of its folder".to_owned());
    }
    if !path.is_file() {
        return Err("has an entry that is no file".to_owned());
    }
    path.ancestors()
        .take_while(|path| *path != folder)
        .try_for_each(refuse_unsafe)
}

/// Refuses what somebody else may change: what everybody may write to, and what belongs to neither this process nor root.
fn refuse_unsafe(path: &Path) -> Result<(), String> {
    let metadata = fs::metadata(path).map_err(|error| format!("cannot be read: {}", error.kind()))?;
    match danger(&metadata) {
        Some(danger) => Err(format!("is refused: {danger} {}", path.display())),
        None => Ok(()),
    }
}

#[cfg(unix)]
fn danger(metadata: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt;
    if metadata.mode() & 0o002 != 0 {
        return Some("everybody may write to");
    }
    let own = rustix::process::geteuid().as_raw();
    is_foreign(metadata.uid(), own).then_some("another user owns")
}

/// Root may change everything anyway.
#[cfg(unix)]
const fn is_foreign(owner: u32, own: u32) -> bool {
    owner != own && owner != 0
}

#[cfg(not(unix))]
fn danger(_: &Metadata) -> Option<&'static str> {
    None
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
