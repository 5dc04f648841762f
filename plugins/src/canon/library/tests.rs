use super::*;
use crate::canon::testing::Folder;

fn library(files: &[&str]) -> Library {
    Library::new(files.iter().map(|&name| name.to_owned()).collect())
}

fn text(library: &Library, workspace: &str) -> Option<String> {
    let canon = library.read_now(workspace, SystemTime::now());
    canon.map(|canon| canon.text.clone())
}

/// What has been said of the files of a workspace.
fn remarks(library: &Library, workspace: &str) -> Vec<&'static str> {
    let shelf = library.lock().entry(workspace.to_owned()).clone();
    let mut words: Vec<_> = shelf.remarks.iter().map(|(_, words)| *words).collect();
    words.sort_unstable();
    words
}

#[test]
fn nothing_outside_the_workspace_is_read_whatever_leads_there_case_21() {
    let folder = Folder::new();
    folder.write("ws/AGENTS.md", "inside");
    folder.write("ws-evil/secret.md", "outside");
    folder.link("ws/neighbour.md", folder.path("ws-evil/secret.md"));
    folder.link("ws/neighbours", folder.path("ws-evil"));
    folder.link("ws/up.md", "../ws-evil/secret.md");
    folder.link("ws/loop.md", "loop.md");
    let absolute = folder.workspace("ws-evil/secret.md");
    let names = [
        "neighbour.md",
        "neighbours/secret.md",
        "up.md",
        "loop.md",
        "../ws-evil/secret.md",
        &absolute,
    ];
    let library = library(&names);
    let workspace = folder.workspace("ws");
    assert_eq!(text(&library, &workspace), None);
    let said = remarks(&library, &workspace);
    assert_eq!(
        said.iter().filter(|words| **words == Trouble::Outside.words()).count(),
        5
    );
    assert_eq!(said.len(), 6);
}

#[test]
fn links_within_the_workspace_are_followed_and_so_is_one_that_is_the_workspace() {
    let folder = Folder::new();
    folder.write("ws/docs/canon.md", "inside");
    folder.link("ws/AGENTS.md", "docs/canon.md");
    folder.link("door", "ws");
    let library = library(&["./AGENTS.md"]);
    for workspace in ["ws", "door"] {
        let text = text(&library, &folder.workspace(workspace)).expect("canon");
        assert!(text.ends_with("inside"), "{text}");
    }
}

#[test]
fn an_edit_is_noticed_and_no_edit_costs_no_reading() {
    let folder = Folder::new();
    let (library, workspace) = (library(&["AGENTS.md"]), folder.workspace(""));
    let read = || library.read_now(&workspace, SystemTime::now());
    folder.write_aged("AGENTS.md", "one", 0);
    let one = read().expect("canon");
    assert!(Arc::ptr_eq(&one, &read().expect("canon")));
    // a look shows no difference to this edit, of an hour ago: nothing was read again
    folder.write_aged("AGENTS.md", "two", 0);
    assert!(Arc::ptr_eq(&one, &read().expect("canon")));
    folder.write_aged("AGENTS.md", "two", 1);
    let two = read().expect("canon");
    assert!(two.text.ends_with("two"), "{two:?}");
    assert_ne!(one.hash, two.hash);
    // touched, not edited: the same version
    folder.write_aged("AGENTS.md", "two", 2);
    assert!(Arc::ptr_eq(&two, &read().expect("canon")));
}

#[test]
fn an_edit_within_one_tick_of_the_file_system_is_noticed() {
    let folder = Folder::new();
    let (library, workspace) = (library(&["AGENTS.md"]), folder.workspace(""));
    let now = SystemTime::now();
    let read = || library.read_now(&workspace, now).expect("canon").text.clone();
    let write = |text: &str| {
        folder.write("AGENTS.md", text);
        let file = fs::File::options()
            .write(true)
            .open(folder.path("AGENTS.md"))
            .expect("opened");
        file.set_modified(now).expect("set");
    };
    write("one");
    assert!(read().ends_with("one"));
    write("two");
    assert!(read().ends_with("two"), "same length, same time");
}

#[test]
fn a_missing_file_is_said_once_and_again_when_it_has_gone_again() {
    let folder = Folder::new();
    let (library, workspace) = (library(&["AGENTS.md", "SOUL.md"]), folder.workspace(""));
    assert_eq!(text(&library, &workspace), None);
    let first = library.lock().entry(workspace.clone()).clone();
    assert_eq!(first.remarks.len(), 2);
    assert_eq!(text(&library, &workspace), None);
    let second = library.lock().entry(workspace.clone()).clone();
    assert!(Arc::ptr_eq(&first, &second), "nothing new was found, nothing is said");
    folder.write("AGENTS.md", "here");
    assert!(text(&library, &workspace).expect("canon").ends_with("here"));
    assert_eq!(remarks(&library, &workspace), [Trouble::Missing.words()]);
    folder.remove("AGENTS.md");
    assert_eq!(text(&library, &workspace), None);
}

#[test]
fn what_is_no_file_is_not_waited_for() {
    let folder = Folder::new();
    folder.write("AGENTS.md/inner", "x");
    let (library, workspace) = (library(&["AGENTS.md"]), folder.workspace(""));
    assert_eq!(text(&library, &workspace), None);
    assert_eq!(remarks(&library, &workspace), [Trouble::NoFile.words()]);
}

#[test]
fn a_file_of_any_size_and_any_bytes_gives_a_bounded_text() {
    let folder = Folder::new();
    fs::write(folder.path("AGENTS.md"), vec![0xff; 3_000_000]).expect("written");
    let (library, workspace) = (library(&["AGENTS.md"]), folder.workspace(""));
    let text = text(&library, &workspace).expect("canon");
    assert_eq!(text.matches('\u{fffd}').count(), text::FILE_LIMIT);
    assert!(text.contains("cut after"), "it is said");
    assert_eq!(remarks(&library, &workspace), [words(Loss::Cut)]);
}

#[tokio::test]
async fn two_workspaces_share_nothing_case_22() {
    let (one, two) = (Folder::with("of one"), Folder::with("of two"));
    let library = Arc::new(library(&["AGENTS.md"]));
    for _ in 0..3 {
        for (folder, own) in [(&one, "of one"), (&two, "of two")] {
            let canon = library
                .read(&folder.workspace(""), SystemTime::now())
                .await
                .expect("canon");
            assert_eq!(canon.text, format!("[workspace canon: AGENTS.md]\n{own}"));
        }
    }
}
