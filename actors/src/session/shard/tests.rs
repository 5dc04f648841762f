//! The directory of one arbiter's sessions.

use std::sync::Arc;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use understudy_messages::cancel::TurnCancel;
use understudy_messages::client::{ClientChannel, ClientFrame};
use understudy_messages::clock::Clock;
use understudy_messages::ids::ShardIndex;
use understudy_messages::lease::TurnPermit;

use super::*;
use crate::capacity::Capacities;
use crate::registry::Admission;
use crate::registry::testing::turn;
use crate::session::TranscriptRoom;
use crate::session::memory::Taken;
use crate::session::store::SessionStore;
use crate::supervision::{Supervision, Tasks};
use crate::tap::EventTap;
use crate::telemetry::Telemetry;

fn shard(clock: &Clock, capacity: usize) -> SessionShardActor {
    storing(clock, capacity, None, TranscriptRoom::of(1 << 20))
}

fn storing(
    clock: &Clock,
    capacity: usize,
    store: Option<Arc<dyn SessionStore>>,
    transcripts: TranscriptRoom,
) -> SessionShardActor {
    let supervision = Supervision {
        tasks: Tasks::new(),
        clock: clock.clone(),
        telemetry: Telemetry::new().expect("sound"),
    };
    let context = Arc::new(SessionContext {
        admission: Admission::new(Arc::default(), Arc::default(), &supervision),
        capacities: Arc::new(Capacities::new(clock.clone(), supervision.telemetry.clone())),
        clock: clock.clone(),
        tasks: supervision.tasks,
        telemetry: supervision.telemetry,
        tap: EventTap::default(),
        abort: CancellationToken::new(),
        transcripts,
        store,
    });
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
    let memory = shard.sessions.memory(key).expect("known");
    let taken = memory.take(taken, shard.context.clock.wall()).now_or_never();
    assert_eq!(taken, Some(Ok(0)));
}

/// A session with one turn behind it.
fn remembered(shard: &mut SessionShardActor, addr: &Addr<SessionShardActor>, key: &SessionKey) {
    shard.wake(key, addr.clone()).expect("woken");
    take(shard, key);
    finish(shard, key);
}

/// Work that is no turn, and its end; `nobody` hears of the end, and the shard does at once.
async fn pin(shard: &mut SessionShardActor, key: &SessionKey) -> Result<Option<SessionInfo>, SessionFault> {
    let nobody = self::shard(&shard.context.clock.clone(), 1).start();
    let pinned = shard.pin(key.clone(), Some("fast".into()), nobody).await;
    finish(shard, key);
    pinned
}

async fn forget(shard: &mut SessionShardActor, key: &SessionKey) -> Result<(), ForgetError> {
    let nobody = self::shard(&shard.context.clock.clone(), 1).start();
    let forgotten = shard.forget(key.clone(), nobody).await;
    if forgotten != Err(ForgetError::Busy) {
        finish(shard, key);
    }
    forgotten
}

fn finish(shard: &mut SessionShardActor, key: &SessionKey) {
    shard.sessions.leave(key);
}

#[actix::test]
async fn a_turn_without_a_key_has_one_ending_and_needs_no_place_among_the_sessions() {
    let clock = Clock::movable();
    let full = shard(&clock, 0).start();
    let (client, mut frames) = ClientChannel::open();
    let run = RunTurn {
        request: turn(None),
        client,
        cancel: TurnCancel::new(),
        home: ShardIndex(0),
        received: clock.now(),
        deadline: None,
        permit: TurnPermit::new(()),
        names_model: true,
        origin: None,
    };
    assert_eq!(full.send(run).await, Ok(Ok(())));
    let Some(ClientFrame::Failed(refused)) = frames.recv().await else {
        panic!("nothing serves");
    };
    assert_eq!(refused.status, 503);
    assert!(frames.recv().await.is_none(), "one ending");
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
    shard.sessions.sweep();
    assert!(shard.sessions.is_at_work(&key), "a turn is still in work");
    finish(&mut shard, &key);
    assert!(!shard.sessions.is_at_work(&key));
    clock.advance(Duration::from_secs(59));
    shard.sessions.sweep();
    assert_eq!(shard.sessions.len(), 1);
    clock.advance(Duration::from_secs(2));
    shard.sessions.sweep();
    assert_eq!(shard.sessions.len(), 0);
}

#[actix::test]
async fn a_full_directory_takes_no_new_session_but_knows_the_old_ones() {
    let clock = Clock::movable();
    let (mut shard, addr) = (shard(&clock, 1), shard(&clock, 1).start());
    shard.wake(&keyed("one"), addr.clone()).expect("woken");
    let refused = shard.wake(&keyed("two"), addr.clone()).expect_err("full");
    assert_eq!(refused, RunTurnError::TooManySessions);
    shard.wake(&keyed("one"), addr).expect("known");
}

#[actix::test]
async fn a_session_whose_first_turn_was_not_taken_is_none() {
    let clock = Clock::movable();
    let (mut shard, addr) = (shard(&clock, 10), shard(&clock, 10).start());
    let key = keyed("s");
    shard.wake(&key, addr).expect("woken");
    assert_eq!(forget(&mut shard, &key).await, Err(ForgetError::Busy));
    finish(&mut shard, &key);
    assert_eq!(shard.view(key.clone()).await, Ok(None));
    assert_eq!(forget(&mut shard, &key).await, Err(ForgetError::Unknown));
    assert_eq!(pin(&mut shard, &key).await, Ok(None));
    assert_eq!(shard.sessions.len(), 0);
}

#[actix::test]
async fn a_session_is_shown_a_model_is_chosen_for_it_and_it_is_forgotten() {
    let clock = Clock::movable();
    let (mut shard, addr) = (shard(&clock, 10), shard(&clock, 10).start());
    let key = keyed("s");
    remembered(&mut shard, &addr, &key);
    let view = shard.view(key.clone()).await.expect("sound").expect("known");
    assert_eq!((&*view.info.id, view.transcript.len()), ("s", 1));
    clock.advance(Duration::from_secs(59));
    let pinned = pin(&mut shard, &key).await.expect("sound").expect("known");
    assert_eq!(pinned.pinned.as_deref(), Some("fast"));
    clock.advance(Duration::from_secs(59));
    shard.sessions.sweep();
    assert_eq!(forget(&mut shard, &key).await, Ok(()), "a choice counts as use");
    assert_eq!(shard.view(key).await, Ok(None));
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
