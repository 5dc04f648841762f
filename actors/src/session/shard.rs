//! The sessions of one arbiter: a directory of compact records, and an actor for each that has work.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, ResponseFuture};
use understudy_messages::clock::Instant;
use understudy_messages::ids::{ModelRef, SessionKey};
use understudy_messages::session::{RunTurn, RunTurnError};

use super::{SessionActor, SessionContext};
use crate::supervision::EndOfLife;

/// How often records that have been idle for too long are looked for, at most.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// What one shard may hold.
#[derive(Clone, Copy, Debug)]
pub struct SessionShardSettings {
    /// How long a session without work is remembered.
    pub idle: Duration,
    /// How many sessions are remembered.
    pub capacity: usize,
}

/// A turn of a session has ended.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct TurnFinished {
    /// Whose.
    pub(super) key: SessionKey,
    /// Who answered.
    pub(super) served_by: Option<ModelRef>,
}

/// Forget sessions that have been idle for too long.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Sweep;

/// What is remembered of a session.
struct Record {
    /// The actor, while there is work.
    actor: Option<Addr<SessionActor>>,
    /// Turns in work or waiting.
    turns: usize,
    /// Who answered last.
    last_model: Option<ModelRef>,
    last_used: Instant,
}

/// Directory of the sessions of one arbiter.
pub struct SessionShardActor {
    sessions: HashMap<SessionKey, Record>,
    settings: SessionShardSettings,
    context: Arc<SessionContext>,
    _end: EndOfLife,
}

impl SessionShardActor {
    /// An empty directory.
    pub fn new(context: SessionContext, settings: SessionShardSettings, end: EndOfLife) -> Self {
        Self {
            sessions: HashMap::new(),
            settings,
            context: Arc::new(context),
            _end: end,
        }
    }

    /// The session's actor, woken if need be.
    fn wake(&mut self, key: &SessionKey, shard: Addr<Self>) -> Result<Addr<SessionActor>, RunTurnError> {
        let start = || SessionActor::new(key.clone(), shard.recipient(), self.context.clone()).start();
        if *key == SessionKey::Ephemeral {
            return Ok(start());
        }
        let full = self.sessions.len() >= self.settings.capacity;
        let record = match self.sessions.entry(key.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if full => return Err(RunTurnError::TooManySessions),
            Entry::Vacant(new) => new.insert(Record {
                actor: None,
                turns: 0,
                last_model: None,
                last_used: self.context.clock.now(),
            }),
        };
        record.turns += 1;
        let alive = record.actor.take().filter(Addr::connected);
        Ok(record.actor.insert(alive.unwrap_or_else(start)).clone())
    }

    fn finished(&mut self, finished: TurnFinished) {
        let now = self.context.clock.now();
        if let Some(record) = self.sessions.get_mut(&finished.key) {
            record.turns = record.turns.saturating_sub(1);
            record.last_used = now;
            record.last_model = finished.served_by.or(record.last_model.take());
            if record.turns == 0 {
                record.actor = None;
            }
        }
    }

    fn sweep(&mut self) {
        let (now, idle) = (self.context.clock.now(), self.settings.idle);
        self.sessions
            .retain(|_, record| record.turns > 0 || now.duration_since(record.last_used) < idle);
    }
}

impl Actor for SessionShardActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        let (clock, shard) = (self.context.clock.clone(), ctx.address().downgrade());
        let every = SWEEP_EVERY.min(self.settings.idle);
        self.context.tasks.spawn_until_stop("session sweep", async move {
            loop {
                clock.sleep(every).await;
                let Some(shard) = shard.upgrade() else { return };
                let _died_meanwhile = shard.send(Sweep).await;
            }
        });
    }
}

impl Handler<RunTurn> for SessionShardActor {
    type Result = ResponseFuture<Result<(), RunTurnError>>;

    fn handle(&mut self, run: RunTurn, ctx: &mut Context<Self>) -> Self::Result {
        let session = self.wake(&run.request.session, ctx.address());
        Box::pin(async move { session?.send(run).await.unwrap_or(Err(RunTurnError::Lost)) })
    }
}

impl Handler<TurnFinished> for SessionShardActor {
    type Result = ();

    fn handle(&mut self, finished: TurnFinished, _: &mut Context<Self>) {
        self.finished(finished);
    }
}

impl Handler<Sweep> for SessionShardActor {
    type Result = ();

    fn handle(&mut self, _: Sweep, _: &mut Context<Self>) {
        self.sweep();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;
    use understudy_messages::clock::Clock;

    use super::*;
    use crate::provider::ledger::Ledgers;
    use crate::registry::Admission;
    use crate::registry::testing::settings;
    use crate::supervision::Tasks;
    use crate::tap::EventTap;
    use crate::telemetry::Telemetry;

    fn shard(clock: &Clock, capacity: usize) -> SessionShardActor {
        let context = SessionContext {
            admission: Admission::new(Arc::default(), Arc::default(), clock.clone()),
            clock: clock.clone(),
            tasks: Tasks::new(),
            telemetry: Telemetry::new().expect("sound"),
            tap: EventTap::default(),
            ledgers: Arc::new(Ledgers::new(&settings(), clock.now())),
            abort: CancellationToken::new(),
        };
        let idle = Duration::from_secs(60);
        SessionShardActor::new(context, SessionShardSettings { idle, capacity }, EndOfLife::unwatched())
    }

    fn keyed(key: &str) -> SessionKey {
        let (owner, key) = (None, key.into());
        SessionKey::Keyed { owner, key }
    }

    fn finish(shard: &mut SessionShardActor, key: &SessionKey) {
        shard.finished(TurnFinished {
            key: key.clone(),
            served_by: None,
        });
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
}
