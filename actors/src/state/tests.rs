mod faults;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use std::sync::{Arc, Mutex};

use redb::{ReadableTable, TableDefinition};
use understudy_messages::ids::Name;

use super::records::{Pending, Published, Stored, begin, captured, end, kept, note_captured, publish};
use super::*;

const TABLE: TableDefinition<'static, &str, u64> = TableDefinition::new("numbers");

/// A folder that goes with its test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("understudy-state-{}-{name}", std::process::id()));
        let _old = fs::remove_dir_all(&path);
        Self(path)
    }

    fn open(&self) -> Result<State, StateError> {
        State::open(&self.0, &Clock::real())
    }

    fn file(&self) -> PathBuf {
        self.0.join("state.redb")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

async fn put(state: &State, key: &'static str, value: u64) -> Result<(), StateError> {
    let write = move |write: &redb::WriteTransaction| {
        write.open_table(TABLE)?.insert(key, value)?;
        Ok(())
    };
    state.file().write(8, write).await
}

fn get(state: &State, key: &str) -> Option<u64> {
    let table = state.file().read().expect("a read").open_table(TABLE).expect("a table");
    table.get(key).expect("readable").map(|value| value.value())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn the_folder_and_what_is_in_it_are_their_owner_s_alone() {
    let place = Place::new("modes");
    fs::create_dir_all(&place.0).expect("a folder");
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o755)).expect("set");
    let _state = place.open().expect("taken");
    assert_eq!(mode(&place.0), 0o700);
    let files = fs::read_dir(&place.0)
        .expect("there")
        .map(|entry| entry.expect("one").path());
    let files: Vec<PathBuf> = files.collect();
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");
}

#[test]
fn a_folder_that_holds_something_else_keeps_its_mode() {
    let place = Place::new("shared");
    fs::create_dir_all(place.0.join("of-others")).expect("a folder");
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o755)).expect("set");
    let _state = place.open().expect("taken");
    assert_eq!((mode(&place.0), mode(&place.file())), (0o755, 0o600));
}

#[test]
fn a_second_owner_is_told_who_the_first_is_until_that_one_ends() {
    let place = Place::new("second");
    let first = place.open().expect("taken");
    let address = "127.0.0.1:4242".parse().expect("an address");
    first.dir().expect("a folder").announce(address, address);
    let refused = place.open().expect_err("held").to_string();
    let own = format!("process {} on ", std::process::id());
    assert!(
        refused.contains(&own) && refused.contains("API 127.0.0.1:4242"),
        "{refused}"
    );
    assert!(refused.contains("state.dir"), "{refused}");
    assert!(matches!(inspect(&place.0), Inspected::Held(Some(holder)) if holder.pid == std::process::id()));
    drop(first);
    assert_eq!(inspect(&place.0), Inspected::Sound);
    place.open().expect("free");
}

#[test]
fn the_name_of_an_owner_that_died_keeps_nobody_out() {
    let place = Place::new("dead");
    drop(place.open().expect("taken"));
    let dead = Identity {
        pid: 1,
        ..Identity::own(&Clock::real())
    };
    fs::write(place.0.join("gateway.lock"), serde_json::to_vec(&dead).expect("JSON")).expect("written");
    let state = place.open().expect("the system let go of the lock");
    assert_eq!(state.dir().and_then(StateDir::dead), Some(&dead));
    drop(state);
    assert_eq!(
        fs::read(place.0.join("gateway.lock")).expect("there"),
        b"",
        "an owner that ended leaves no name"
    );
}

