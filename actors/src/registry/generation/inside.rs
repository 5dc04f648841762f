//! Who is inside a generation, and who is kept out: its gates and its holders.

use std::cmp::Reverse;
use std::sync::{Arc, Weak};

use understudy_messages::clock::Instant;
use understudy_messages::ids::{Name, TurnId};
use understudy_messages::registry::{GenerationState, GenerationStatus, Holder};
use understudy_messages::settings::AgentSettings;
use understudy_messages::turn::TurnRequest;

use super::Generation;
use crate::registry::gate::Gate;
use crate::registry::held::{Agents, Comer};
use crate::registry::operation::MOST_HOLDERS;

impl Generation {
    /// Lets a turn in at the gate of its agent and tells which that is; `None` when it is closed.
    pub(in crate::registry) fn enter(&self, comer: &Comer, now: Instant) -> Option<usize> {
        let gate = self.gate_of(&comer.turn);
        self.gates.get(gate)?.enter().then(|| {
            self.holders.enter(comer, gate, now);
            gate
        })
    }

    /// Lets a turn in beside one that is inside at `gate` and stays until this has returned.
    pub(in crate::registry) fn enter_beside(&self, comer: &Comer, gate: usize, now: Instant) {
        if let Some(gate) = self.gates.get(gate) {
            gate.enter_beside();
        }
        self.holders.enter(comer, gate, now);
    }

    /// A turn that came in at a gate leaves.
    pub(in crate::registry) fn leave(&self, turn: TurnId, gate: usize) {
        self.holders.leave(turn);
        if self.gates.get(gate).is_some_and(Gate::leave) {
            self.emptied.notify_waiters();
        }
    }

    fn gate_of(&self, turn: &TurnRequest) -> usize {
        let place = self.roster.agent_place(turn.agent.as_deref(), &turn.facts.model);
        place.filter(|place| *place < self.gates.len()).unwrap_or_default()
    }

    /// Which turns of some agents are inside.
    pub(in crate::registry) fn inside(&self, agents: &Agents) -> Vec<TurnId> {
        self.holders.ids(|place| agents.has(place))
    }

    /// Whether a turn is inside.
    pub(in crate::registry) fn has(&self, turn: TurnId) -> bool {
        self.holders.has(turn)
    }

    /// Those before it that are held, and which of their turns are those of `agents`: everybody's where agents have changed.
    fn earlier<'a>(&'a self, agents: &'a Agents) -> impl Iterator<Item = (Arc<Self>, &'a Agents)> {
        let held = self.earlier.iter().filter_map(Weak::upgrade);
        held.map(move |earlier| {
            let same = Arc::ptr_eq(earlier.roster.settings(), self.roster.settings());
            (earlier, if same { agents } else { &Agents::All })
        })
    }

    /// Turns that hold this generation.
    pub fn leases(&self) -> u64 {
        self.gates.iter().map(Gate::holders).sum()
    }

    /// Turns of some agents that hold it.
    pub(in crate::registry) fn leases_of(&self, agents: &Agents) -> u64 {
        let concerned = self.gates.iter().enumerate().filter(|(place, _)| agents.has(*place));
        concerned.map(|(_, gate)| gate.holders()).sum()
    }

    /// One of some plugins whose old instance an earlier generation still has, though it cannot be there twice.
    pub(in crate::registry) fn lingering(&self, plugins: &[Name]) -> Option<Name> {
        let mut earlier = self.earlier.iter().filter_map(Weak::upgrade);
        earlier.find_map(|earlier| earlier.inventory.lingering(plugins, &self.inventory).cloned())
    }

    /// Who they are, and who holds an earlier one: the oldest first, at most `most`, and how many more there are.
    pub(in crate::registry) fn holders(&self, agents: &Agents, most: usize, now: Instant) -> (Vec<Holder>, usize) {
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

    /// Those of its own.
    pub(in crate::registry) fn own_holders(&self, agents: &Agents, most: usize, now: Instant) -> (Vec<Holder>, usize) {
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
    pub(in crate::registry) fn agents_using(&self, plugins: &[Name]) -> Agents {
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
    pub(in crate::registry) fn close(&self, agents: &Agents) {
        for (place, gate) in self.gates.iter().enumerate() {
            if agents.has(place) {
                gate.close();
            }
        }
    }

    /// Opens every gate.
    pub(in crate::registry) fn reopen(&self) {
        self.gates.iter().for_each(Gate::reopen);
    }

    pub(in crate::registry) fn status(&self, state: GenerationState, calls: u64, now: Instant) -> GenerationStatus {
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

    /// Waits until nobody holds this generation or an earlier one. Meant for closed gates: an open one may fill again at once.
    pub async fn empty(&self) {
        self.empty_of(&Agents::All).await;
    }

    /// Waits until no turn of some agents holds it or an earlier one. Meant for closed gates.
    pub(in crate::registry) async fn empty_of(&self, agents: &Agents) {
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
