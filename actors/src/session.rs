//! A session: one turn at a time, in the order in which they came.
//!
//! The actor exists while it has work; what it must remember in between lives as a compact record in its shard.

mod asked;
mod fault;
mod fence;
mod memory;
mod notice;
mod prompt;
mod shard;
pub mod store;
pub mod told;
pub mod transcripts;
mod turn;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use actix::{Actor, AsyncContext, Context, Handler, Recipient, Response};
use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::RunBlock;
use understudy_messages::ids::SessionKey;
use understudy_messages::ports::SessionPort;
use understudy_messages::session::{PreparePrompt, Prompt, RunTurn, RunTurnError};

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
}

/// One session with work.
struct SessionActor {
    key: SessionKey,
    /// What is remembered; `None` for a session without a key.
    memory: Option<Arc<Memory>>,
    /// One permit: whoever holds it works, the others wait in order.
    place: Arc<Semaphore>,
    queued: Arc<()>,
    shard: Recipient<TurnFinished>,
    context: Arc<SessionContext>,
}

impl SessionActor {
    fn new(
        key: SessionKey,
        memory: Option<Arc<Memory>>,
        shard: Recipient<TurnFinished>,
        context: Arc<SessionContext>,
    ) -> Self {
        Self {
            key,
            memory,
            place: Arc::new(Semaphore::new(1)),
            queued: Arc::new(()),
            shard,
            context,
        }
    }

    fn run(&self, run: RunTurn, session: SessionPort) -> Result<(), RunTurnError> {
        let waiting = self.queued.clone();
        if Arc::strong_count(&waiting) - 1 > SESSION_QUEUE {
            return Err(RunTurnError::QueueFull);
        }
        let turn = Turn::new(
            run,
            session,
            self.memory.clone(),
            self.place.clone(),
            self.context.clone(),
        );
        let (shard, key, closing) = (self.shard.clone(), self.key.clone(), turn.closing());
        // the channel closes when the session is at rest again
        let client = turn.client();
        self.context.tasks.spawn("turn", async move {
            let played = AssertUnwindSafe(turn.play()).catch_unwind().await;
            played.unwrap_or_else(|_panic| closing.lost());
            drop(waiting);
            let _shard_gone = shard.send(TurnFinished { key }).await;
            drop(client);
        });
        Ok(())
    }
}

impl Actor for SessionActor {
    type Context = Context<Self>;
}

impl Handler<RunTurn> for SessionActor {
    type Result = Result<(), RunTurnError>;

    fn handle(&mut self, run: RunTurn, ctx: &mut Context<Self>) -> Self::Result {
        let prepare = ctx.address().recipient();
        self.run(run, SessionPort { prepare })
    }
}

impl Handler<PreparePrompt> for SessionActor {
    type Result = Response<Result<Prompt, RunBlock>>;

    fn handle(&mut self, ask: PreparePrompt, _: &mut Context<Self>) -> Self::Result {
        match prompt::is_shaped(&ask.turn) {
            false => Response::reply(Ok(prompt::plain(&ask.turn))),
            true => Response::fut(prompt::shaped(ask)),
        }
    }
}
