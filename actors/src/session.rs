//! A session: one turn at a time, in the order in which they came.
//!
//! The actor exists while it has work; what it must remember in between lives as a compact record in its shard.

mod asked;
mod fault;
mod fence;
mod memory;
mod notice;
pub(crate) mod prompt;
mod shard;
pub mod store;
pub mod told;
pub mod transcripts;
mod turn;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use actix::{Actor, Context, Handler, Recipient};
use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Clock;
use understudy_messages::ids::SessionKey;
use understudy_messages::session::{RunTurn, RunTurnError};

pub use self::fault::failure;
pub use self::memory::TranscriptRoom;
pub use self::shard::{SessionShardActor, SessionShardSettings};
pub use self::told::transcript;

use self::memory::Memory;
use self::shard::TurnFinished;
use self::store::SessionStore;
use self::turn::Turn;
use crate::capacity::Capacities;
use crate::registry::Admission;
use crate::supervision::Tasks;
use crate::tap::EventTap;
use crate::telemetry::Telemetry;

/// How many turns of one session may be in work or wait.
const SESSION_QUEUE: usize = 64;

/// What every session works with.
#[derive(Clone)]
pub struct SessionContext {
    /// How many turns an agent may have.
    pub capacities: Arc<Capacities>,
    /// The way to a lease.
    pub admission: Admission,
    /// The clock.
    pub clock: Clock,
    /// Where turns are counted.
    pub tasks: Tasks,
    /// Where they are booked.
    pub telemetry: Arc<Telemetry>,
    /// Where events go.
    pub tap: EventTap,
    /// Ends the turns that a shutdown does not wait for any longer.
    pub abort: CancellationToken,
    /// The room that all transcripts share.
    pub transcripts: TranscriptRoom,
    /// Where sessions are while nobody works on them; `None`: they end with the process, or when they were idle.
    pub store: Option<Arc<dyn SessionStore>>,
}

impl SessionContext {
    fn memory(&self, key: &SessionKey) -> Memory {
        let (store, room) = (self.store.clone(), self.transcripts.clone());
        Memory::new(key.clone(), store, room, self.clock.wall())
    }

    /// Runs a turn that belongs to no session, as a task of this arbiter: exactly one ending will come through its channel.
    pub fn run_alone(self: &Arc<Self>, run: RunTurn) {
        self.play(Turn::new(run, None, self.clone()), std::future::ready(()));
    }

    /// Plays a turn as a task. `ended` is awaited behind it, whatever became of it; only then the client's channel closes.
    fn play(&self, turn: Turn, ended: impl Future<Output = ()> + 'static) {
        let (client, closing) = (turn.client(), turn.closing());
        self.tasks.spawn("turn", async move {
            let played = AssertUnwindSafe(turn.play()).catch_unwind().await;
            played.unwrap_or_else(|_panic| closing.lost());
            ended.await;
            drop(client);
        });
    }
}

/// What the turns of one session share.
#[derive(Clone)]
struct Session {
    /// What is remembered.
    memory: Arc<Memory>,
    /// One permit: whoever holds it works, the others wait in order.
    place: Arc<Semaphore>,
}

/// One session with work.
struct SessionActor {
    key: SessionKey,
    session: Session,
    queued: Arc<()>,
    shard: Recipient<TurnFinished>,
    context: Arc<SessionContext>,
}

impl SessionActor {
    fn new(key: SessionKey, memory: Arc<Memory>, shard: Recipient<TurnFinished>, context: Arc<SessionContext>) -> Self {
        Self {
            key,
            session: Session {
                memory,
                place: Arc::new(Semaphore::new(1)),
            },
            queued: Arc::new(()),
            shard,
            context,
        }
    }

    fn run(&self, run: RunTurn) -> Result<(), RunTurnError> {
        let waiting = self.queued.clone();
        if Arc::strong_count(&waiting) - 1 > SESSION_QUEUE {
            return Err(RunTurnError::QueueFull);
        }
        let turn = Turn::new(run, Some(self.session.clone()), self.context.clone());
        let (shard, key) = (self.shard.clone(), self.key.clone());
        // until the session is at rest again
        self.context.play(turn, async move {
            drop(waiting);
            let _shard_gone = shard.send(TurnFinished { key }).await;
        });
        Ok(())
    }
}

impl Actor for SessionActor {
    type Context = Context<Self>;
}

impl Handler<RunTurn> for SessionActor {
    type Result = Result<(), RunTurnError>;

    fn handle(&mut self, run: RunTurn, _: &mut Context<Self>) -> Self::Result {
        self.run(run)
    }
}
