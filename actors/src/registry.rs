//! The registry: owns the serving generation and the gate in front of it.
//!
//! It is asked only when something changes or the gate is closed; what every turn reads is published.

mod admission;
mod barrier;
mod gate;
mod generation;
mod held;
mod holders;
mod operation;
mod origins;
mod published;
pub mod reload;
mod retention;
mod roster;
mod staffing;
mod sync;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod under_way;
mod watching;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use actix::{Actor, Addr, AsyncContext, Context, Handler, MessageResult, Recipient, ResponseFuture};
use arc_swap::ArcSwapOption;
use futures::FutureExt;
use tokio::sync::oneshot;
use understudy_messages::clock::Clock;
use understudy_messages::events::Event;
use understudy_messages::ids::{GenerationId, ShardIndex};
use understudy_messages::ports::RegistryPort;
use understudy_messages::registry::{
    AdmitError, CloseAdmission, GetRegistryStatus, Phase, Receipt, RegisterShard, RegisterShardError, RegistryStatus,
    Reload, ReloadError, ReloadOutcome, ReopenAdmission,
};
use understudy_messages::settings::Settings;
use understudy_messages::tools::TurnTools;

pub use admission::{Admission, AdmitTurn};
pub use generation::{Generation, Shard};
pub use held::Held;
pub use origins::{Calling, Origins, TooDeep};
pub use published::Published;
pub use retention::Retained;
pub use roster::{CastError, Roster};

use self::admission::Turnstile;
use self::held::Agents;
use self::operation::{ArbiterChanged, HoldFor, Operation, Swap};
use crate::catalog::Catalogs;
use crate::inventory::{Inventory, Loader};
use crate::provider::ledger::{LedgerBook, Ledgers};
use crate::supervision::EndOfLife;
use crate::tap::EventTap;
use crate::telemetry::Telemetry;

/// What outlives a registry actor that is started again.
#[derive(Clone)]
pub struct RegistryContext {
    /// What the first generation serves.
    pub settings: Arc<Settings>,
    /// What makes plugins.
    pub loader: Loader,
    /// The plugins of the first generation.
    pub inventory: First,
    /// How many session arbiters must be listed before the first generation is published.
    pub shards_expected: usize,
    /// Where generations are published.
    pub published: Arc<Published>,
    /// The clock.
    pub clock: Clock,
    /// Where handles are resolved.
    pub telemetry: Arc<Telemetry>,
    /// Where events go.
    pub tap: EventTap,
    /// Where the ledgers of generations are found.
    pub ledgers: Arc<LedgerBook>,
    /// The port of the API, which plugins are told.
    pub port: u16,
}

/// Plugins until they are published: from then on they are held by generations alone.
#[derive(Clone)]
pub struct First(Arc<ArcSwapOption<Inventory>>);

impl From<Arc<Inventory>> for First {
    fn from(inventory: Arc<Inventory>) -> Self {
        Self(Arc::new(Some(inventory).into()))
    }
}

/// Owns generations and admission. One per process, on an arbiter of its own.
pub struct RegistryActor {
    context: RegistryContext,
    shards: Vec<Arc<Shard>>,
    turnstile: Turnstile,
    _end: EndOfLife,
}

