//! The sessions of one arbiter: a directory of compact records, and an actor for each that has work.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, ResponseFuture};
use understudy_messages::clock::Instant;
use understudy_messages::ids::{Name, SessionKey};
use understudy_messages::ports::ShardPort;
use understudy_messages::session::{ForgetError, RunTurn, RunTurnError, SessionInfo, SessionView};

use super::memory::Memory;
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
    memory: Arc<Memory>,
    last_used: Instant,
}

/// Directory of the sessions of one arbiter.
pub struct SessionShardActor {
    /// In the order of their names, so that a page of them is found at once.
    sessions: BTreeMap<SessionKey, Record>,
    settings: SessionShardSettings,
    context: Arc<SessionContext>,
    _end: EndOfLife,
}

impl SessionShardActor {
    /// An empty directory.
    pub fn new(context: SessionContext, settings: SessionShardSettings, end: EndOfLife) -> Self {
        Self {
            sessions: BTreeMap::new(),
            settings,
            context: Arc::new(context),
            _end: end,
        }
    }

    /// How the actor is reached.
    pub fn port(addr: &Addr<Self>) -> ShardPort {
        ShardPort {
            run: addr.clone().recipient(),
            inspect: addr.clone().recipient(),
            list: addr.clone().recipient(),
            pin: addr.clone().recipient(),
            forget: addr.clone().recipient(),
        }
    }

    /// The session's actor, woken if need be.
    fn wake(&mut self, key: &SessionKey, shard: Addr<Self>) -> Result<Addr<SessionActor>, RunTurnError> {
        let context = &self.context;
        let start = |memory| SessionActor::new(key.clone(), memory, shard.recipient(), context.clone()).start();
        if *key == SessionKey::Ephemeral {
            return Ok(start(None));
        }
        let full = self.sessions.len() >= self.settings.capacity;
        let record = match self.sessions.entry(key.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(_) if full => return Err(RunTurnError::TooManySessions),
            Entry::Vacant(new) => new.insert(Record {
                actor: None,
                turns: 0,
                memory: Arc::new(Memory::new(context.transcripts.clone(), context.clock.wall())),
                last_used: context.clock.now(),
            }),
        };
        record.turns += 1;
        let alive = record.actor.take().filter(Addr::connected);
        let memory = record.memory.clone();
        Ok(record
            .actor
            .insert(alive.unwrap_or_else(|| start(Some(memory))))
            .clone())
    }

    /// A session whose first turn was not even taken is none.
    fn finished(&mut self, key: SessionKey) {
        let now = self.context.clock.now();
        let Entry::Occupied(mut known) = self.sessions.entry(key) else {
            return;
        };
        let record = known.get_mut();
        record.turns = record.turns.saturating_sub(1);
        record.last_used = now;
        if record.turns == 0 {
            record.actor = None;
            if record.memory.is_blank() {
                known.remove();
            }
        }
    }

    fn sweep(&mut self) {
        let (now, idle) = (self.context.clock.now(), self.settings.idle);
        self.sessions
            .retain(|_, record| record.turns > 0 || now.duration_since(record.last_used) < idle);
    }

    fn find<'a>(&'a self, key: &'a SessionKey) -> Option<(&'a Name, &'a Record)> {
        Some((key.key()?, self.sessions.get(key)?))
    }

    /// What is known of a session, and what was said in it.
    pub(super) fn view(&self, key: &SessionKey) -> Option<SessionView> {
        let (id, record) = self.find(key)?;
        Some(record.memory.view(id))
    }

    /// Sessions of one client key behind a name, in the order of their names.
    pub(super) fn page(&self, owner: Option<u32>, after: Option<Name>, limit: usize) -> Vec<SessionInfo> {
        let key = after.unwrap_or_default();
        let behind = (Bound::Excluded(SessionKey::Keyed { owner, key }), Bound::Unbounded);
        let listed = self.sessions.range(behind).map_while(|(key, record)| match key {
            SessionKey::Keyed { owner: whose, key } if *whose == owner => Some(record.memory.info(key)),
            SessionKey::Keyed { .. } | SessionKey::Ephemeral => None,
        });
        listed.take(limit).collect()
    }

    /// Chooses the model of a session; that counts as use.
    pub(super) fn pin(&mut self, key: &SessionKey, model: Option<Name>) -> Option<SessionInfo> {
        let (now, wall) = (self.context.clock.now(), self.context.clock.wall());
        let record = self.sessions.get_mut(key)?;
        record.last_used = now;
        record.memory.pin(model, wall);
        let (id, record) = self.find(key)?;
        Some(record.memory.info(id))
    }

    /// Forgets a session without work.
    pub(super) fn forget(&mut self, key: &SessionKey) -> Result<(), ForgetError> {
        match self.sessions.get(key) {
            None => Err(ForgetError::Unknown),
            Some(record) if record.turns > 0 => Err(ForgetError::Busy),
            Some(_) => {
                self.sessions.remove(key);
                Ok(())
            }
        }
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
        self.finished(finished.key);
    }
}

impl Handler<Sweep> for SessionShardActor {
    type Result = ();

    fn handle(&mut self, _: Sweep, _: &mut Context<Self>) {
        self.sweep();
    }
}

#[cfg(test)]
mod tests;
