//! A turn's hold on a generation, from its admission to its end.

use std::sync::Arc;

use understudy_messages::clock::Instant;
use understudy_messages::ids::{GenerationId, TurnId};
use understudy_messages::lease::{Holding, TurnLease};
use understudy_messages::turn::TurnRequest;

use super::generation::Generation;

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
        let gate = generation.enter(turn, now)?;
        let turn = turn.id;
        Some(Self(Arc::new(Holder { generation, gate, turn })))
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
        self.generation.leave(self.turn, self.gate);
    }
}