impl RegistryActor {
    /// A registry; one that is started again finds the published generation, and opens its gate but for those whom a reload holds.
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
            registry.turnstile.open(&serving, registry.context.clock.now());
            if let Some(agents) = registry.context.published.under_way().held() {
                registry.turnstile.hold(&serving, &agents);
            }
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
            close: registry.clone().recipient(),
            reload: registry.clone().recipient(),
            status: registry.clone().recipient(),
        };
        (port, registry.clone().recipient())
    }

    fn register(&mut self, shard: Arc<Shard>, settings: &Settings) -> Result<ShardIndex, RegisterShardError> {
        let serving = self.context.published.load();
        let serves = serving
            .as_ref()
            .map_or(&self.context.settings, |it| it.roster.settings());
        if **serves != *settings {
            return Err(RegisterShardError::Outdated);
        }
        if self.shards.len() < self.context.shards_expected {
            self.shards.push(shard);
            if self.shards.len() == self.context.shards_expected {
                self.begin();
            }
            return Ok(ShardIndex(self.shards.len() - 1));
        }
        let index = self
            .shards
            .iter()
            .position(|listed| listed.gone())
            .ok_or(RegisterShardError::Complete)?;
        self.shards[index] = shard.clone();
        if let Some(serving) = serving {
            serving.replace_shard(ShardIndex(index), shard);
        }
        Ok(ShardIndex(index))
    }

    fn begin(&mut self) {
        if let Some(inventory) = self.context.inventory.0.swap(None) {
            self.publish(inventory);
            self.context.telemetry.started();
        }
    }

    fn publish(&mut self, inventory: Arc<Inventory>) -> GenerationId {
        let settings = inventory.serves().clone();
        let before = self.context.published.load();
        let id = GenerationId(before.as_ref().map_or(1, |serving| serving.id.0 + 1));
        self.context.telemetry.install(&settings);
        self.context.telemetry.install_tools(inventory.tools().all());
        let first = self.context.ledgers.first();
        let known = before.as_ref().map_or(first, |serving| &serving.ledgers);
        let ledgers = Arc::new(Ledgers::new(&settings, known, self.context.clock.now()));
        // before the first turn: whoever conducts it looks here
        self.context.ledgers.enter(id, &ledgers);
        let (clean, now) = (Arc::default(), self.context.clock.now());
        let known = before.as_ref().map_or(&clean, |serving| serving.roster.catalogs());
        let catalogs = Catalogs::new(&settings, &inventory.catalog_sources(), known, now);
        let roster = Roster::new(settings)
            .expecting(inventory.declared_providers())
            .reading(catalogs);
        let generation = Generation::new(id, roster, inventory, ledgers, self.shards.clone());
        let generation = Arc::new(
            generation
                .after(before.as_ref())
                .known_to(self.context.published.origins()),
        );
        self.context.telemetry.generation(id.0);
        self.context.published.store(generation.clone());
        // whoever looked before the swap and enters after it finds a closed gate, and asks for the new one
        if let Some(before) = before {
            before.close(&Agents::All);
        }
        self.open(&generation);
        self.context
            .tap
            .publish(|| Event::GenerationPublished { generation: id });
        tracing::info!(generation = id.0, shards = self.shards.len(), "generation published");
        id
    }

    /// Publishes what a reload has made ready, unless an arbiter has come anew since: then nothing changes. Asked again it is the
    /// same publication: whoever asked first may have died over the answer.
    fn swap(&mut self, swap: Swap) -> Result<GenerationId, ArbiterChanged> {
        let serving = self.context.published.load();
        if let Some(serving) = serving.filter(|serving| Arc::ptr_eq(&serving.inventory, &swap.inventory)) {
            return Ok(serving.id);
        }
        if let Some(shards) = swap.shards {
            let same = |(one, other): (&Arc<Shard>, &Arc<Shard>)| Arc::ptr_eq(&one.sessions, &other.sessions);
            if !self.shards.iter().zip(&shards).all(same) {
                return Err(ArbiterChanged);
            }
            self.shards = shards;
        }
        Ok(self.publish(swap.inventory))
    }

    fn open(&mut self, serving: &Arc<Generation>) {
        self.context.published.under_way().hold(None);
        self.turnstile.open(serving, self.context.clock.now());
    }

    fn reload(&self, ask: Reload) -> Reloading {
        let Some(serving) = self.context.published.load() else {
            return refuse(&ask, None);
        };
        let Some(shutdown) = self.context.published.under_way().begin() else {
            return refuse(&ask, Some(serving.id));
        };
        let operation = Operation::new(ask.clone(), serving, self.context.clone(), (*shutdown).clone());
        let (done, ended) = oneshot::channel();
        let context = self.context.clone();
        self.context.loader.supervision.tasks.spawn("reload", async move {
            match AssertUnwindSafe(operation.run()).catch_unwind().await {
                Ok(outcome) => {
                    // only now may another one begin
                    drop(shutdown);
                    let _nobody_waits = done.send(outcome);
                }
                Err(_panicked) => operation::abandoned(&context).await,
            }
        });
        Box::pin(async move {
            match ended.await {
                Ok(ended) => ended,
                Err(_lost) => Err(lost(&ask)),
            }
        })
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

/// A reload on its way.
type Reloading = ResponseFuture<Result<Receipt, ReloadError>>;

/// Another one is under way, or nothing serves yet: nothing was touched, and it may be tried again soon.
fn refuse(ask: &Reload, generation: Option<GenerationId>) -> Reloading {
    let message = match generation {
        Some(_) => {
            "Another reload is under way. Try again once it has ended: `understudy status --all` shows how far it is, and \
             GET /admin/v1/plugins/reload who holds it up."
        }
        None => "The gateway is starting. Try again in a second.",
    };
    let error = ReloadError {
        generation,
        message: message.to_owned(),
        retry_after_ms: Some(1_000),
        outcome: ReloadOutcome::Rejected,
        ..lost(ask)
    };
    Box::pin(std::future::ready(Err(error)))
}

fn lost(ask: &Reload) -> ReloadError {
    ReloadError {
        operation_id: None,
        outcome: ReloadOutcome::Failed,
        phase: Phase::Prepare,
        committed: false,
        generation: None,
        plugin_ids: ask.plugins.clone(),
        message: "The reload was lost. Look at the plugins and try again.".to_owned(),
        retry_after_ms: None,
        holders: Vec::new(),
        omitted: 0,
    }
}

impl Actor for RegistryActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        self.context.published.under_way().came(&ctx.address());
    }
}

