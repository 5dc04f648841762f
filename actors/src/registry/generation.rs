//! A published generation: immutable, swapped whole. A turn holds one from admission to its end and never sees two.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::Notify;
use understudy_messages::ids::{GenerationId, Name, ShardIndex};
use understudy_messages::lease::{Holding, TurnLease};
use understudy_messages::ports::{ProviderPort, ShardPort, Slot};
use understudy_messages::settings::AgentSettings;

use super::gate::Gate;
use super::roster::Roster;
use crate::hooks::Hooks;
use crate::tools::Tools;

/// The actors of one session arbiter. An actor that is started again takes its slot; an arbiter that comes back replaces
/// the whole.
#[derive(Debug)]
pub struct Shard {
    /// Its sessions.
    pub sessions: Arc<Slot<ShardPort>>,
    /// Its providers, by provider index.
    pub providers: Arc<[Slot<ProviderPort>]>,
}

/// What turns are served from.
#[derive(Debug)]
pub struct Generation {
    /// Its number.
    pub id: GenerationId,
    /// Who may answer which request.
    pub roster: Roster,
    /// Who is called for which hook, whichever agent speaks.
    pub hooks: Arc<Hooks>,
    /// The tools that run here, whichever agent speaks.
    pub tools: Arc<Tools>,
    /// The hooks and tools of agents that list their plugins.
    agents: HashMap<Name, (Arc<Hooks>, Arc<Tools>)>,
    shards: Vec<ArcSwap<Shard>>,
    pub(super) gate: Gate,
    pub(super) emptied: Notify,
}

impl Generation {
    pub(super) fn new(
        id: GenerationId,
        roster: Roster,
        (hooks, tools): (Arc<Hooks>, Arc<Tools>),
        shards: Vec<Arc<Shard>>,
    ) -> Self {
        let listing = roster.settings().agents.iter().filter_map(|agent| {
            let plugins = agent.plugins.as_ref()?;
            let own = (Arc::new(hooks.only(plugins)), Arc::new(tools.only(plugins)));
            Some((agent.name.clone(), own))
        });
        Self {
            id,
            agents: listing.collect(),
            roster,
            hooks,
            tools,
            shards: shards.into_iter().map(ArcSwap::from).collect(),
            gate: Gate::open(),
            emptied: Notify::new(),
        }
    }

    /// Who is called for which hook in turns of an agent.
    pub fn hooks_of(&self, agent: &AgentSettings) -> &Arc<Hooks> {
        self.agents.get(&agent.name).map_or(&self.hooks, |(hooks, _)| hooks)
    }

    /// The tools that turns of an agent may use.
    pub fn tools_of(&self, agent: &AgentSettings) -> &Arc<Tools> {
        self.agents.get(&agent.name).map_or(&self.tools, |(_, tools)| tools)
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
    pub fn providers(&self, index: ShardIndex) -> Arc<[Slot<ProviderPort>]> {
        self.shard(index)
            .map_or_else(|| Arc::from([]), |shard| shard.providers.clone())
    }

    /// Turns that hold this generation.
    pub fn leases(&self) -> u64 {
        self.gate.holders()
    }

    pub(super) fn replace_shard(&self, index: ShardIndex, shard: Arc<Shard>) {
        if let Some(slot) = self.shards.get(index.0) {
            slot.store(shard);
        }
    }

    /// Waits until nobody holds this generation. Meant for a closed gate: an open one may fill again at once.
    pub async fn empty(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.leases() == 0 {
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
    closing: AtomicBool,
}

impl Published {
    /// The serving generation; `None` before the first.
    pub fn load(&self) -> Option<Arc<Generation>> {
        self.serving.load_full()
    }

    pub(super) fn store(&self, generation: Arc<Generation>) {
        self.serving.store(Some(generation));
    }

    /// Whether admission has been closed for good.
    pub fn closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }
}

/// A counted hold on a generation.
#[derive(Clone, Debug)]
pub struct Held(Arc<Holder>);

#[derive(Debug)]
struct Holder(Arc<Generation>);

impl Held {
    /// Enters the generation's gate; `None` when it is closed.
    pub(super) fn enter(generation: Arc<Generation>) -> Option<Self> {
        generation.gate.enter().then(|| Self(Arc::new(Holder(generation))))
    }

    /// The generation that is held.
    pub fn generation(&self) -> &Arc<Generation> {
        &self.0.0
    }

    /// The lease that the turn's messages carry; it shares this hold's count.
    pub fn lease(&self) -> TurnLease {
        TurnLease::new(self.0.clone())
    }
}

impl Holding for Holder {
    fn generation(&self) -> GenerationId {
        self.0.id
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        if self.0.gate.leave() {
            self.0.emptied.notify_waiters();
        }
    }
}
