//! The registry: owns the serving generation and the gate in front of it.
//!
//! It is asked only when something changes or the gate is closed; what every turn reads is published.

mod admission;
mod gate;
mod generation;
mod roster;
mod sync;
#[cfg(test)]
pub(crate) mod testing;

use std::sync::Arc;

use actix::{Actor, Addr, Context, Handler, MessageResult, Recipient, ResponseFuture};
use understudy_messages::events::Event;
use understudy_messages::ids::{GenerationId, ShardIndex};
use understudy_messages::ports::RegistryPort;
use understudy_messages::registry::{
    AdmitError, CloseAdmission, GetRegistryStatus, HoldAdmission, RegisterShard, RegisterShardError, RegistryStatus,
    ReopenAdmission,
};
use understudy_messages::settings::Settings;
use understudy_messages::tools::TurnTools;

pub(crate) use admission::GATE_WAIT;
pub use admission::{Admission, AdmitTurn};
pub use generation::{Generation, Held, Published, Shard};
pub use roster::{CastError, Roster};

use self::admission::Turnstile;
use crate::hooks::Hooks;
use crate::supervision::EndOfLife;
use crate::tap::EventTap;
use crate::telemetry::Telemetry;
use crate::tools::Tools;

/// What outlives a registry actor that is started again.
#[derive(Clone)]
pub struct RegistryContext {
    /// What the first generation is built from.
    pub settings: Arc<Settings>,
    /// The hooks of the first generation.
    pub hooks: Arc<Hooks>,
    /// The tools of the first generation.
    pub tools: Arc<Tools>,
    /// How many session arbiters must be listed before the first generation is published.
    pub shards_expected: usize,
    /// Where generations are published.
    pub published: Arc<Published>,
    /// Where handles are resolved.
    pub telemetry: Arc<Telemetry>,
    /// Where events go.
    pub tap: EventTap,
}

/// Owns generations and admission. One per process, on an arbiter of its own.
pub struct RegistryActor {
    context: RegistryContext,
    shards: Vec<Arc<Shard>>,
    turnstile: Turnstile,
    _end: EndOfLife,
}

impl RegistryActor {
    /// A registry; one that is started again finds the published generation and opens its gate.
    pub fn new(context: RegistryContext, end: EndOfLife) -> Self {
        let mut registry = Self {
            context,
            shards: Vec::new(),
            turnstile: Turnstile::default(),
            _end: end,
        };
        if let Some(serving) = registry.context.published.load() {
            let listed = (0..serving.shard_count()).filter_map(|index| serving.shard(ShardIndex(index)));
            registry.shards = listed.collect();
            registry.turnstile.open(&serving);
        }
        if registry.context.published.closing() {
            registry.turnstile.close(registry.context.published.load().as_deref());
        }
        registry
    }

    /// The ports to a registry: the public one and the one of admission.
    pub fn ports(registry: &Addr<Self>) -> (RegistryPort, Recipient<AdmitTurn>) {
        let port = RegistryPort {
            register: registry.clone().recipient(),
            hold: registry.clone().recipient(),
            reopen: registry.clone().recipient(),
            close: registry.clone().recipient(),
            status: registry.clone().recipient(),
        };
        (port, registry.clone().recipient())
    }

    fn register(&mut self, shard: Arc<Shard>) -> Result<ShardIndex, RegisterShardError> {
        if self.shards.len() < self.context.shards_expected {
            self.shards.push(shard);
            if self.shards.len() == self.context.shards_expected {
                self.publish();
            }
            return Ok(ShardIndex(self.shards.len() - 1));
        }
        let index = self
            .shards
            .iter()
            .position(|listed| listed.gone())
            .ok_or(RegisterShardError::Complete)?;
        self.shards[index] = shard.clone();
        if let Some(serving) = self.context.published.load() {
            serving.replace_shard(ShardIndex(index), shard);
        }
        Ok(ShardIndex(index))
    }

    fn publish(&mut self) {
        let id = GenerationId(self.context.published.load().map_or(1, |serving| serving.id.0 + 1));
        let roster = Roster::new(self.context.settings.clone());
        let generation = Arc::new(Generation::new(
            id,
            roster,
            (self.context.hooks.clone(), self.context.tools.clone()),
            self.shards.clone(),
        ));
        self.context.telemetry.install(&self.context.settings);
        self.context.telemetry.install_tools(self.context.tools.all());
        self.context.telemetry.generation(id.0);
        self.context.published.store(generation.clone());
        self.turnstile.open(&generation);
        self.context
            .tap
            .publish(|| Event::GenerationPublished { generation: id });
        tracing::info!(generation = id.0, shards = self.shards.len(), "generation published");
    }

    fn status(&self) -> RegistryStatus {
        let serving = self.context.published.load();
        RegistryStatus {
            generation: serving.as_ref().map(|serving| serving.id),
            leases: serving.as_ref().map_or(0, |serving| serving.leases()),
            admission: self.turnstile.state(),
            waiting: self.turnstile.waiting(),
            shards: self.shards.len(),
            shards_expected: self.context.shards_expected,
        }
    }
}

impl Actor for RegistryActor {
    type Context = Context<Self>;
}

impl Handler<RegisterShard> for RegistryActor {
    type Result = Result<ShardIndex, RegisterShardError>;

    fn handle(&mut self, shard: RegisterShard, _: &mut Context<Self>) -> Self::Result {
        self.register(Arc::new(Shard {
            sessions: shard.shard,
            providers: shard.providers,
        }))
    }
}

impl Handler<AdmitTurn> for RegistryActor {
    type Result = ResponseFuture<Result<Held, AdmitError>>;

    fn handle(&mut self, _: AdmitTurn, _: &mut Context<Self>) -> Self::Result {
        let answered = self.turnstile.ask(self.context.published.load().as_ref());
        Box::pin(async move { answered.await.unwrap_or(Err(AdmitError::ShuttingDown)) })
    }
}

impl Handler<HoldAdmission> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: HoldAdmission, _: &mut Context<Self>) {
        if let Some(serving) = self.context.published.load() {
            self.turnstile.hold(&serving);
        }
    }
}

impl Handler<ReopenAdmission> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: ReopenAdmission, _: &mut Context<Self>) {
        if let Some(serving) = self.context.published.load() {
            self.turnstile.open(&serving);
        }
    }
}

impl Handler<CloseAdmission> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: CloseAdmission, _: &mut Context<Self>) {
        self.context.published.close();
        self.turnstile.close(self.context.published.load().as_deref());
    }
}

impl Handler<GetRegistryStatus> for RegistryActor {
    type Result = MessageResult<GetRegistryStatus>;

    fn handle(&mut self, _: GetRegistryStatus, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.status())
    }
}