impl Handler<RegisterShard> for RegistryActor {
    type Result = Result<ShardIndex, RegisterShardError>;

    fn handle(&mut self, shard: RegisterShard, _: &mut Context<Self>) -> Self::Result {
        let settings = shard.settings;
        let shard = Shard {
            sessions: shard.shard,
            pool: shard.pool,
            providers: shard.providers,
        };
        self.register(Arc::new(shard), &settings)
    }
}

impl Handler<AdmitTurn> for RegistryActor {
    type Result = ResponseFuture<Result<Held, AdmitError>>;

    fn handle(&mut self, AdmitTurn(comer): AdmitTurn, _: &mut Context<Self>) -> Self::Result {
        let (serving, now) = (self.context.published.load(), self.context.clock.now());
        let answered = self.turnstile.ask(comer, serving.as_ref(), now);
        Box::pin(async move { answered.await.unwrap_or(Err(AdmitError::ShuttingDown)) })
    }
}

impl Handler<ReopenAdmission> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: ReopenAdmission, _: &mut Context<Self>) {
        if let Some(serving) = self.context.published.load() {
            self.open(&serving);
        }
    }
}

impl Handler<CloseAdmission> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: CloseAdmission, _: &mut Context<Self>) {
        self.context.published.close();
        self.context.published.under_way().cancel();
        self.turnstile.close(self.context.published.load().as_deref());
    }
}

impl Handler<Reload> for RegistryActor {
    type Result = Reloading;

    fn handle(&mut self, ask: Reload, _: &mut Context<Self>) -> Self::Result {
        self.reload(ask)
    }
}

impl Handler<HoldFor> for RegistryActor {
    type Result = ();

    fn handle(&mut self, HoldFor(agents): HoldFor, _: &mut Context<Self>) {
        if let Some(serving) = self.context.published.load() {
            self.turnstile.hold(&serving, &agents);
            self.context.published.under_way().hold(Some(agents));
        }
    }
}

impl Handler<Swap> for RegistryActor {
    type Result = MessageResult<Swap>;

    fn handle(&mut self, swap: Swap, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.swap(swap))
    }
}

impl Handler<GetRegistryStatus> for RegistryActor {
    type Result = MessageResult<GetRegistryStatus>;

    fn handle(&mut self, _: GetRegistryStatus, _: &mut Context<Self>) -> Self::Result {
        MessageResult(self.status())
    }
}
