//! One reload under way: carries out what [`Machine`] decides, and tells it what came of it.
//!
//! It runs in a task of its own on the registry's arbiter. Gate and publication belong to the registry: it is asked.

mod instances;
mod progress;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix::{Addr, Message};
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::Instant;
use understudy_messages::events;
use understudy_messages::ids::{GenerationId, Name};
use understudy_messages::registry::{Holder, Phase, Receipt, Reload, ReloadError, ReloadOutcome, ReopenAdmission};
use understudy_messages::settings::Settings;
use uuid::Uuid;

pub(super) use self::progress::Progress;
use super::barrier::Barred;
use super::generation::{Agents, Generation, Shard};
use super::reload::machine::{Effect, Event, Machine, Plan, State};
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
/// How many plugins one reload may name.
const MOST_PLUGINS: usize = 64;
/// How many lines a receipt warns, and how long each may be.
const WARNINGS: (usize, usize) = (8, 240);

/// Close the gate of some agents.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct HoldFor(pub(super) Agents);

/// Let a new inventory, and perhaps new settings, serve.
#[derive(Clone, Message)]
#[rtype(result = "Result<GenerationId, ArbiterChanged>")]
pub(super) struct Swap {
    pub(super) settings: Arc<Settings>,
    pub(super) inventory: Arc<Inventory>,
    /// The arbiters, with the providers of new settings.
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
    /// Old instances that could not be put back with the others.
    lost: Vec<Name>,
    /// Whether it is worth trying again soon.
    busy: bool,
    generation: GenerationId,
    message: Option<String>,
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
            holders: Default::default(),
            ended: Vec::new(),
            started: Vec::new(),
            discarded: Vec::new(),
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
        let too_late = matches!(self.machine.state(), State::Published | State::Done(_)) || event == Event::Restored;
        match self.shutdown.is_cancelled() && !too_late {
            true => Event::Shutdown,
            false => event,
        }
    }

    async fn prepare(&mut self) -> Event {
        if let Err(why) = check(&self.ask) {
            self.message = Some(why);
            return Event::Refused;
        }
        let (loader, ask) = (self.context.loader.clone(), self.ask.clone());
        let serving = self.serving.clone();
        let settings = ask.settings.unwrap_or_else(|| serving.roster.settings().clone());
        let plan = move || loader.plan(settings, Some(&serving.inventory), &ask.plugins);
        let Ok(planned) = tokio::task::spawn_blocking(plan).await else {
            self.message = Some("The candidate could not be prepared.".to_owned());
            return Event::Refused;
        };
        if let Some(unknown) = planned.unknown.first() {
            self.message = Some(format!("There is no plugin {unknown} that is switched on."));
            return Event::Refused;
        }
        if let Some((plugin, why)) = &planned.refused {
            self.message = Some(format!("The plugin {plugin} {why}. Nothing was changed."));
            return Event::Refused;
        }
        self.started.clone_from(&planned.diff.started);
        self.ended.clone_from(&planned.diff.ended);
        self.targets = [&self.started[..], &self.ended].concat();
        self.targets.sort();
        self.targets.dedup();
        if let Err(barred) = self.context.published.barrier().check(&self.targets) {
            self.busy = matches!(barred, Barred::Pending(_));
            self.message = Some(barred.to_string());
            return Event::Refused;
        }
        let plan = Plan {
            changes: !planned.diff.is_empty() || self.changes_settings(),
            exclusive: planned.exclusive,
            drain_until: self.context.clock.now() + self.budget(),
            watched: self.ask.settings.is_some(),
        };
        self.planned = Some(planned);
        if self.ask.superseded.is_cancelled() {
            return Event::Superseded;
        }
        self.show("reloading", None, None);
        Event::Prepared(plan)
    }

    fn changes_settings(&self) -> bool {
        let serving = self.serving.roster.settings();
        self.ask.settings.as_ref().is_some_and(|settings| settings != serving)
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
            Effect::Publish => self.publish().await,
            Effect::Settle => Some(self.settle()),
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

    /// Holds the agents that use a target, and waits for those of their turns that are inside.
    async fn drain(&mut self, until: Instant) -> Event {
        let agents = self.waits_for();
        self.show_waiting(until, &agents);
        let _registry_gone = self.registry.send(HoldFor(agents.clone())).await;
        tokio::select! {
            biased;
            () = self.emptied(&agents) => Event::Empty,
            () = self.shutdown.cancelled() => Event::Shutdown,
            () = self.ask.requester.cancelled() => Event::RequesterGone,
            () = self.ask.superseded.cancelled() => Event::Superseded,
            () = self.context.clock.sleep_until(until) => {
                self.holders = self.serving.holders(&agents, MOST_HOLDERS, self.context.clock.now());
                self.message = Some(self.held_up());
                Event::Deadline
            }
        }
    }

    /// The agents whose turns may call what goes.
    fn waits_for(&self) -> Agents {
        self.serving.agents_using(&self.ended)
    }

    fn held_up(&self) -> String {
        let (rows, omitted) = &self.holders;
        let count = rows.len() + omitted;
        let oldest = rows.first().map(|row| {
            let session = row.session.as_deref().unwrap_or("-");
            format!(
                "; the oldest is turn {} of session {session}, {} s old",
                row.id,
                row.age.as_secs()
            )
        });
        format!(
            "{count} turns still use what is to be replaced{}. The old generation serves on. Try again, or wait longer.",
            oldest.unwrap_or_default()
        )
    }

    async fn publish(&mut self) -> Option<Event> {
        let built = self.built.as_mut()?;
        let (settings, shards) = match self.machine.state() {
            State::Published => (self.ask.settings.clone(), self.shards.take()),
            _ => (None, None),
        };
        let swap = Swap {
            settings: settings.unwrap_or_else(|| self.serving.roster.settings().clone()),
            inventory: built.inventory.clone(),
            shards,
        };
        self.context.loader.remember(&swap.inventory).await;
        match staffing::publish(&self.registry, &self.serving, swap).await {
            Ok(generation) => {
                self.generation = generation;
                let changed = events::Event::PluginsChanged { generation };
                self.context.tap.publish(|| changed);
                None
            }
            Err(error) => {
                self.message = Some(error.to_string());
                None
            }
        }
    }

    fn conclude(self, phase: Phase) -> Result<Receipt, Box<ReloadError>> {
        let State::Done(outcome) = self.machine.state() else {
            self.context.published.show(None);
            return Err(Box::new(self.error(ReloadOutcome::Failed, phase)));
        };
        let took = self.context.clock.now().duration_since(self.began);
        let at = self.context.clock.wall();
        self.context.telemetry.reloaded(self.ask.trigger, outcome, took, at);
        let failed = outcome == ReloadOutcome::Failed;
        self.context.published.show(None);
        if matches!(
            outcome,
            ReloadOutcome::Applied | ReloadOutcome::Degraded | ReloadOutcome::Restored
        ) {
            self.context.published.barrier().lift(&self.targets);
            self.context.published.barrier().raise(&self.lost, &[]);
        }
        self.publish_step(if failed { "failed" } else { "reloading" }, None, Some(outcome));
        match outcome {
            ReloadOutcome::Applied | ReloadOutcome::Unchanged => Ok(self.receipt(outcome)),
            ReloadOutcome::Degraded
            | ReloadOutcome::Rejected
            | ReloadOutcome::DrainTimeout
            | ReloadOutcome::RolledBack
            | ReloadOutcome::Restored
            | ReloadOutcome::Deferred
            | ReloadOutcome::Cancelled
            | ReloadOutcome::Failed => Err(Box::new(self.error(outcome, phase))),
        }
    }

    fn receipt(self, outcome: ReloadOutcome) -> Receipt {
        let built = self.built;
        let warned = built
            .as_ref()
            .map(|built| built.inventory.warnings(&self.targets))
            .unwrap_or_default();
        let short = |line: String| line.chars().take(WARNINGS.1).collect();
        let restart_required = built
            .as_ref()
            .is_some_and(|built| built.inventory.has_native(&self.targets));
        tracing::info!(operation = %self.id, outcome = outcome.as_label(), generation = self.generation.0,
            plugins = ?self.targets, "reload");
        Receipt {
            operation_id: self.id,
            outcome,
            generation: Some(self.generation),
            plugin_ids: self.targets,
            source_digests: built
                .map(|built| built.digests.into_iter().collect())
                .unwrap_or_default(),
            warnings: warned.into_iter().take(WARNINGS.0).map(short).collect(),
            restart_required,
        }
    }

    fn error(self, outcome: ReloadOutcome, phase: Phase) -> ReloadError {
        let message = self.message.unwrap_or_else(|| usual(outcome).to_owned());
        tracing::warn!(operation = %self.id, outcome = outcome.as_label(), plugins = ?self.targets, message, "reload");
        ReloadError {
            operation_id: Some(self.id),
            outcome,
            phase,
            committed: self.machine.is_committed(),
            generation: Some(self.generation),
            plugin_ids: self.targets,
            message,
            retry_after_ms: self.busy.then_some(1_000),
            holders: self.holders.0,
            omitted: self.holders.1,
        }
    }
}

