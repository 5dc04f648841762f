//! A published generation: immutable, swapped whole. A turn holds one from admission to its end and never sees two.

mod inside;
mod kept;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use actix::Recipient;
use arc_swap::ArcSwap;
use tokio::sync::Notify;
use understudy_messages::context::TurnEngine;
use understudy_messages::ids::{GenerationId, Name, ShardIndex};
use understudy_messages::ports::{ProviderPorts, ShardPort, Slot};
use understudy_messages::registry::StartProviders;
use understudy_messages::settings::AgentSettings;

use super::gate::Gate;
use super::holders::Holders;
use super::origins::Origins;
use super::roster::Roster;
use crate::hooks::Hooks;
use crate::inventory::Inventory;
use crate::provider::ledger::Ledgers;
use crate::tools::Tools;

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
    origins: Arc<Origins>,
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
            origins: Arc::default(),
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

    /// Its turns are known there.
    pub(super) fn known_to(mut self, origins: &Arc<Origins>) -> Self {
        self.origins = origins.clone();
        self
    }

    /// Where its turns are known.
    pub(super) const fn origins(&self) -> &Arc<Origins> {
        &self.origins
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

    pub(super) fn replace_shard(&self, index: ShardIndex, shard: Arc<Shard>) {
        if let Some(slot) = self.shards.get(index.0) {
            slot.store(shard);
        }
    }
}

impl Shard {
    /// Whether the arbiter is gone with its actors.
    pub(super) fn gone(&self) -> bool {
        self.sessions.get().is_none_or(|port| !port.run.connected())
    }
}
