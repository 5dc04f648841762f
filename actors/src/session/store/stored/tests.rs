//! Sessions in a state file: what was committed is there, once; what is damaged hurts nobody else.

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use proptest::prelude::*;
use understudy_messages::ids::ModelRef;

use super::*;
use crate::session::TranscriptRoom;
use crate::session::memory::{Memory, NoRoom, Taken, Unread};
use crate::session::store::Header;

/// A store, and what it tells.
pub(in crate::session::store) struct House {
    pub(in crate::session::store) store: Arc<StateSessions>,
    telemetry: Arc<Telemetry>,
    pub(in crate::session::store) clock: Clock,
    pub(in crate::session::store) state: State,
}

impl House {
    pub(in crate::session::store) fn of(state: State, interval: Option<Duration>, keys: &[&str]) -> Self {
        Self::bounded(state, interval, keys, (1_000, u64::MAX))
    }

    /// One in which so many are kept, and so many bytes.
    pub(in crate::session::store) fn bounded(
        state: State,
        interval: Option<Duration>,
        keys: &[&str],
        (most, disk): (usize, u64),
    ) -> Self {
        let (telemetry, clock) = (Telemetry::new().expect("sound"), Clock::movable());
        let options = StateSessionsOptions {
            state: state.clone(),
            clock: clock.clone(),
            telemetry: telemetry.clone(),
            tap: EventTap::default(),
            interval,
            ttl: Duration::from_secs(3600),
            most,
            disk,
        };
        let store = StateSessions::open(options, keys.iter().copied()).expect("opened");
        Self {
            store: Arc::new(store),
            telemetry,
            clock,
            state,
        }
    }

    pub(in crate::session::store) fn in_memory() -> Self {
        Self::of(State::in_memory().expect("state"), None, &[])
    }

    /// A session's memory, as the shard makes it.
    pub(in crate::session::store) fn memory(&self, key: &SessionKey, room: &TranscriptRoom) -> Memory {
        Memory::new(key.clone(), Some(self.store.clone()), room.clone(), self.clock.wall())
    }

    /// A session with these turns behind it.
    pub(in crate::session::store) async fn spoken(&self, name: &str, turns: &[&str]) {
        let memory = self.memory(&keyed(name), &room());
        memory.open().await.expect("read");
        for text in turns {
            take(self, &memory, text).await.expect("kept");
        }
    }

    pub(in crate::session::store) async fn said(&self, name: &str) -> Option<Vec<String>> {
        let stored = self.store.load(&keyed(name)).await.expect("sound")?;
        Some(stored.turns.iter().flatten().map(ToString::to_string).collect())
    }

    /// Writes to the tables behind the store's back.
    pub(in crate::session::store) fn meddle(&self, change: impl Fn(&WriteTransaction) -> Result<(), redb::Error>) {
        self.state.file().write_now(change).expect("written");
    }

    pub(in crate::session::store) fn shows(&self, line: &str) {
        let scrape = self.telemetry.render();
        assert!(scrape.contains(line), "{line}\n{scrape}");
    }
}

/// A folder that goes with its test.
pub(in crate::session::store) struct Place(pub(in crate::session::store) PathBuf);

