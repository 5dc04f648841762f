//! What is kept never takes more than it may, what it takes is known, and nobody with work pays for it.

use std::time::Duration;

use proptest::prelude::*;
use understudy_messages::ids::Name;
use understudy_messages::session::SessionFault;

use super::super::SessionStore;
use super::super::stored::tests::{House, Place, keyed, room as plenty, take};
use super::*;
use crate::session::memory::{Memory, NoRoom, Unread};
use crate::session::transcripts::{Node, Transcript};
use crate::state::State;

fn house(bounds: (usize, u64)) -> House {
    House::bounded(State::in_memory().expect("state"), None, &[], bounds)
}

/// What is counted, and what is there.
fn sizes(house: &House) -> (u64, u64) {
    let sizes = Mutex::new((0, 0));
    house.meddle(|write| {
        *sizes.lock().expect("not poisoned") = (bytes(write)?, weighed(write)?);
        Ok(())
    });
    sizes.into_inner().expect("not poisoned")
}

#[tokio::test]
async fn those_that_nobody_used_for_longest_make_room_and_one_with_work_never_does() {
    let house = house((1_000, 6_000));
    let long = "x".repeat(1_000);
    let working = house.memory(&keyed("working"), &plenty());
    working.enter();
    working.open().await.expect("read");
    take(&house, &working, &long).await.expect("kept");
    for name in ["a", "b", "c", "d", "e", "f", "g"] {
        house.clock.advance(Duration::from_secs(60));
        house.spoken(name, &[&long]).await;
        let (counted, there) = sizes(&house);
        assert!(counted == there && counted <= 6_000, "{counted} {there}");
    }
    assert_eq!(house.said("working").await.map(|said| said.len()), Some(1));
    assert_eq!((house.said("a").await, house.said("c").await), (None, None));
    assert!(house.said("d").await.is_some() && house.said("g").await.is_some());
    house.shows("understudy_session_events_total{event=\"displaced\"} 3");
    house.shows("understudy_session_events_total{event=\"evicted\"} 0");
    take(&house, &working, "on").await.expect("it goes on");
}

#[tokio::test]
async fn where_all_have_work_a_turn_is_told_so_and_the_session_is_as_it_was() {
    let house = house((1_000, 3_000));
    let long = "x".repeat(1_000);
    let sessions = ["a", "b"].map(|name| house.memory(&keyed(name), &plenty()));
    for session in &sessions {
        session.enter();
        session.open().await.expect("read");
        take(&house, session, &long).await.expect("kept");
    }
    assert_eq!(take(&house, &sessions[0], &long).await, Err(SessionFault::Full));
    assert_eq!(house.said("a").await.map(|said| said.len()), Some(1));
    // the other one's work has ended
    sessions[1].leave();
    sessions[0].open().await.expect("read");
    take(&house, &sessions[0], &long).await.expect("kept");
    assert_eq!(house.said("a").await.map(|said| said.len()), Some(2));
    assert_eq!(house.said("b").await, None);
}

#[tokio::test]
async fn more_goes_than_one_transaction_takes_until_there_is_room() {
    let state = State::in_memory().expect("state");
    let house = House::of(state.clone(), None, &[]);
    let many = 5 * MOST_AT_ONCE;
    for number in 0..many {
        house.spoken(&number.to_string(), &["hi"]).await;
        house.clock.advance(Duration::from_secs(60));
    }
    let (_, all) = sizes(&house);
    // the oldest ones have work: more than one transaction looks at
    let house = House::bounded(state, None, &[], (1_000, all / 2));
    let at_work: Vec<_> = (0..MOST_AT_ONCE + 1)
        .map(|number| house.memory(&keyed(&number.to_string()), &plenty()))
        .collect();
    at_work.iter().for_each(Memory::enter);
    house.spoken("new", &["hi"]).await;
    let (_, left) = sizes(&house);
    assert!(left <= all / 2 && left > all / 2 - all / 10, "{left} of {all}");
    for number in 0..=MOST_AT_ONCE {
        assert!(house.said(&number.to_string()).await.is_some(), "it has work");
    }
    assert!(house.said(&(MOST_AT_ONCE + 1).to_string()).await.is_none());
    assert!(house.said(&(many - 1).to_string()).await.is_some());
}

