//! A published generation: immutable, swapped whole. A turn holds one from admission to its end and never sees two.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use actix::Recipient;
use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::Notify;
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::context::TurnEngine;
use understudy_messages::ids::{GenerationId, Name, ShardIndex, TurnId};
use understudy_messages::lease::{Holding, TurnLease};
use understudy_messages::ports::{ProviderPorts, ShardPort, Slot};
use understudy_messages::registry::{
    GenerationState, GenerationStatus, Holder as HolderRow, ReloadStatus, StartProviders,
};
use understudy_messages::settings::AgentSettings;
use understudy_messages::turn::TurnRequest;

use super::barrier::Barrier;
use super::gate::Gate;
use super::holders::Holders;
use super::operation::{MOST_HOLDERS, Progress};
use super::roster::Roster;
use crate::hooks::Hooks;
use crate::inventory::Inventory;
use crate::provider::ledger::Ledgers;
use crate::tools::Tools;

/// How often it is looked whether those that a reload waits for have left.
const IDLE_LOOK: Duration = Duration::from_millis(500);

/// The actors of one session arbiter. An actor that is started again takes its slot; an arbiter that comes back replaces
/// the whole.
#[derive(Debug)]
pub struct Shard {
    /// Its sessions.
    pub sessions: Arc<Slot<ShardPort>>,
    /// What starts its providers.
    pub pool: Arc<Slot<Recipient<StartProviders>>>,
    /// Its providers.
    pub providers: ProviderPorts,
}

/// What turns are served from.
#[derive(Debug)]
pub struct Generation {
    /// Its number.
    pub id: GenerationId,
    /// Who may answer which request.
    pub roster: Roster,
    /// The plugins that it has.
    pub inventory: Arc<Inventory>,
    /// How its candidates are.
    pub ledgers: Arc<Ledgers>,
    /// The hooks and tools of agents that list their plugins.
    agents: HashMap<Name, (Arc<Hooks>, Arc<Tools>)>,
    shards: Vec<ArcSwap<Shard>>,
    /// One for each agent, in their order: a reload holds only those who would use what it replaces.
    gates: Box<[Gate]>,
    emptied: Notify,
    holders: Holders,
    /// Those before it that turns still held when it was published: they may use instances that it has as well.
    earlier: Box<[Weak<Self>]>,
}

impl Generation {
    pub(super) fn new(
        id: GenerationId,
        roster: Roster,
        inventory: Arc<Inventory>,
        ledgers: Arc<Ledgers>,
        shards: Vec<Arc<Shard>>,
    ) -> Self {
        let hooks = inventory.hooks();
        let tools = inventory.tools();
        let listing = roster.settings().agents.iter().filter_map(|agent| {
            let plugins = agent.plugins.as_ref()?;
            let own = (Arc::new(hooks.only(plugins)), Arc::new(tools.only(plugins)));
            Some((agent.name.clone(), own))
        });
        // a turn of no agent is told so by whoever casts it: until then it counts with the first one's
        let gates = (0..roster.settings().agents.len().max(1)).map(|_| Gate::open());
        Self {
            id,
            agents: listing.collect(),
            roster,
            inventory,
            ledgers,
            shards: shards.into_iter().map(ArcSwap::from).collect(),
            gates: gates.collect(),
            emptied: Notify::new(),
            holders: Holders::default(),
            earlier: Box::default(),
        }
    }

    /// This one, in the place of `before`.
    pub(super) fn after(mut self, before: Option<&Arc<Self>>) -> Self {
        let earlier = before.iter().flat_map(|before| before.earlier.iter().cloned());
        let held = earlier.filter(|earlier| earlier.strong_count() > 0);
        self.earlier = held.chain(before.map(Arc::downgrade)).collect();
        self
    }

