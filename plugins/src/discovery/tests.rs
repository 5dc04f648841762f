use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A folder that is gone with its value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "understudy-discovery-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder");
        Self(path.canonicalize().expect("a path"))
    }

    fn plugin(&self, folder: &str, manifest: &str) -> PathBuf {
        let folder = self.0.join(folder);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(FILE), manifest).expect("a manifest");
        fs::write(folder.join("index.js"), "").expect("an entry");
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_behind = fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("permissions");
}

fn ids(discovery: &Discovery) -> Vec<&str> {
    discovery.found.iter().map(|found| &*found.manifest.id).collect()
}

fn refusals(discovery: &Discovery) -> Vec<(Option<&str>, &str)> {
    let refused = discovery.findings.iter().filter(|finding| finding.refused);
    refused
        .map(|finding| (finding.id.as_deref(), &*finding.message))
        .collect()
}

#[test]
fn a_load_path_is_a_plugin_or_holds_plugins() {
    let folder = Folder::new();
    let one = folder.plugin("one", "{ id: 'one', main: 'index.js', configSchema: {} }");
    folder.plugin("two", "{ id: 'two', main: './index.js', configSchema: {} }");
    fs::create_dir(folder.0.join("three")).expect("a folder without a manifest");
    let all = Discovery::look(std::slice::from_ref(&folder.0));
    assert_eq!((ids(&all), all.findings.len()), (vec!["one", "two"], 0));
    assert_eq!(ids(&Discovery::look(std::slice::from_ref(&one))), ["one"]);
    assert_eq!(ids(&Discovery::look(&[one, folder.0.clone()])), ["one", "two"]);
}

#[test]
fn of_two_with_one_id_the_first_is_kept_and_both_are_named_case_t41() {
    let folder = Folder::new();
    let a = folder.plugin("a", "{ id: 'same', main: 'index.js', configSchema: {} }");
    let b = folder.plugin("b", "{ id: 'SAME', main: 'index.js', configSchema: {} }");
    let found = Discovery::look(&[b.clone(), a.clone()]);
    assert_eq!(found.found[0].folder, b);
    assert_eq!(found.found.len(), 1);
    assert_eq!((&found.findings[0].source, found.findings[0].refused), (&a, false));
    assert_eq!(found.findings[0].active.as_ref(), Some(&b));
    assert!(found.findings[0].message.contains(&*b.to_string_lossy()));
}

#[test]
fn an_entry_outside_of_its_folder_is_refused_and_keeps_its_id_case_t44() {
    let folder = Folder::new();
    fs::write(folder.0.join("outside.js"), "").expect("a file");
    folder.plugin("climbs", "{ id: 'climbs', main: '../outside.js' }");
    folder.plugin("absolute", "{ id: 'absolute', main: '/etc/hostname.js' }");
    let links = folder.plugin("links", "{ id: 'links', main: 'link.js' }");
    symlink(folder.0.join("outside.js"), links.join("link.js")).expect("a link");
    folder.plugin("gone", "{ id: 'gone', main: 'gone.js' }");
    let found = Discovery::look(std::slice::from_ref(&folder.0));
    assert!(found.found.is_empty());
    let outside = "has an entry outside of its folder";
    let refused = refusals(&found);
    for id in ["climbs", "absolute", "links"] {
        assert!(refused.contains(&(Some(id), outside)), "{refused:?}");
    }
    assert!(refused.iter().any(|(id, _)| *id == Some("gone")));
}

#[test]
fn what_everybody_may_write_to_is_refused_and_keeps_its_id_case_t44() {
    let folder = Folder::new();
    for (id, path) in [("folder", ""), ("manifest", FILE), ("entry", "index.js")] {
        let plugin = folder.plugin(id, &format!("{{ id: '{id}', main: 'index.js' }}"));
        open(&plugin.join(path));
    }
    let found = Discovery::look(std::slice::from_ref(&folder.0));
    assert!(found.found.is_empty());
    let refused = refusals(&found);
    let expected = [Some("entry"), Some("folder"), Some("manifest")];
    assert_eq!(refused.iter().map(|(id, _)| *id).collect::<Vec<_>>(), expected);
    assert!(refused.iter().all(|(_, why)| why.contains("everybody may write")));
}

#[test]
fn only_what_belongs_to_this_process_or_to_root_is_its_own() {
    for (owner, own, foreign) in [(7, 7, false), (0, 7, false), (0, 0, false), (8, 7, true), (7, 0, true)] {
        assert_eq!(is_foreign(owner, own), foreign, "{owner} {own}");
    }
}

#[test]
fn what_belongs_to_another_user_is_refused_and_keeps_its_id_case_t44() {
    let folder = Folder::new();
    let mut expected = Vec::new();
    for (id, path) in [("entry", "index.js"), ("folder", ""), ("manifest", FILE)] {
        let plugin = folder.plugin(id, &format!("{{ id: '{id}', main: 'index.js' }}"));
        if chown(plugin.join(path), Some(12_345), None).is_err() {
            println!("only root gives files away: NOT TRIED");
            return;
        }
        expected.push(Some(id));
    }
    let found = Discovery::look(std::slice::from_ref(&folder.0));
    assert!(found.found.is_empty());
    let refused = refusals(&found);
    assert_eq!(refused.iter().map(|(id, _)| *id).collect::<Vec<_>>(), expected);
    assert!(refused.iter().all(|(_, why)| why.contains("another user owns")));
}

#[test]
fn a_load_path_that_everybody_may_add_to_is_refused_whole() {
    let folder = Folder::new();
    folder.plugin("sound", "{ id: 'sound', main: 'index.js', configSchema: {} }");
    open(&folder.0);
    let found = Discovery::look(std::slice::from_ref(&folder.0));
    assert!(found.found.is_empty() && found.findings[0].refused);
}

#[test]
fn what_cannot_be_read_is_said_and_ends_nothing_else() {
    let folder = Folder::new();
    folder.plugin("broken", "{");
    folder.plugin("sound", "{ id: 'sound', main: 'index.js', configSchema: {} }");
    let found = Discovery::look(&[folder.0.join("nowhere"), folder.0.clone()]);
    assert_eq!(ids(&found), ["sound"]);
    assert_eq!(refusals(&found).len(), 2);
}