#[tokio::test]
async fn more_responses_go_than_one_transaction_takes_until_there_is_room() {
    let state = State::in_memory().expect("state");
    let house = House::of(state.clone(), None, &[]);
    let mut parent = None;
    for id in 0..3 * MOST_AT_ONCE as u8 {
        let answer = Step::Answer(id, parent, 10);
        play(&house, answer).await;
        parent = Some(id);
    }
    // a chain: those before its end count until that goes
    let house = House::bounded(state, None, &[], (1, u64::MAX));
    play(&house, Step::Answer(99, None, 10)).await;
    assert!(find(&house, 99).await.is_some() && find(&house, 23).await.is_none());
    house.meddle(|write| {
        assert_eq!(responses::tables::count(write)?, 1);
        Ok(())
    });
}

#[tokio::test]
async fn nobody_goes_for_a_turn_that_there_is_never_room_for() {
    let house = house((1_000, 4_000));
    house.spoken("idle", &["hi"]).await;
    play(&house, Step::Answer(1, None, 10)).await;
    let long = "x".repeat(1_000);
    let sessions = ["a", "b"].map(|name| house.memory(&keyed(name), &plenty()));
    for session in &sessions {
        session.enter();
        session.open().await.expect("read");
        take(&house, session, &long).await.expect("kept");
    }
    assert_eq!(
        take(&house, &sessions[0], &[&*long, &long].concat()).await,
        Err(SessionFault::Full)
    );
    assert!(house.said("idle").await.is_some() && find(&house, 1).await.is_some());
    house.shows("understudy_session_events_total{event=\"displaced\"} 0");
    house.shows("understudy_session_store_errors_total{op=\"save\"} 0");
    let beyond = usize::try_from(4_050 - sizes(&house).0).expect("small");
    take(&house, &sessions[0], &"x".repeat(beyond))
        .await
        .expect("one goes for it");
    assert!(house.said("idle").await.is_none());
}

#[tokio::test]
async fn a_session_with_work_is_not_replaced_and_nobody_goes_for_it() {
    let house = house((1_000, 3_000));
    house.spoken("idle", &["hi"]).await;
    let session = house.memory(&keyed("working"), &plenty());
    session.enter();
    session.open().await.expect("read");
    take(&house, &session, &"x".repeat(1_800)).await.expect("kept");
    let stored = house
        .store
        .load(&keyed("working"))
        .await
        .expect("sound")
        .expect("there");
    let put = house.store.restore(&keyed("working"), stored.clone(), true).await;
    assert_eq!(put, Err(SessionFault::Busy));
    session.leave();
    // what it takes the place of makes room
    assert_eq!(house.store.restore(&keyed("working"), stored, true).await, Ok(()));
    assert!(house.said("idle").await.is_some());
}

#[tokio::test]
async fn a_change_that_is_made_again_takes_away_whom_it_took_before_and_nobody_else() {
    let house = house((1_000, 3_000));
    let long = "x".repeat(900);
    for name in ["first", "second"] {
        house.spoken(name, &[&long]).await;
        house.clock.advance(Duration::from_secs(60));
    }
    let sessions = ["first", "second"].map(|name| house.memory(&keyed(name), &plenty()));
    sessions[0].enter();
    let new = house.store.load(&keyed("second")).await.expect("sound").expect("there");
    let new = tables::Whole::new(b"\0new".to_vec(), &new).expect("JSON");
    let room = house.store.room(Reached::default());
    let make = |write: &WriteTransaction| {
        assert_eq!(tables::put(write, &new, false, &room)?, Outcome::Made);
        Ok(())
    };
    let lost = house.state.file().write_now(|write| {
        make(write)?;
        Err(redb::Error::Corrupted("it is not committed".to_owned()))
    });
    assert!(lost.is_err());
    room.settled();
    sessions[0].leave();
    sessions[1].enter();
    house.meddle(make);
    assert!(house.said("first").await.is_some() && house.said("second").await.is_none());
}

