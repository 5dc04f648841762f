//! One session arbiter: the actors that live on one worker's thread.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use understudy_actors::provider::{ProviderActor, ProviderContext};
use understudy_actors::session::{SessionContext, SessionShardActor, SessionShardSettings};
use understudy_actors::supervision::ActorKind;
use understudy_messages::ids::ShardIndex;
use understudy_messages::ports::{ProviderPort, ShardPort, Slot};
use understudy_messages::registry::RegisterShard;
use understudy_messages::settings::ProviderSettings;
use understudy_providers::Upstream;

use crate::app::Shared;

/// How many sessions one arbiter remembers.
const SESSIONS: usize = 1_000_000;

/// What the HTTP side of one worker reaches.
pub(crate) struct SessionArbiter {
    pub(crate) shared: Arc<Shared>,
    place: Rc<Cell<Option<ShardIndex>>>,
}

impl SessionArbiter {
    /// Starts the actors of the current thread and lists them with the registry.
    pub(crate) fn start(shared: &Arc<Shared>) -> Self {
        let shard = start_shard(shared);
        let providers = start_providers(shared);
        let arbiter = Self {
            shared: shared.clone(),
            place: Rc::default(),
        };
        let (place, registry) = (arbiter.place.clone(), shared.registry.get());
        shared.supervision.tasks.spawn("register arbiter", async move {
            let Some(registry) = registry else { return };
            match registry.register.send(RegisterShard { shard, providers }).await {
                Ok(Ok(index)) => place.set(Some(index)),
                Ok(Err(error)) => tracing::error!(%error, "arbiter not listed"),
                Err(error) => tracing::error!(%error, "registry lost while an arbiter came up"),
            }
        });
        arbiter
    }

    /// The arbiter's place; `None` until the registry has listed it.
    pub(crate) fn place(&self) -> Option<ShardIndex> {
        self.place.get()
    }
}

fn start_shard(shared: &Arc<Shared>) -> Arc<Slot<ShardPort>> {
    let slot = Arc::new(Slot::default());
    let context = SessionContext {
        admission: shared.admission.clone(),
        clock: shared.clock.clone(),
        tasks: shared.supervision.tasks.clone(),
        telemetry: shared.supervision.telemetry.clone(),
        tap: shared.tap.clone(),
        ledgers: shared.ledgers.clone(),
        abort: shared.abort.clone(),
        transcripts: shared.transcripts.clone(),
    };
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

fn start_providers(shared: &Arc<Shared>) -> Arc<[Slot<ProviderPort>]> {
    let settings = &shared.config.settings;
    let slots: Arc<[Slot<ProviderPort>]> = settings.providers.iter().map(|_| Slot::default()).collect();
    let client = match understudy_providers::http_client(settings.timeouts.connect) {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(%error, "no HTTP client, this arbiter cannot reach a provider");
            return slots;
        }
    };
    for (index, provider) in settings.providers.values().enumerate() {
        start_provider(shared, provider.clone(), client.clone(), slots.clone(), index);
    }
    slots
}

fn start_provider(
    shared: &Arc<Shared>,
    provider: Arc<ProviderSettings>,
    client: reqwest::Client,
    slots: Arc<[Slot<ProviderPort>]>,
    index: usize,
) {
    let context = ProviderContext {
        clock: shared.clock.clone(),
        tasks: shared.supervision.tasks.clone(),
        telemetry: shared.supervision.telemetry.clone(),
        tap: shared.tap.clone(),
        ledgers: shared.ledgers.clone(),
    };
    let upstream = Rc::new(Upstream::new(provider, client, shared.clock.clone()));
    shared.supervision.supervise(
        ActorKind::Provider,
        move |end| ProviderActor::new(upstream.clone(), context.clone(), end),
        move |addr| {
            if let Some(slot) = slots.get(index) {
                slot.set(ProviderActor::port(&addr));
            }
        },
    );
}