#[test]
fn a_folder_that_cannot_be_one_is_named() {
    let place = Place::new("no-folder");
    assert_eq!(inspect(&place.0), Inspected::Absent);
    fs::write(&place.0, "a file").expect("written");
    let refused = place.open().expect_err("no folder").to_string();
    assert!(
        refused.contains("no-folder") && refused.contains("state.dir"),
        "{refused}"
    );
    assert!(matches!(inspect(&place.0), Inspected::Unusable(_)));
    fs::remove_file(&place.0).expect("removed");
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_restart() {
    let place = Place::new("restart");
    let state = place.open().expect("taken");
    put(&state, "one", 1).await.expect("written");
    drop(state);
    assert_eq!(get(&place.open().expect("taken again"), "one"), Some(1));
}

#[tokio::test]
async fn a_reader_sees_one_moment() {
    let state = State::in_memory().expect("state");
    put(&state, "one", 1).await.expect("written");
    let moment = state.file().read().expect("a read");
    put(&state, "one", 2).await.expect("written");
    let table = moment.open_table(TABLE).expect("a table");
    assert_eq!(table.get("one").expect("readable").map(|it| it.value()), Some(1));
    assert_eq!(get(&state, "one"), Some(2));
}

#[tokio::test]
async fn a_change_that_fails_takes_no_other_with_it() {
    let state = State::in_memory().expect("state");
    let bad = |panics: bool| {
        state.file().write(0, move |write| {
            write.open_table(TABLE)?.insert("half", 1)?;
            assert!(!panics, "as its test wants");
            Err(redb::Error::Corrupted("as its test wants".to_owned()))
        })
    };
    let all = tokio::join!(
        put(&state, "one", 1),
        bad(false),
        put(&state, "two", 2),
        bad(true),
        put(&state, "three", 3)
    );
    assert!(all.0.is_ok() && all.2.is_ok() && all.4.is_ok());
    assert!(all.1.is_err() && all.3.is_err());
    let found = ["one", "two", "three", "half"].map(|key| get(&state, key));
    assert_eq!(found, [Some(1), Some(2), Some(3), None]);
}

#[tokio::test]
async fn what_comes_at_the_same_time_is_committed_together() {
    let state = State::in_memory().expect("state");
    // the writer stands in a change while the others come
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let held = state.file().write(0, move |write| {
        let _told = wait.lock().expect("whole").recv();
        write.open_table(TABLE)?.insert("count", 0)?;
        Ok(())
    });
    // what was committed before a change: the same for all of one group
    let before = Arc::new(Mutex::new(BTreeSet::new()));
    let count = {
        let (before, state) = (before.clone(), state.clone());
        move |write: &redb::WriteTransaction| {
            before.lock().expect("whole").insert(get(&state, "count"));
            let mut table = write.open_table(TABLE)?;
            let count = table.get("count")?.map_or(0, |it| it.value());
            table.insert("count", count + 1)?;
            Ok(())
        }
    };
    put(&state, "one", 1).await.expect("written");
    let others = futures::future::join_all((0..500).map(|_| state.file().write(0, count.clone())));
    let release = async {
        tokio::task::yield_now().await;
        go.send(()).expect("it waits");
    };
    let (held, others, ()) = tokio::join!(held, others, release);
    held.expect("written");
    assert!(others.iter().all(Result::is_ok));
    assert_eq!(get(&state, "count"), Some(500));
    // how many groups there are is a matter of time; that there are as many as changes would be none
    let groups = before.lock().expect("whole").len();
    assert!(groups < 50, "{groups} groups of 500 changes");
}

#[tokio::test]
async fn who_finds_no_room_waits_for_it() {
    let state = State::in_memory().expect("state");
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let mut whole = Box::pin(state.file().write(usize::MAX, move |_| {
        let _told = wait.lock().expect("whole").recv();
        Ok(())
    }));
    assert!(futures::poll!(&mut whole).is_pending());
    let mut next = Box::pin(put(&state, "one", 1));
    assert!(futures::poll!(&mut next).is_pending(), "all the room is taken");
    go.send(()).expect("it waits");
    whole.await.expect("written");
    next.await.expect("written");
}

#[tokio::test]
async fn what_is_queued_is_written_before_the_file_is_let_go() {
    let place = Place::new("queued");
    let state = place.open().expect("taken");
    for _ in 0..3 {
        let mut write = Box::pin(put(&state, "one", 1));
        assert!(futures::poll!(&mut write).is_pending());
        // nobody waits for it any more
        drop(write);
    }
    drop(state);
    assert_eq!(get(&place.open().expect("taken again"), "one"), Some(1));
}

#[tokio::test]
async fn what_is_closed_is_free_though_somebody_still_holds_it() {
    let place = Place::new("closed");
    let state = place.open().expect("taken");
    put(&state, "one", 1).await.expect("written");
    state.close();
    assert!(matches!(put(&state, "two", 2).await, Err(StateError::Closed)));
    assert!(matches!(state.file().read(), Err(StateError::Closed)));
    assert_eq!(get(&place.open().expect("free"), "one"), Some(1));
}

#[test]
fn a_file_of_a_later_version_is_named_and_left_as_it_is() {
    let place = Place::new("newer");
    drop(place.open().expect("taken"));
    let database = redb::Database::open(place.file()).expect("open");
    let write = database.begin_write().expect("a write");
    let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    write
        .open_table(meta)
        .expect("a table")
        .insert("format", 7)
        .expect("written");
    write.commit().expect("committed");
    drop(database);
    let before = fs::read(place.file()).expect("there");
    let refused = place.open().expect_err("newer").to_string();
    assert!(
        refused.contains("format 7") && refused.contains("state.redb"),
        "{refused}"
    );
    assert!(matches!(inspect(&place.0), Inspected::Unusable(why) if why.contains("format 7")));
    assert_eq!(fs::read(place.file()).expect("there"), before);
}

#[tokio::test]
async fn a_damaged_file_is_named_and_left_as_it_is() {
    let place = Place::new("damaged");
    let state = place.open().expect("taken");
    for key in ["one", "two", "three"] {
        put(&state, key, 1).await.expect("written");
    }
    drop(state);
    let whole = fs::read(place.file()).expect("there");
    let zeros = vec![0; whole.len()];
    for broken in [&b"nothing of ours"[..], &whole[..whole.len() / 2], &zeros] {
        fs::write(place.file(), broken).expect("written");
        let refused = place.open().expect_err("damaged");
        assert!(matches!(refused, StateError::Damaged { .. }), "{refused}");
        assert!(refused.to_string().contains("state.redb"), "{refused}");
        assert_eq!(
            fs::read(place.file()).expect("there"),
            broken,
            "nothing is made in its place"
        );
    }
}

#[test]
fn a_file_that_was_begun_when_its_owner_died_is_begun_anew() {
    let place = Place::new("begun");
    fs::create_dir_all(&place.0).expect("a folder");
    fs::write(place.0.join("state.new"), "half").expect("written");
    place.open().expect("taken");
    assert!(!place.0.join("state.new").exists());
}

fn stored(id: &str, text: Option<&str>) -> Stored {
    Stored {
        id: id.to_owned(),
        text: text.map(Arc::from),
    }
}

#[tokio::test]
async fn a_change_that_nobody_ended_is_found_until_it_is_ended() {
    let state = State::in_memory().expect("state");
    assert_eq!(kept(state.file()).expect("read"), (None, None));
    let published = Published {
        file: "/a.yaml".into(),
        serving: stored("1", Some("one")),
        previous: None,
        waiting: None,
        generation: 1,
        at: 5,
    };
    publish(state.file(), published.clone()).await.expect("written");
    let pending = Pending {
        file: "/a.yaml".into(),
        wanted: "2".to_owned(),
        before: stored("1", Some("one")),
    };
    begin(state.file(), pending.clone()).await.expect("written");
    let found = kept(state.file()).expect("read");
    assert_eq!(found, (Some(published.clone()), Some(pending.clone())));
    end(state.file()).await.expect("written");
    assert_eq!(kept(state.file()).expect("read").1, None);
    begin(state.file(), pending).await.expect("written");
    let next = Published {
        serving: stored("2", None),
        previous: Some(published.serving),
        ..published
    };
    publish(state.file(), next.clone()).await.expect("written");
    assert_eq!(kept(state.file()).expect("read"), (Some(next), None));
}

#[tokio::test]
async fn a_guard_is_remembered_over_a_restart_until_it_is_switched_off() {
    let place = Place::new("guards");
    let (a, b) = (Name::from("a"), Name::from("b"));
    let state = place.open().expect("taken");
    let ids = vec![a.clone(), b.clone()];
    state.guards().remember(state.file(), ids).await.expect("written");
    drop(state);
    let state = place.open().expect("taken again");
    assert!(state.guards().has("A") && state.guards().has("b"));
    state
        .guards()
        .forget(state.file(), |id| *id == a)
        .await
        .expect("written");
    drop(state);
    assert_eq!(place.open().expect("taken again").guards().all(), [b]);
}

#[tokio::test]
async fn what_serves_keeps_the_generation_that_it_came_with() {
    let state = State::in_memory().expect("state");
    let serving = |b: &str| vec![(Name::from("a"), "1".to_owned()), (Name::from("b"), b.to_owned())];
    note_captured(state.file(), serving("1"), 1, 10).await.expect("written");
    note_captured(state.file(), serving("2"), 2, 20).await.expect("written");
    let found = captured(state.file()).expect("read");
    let found: Vec<(&str, u64, u64)> = found.iter().map(|(id, it)| (&**id, it.generation, it.at)).collect();
    assert_eq!(found, [("a", 1, 10), ("b", 2, 20)]);
    note_captured(state.file(), Vec::new(), 3, 30).await.expect("written");
    assert_eq!(captured(state.file()).expect("read"), []);
}