#[tokio::test]
async fn a_row_that_damage_has_left_takes_no_live_session_away() {
    let house = house((1_000, 3_000));
    let long = "x".repeat(900);
    house.clock.advance(Duration::from_secs(600));
    for name in ["dead", "live"] {
        house.spoken(name, &[&long]).await;
        house.clock.advance(Duration::from_secs(60));
    }
    let rows = || {
        let rows = Mutex::new(0);
        house.meddle(|write| {
            *rows.lock().expect("not poisoned") = tables::tests::rows(write)?;
            Ok(())
        });
        rows.into_inner().expect("not poisoned")
    };
    house.meddle(|write| tables::tests::add_row(write, 0, b"\0live"));
    house.spoken("new", &[&long]).await;
    assert!(house.said("live").await.is_some() && house.said("dead").await.is_none());
    house.meddle(|write| tables::tests::add_row(write, 1, b"\0live"));
    house.meddle(|write| tables::tests::add_row(write, 1, b"\0nobody"));
    assert_eq!(rows(), 4);
    house.clock.advance(Duration::from_secs(3_500));
    house.store.expire_all().await;
    assert!(house.said("live").await.is_some());
    assert_eq!(rows(), 2);
    // one that is damaged goes with its row
    house.meddle(|write| tables::tests::flip_a_bit_of_header(write, b"\0live"));
    house.clock.advance(Duration::from_secs(7_000));
    house.store.expire_all().await;
    assert_eq!((rows(), sizes(&house)), (0, (0, 0)));
}

#[tokio::test]
async fn those_that_are_too_old_go_behind_more_with_work_than_are_looked_at_at_once() {
    let house = House::in_memory();
    let mut at_work = Vec::new();
    for number in 0..300 {
        let name = format!("{number:03}");
        house.spoken(&name, &["hi"]).await;
        if number < 280 {
            let session = house.memory(&keyed(&name), &plenty());
            session.enter();
            at_work.push(session);
        }
    }
    house.clock.advance(Duration::from_secs(4_000));
    house.store.expire_all().await;
    house.shows("understudy_session_events_total{event=\"expired\"} 20");
    at_work.iter().for_each(Memory::leave);
    house.store.expire_all().await;
    house.shows("understudy_session_events_total{event=\"expired\"} 300");
}

