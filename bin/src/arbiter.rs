//! One session arbiter: the actors that live on one worker's thread.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use actix::Recipient;
use anyhow::Context;
use understudy_actors::provider::{ProviderContext, ProviderPoolActor};
use understudy_actors::session::{SessionContext, SessionShardActor, SessionShardSettings};
use understudy_actors::supervision::ActorKind;
use understudy_messages::ids::ShardIndex;
use understudy_messages::ports::{ShardPort, Slot};
use understudy_messages::registry::{RegisterShard, RegisterShardError, StartProviders};

use crate::app::Shared;

/// How many sessions one arbiter has in memory.
const SESSIONS: usize = 1_000_000;

/// What the HTTP side of one worker reaches.
pub(crate) struct SessionArbiter {
    pub(crate) shared: Arc<Shared>,
    /// What its turns work with.
    pub(crate) turns: Arc<SessionContext>,
    place: Rc<Cell<Option<ShardIndex>>>,
}

impl SessionArbiter {
    /// Starts the actors of the current thread and lists them with the registry.
    pub(crate) fn start(shared: &Arc<Shared>) -> Self {
        let turns = Arc::new(turns(shared));
        let (shard, pool) = (start_shard(shared, &turns), start_pool(shared));
        let arbiter = Self {
            shared: shared.clone(),
            turns,
            place: Rc::default(),
        };
        let (place, listing) = (arbiter.place.clone(), shared.clone());
        shared
            .supervision
            .tasks
            .spawn_until_stop("register arbiter", async move {
                match register(&listing, shard, pool).await {
                    Ok(index) => place.set(Some(index)),
                    Err(error) => tracing::error!(%error, "arbiter not listed"),
                }
            });
        arbiter
    }

    /// The arbiter's place; `None` until the registry has listed it.
    pub(crate) fn place(&self) -> Option<ShardIndex> {
        self.place.get()
    }
}

fn turns(shared: &Shared) -> SessionContext {
    SessionContext {
        capacities: shared.capacities.clone(),
        admission: shared.admission.clone(),
        clock: shared.clock.clone(),
        tasks: shared.supervision.tasks.clone(),
        telemetry: shared.supervision.telemetry.clone(),
        tap: shared.tap.clone(),
        abort: shared.abort.clone(),
        transcripts: shared.transcripts.clone(),
        store: shared.sessions.clone(),
    }
}

fn start_shard(shared: &Arc<Shared>, turns: &Arc<SessionContext>) -> Arc<Slot<ShardPort>> {
    let (slot, context) = (Arc::new(Slot::default()), turns.clone());
    let settings = SessionShardSettings {
        idle: shared.config.settings.session.idle,
        capacity: SESSIONS,
    };
    let publish = slot.clone();
    shared.supervision.supervise(
        ActorKind::SessionShard,
        move |end| SessionShardActor::new(context.clone(), settings, end),
        move |addr| publish.set(SessionShardActor::port(&addr)),
    );
    slot
}

fn start_pool(shared: &Arc<Shared>) -> Arc<Slot<Recipient<StartProviders>>> {
    let slot = Arc::new(Slot::default());
    let context = ProviderContext {
        capacities: shared.capacities.clone(),
        clock: shared.clock.clone(),
        tasks: shared.supervision.tasks.clone(),
        telemetry: shared.supervision.telemetry.clone(),
        tap: shared.tap.clone(),
        ledgers: shared.ledgers.clone(),
    };
    let (publish, supervision) = (slot.clone(), shared.supervision.clone());
    shared.supervision.supervise(
        ActorKind::ProviderPool,
        move |end| ProviderPoolActor::new(context.clone(), supervision.clone(), end),
        move |addr| publish.set(ProviderPoolActor::port(&addr)),
    );
    slot
}

/// Starts the providers of what serves and lists the arbiter with the registry; once more where something else serves by then.
async fn register(
    shared: &Shared,
    shard: Arc<Slot<ShardPort>>,
    pool: Arc<Slot<Recipient<StartProviders>>>,
) -> anyhow::Result<ShardIndex> {
    loop {
        let serving = shared.published.load();
        let first = || shared.first.get().cloned().context("nothing is loaded yet");
        let settings = serving.map_or_else(first, |it| Ok(it.roster.settings().clone()))?;
        let registry = shared.registry.get().context("there is no registry yet")?;
        let starts = pool.get().context("there is no pool of providers yet")?;
        let start = StartProviders {
            settings: settings.clone(),
        };
        let listing = RegisterShard {
            shard: shard.clone(),
            pool: pool.clone(),
            providers: starts.send(start).await??,
            settings,
        };
        match registry.register.send(listing).await? {
            Ok(index) => return Ok(index),
            Err(RegisterShardError::Outdated) => {}
            Err(error @ RegisterShardError::Complete) => return Err(error.into()),
        }
    }
}