    /// Those before it that are held, and which of their turns are those of `agents`: everybody's where agents have changed.
    fn earlier<'a>(&'a self, agents: &'a Agents) -> impl Iterator<Item = (Arc<Self>, &'a Agents)> {
        let held = self.earlier.iter().filter_map(Weak::upgrade);
        held.map(move |earlier| {
            let same = Arc::ptr_eq(earlier.roster.settings(), self.roster.settings());
            (earlier, if same { agents } else { &Agents::All })
        })
    }

    /// Who is called for which hook in turns of an agent.
    pub fn hooks_of(&self, agent: &AgentSettings) -> &Arc<Hooks> {
        let own = self.agents.get(&agent.name);
        own.map_or(self.inventory.hooks(), |(hooks, _)| hooks)
    }

    /// The tools that turns of an agent may use.
    pub fn tools_of(&self, agent: &AgentSettings) -> &Arc<Tools> {
        let own = self.agents.get(&agent.name);
        own.map_or(self.inventory.tools(), |(_, tools)| tools)
    }

    /// The context engine that the operator chose, where turns of an agent may use its plugin.
    pub fn engine_of(&self, agent: &AgentSettings) -> Option<TurnEngine> {
        let engine = self.inventory.engine()?;
        let listed = agent.plugins.as_ref();
        let may = listed.is_none_or(|listed| listed.iter().any(|id| id.eq_ignore_ascii_case(&engine.plugin)));
        may.then_some(engine)
    }

    /// How many session arbiters there are.
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// The actors of one session arbiter.
    pub fn shard(&self, index: ShardIndex) -> Option<Arc<Shard>> {
        self.shards.get(index.0).map(ArcSwap::load_full)
    }

    /// The provider actors of one session arbiter; none for an arbiter that is not listed.
    pub fn providers(&self, index: ShardIndex) -> ProviderPorts {
        self.shard(index)
            .map_or_else(|| Arc::from([]), |shard| shard.providers.clone())
    }

    /// Turns that hold this generation.
    pub fn leases(&self) -> u64 {
        self.gates.iter().map(Gate::holders).sum()
    }

    /// Turns of some agents that hold it.
    pub(super) fn leases_of(&self, agents: &Agents) -> u64 {
        let concerned = self.gates.iter().enumerate().filter(|(place, _)| agents.has(*place));
        concerned.map(|(_, gate)| gate.holders()).sum()
    }

    /// Who they are, and who holds an earlier one: the oldest first, at most `most`, and how many more there are.
    pub(super) fn holders(&self, agents: &Agents, most: usize, now: Instant) -> (Vec<HolderRow>, usize) {
        let (mut rows, mut omitted) = self.own_holders(agents, most, now);
        for (earlier, agents) in self.earlier(agents) {
            let (more, further) = earlier.own_holders(agents, most, now);
            rows.extend(more);
            omitted += further;
        }
        rows.sort_by_key(|row| Reverse(row.age));
        omitted += rows.len().saturating_sub(most);
        rows.truncate(most);
        (rows, omitted)
    }

    fn own_holders(&self, agents: &Agents, most: usize, now: Instant) -> (Vec<HolderRow>, usize) {
        let names: Vec<Name> = self
            .roster
            .settings()
            .agents
            .iter()
            .map(|agent| agent.name.clone())
            .collect();
        self.holders.rows(|place| agents.has(place), &names, most, now)
    }

    /// The agents whose turns may call one of some plugins.
    pub(super) fn agents_using(&self, plugins: &[Name]) -> Agents {
        let agents = self.roster.settings().agents.iter().enumerate();
        let uses = |agent: &AgentSettings| {
            let listed = agent.plugins.as_ref();
            listed.is_none_or(|listed| {
                listed
                    .iter()
                    .any(|id| plugins.iter().any(|it| it.eq_ignore_ascii_case(id)))
            })
        };
        Agents::Some(
            agents
                .filter(|(_, agent)| uses(agent))
                .map(|(place, _)| place)
                .collect(),
        )
    }

    /// Closes the gates of some agents.
    pub(super) fn close(&self, agents: &Agents) {
        for (place, gate) in self.gates.iter().enumerate() {
            if agents.has(place) {
                gate.close();
            }
        }
    }

    /// Opens every gate.
    pub(super) fn reopen(&self) {
        self.gates.iter().for_each(Gate::reopen);
    }

    fn status(&self, state: GenerationState, calls: u64, now: Instant) -> GenerationStatus {
        let (holders, omitted) = self.holders(&Agents::All, MOST_HOLDERS, now);
        GenerationStatus {
            generation: self.id,
            state,
            turns: self.leases(),
            calls,
            holders,
            omitted,
        }
    }

    fn gate_of(&self, turn: &TurnRequest) -> usize {
        let place = self.roster.agent_place(turn.agent.as_deref(), &turn.facts.model);
        place.filter(|place| *place < self.gates.len()).unwrap_or_default()
    }

    pub(super) fn replace_shard(&self, index: ShardIndex, shard: Arc<Shard>) {
        if let Some(slot) = self.shards.get(index.0) {
            slot.store(shard);
        }
    }

    /// Waits until nobody holds this generation or an earlier one. Meant for closed gates: an open one may fill again at once.
    pub async fn empty(&self) {
        self.empty_of(&Agents::All).await;
    }

    /// Waits until no turn of some agents holds it or an earlier one. Meant for closed gates.
    pub(super) async fn empty_of(&self, agents: &Agents) {
        for (earlier, agents) in self.earlier(agents) {
            earlier.own_empty(agents).await;
        }
        self.own_empty(agents).await;
    }

    async fn own_empty(&self, agents: &Agents) {
        loop {
            let emptied = self.emptied.notified();
            if self.leases_of(agents) == 0 {
                return;
            }
            emptied.await;
        }
    }
}