#[tokio::test]
async fn a_session_in_memory_that_had_to_go_begins_anew() {
    let house = house((1_000, 2_600));
    let long = "x".repeat(1_000);
    let session = house.memory(&keyed("old"), &plenty());
    session.open().await.expect("read");
    take(&house, &session, &long).await.expect("kept");
    house.clock.advance(Duration::from_secs(60));
    house.spoken("new", &[&long, &long[..400]]).await;
    assert!(!session.is_read(), "what it remembers is not what is stored");
    session.enter();
    session.open().await.expect("read");
    assert!(session.is_blank());
    take(&house, &session, "anew").await.expect("kept");
    assert_eq!(house.said("old").await, Some(vec!["anew".to_owned()]));
    drop(session);
    house.shows("understudy_sessions{state=\"passivated\"} 2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_comes_back_while_room_is_made_is_never_told_that_it_was_changed() {
    let long = "x".repeat(1_000);
    let mut gone = 0;
    for round in 0..60 {
        let house = house((1_000, 3_000));
        house.spoken("old", &[&long]).await;
        house.clock.advance(Duration::from_secs(60));
        house.spoken("other", &[&long]).await;
        let back = async {
            // sooner and later in the making of room
            for _ in 0..round * round {
                tokio::task::yield_now().await;
            }
            let session = house.memory(&keyed("old"), &plenty());
            session.enter();
            session.open().await.expect("read");
            let blank = session.is_blank();
            (take(&house, &session, "hi").await, blank)
        };
        let said = [&*long];
        let ((), (kept, blank)) = tokio::join!(house.spoken("new", &said), back);
        assert_eq!(kept, Ok(0));
        gone += u32::from(blank);
    }
    println!("{gone} of 60 began anew");
}

#[tokio::test]
async fn a_file_without_the_sum_is_counted_once_when_it_is_opened() {
    let place = Place::new("uncounted");
    let house = House::of(place.open(), None, &[]);
    house.spoken("s", &["one", "two"]).await;
    let before = sizes(&house);
    house.meddle(|write| {
        write.open_table(COUNTS)?.remove(BYTES)?;
        Ok(())
    });
    house.state.close();
    drop(house);
    let house = House::of(place.open(), None, &[]);
    assert_eq!(sizes(&house), before);
    assert!(before.0 > 0);
}

/// What may be done to what is kept.
#[derive(Clone, Debug)]
enum Step {
    Say(u8, usize),
    Forget(u8),
    Answer(u8, Option<u8>, usize),
    ForgetResponse(u8),
    Restore(u8, bool),
    Wait,
    Expire,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let length = prop_oneof![0..400_usize, Just(2_500)];
    let step = prop_oneof![
        4 => (0..6_u8, length.clone()).prop_map(|(name, length)| Step::Say(name, length)),
        1 => (0..6_u8).prop_map(Step::Forget),
        4 => (0..8_u8, prop::option::of(0..8_u8), length).prop_map(|(id, parent, length)| Step::Answer(id, parent, length)),
        1 => (0..8_u8).prop_map(Step::ForgetResponse),
        1 => (0..6_u8, any::<bool>()).prop_map(|(name, replace)| Step::Restore(name, replace)),
        2 => Just(Step::Wait),
        1 => Just(Step::Expire),
    ];
    prop::collection::vec(step, 1..40)
}

async fn find(house: &House, id: u8) -> Option<Arc<Node>> {
    let id = Name::from(id.to_string());
    house.store.response(None, &id).await.expect("sound")
}

async fn play(house: &House, step: Step) {
    let say = async |name: &str, length: usize| {
        let memory = house.memory(&keyed(name), &plenty());
        memory.enter();
        if memory.open().await == Err(Unread::Room(NoRoom::Sessions)) {
            return;
        }
        let kept = take(house, &memory, &"x".repeat(length)).await;
        assert!(matches!(kept, Ok(_) | Err(SessionFault::Full)), "{kept:?}");
    };
    match step {
        Step::Say(name, length) => say(&name.to_string(), length).await,
        Step::Forget(name) => drop(
            house
                .store
                .delete(&keyed(&name.to_string()), false)
                .await
                .expect("sound"),
        ),
        Step::Answer(id, parent, length) => {
            let parent = match parent {
                Some(parent) => find(house, parent).await,
                None => None,
            };
            let before = parent.as_ref().map(|node| node.history().join(","));
            let transcript = Transcript {
                parent,
                input: format!("q{id}").into(),
                response: "x".repeat(length + 2).into(),
                output: 1..length + 1,
                items: vec![(Name::from(format!("item{}", id % 3)), 0..length)],
            };
            let kept = house
                .store
                .keep_response(None, &id.to_string().into(), transcript)
                .await;
            assert!(matches!(kept, Ok(()) | Err(SessionFault::Full)), "{kept:?}");
            if let Some(node) = find(house, id).await.filter(|_| kept.is_ok()) {
                let history = node.history().join(",");
                assert!(
                    history.starts_with(&before.unwrap_or_default()),
                    "it has all of its beginning"
                );
                assert!(history.contains(&format!("q{id}")));
            }
        }
        Step::ForgetResponse(id) => {
            let found = find(house, id).await.is_some();
            let forgotten = house.store.forget_response(None, &id.to_string().into()).await;
            assert_eq!(forgotten, Ok(found));
        }
        Step::Restore(name, replace) => {
            let stored = house.store.load(&keyed("0")).await.expect("sound");
            if let Some(stored) = stored {
                let put = house.store.restore(&keyed(&name.to_string()), stored, replace).await;
                assert!(
                    matches!(put, Ok(()) | Err(SessionFault::Changed | SessionFault::Full)),
                    "{put:?}"
                );
            }
        }
        Step::Wait => house.clock.advance(Duration::from_secs(600)),
        Step::Expire => house.store.expire_all().await,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_is_kept_is_counted_to_the_byte_and_is_never_more_than_it_may_be(
        steps in steps(),
        most in 1..6_usize,
        disk in 2_000..9_000_u64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let house = house((most, disk));
            for step in steps {
                let told = format!("{step:?}");
                play(&house, step).await;
                let (counted, there) = sizes(&house);
                assert_eq!(counted, there, "{told}");
                assert!(there <= disk, "{told}: {there} of {disk}");
                house.meddle(|write| {
                    assert!(responses::tables::count(write)? <= most as u64, "{told}");
                    Ok(())
                });
            }
        });
    }
}
