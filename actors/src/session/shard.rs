//! The sessions of one arbiter: a directory of those in memory, and an actor for each that has work. The others are in the
//! store, and come back when somebody asks for them.

mod directory;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message, ResponseFuture};
use understudy_messages::ids::{Name, SessionKey};
use understudy_messages::ports::ShardPort;
use understudy_messages::session::{ForgetError, RunTurn, RunTurnError, SessionFault, SessionInfo, SessionView};

use self::directory::Directory;
use super::memory::{Memory, Unread};
use super::{SessionActor, SessionContext};
use crate::supervision::EndOfLife;

/// How often sessions that have been idle for too long are looked for, at most.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// What one shard may hold.
#[derive(Clone, Copy, Debug)]
pub struct SessionShardSettings {
    /// How long a session without work stays in memory.
    pub idle: Duration,
    /// How many sessions are in memory.
    pub capacity: usize,
}

/// A turn of a session has ended, or other work on it.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct TurnFinished {
    /// Whose.
    pub(super) key: SessionKey,
}

/// Let go of sessions that have been idle for too long.
#[derive(Debug, Message)]
#[rtype(result = "()")]
struct Sweep;

/// The sessions of one arbiter.
pub struct SessionShardActor {
    sessions: Directory,
    settings: SessionShardSettings,
    context: Arc<SessionContext>,
    _end: EndOfLife,
}

impl SessionShardActor {
    /// An empty directory.
    pub fn new(context: Arc<SessionContext>, settings: SessionShardSettings, end: EndOfLife) -> Self {
        Self {
            sessions: Directory::new(context.clone(), settings),
            settings,
            context,
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
        let record = self.sessions.enter(key).ok_or(RunTurnError::TooManySessions)?;
        let (context, memory) = (self.context.clone(), record.memory.clone());
        let start = || SessionActor::new(key.clone(), memory, shard.recipient(), context).start();
        let alive = record.actor.take().filter(Addr::connected);
        Ok(record.actor.insert(alive.unwrap_or_else(start)).clone())
    }

    /// What is known of a session, and what was said in it. It stays where it is.
    pub(super) fn view(
        &self,
        key: SessionKey,
    ) -> impl Future<Output = Result<Option<SessionView>, SessionFault>> + use<> {
        let known = self.sessions.memory(&key).filter(|memory| memory.is_read());
        let store = self.context.store.clone();
        async move {
            let Some(id) = key.key() else { return Ok(None) };
            match (known, store) {
                (Some(memory), _) => Ok(Some(memory.view(id))),
                (None, Some(store)) => Ok(store.load(&key).await?.map(|stored| stored.view(id))),
                (None, None) => Ok(None),
            }
        }
    }

    /// Sessions in memory of one client key behind a name, in the order of their names.
    pub(super) fn page(&self, owner: Option<u32>, after: Option<Name>, limit: usize) -> Vec<SessionInfo> {
        self.sessions.page(owner, after, limit)
    }

    /// Chooses the model of a session; that counts as use.
    pub(super) fn pin(
        &mut self,
        key: SessionKey,
        model: Option<Name>,
        shard: Addr<Self>,
    ) -> impl Future<Output = Result<Option<SessionInfo>, SessionFault>> + use<> {
        let at_work = self.sessions.is_at_work(&key);
        let work = self.work(&key, shard);
        let wall = self.context.clock.wall();
        async move {
            let Some((memory, done)) = work else { return Ok(None) };
            let pinned = async {
                match memory.open().await {
                    Ok(()) if memory.is_blank() && !at_work => return Ok(None),
                    Ok(()) => memory.pin(model, wall).await?,
                    Err(Unread::Fault(fault)) => return Err(fault),
                    Err(Unread::Room(_)) => return Err(SessionFault::Store("there is no room in memory".into())),
                }
                Ok(key.key().map(|id| memory.info(id)))
            };
            let pinned = pinned.await;
            done.await;
            pinned
        }
    }

    /// Forgets a session without work.
    pub(super) fn forget(
        &mut self,
        key: SessionKey,
        shard: Addr<Self>,
    ) -> impl Future<Output = Result<(), ForgetError>> + use<> {
        let busy = self.sessions.is_at_work(&key);
        let work = match busy {
            true => None,
            false => self.work(&key, shard),
        };
        let wall = self.context.clock.wall();
        async move {
            let Some((memory, done)) = work else {
                return Err(if busy { ForgetError::Busy } else { ForgetError::Unknown });
            };
            let forgotten = memory.forget(wall).await;
            done.await;
            match forgotten? {
                true => Ok(()),
                false => Err(ForgetError::Unknown),
            }
        }
    }

    /// Work on a session that is no turn: what it remembers, and what is to be awaited when the work has ended.
    fn work(&mut self, key: &SessionKey, shard: Addr<Self>) -> Option<(Arc<Memory>, impl Future<Output = ()> + use<>)> {
        let memory = self.sessions.enter(key)?.memory.clone();
        let key = key.clone();
        let done = async move {
            let _shard_gone = shard.send(TurnFinished { key }).await;
        };
        Some((memory, done))
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
        if run.request.session == SessionKey::Ephemeral {
            self.context.run_alone(run);
            return Box::pin(ready(Ok(())));
        }
        let session = self.wake(&run.request.session, ctx.address());
        Box::pin(async move { session?.send(run).await.unwrap_or(Err(RunTurnError::Lost)) })
    }
}

impl Handler<TurnFinished> for SessionShardActor {
    type Result = ();

    fn handle(&mut self, finished: TurnFinished, _: &mut Context<Self>) {
        self.sessions.leave(&finished.key);
    }
}

impl Handler<Sweep> for SessionShardActor {
    type Result = ();

    fn handle(&mut self, _: Sweep, _: &mut Context<Self>) {
        self.sessions.sweep();
    }
}

#[cfg(test)]
mod tests;
