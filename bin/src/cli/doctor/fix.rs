//! What `doctor --fix` mends: files of plugins that everybody may write to, which keeps them from being loaded.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use understudy_plugins::manifest::{FILE, Manifest};

/// What everybody may do to a file, as a mode.
const EVERYBODY_WRITES: u32 = 0o002;

/// Takes that right away from load paths, from the plugins in them, their manifests and entries: which it was taken from. What
/// belongs to somebody else stays as it is.
pub(super) fn modes(load_paths: &[PathBuf]) -> Vec<PathBuf> {
    let folders = load_paths.iter().flat_map(|path| plugins(path));
    let files = folders.flat_map(|folder| files(&folder));
    let mut all: Vec<PathBuf> = load_paths.iter().cloned().chain(files).collect();
    all.sort();
    all.dedup();
    all.retain(|path| mended(path));
    all
}

/// The folder itself where it is a plugin, and those in it that are.
fn plugins(path: &Path) -> Vec<PathBuf> {
    let inner = fs::read_dir(path)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let all = inner.chain([path.to_owned()]);
    all.filter(|folder| folder.join(FILE).is_file()).collect()
}

/// What of a plugin nobody else may write to: its folder, its manifest, its entry and the folders on the way there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let manifest = folder.join(FILE);
    let read = fs::read_to_string(&manifest)
        .ok()
        .and_then(|text| Manifest::read(&text).ok());
    let entry = read.and_then(|(manifest, _)| manifest.entry);
    let entry = entry.and_then(|entry| folder.join(entry).canonicalize().ok());
    let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    // an entry outside of its folder is not this plugin's: it is refused, and left alone
    let entry = entry
        .filter(|entry| entry.starts_with(&real))
        .unwrap_or_else(|| real.clone());
    let on_the_way = entry
        .ancestors()
        .take_while(|path| path.starts_with(&real))
        .map(Path::to_owned);
    [manifest].into_iter().chain(on_the_way).collect()
}

fn mended(path: &Path) -> bool {
    let Ok(facts) = fs::metadata(path) else { return false };
    let mode = facts.permissions().mode();
    let closed = fs::Permissions::from_mode(mode & !EVERYBODY_WRITES);
    mode & EVERYBODY_WRITES != 0 && fs::set_permissions(path, closed).is_ok()
}

#[cfg(test)]
mod tests {
    use understudy_plugins::discovery::Discovery;

    use super::*;

    #[test]
    fn a_plugin_that_everybody_could_write_to_may_be_loaded_afterwards_and_the_rest_is_left_alone() {
        let folder = std::env::temp_dir().join(format!("understudy-fix-{}", std::process::id()));
        let plugin = folder.join("guard");
        fs::create_dir_all(plugin.join("lib")).expect("a folder");
        fs::write(
            plugin.join(FILE),
            "{ id: 'guard', main: 'lib/index.js', configSchema: {} }",
        )
        .expect("written");
        fs::write(plugin.join("lib/index.js"), "").expect("written");
        fs::write(plugin.join("notes.txt"), "").expect("written");
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
        for name in ["", FILE, "lib", "lib/index.js", "notes.txt"] {
            open(&plugin.join(name), 0o777);
        }
        let paths = [folder.clone()];
        assert!(Discovery::look(&paths).found.is_empty());
        assert_eq!(modes(&paths).len(), 4);
        assert_eq!(Discovery::look(&paths).found.len(), 1);
        let notes = fs::metadata(plugin.join("notes.txt"))
            .expect("there")
            .permissions()
            .mode();
        assert_eq!(notes & 0o777, 0o777);
        assert!(modes(&paths).is_empty());
        fs::remove_dir_all(folder).expect("gone");
    }
}