impl Shard {
    /// Whether the arbiter is gone with its actors.
    pub(super) fn gone(&self) -> bool {
        self.sessions.get().is_none_or(|port| !port.run.connected())
    }
}

/// The serving generation, for everyone to read without a message.
#[derive(Debug, Default)]
pub struct Published {
    serving: ArcSwapOption<Generation>,
    /// Those that served before and that somebody may still hold.
    past: Mutex<Vec<Weak<Generation>>>,
    closing: AtomicBool,
    pub(super) reload: ArcSwapOption<Progress>,
    pub(super) changed: Notify,
    barrier: Barrier,
    deferred: ArcSwapOption<Deferred>,
}

/// The turns that a reload has waited for in vain.
#[derive(Debug)]
struct Deferred {
    generation: Weak<Generation>,
    turns: Vec<TurnId>,
}

impl Published {
    /// The serving generation; `None` before the first.
    pub fn load(&self) -> Option<Arc<Generation>> {
        self.serving.load_full()
    }

    /// A reload under way, or one that left something that does not serve.
    pub fn reload(&self, now: Instant) -> Option<ReloadStatus> {
        // one that holds nobody hides nothing that does not serve
        let under_way = self.under_way(now);
        match under_way.as_ref().is_some_and(ReloadStatus::holds_turns) {
            true => under_way,
            false => self.barrier.status().or(under_way),
        }
    }

    /// What failed reloads left behind.
    pub(super) const fn barrier(&self) -> &Barrier {
        &self.barrier
    }

    fn under_way(&self, now: Instant) -> Option<ReloadStatus> {
        let progress = self.reload.load_full()?;
        let serving = self.load();
        let waits = progress.waits_for.as_ref().zip(serving);
        let (holders, omitted) = waits
            .map(|(agents, serving)| serving.holders(agents, MOST_HOLDERS, now))
            .unwrap_or_default();
        let left = progress.until.map(|until| until.saturating_duration_since(now));
        Some(ReloadStatus {
            phase: progress.phase,
            plugin_ids: progress.plugins.clone(),
            deadline_in_ms: left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
            reason: progress.reason.clone(),
            holders,
            omitted,
            budget: progress.budget,
        })
    }

