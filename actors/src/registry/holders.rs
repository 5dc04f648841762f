//! Who is inside a generation, by name: read when something waits for them.
//!
//! Turns enter and leave without meeting each other: each notes itself in one of several lists, by its id.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use understudy_messages::clock::Instant;
use understudy_messages::ids::{Name, TurnId};
use understudy_messages::registry::Holder as Row;
use understudy_messages::turn::TurnRequest;

use super::held::Comer;

/// Among how many lists turns are spread.
const LISTS: usize = 16;

/// The turns inside one generation.
#[derive(Debug, Default)]
pub(super) struct Holders {
    lists: [Mutex<HashMap<TurnId, Inside>>; LISTS],
}

#[derive(Debug)]
struct Inside {
    turn: Arc<TurnRequest>,
    parent: Option<TurnId>,
    agent: usize,
    since: Instant,
}

impl Holders {
    pub(super) fn enter(&self, comer: &Comer, agent: usize, since: Instant) {
        let inside = Inside {
            turn: comer.turn.clone(),
            parent: comer.within.turn(),
            agent,
            since,
        };
        self.list(comer.turn.id).insert(comer.turn.id, inside);
    }

    pub(super) fn leave(&self, turn: TurnId) {
        self.list(turn).remove(&turn);
    }

    /// Those of the agents that `concerns` tells, the oldest first, at most `most`, and how many more there are.
    pub(super) fn rows(
        &self,
        concerns: impl Fn(usize) -> bool,
        agents: &[Name],
        most: usize,
        now: Instant,
    ) -> (Vec<Row>, usize) {
        let mut inside: Vec<(Instant, Row)> = Vec::new();
        for list in &self.lists {
            let list = list.lock().unwrap_or_else(PoisonError::into_inner);
            let concerned = list.values().filter(|inside| concerns(inside.agent));
            inside.extend(concerned.map(|turn| (turn.since, turn.row(agents, now))));
        }
        inside.sort_by_key(|(since, _)| *since);
        let omitted = inside.len().saturating_sub(most);
        inside.truncate(most);
        (inside.into_iter().map(|(_, row)| row).collect(), omitted)
    }

    /// The turns of the agents that `concerns` tells.
    pub(super) fn ids(&self, concerns: impl Fn(usize) -> bool) -> Vec<TurnId> {
        let mut ids = Vec::new();
        for list in &self.lists {
            let list = list.lock().unwrap_or_else(PoisonError::into_inner);
            ids.extend(list.iter().filter(|(_, turn)| concerns(turn.agent)).map(|(id, _)| *id));
        }
        ids
    }

    /// Whether a turn is inside.
    pub(super) fn has(&self, turn: TurnId) -> bool {
        self.list(turn).contains_key(&turn)
    }

    fn list(&self, turn: TurnId) -> MutexGuard<'_, HashMap<TurnId, Inside>> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(turn);
        let place = usize::try_from(hash % LISTS as u64).unwrap_or_default();
        // nothing in here panics half-way: a poisoned list is whole
        self.lists[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn row(&self, agents: &[Name], now: Instant) -> Row {
        Row {
            kind: "turn",
            id: self.turn.id.to_string(),
            session: self.turn.session.key().cloned(),
            agent: agents.get(self.agent).cloned(),
            plugin: None,
            parent: self.parent.map(|parent| parent.to_string()),
            age: now.duration_since(self.since),
        }
    }
}
