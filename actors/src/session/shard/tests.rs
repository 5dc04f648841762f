//! The directory of one arbiter's sessions.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Clock;

use super::*;
use crate::capacity::Capacities;
use crate::registry::Admission;
use crate::session::TranscriptRoom;
use crate::session::memory::Taken;
use crate::supervision::{Supervision, Tasks};
use crate::tap::EventTap;
use crate::telemetry::Telemetry;

fn shard(clock: &Clock, capacity: usize) -> SessionShardActor {
    let supervision = Supervision {
        tasks: Tasks::new(),
        clock: clock.clone(),
        telemetry: Telemetry::new().expect("sound"),
    };
    let context = SessionContext {
        admission: Admission::new(Arc::default(), Arc::default(), &supervision),
        capacities: Arc::new(Capacities::new(clock.clone(), supervision.telemetry.clone())),
        clock: clock.clone(),
        tasks: supervision.tasks,
        telemetry: supervision.telemetry,
        tap: EventTap::default(),
        abort: CancellationToken::new(),
        transcripts: TranscriptRoom::default(),
    };
    let idle = Duration::from_secs(60);
    SessionShardActor::new(context, SessionShardSettings { idle, capacity }, EndOfLife::unwatched())
}

fn keyed(key: &str) -> SessionKey {
    let (owner, key) = (None, key.into());
    SessionKey::Keyed { owner, key }
}

/// A turn of the session was taken.
fn take(shard: &SessionShardActor, key: &SessionKey) {
    let taken = Taken {
        agent: "one".into(),
        served_by: None,
        said: vec!["hi".to_owned()],
        notice: None,
    };
    let record = shard.sessions.get(key).expect("known");
    record.memory.take(taken, shard.context.clock.wall());
}

/// A session with one turn behind it.
fn remembered(shard: &mut SessionShardActor, addr: &Addr<SessionShardActor>, key: &SessionKey) {
    shard.wake(key, addr.clone()).expect("woken");
    take(shard, key);
    finish(shard, key);
}

fn finish(shard: &mut SessionShardActor, key: &SessionKey) {
    shard.finished(key.clone());
}

#[actix::test]
async fn an_ephemeral_session_leaves_nothing() {
    let clock = Clock::movable();
    let (mut shard, addr) = (shard(&clock, 10), shard(&clock, 10).start());
    shard.wake(&SessionKey::Ephemeral, addr).expect("woken");
    finish(&mut shard, &SessionKey::Ephemeral);
    assert!(shard.sessions.is_empty());
}

#[actix::test]
async fn a_session_keeps_its_actor_while_it_has_work_and_its_record_until_it_was_idle() {
    let clock = Clock::movable();
    let (mut shard, addr) = (shard(&clock, 10), shard(&clock, 10).start());
    let key = keyed("s");
    let first = shard.wake(&key, addr.clone()).expect("woken");
    assert!(
        shard.wake(&key, addr).expect("woken") == first,
        "one actor for both turns"
    );
    take(&shard, &key);
    finish(&mut shard, &key);
    clock.advance(Duration::from_secs(61));
    shard.sweep();
    assert!(shard.sessions[&key].actor.is_some(), "a turn is still in work");
    finish(&mut shard, &key);
    assert!(shard.sessions[&key].actor.is_none());
    clock.advance(Duration::from_secs(59));
    shard.sweep();
    assert_eq!(shard.sessions.len(), 1);
    clock.advance(Duration::from_secs(2));
    shard.sweep();
    assert!(shard.sessions.is_empty());
}

#[actix::test]
async fn a_full_directory_takes_no_new_session_but_knows_the_old_ones() {
    let clock = Clock::movable();
    let (mut shard, addr) = (shard(&clock, 1), shard(&clock, 1).start());
    shard.wake(&keyed("one"), addr.clone()).expect("woken");
    let refused = shard.wake(&keyed("two"), addr.clone()).expect_err("full");
    assert_eq!(refused, RunTurnError::TooManySessions);
    shard.wake(&keyed("one"), addr.clone()).expect("known");
    shard.wake(&SessionKey::Ephemeral, addr).expect("needs no place");
}

#[actix::test]
async fn a_session_whose_first_turn_was_not_taken_is_none() {
    let clock = Clock::movable();
    let (mut shard, addr) = (shard(&clock, 10), shard(&clock, 10).start());
    let key = keyed("s");
    shard.wake(&key, addr).expect("woken");
    assert_eq!(shard.forget(&key), Err(ForgetError::Busy));
    finish(&mut shard, &key);
    assert_eq!(
        (shard.view(&key), shard.forget(&key)),
        (None, Err(ForgetError::Unknown))
    );
    assert_eq!(shard.pin(&key, Some("fast".into())), None);
}

#[actix::test]
async fn a_session_is_shown_a_model_is_chosen_for_it_and_it_is_forgotten() {
    let clock = Clock::movable();
    let (mut shard, addr) = (shard(&clock, 10), shard(&clock, 10).start());
    let key = keyed("s");
    remembered(&mut shard, &addr, &key);
    let view = shard.view(&key).expect("known");
    assert_eq!((&*view.info.id, view.transcript.len()), ("s", 1));
    clock.advance(Duration::from_secs(59));
    let pinned = shard.pin(&key, Some("fast".into())).expect("known");
    assert_eq!(pinned.pinned.as_deref(), Some("fast"));
    clock.advance(Duration::from_secs(59));
    shard.sweep();
    assert_eq!(shard.forget(&key), Ok(()), "a choice counts as use");
    assert_eq!(shard.view(&key), None);
}

#[actix::test]
async fn a_page_has_only_sessions_of_one_client_key_in_the_order_of_their_names() {
    let clock = Clock::movable();
    let (mut shard, addr) = (shard(&clock, 10), shard(&clock, 10).start());
    for (owner, name) in [(None, "b"), (Some(0), "x"), (None, "c"), (Some(1), "y"), (None, "a")] {
        let key = name.into();
        remembered(&mut shard, &addr, &SessionKey::Keyed { owner, key });
    }
    let page = |owner, after: Option<&str>, limit| {
        let page = shard.page(owner, after.map(Name::from), limit);
        page.iter().map(|info| info.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, None, 10), ["a", "b", "c"]);
    assert_eq!(page(None, None, 2), ["a", "b"]);
    assert_eq!(page(None, Some("a"), 10), ["b", "c"]);
    assert_eq!(page(Some(0), None, 10), ["x"]);
    assert_eq!(page(Some(2), None, 10), [""; 0]);
}