/// What is wrong with a request, before anything is looked at.
fn check(ask: &Reload) -> Result<(), String> {
    if ask.plugins.len() > MOST_PLUGINS {
        return Err(format!("One reload may name {MOST_PLUGINS} plugins."));
    }
    match ask.plugins.is_empty() && ask.settings.is_none() {
        true => Err("Name the plugins to reload.".to_owned()),
        false => Ok(()),
    }
}

const fn usual(outcome: ReloadOutcome) -> &'static str {
    match outcome {
        ReloadOutcome::Applied | ReloadOutcome::Unchanged => "Done.",
        ReloadOutcome::Degraded => "The new generation serves, and something that follows a publication failed.",
        ReloadOutcome::Rejected => "The candidate was refused; nothing was touched.",
        ReloadOutcome::DrainTimeout => "Turns still use what is to be replaced. The old generation serves on.",
        ReloadOutcome::RolledBack => "The old generation serves on.",
        ReloadOutcome::Restored => "The old code was put back.",
        ReloadOutcome::Deferred => "It will be applied once the turns that use what is to be replaced have ended.",
        ReloadOutcome::Cancelled => "Whoever asked is gone, or the gateway stops. The old generation serves on.",
        ReloadOutcome::Failed => "Neither the new nor the old code serves.",
    }
}