impl Place {
    pub(in crate::session::store) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("understudy-sessions-{}-{name}", std::process::id()));
        let _old = std::fs::remove_dir_all(&path);
        Self(path)
    }

    pub(in crate::session::store) fn open(&self) -> State {
        State::open(&self.0, &Clock::real()).expect("state")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

pub(in crate::session::store) fn room() -> TranscriptRoom {
    TranscriptRoom::of(64 << 20)
}

pub(in crate::session::store) fn keyed(name: &str) -> SessionKey {
    owned(None, name)
}

fn owned(owner: Option<u32>, name: &str) -> SessionKey {
    let key = name.into();
    SessionKey::Keyed { owner, key }
}

pub(in crate::session::store) async fn take(house: &House, memory: &Memory, text: &str) -> Result<usize, SessionFault> {
    let taken = Taken {
        agent: "one".into(),
        served_by: Some(ModelRef::new("a", "m")),
        said: vec![text.to_owned()],
        notice: None,
    };
    memory.take(taken, house.clock.wall()).await
}

#[tokio::test]
async fn what_was_committed_is_there_after_a_restart_durable_at_once_or_by_the_interval() {
    for interval in [None, Some(Duration::from_secs(1))] {
        let place = Place::new(if interval.is_some() { "interval" } else { "turn" });
        let house = House::of(place.open(), interval, &[]);
        house.spoken("s", &["one", "two"]).await;
        house.state.close();
        drop(house);
        let house = House::of(place.open(), interval, &[]);
        assert_eq!(house.said("s").await, Some(vec!["one".to_owned(), "two".to_owned()]));
        house.shows("understudy_sessions{state=\"passivated\"} 1");
        assert_eq!(house.said("other").await, None);
    }
}

#[tokio::test]
async fn the_sessions_of_a_client_key_are_found_wherever_it_stands_and_by_no_other() {
    let place = Place::new("owners");
    let house = House::of(place.open(), None, &["one", "two"]);
    let memory = house.memory(&owned(Some(0), "s"), &room());
    take(&house, &memory, "of one").await.expect("kept");
    house.state.close();
    drop((memory, house));
    let house = House::of(place.open(), None, &["two", "one"]);
    let found = async |owner| house.store.load(&owned(owner, "s")).await.expect("sound").is_some();
    assert!(found(Some(1)).await, "it stands elsewhere");
    assert!(!found(Some(0)).await && !found(None).await);
    let listed = house.store.page(Some(0), None, 10).await.expect("a page");
    assert_eq!(listed, []);
}

#[tokio::test]
async fn a_change_that_was_made_from_something_else_changes_nothing() {
    let house = House::in_memory();
    let (one, two) = (house.memory(&keyed("s"), &room()), house.memory(&keyed("s"), &room()));
    one.open().await.expect("read");
    two.open().await.expect("read");
    take(&house, &one, "first").await.expect("kept");
    assert_eq!(take(&house, &two, "lost").await, Err(SessionFault::Changed));
    assert_eq!(house.said("s").await, Some(vec!["first".to_owned()]));
    two.open().await.expect("read again");
    take(&house, &two, "second").await.expect("kept");
    assert_eq!(
        house.said("s").await,
        Some(vec!["first".to_owned(), "second".to_owned()])
    );
}

#[tokio::test]
async fn a_damaged_session_is_named_hurts_no_other_and_can_be_deleted() {
    let house = House::in_memory();
    for name in ["a", "bad", "c"] {
        house.spoken(name, &["one", "two"]).await;
    }
    house.meddle(|write| tables::tests::flip_a_bit_of_turn(write, b"\0bad", 1));
    let fault = house.store.load(&keyed("bad")).await.expect_err("damaged");
    assert!(matches!(fault, SessionFault::Damaged(_)), "{fault}");
    house.shows("understudy_session_store_errors_total{op=\"load\"} 1");
    assert_eq!(house.said("a").await.map(|said| said.len()), Some(2));
    house.meddle(|write| tables::tests::flip_a_bit_of_header(write, b"\0bad"));
    let listed = house.store.page(None, None, 10).await.expect("a page");
    assert_eq!(listed.iter().map(|info| &*info.id).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(house.store.delete(&keyed("bad"), false).await, Ok(true));
    assert_eq!(house.said("bad").await, None);
    house.spoken("bad", &["anew"]).await;
    assert_eq!(house.said("bad").await, Some(vec!["anew".to_owned()]));
}

#[tokio::test]
async fn a_transcript_with_a_hole_in_it_is_damaged() {
    let house = House::in_memory();
    house.spoken("s", &["one", "two", "three"]).await;
    house.meddle(|write| tables::tests::drop_turn(write, b"\0s", 1));
    assert!(matches!(
        house.store.load(&keyed("s")).await,
        Err(SessionFault::Damaged(_))
    ));
}

#[tokio::test]
async fn pages_follow_one_another_in_the_order_of_names() {
    let house = House::in_memory();
    for name in ["b", "ab", "a", "c"] {
        house.spoken(name, &["hi"]).await;
    }
    let page = async |after: Option<&str>, limit| {
        let page = house.store.page(None, after.map(Name::from), limit).await;
        let page = page.expect("a page");
        page.iter().map(|info| info.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 2).await, ["a", "ab"]);
    assert_eq!(page(Some("ab"), 2).await, ["b", "c"]);
    assert_eq!(page(Some("c"), 2).await, [""; 0]);
}

#[tokio::test]
async fn sessions_that_nobody_used_for_too_long_are_forgotten_and_the_others_are_not() {
    let house = House::in_memory();
    for name in ["old", "used", "older"] {
        house.spoken(name, &["hi"]).await;
    }
    house.clock.advance(Duration::from_secs(3_000));
    house.spoken("used", &["again"]).await;
    house.clock.advance(Duration::from_secs(1_000));
    house.store.expire_all().await;
    assert_eq!((house.said("old").await, house.said("older").await), (None, None));
    assert_eq!(house.said("used").await.map(|said| said.len()), Some(2));
    house.shows("understudy_session_events_total{event=\"expired\"} 2");
    house.shows("understudy_sessions{state=\"passivated\"} 1");
}

#[tokio::test]
async fn there_are_no_more_sessions_than_there_may_be_and_those_that_are_go_on() {
    let house = House::in_memory();
    house.store.known.store(999, Ordering::Relaxed);
    house.spoken("last", &["hi"]).await;
    let refused = house.memory(&keyed("one more"), &room()).open().await;
    assert_eq!(refused, Err(Unread::Room(NoRoom::Sessions)));
    house.spoken("last", &["again"]).await;
    assert_eq!(house.store.delete(&keyed("last"), false).await, Ok(true));
    house.spoken("one more", &["hi"]).await;
}

#[tokio::test]
async fn what_there_is_no_room_for_is_not_read_and_leaves_the_room_as_it_was() {
    let house = House::in_memory();
    house.spoken("s", &[&"x".repeat(1_000)]).await;
    let small = TranscriptRoom::of(500);
    let refused = house.memory(&keyed("s"), &small).open().await;
    assert_eq!(refused, Err(Unread::Room(NoRoom::Process)));
    assert_eq!(small.held(), 0);
}

#[tokio::test]
async fn nothing_is_kept_once_the_file_is_closed_and_the_turn_is_not_remembered() {
    let house = House::in_memory();
    let room = room();
    let memory = house.memory(&keyed("s"), &room);
    memory.open().await.expect("read");
    take(&house, &memory, "kept").await.expect("kept");
    let held = room.held();
    house.state.close();
    assert!(matches!(
        take(&house, &memory, "lost").await,
        Err(SessionFault::Store(_))
    ));
    assert_eq!(memory.recall().transcript.len(), 1);
    assert_eq!(room.held(), held);
    house.shows("understudy_session_store_errors_total{op=\"save\"} 1");
}

/// What may be done to one session.
#[derive(Clone, Debug)]
enum Step {
    Turn(usize),
    Pin(bool),
    Passivate,
    Forget,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        // some are so large that old turns go
        6 => prop_oneof![0..200_usize, Just(1_500_000)].prop_map(Step::Turn),
        1 => any::<bool>().prop_map(Step::Pin),
        3 => Just(Step::Passivate),
        1 => Just(Step::Forget),
    ];
    proptest::collection::vec(step, 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_session_that_leaves_memory_at_any_time_is_as_one_that_never_does(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (house, room, never) = (House::in_memory(), room(), room());
            let resident = Memory::new(keyed("s"), None, never.clone(), house.clock.wall());
            let mut passing = house.memory(&keyed("s"), &room);
            for (number, step) in steps.iter().enumerate() {
                passing.open().await.expect("read");
                let now = house.clock.wall();
                match step {
                    Step::Turn(length) => {
                        let text = format!("{number}{}", "x".repeat(*length));
                        assert_eq!(take(&house, &passing, &text).await, take(&house, &resident, &text).await);
                    }
                    Step::Pin(some) => {
                        let model = some.then(|| Name::from("fast"));
                        passing.pin(model.clone(), now).await.expect("kept");
                        resident.pin(model, now).await.expect("kept");
                    }
                    // one that had no turn is none
                    Step::Passivate if resident.is_blank() => {}
                    Step::Passivate => passing = house.memory(&keyed("s"), &room),
                    Step::Forget => assert_eq!(passing.forget(now).await, resident.forget(now).await),
                }
                passing.open().await.expect("read");
                assert_eq!((passing.recall(), passing.is_blank()), (resident.recall(), resident.is_blank()));
                assert_eq!(room.held(), never.held());
            }
            drop(passing);
            assert_eq!(room.held(), 0);
            let header: Option<Header> = house.store.load(&keyed("s")).await.expect("sound").map(|it| it.header);
            assert_eq!(header.map(|header| header.turns > 0).unwrap_or_default(), !resident.is_blank());
            assert!(house.clock.wall() > UNIX_EPOCH);
        });
    }
}
