//! One reload under way: carries out what [`Machine`] decides, and tells it what came of it.
//!
//! It runs in a task of its own on the registry's arbiter. Gate and publication belong to the registry: it is asked.

mod conclusion;
mod drain;
mod instances;
mod preparation;
mod progress;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix::{Addr, Message};
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Instant;
use understudy_messages::events;
use understudy_messages::ids::{GenerationId, Name};
use understudy_messages::registry::{Holder, Phase, Receipt, Reload, ReloadError, ReopenAdmission};
use uuid::Uuid;

pub(super) use self::progress::Progress;
use super::generation::{Generation, Shard};
use super::held::Agents;
use super::reload::machine::{Effect, Event, Machine, State};
use super::{RegistryActor, RegistryContext, staffing};
use crate::inventory::{Built, Inventory, Planned};
use crate::plugin::Served;

/// How long those who use a target may take to finish: less than a turn waits at the gate.
const DRAIN: Duration = Duration::from_secs(60);
/// How long they may take where somebody wants to wait.
const WAIT: Duration = Duration::from_secs(600);
/// How long the old instances' own cleanup is waited for before they are put back.
const RECOVERY: Duration = Duration::from_secs(60);
/// How many holders are named.
pub(super) const MOST_HOLDERS: usize = 64;
/// Close the gate of some agents.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct HoldFor(pub(super) Agents);

/// Let a new inventory serve, with the settings that it serves.
#[derive(Clone, Message)]
#[rtype(result = "Result<GenerationId, ArbiterChanged>")]
pub(super) struct Swap {
    pub(super) inventory: Arc<Inventory>,
    /// The arbiters, with its providers where those are others.
    pub(super) shards: Option<Vec<Arc<Shard>>>,
}

/// An arbiter came anew after its providers had been started.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArbiterChanged;

/// One reload.
pub(super) struct Operation {
    id: String,
    ask: Reload,
    serving: Arc<Generation>,
    registry: Addr<RegistryActor>,
    context: RegistryContext,
    shutdown: CancellationToken,
    machine: Machine,
    planned: Option<Planned>,
    built: Option<Built>,
    shards: Option<Vec<Arc<Shard>>>,
    targets: Vec<Name>,
    /// Those of them whose instance goes.
    ended: Vec<Name>,
    /// Those of them that get one.
    started: Vec<Name>,
    /// New instances that were not taken.
    discarded: Vec<Arc<Served>>,
    /// Whether those that end have been told.
    told: bool,
    /// Old instances that could not be put back with the others.
    lost: Vec<Name>,
    /// Whether it is worth trying again soon.
    busy: bool,
    generation: GenerationId,
    message: Option<String>,
    /// What its receipt tells beside what was noted about plugins.
    notices: Vec<String>,
    holders: (Vec<Holder>, usize),
    began: Instant,
}

impl Operation {
    pub(super) fn new(
        ask: Reload,
        serving: Arc<Generation>,
        registry: Addr<RegistryActor>,
        context: RegistryContext,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            id: Uuid::now_v7().to_string(),
            targets: ask.plugins.clone(),
            generation: serving.id,
            began: context.clock.now(),
            machine: Machine::default(),
            planned: None,
            built: None,
            shards: None,
            message: None,
            notices: Vec::new(),
            holders: Default::default(),
            ended: Vec::new(),
            started: Vec::new(),
            discarded: Vec::new(),
            told: false,
            lost: Vec::new(),
            busy: false,
            ask,
            serving,
            registry,
            context,
            shutdown,
        }
    }

    /// Runs it to its end.
    pub(super) async fn run(mut self) -> Result<Receipt, ReloadError> {
        let mut phase = Phase::Prepare;
        let mut events = VecDeque::from([self.prepare().await]);
        while let Some(event) = events.pop_front() {
            let event = self.or_shutdown(event);
            let before = self.machine;
            phase = before.phase();
            let until = self.context.clock.now() + RECOVERY;
            let Ok(effects) = self.machine.step(event, until) else {
                tracing::error!(operation = %self.id, ?event, state = ?self.machine.state(), "unexpected in a reload");
                continue;
            };
            tracing::debug!(operation = %self.id, ?event, from = ?before.state(), to = ?self.machine.state(), "reload");
            for effect in effects {
                events.extend(self.carry_out(effect).await);
            }
        }
        self.keep().await;
        self.conclude(phase).map_err(|error| *error)
    }

    /// What was published is also what is known after a restart, before anybody is told of it.
    async fn keep(&self) {
        let serving = self.context.published.load();
        if let Some(serving) = serving.filter(|serving| serving.id != self.serving.id) {
            self.context.loader.settle(&serving.inventory, serving.id.0).await;
        }
    }

    /// Once the gateway stops, nothing more is built. What has been put back is let go with all that serves.
    fn or_shutdown(&self, event: Event) -> Event {
        let too_late = matches!(
            self.machine.state(),
            State::Publishing { .. } | State::Published | State::Done(_)
        ) || event == Event::Restored;
        match self.shutdown.is_cancelled() && !too_late {
            true => Event::Shutdown,
            false => event,
        }
    }

    async fn carry_out(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::HoldGate(until) => Some(self.drain(until).await),
            Effect::Quiesce => {
                self.serving.inventory.quiesce(&self.targets);
                None
            }
            Effect::Resume => {
                self.serving.inventory.resume(&self.targets);
                None
            }
            // observers are futures of this task: they were dropped with what they waited for
            Effect::DropObservers => None,
            Effect::OpenGate => {
                let _registry_gone = self.registry.send(ReopenAdmission).await;
                None
            }
            Effect::StopServices => Some(self.stop_services().await),
            Effect::Dispose => Some(self.dispose().await),
            Effect::Register => Some(self.register().await),
            Effect::Start => Some(self.start().await),
            Effect::Discard => {
                self.discard().await;
                None
            }
            Effect::Publish => Some(self.publish().await),
            Effect::Settle => Some(self.settle().await),
            Effect::JoinCleanup(until) => Some(self.join_cleanup(until).await),
            Effect::Restore => Some(self.restore().await),
            Effect::MarkUnready => {
                self.bar();
                None
            }
            Effect::RetryWhenIdle => {
                self.context.published.defer(&self.serving, &self.waits_for());
                None
            }
        }
    }

    async fn publish(&mut self) -> Event {
        let Some(inventory) = self.built.as_ref().map(|built| built.inventory.clone()) else {
            return Event::NotPublished;
        };
        let shards = self.shards.take();
        self.context.loader.remember(&inventory).await;
        match staffing::publish(&self.registry, &self.serving, Swap { inventory, shards }).await {
            Ok(generation) => {
                self.generation = generation;
                let changed = events::Event::PluginsChanged { generation };
                self.context.tap.publish(|| changed);
                Event::Published
            }
            Err(error) => {
                self.message = Some(error.to_string());
                Event::NotPublished
            }
        }
    }
}