    /// The serving generation and those that served before it and are still held, the newest first.
    pub fn generations(&self, now: Instant) -> Vec<GenerationStatus> {
        let Some(serving) = self.load() else { return Vec::new() };
        let state = match self.reload.load_full() {
            Some(progress) if progress.phase == "failed" => GenerationState::Failed,
            Some(progress) if progress.waits_for.is_some() => GenerationState::Draining,
            _ => GenerationState::Serving,
        };
        let mut all = vec![serving.status(state, serving.inventory.calls(), now)];
        let past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        let held = past.iter().rev().filter_map(Weak::upgrade);
        all.extend(held.map(|old| {
            let calls = old.inventory.calls_but(&serving.inventory);
            old.status(GenerationState::Retiring, calls, now)
        }));
        all
    }

    /// Whether a generation is being made.
    pub fn is_preparing(&self) -> bool {
        let progress = self.reload.load();
        progress
            .as_ref()
            .is_some_and(|it| it.phase != "failed" && it.waits_for.is_none())
    }

    /// Remembers who is inside: what was put off is tried again when they have left.
    pub(super) fn defer(&self, generation: &Arc<Generation>, agents: &Agents) {
        self.deferred.store(Some(Arc::new(Deferred {
            generation: Arc::downgrade(generation),
            turns: generation.holders.ids(|place| agents.has(place)),
        })));
    }

    /// Waits until the turns that the last reload has waited for in vain have ended. Nobody is held meanwhile.
    pub async fn idle(&self, clock: &Clock) {
        let Some(deferred) = self.deferred.load_full() else {
            return;
        };
        while deferred.is_inside() {
            clock.sleep(IDLE_LOOK).await;
        }
    }

    pub(super) fn show(&self, progress: Option<Progress>) {
        self.reload.store(progress.map(Arc::new));
        self.changed.notify_waiters();
    }

    pub(super) fn store(&self, generation: Arc<Generation>) {
        let before = self.serving.swap(Some(generation));
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        past.retain(|old| old.strong_count() > 0);
        past.extend(before.map(|before| Arc::downgrade(&before)));
        self.changed.notify_waiters();
    }

    /// Whether admission has been closed for good.
    pub fn closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }
}

impl Deferred {
    fn is_inside(&self) -> bool {
        let generation = self.generation.upgrade();
        generation.is_some_and(|it| self.turns.iter().any(|turn| it.holders.has(*turn)))
    }
}

/// Whom a gate concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Agents {
    /// Everybody.
    All,
    /// Those at these places.
    Some(Vec<usize>),
}

impl Agents {
    fn has(&self, place: usize) -> bool {
        match self {
            Self::All => true,
            Self::Some(places) => places.contains(&place),
        }
    }
}

/// A counted hold on a generation.
#[derive(Clone, Debug)]
pub struct Held(Arc<Holder>);

#[derive(Debug)]
struct Holder {
    generation: Arc<Generation>,
    gate: usize,
    turn: TurnId,
}

impl Held {
    /// Enters the gate of the turn's agent; `None` when it is closed.
    pub(super) fn enter(generation: Arc<Generation>, turn: &Arc<TurnRequest>, now: Instant) -> Option<Self> {
        let gate = generation.gate_of(turn);
        generation.gates.get(gate)?.enter().then(|| {
            generation.holders.enter(turn, gate, now);
            let turn = turn.id;
            Self(Arc::new(Holder { generation, gate, turn }))
        })
    }

    /// The generation that is held.
    pub fn generation(&self) -> &Arc<Generation> {
        &self.0.generation
    }

    /// The lease that the turn's messages carry; it shares this hold's count.
    pub fn lease(&self) -> TurnLease {
        TurnLease::new(self.0.clone())
    }
}

impl Holding for Holder {
    fn generation(&self) -> GenerationId {
        self.generation.id
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.generation.holders.leave(self.turn);
        if self.generation.gates.get(self.gate).is_some_and(Gate::leave) {
            self.generation.emptied.notify_waiters();
        }
    }
}
