//! A turn's hold on a generation, from its admission to its end.

use std::sync::Arc;

use understudy_messages::clock::Instant;
use understudy_messages::ids::{GenerationId, Name, TurnId};
use understudy_messages::lease::{Holding, TurnLease};
use understudy_messages::origin::{Origin, OriginToken, Originating};
use understudy_messages::turn::TurnRequest;

use super::generation::Generation;
use super::origins::{Known, Within};

/// Whom a gate concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Agents {
    /// Everybody.
    All,
    /// Those at these places.
    Some(Vec<usize>),
}

impl Agents {
    pub(super) fn has(&self, place: usize) -> bool {
        match self {
            Self::All => true,
            Self::Some(places) => places.contains(&place),
        }
    }
}

/// A turn that wants to come in, and what it was asked from.
#[derive(Clone, Debug)]
pub(super) struct Comer {
    pub(super) turn: Arc<TurnRequest>,
    pub(super) within: Within,
}

/// A counted hold on a generation.
#[derive(Clone, Debug)]
pub struct Held(Arc<Holder>);

/// One turn inside a generation.
#[derive(Debug)]
pub(super) struct Holder {
    generation: Arc<Generation>,
    gate: usize,
    turn: Arc<TurnRequest>,
    known: Known,
}

impl Held {
    /// Enters the gate of the turn's agent; `None` when it is closed.
    pub(super) fn enter(generation: Arc<Generation>, comer: &Comer, now: Instant) -> Option<Self> {
        let gate = generation.enter(comer, now)?;
        Some(Self::at(generation, gate, comer))
    }

    fn at(generation: Arc<Generation>, gate: usize, comer: &Comer) -> Self {
        Self(Arc::new(Holder {
            generation,
            gate,
            turn: comer.turn.clone(),
            known: Known::new(comer.within.clone()),
        }))
    }

    /// The generation that is held.
    pub fn generation(&self) -> &Arc<Generation> {
        &self.0.generation
    }

    /// The lease that the turn's messages carry; it shares this hold's count.
    pub fn lease(&self) -> TurnLease {
        TurnLease::new(self.0.clone())
    }

    /// What the turn's plugins may name it by.
    pub fn origin(&self) -> Origin {
        Origin::of(&self.0)
    }
}

impl Holder {
    /// Lets a turn in that this one waits for, whether or not the gate is closed: what waits for this one waits for it as well.
    /// `None` for one of another agent, or for whose model another provider answers: that one is a turn as any.
    pub(super) fn lend(&self, comer: &Comer, now: Instant) -> Option<Held> {
        let roster = &self.generation.roster;
        let chosen = |turn: &TurnRequest| roster.chosen(turn.agent.as_deref(), &turn.facts.model);
        let same = chosen(&self.turn).is_some_and(|own| chosen(&comer.turn) == Some(own));
        same.then(|| {
            self.generation.enter_beside(comer, self.gate, now);
            Held::at(self.generation.clone(), self.gate, comer)
        })
    }

    /// Whether it may call one of these plugins.
    pub(super) fn uses(&self, plugins: &[Name]) -> bool {
        !plugins.is_empty() && self.generation.agents_using(plugins).has(self.gate)
    }

    pub(super) fn id(&self) -> TurnId {
        self.turn.id
    }

    pub(super) const fn known(&self) -> &Known {
        &self.known
    }
}

impl Holding for Holder {
    fn generation(&self) -> GenerationId {
        self.generation.id
    }
}

impl Originating for Holder {
    fn token(self: Arc<Self>) -> Option<OriginToken> {
        self.generation.origins().name_turn(&self, &self.known)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.generation.origins().forget(&self.known);
        self.generation.leave(self.turn.id, self.gate);
    }
}
