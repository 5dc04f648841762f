//! What is remembered of one session. It lies in the session's slot, and goes to the store and back with it.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use understudy_messages::hooks::{SessionSlots, SlotValue};
use understudy_messages::ids::{ModelRef, Name};

use super::ID;
use super::decide::{Cause, History, Mark, Reason, Rules, Step};
use super::recent::Recent;
use super::text::Canon;

/// How many versions of texts are remembered at the least, for sessions that come back from the store.
const EDITIONS: usize = 64;

/// One process: what its sessions were told, to be repeated when they come back.
pub(super) struct Process {
    id: u64,
    editions: Mutex<Recent<u64, Option<Arc<Canon>>>>,
}

impl Default for Process {
    fn default() -> Self {
        Self {
            id: RandomState::new().hash_one(ID),
            editions: Mutex::new(Recent::new(EDITIONS)),
        }
    }
}

impl Process {
    /// The session that has these slots, as far as it was spoken in by agents of this workspace. One that moves to an agent of
    /// another workspace is a new one there. `None`: it has too many.
    pub(super) fn session(&self, slots: &SessionSlots, workspace: &str) -> Option<Arc<Session>> {
        slots.open(&format!("{ID}:{workspace}"), |stored| {
            let state = stored.and_then(|stored| self.restored(stored));
            Session {
                process: self.id,
                state: Mutex::new(state.unwrap_or_default()),
            }
        })
    }

    fn restored(&self, stored: &str) -> Option<State> {
        let stored: Stored = serde_json::from_str(stored).ok()?;
        let mark = stored.mark.map(|mark| Mark {
            model: ModelRef::new(mark.provider, mark.model),
            canon: self.editions().get(&mark.canon).cloned().flatten().ok_or(mark.canon),
            turn: mark.turn,
            at: UNIX_EPOCH + Duration::from_millis(mark.at),
        });
        Some(State {
            turns: stored.turns,
            restarted: stored.process != self.id,
            mark,
            ..State::default()
        })
    }

    /// Remembers a text that a session is told.
    pub(super) fn note(&self, canon: &Arc<Canon>) {
        *self.editions().entry(canon.hash) = Some(canon.clone());
    }

    fn editions(&self) -> MutexGuard<'_, Recent<u64, Option<Arc<Canon>>>> {
        self.editions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a session was told: the text, or its hash where the text is not known any more.
pub(super) type Told = Result<Arc<Canon>, u64>;

/// One session.
pub(super) struct Session {
    process: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How many turns have begun.
    turns: u64,
    /// The last of them; `None`: it has no id, and nothing else belongs to it.
    run: Option<String>,
    /// Whom that one was prepared for last.
    candidate: Option<Candidate>,
    mark: Option<Mark<Told>>,
    /// Whether the mark is of an earlier process.
    restarted: bool,
}

struct Candidate {
    model: ModelRef,
    reason: Option<Reason>,
    /// What was read for it.
    canon: Option<Arc<Canon>>,
}

/// As it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    process: u64,
    turns: u64,
    mark: Option<StoredMark>,
}

#[derive(Serialize, Deserialize)]
struct StoredMark {
    provider: Name,
    model: Name,
    canon: u64,
    turn: u64,
    at: u64,
}

/// The request that is about to be prepared.
pub(super) struct Request<'a> {
    pub(super) run: Option<&'a str>,
    pub(super) model: &'a ModelRef,
    pub(super) now: SystemTime,
}

/// What to do for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// In which turn of the session.
    pub(super) turn: u64,
    pub(super) step: Step,
    /// What to add without reading: it was read before.
    pub(super) kept: Option<Arc<Canon>>,
}

impl Session {
    /// Decides for one request. Asked again for the same candidate of the same turn it says the same.
    pub(super) fn plan(&self, rules: &Rules, request: &Request<'_>) -> Plan {
        let mut session = self.state();
        if request.run.is_none() || session.run.as_deref() != request.run {
            session.turns += 1;
            session.run = request.run.map(str::to_owned);
            session.candidate = None;
        }
        let turn = session.turns;
        let again = session.candidate.take_if(|before| before.model == *request.model);
        let candidate = again.unwrap_or_else(|| {
            let history = History {
                mark: session.mark.as_ref(),
                candidate: session.candidate.as_ref().map(|candidate| &candidate.model),
                restarted: session.restarted,
            };
            Candidate {
                model: request.model.clone(),
                reason: rules.reason(history, turn, request.model, request.now),
                canon: None,
            }
        });
        let step = rules.step(candidate.reason);
        let kept = match step {
            Step::Read(_) => candidate.canon.clone(),
            Step::Repeat => session.mark.as_ref().and_then(|mark| mark.canon.clone().ok()),
            Step::Nothing => None,
        };
        session.candidate = Some(candidate);
        Plan { turn, step, kept }
    }

    /// Keeps what was read for a candidate, so that its prompt comes out the same when it is built again.
    pub(super) fn keep(&self, request: &Request<'_>, canon: &Arc<Canon>) {
        let mut session = self.state();
        let same_run = session.run.as_deref() == request.run;
        let candidate = session
            .candidate
            .as_mut()
            .filter(|candidate| same_run && candidate.model == *request.model);
        if let Some(candidate) = candidate {
            candidate.canon = Some(canon.clone());
        }
    }

    /// An attempt that carried the canon has answered.
    pub(super) fn mark(&self, mark: Mark<Told>) {
        let mut session = self.state();
        session.turns = session.turns.max(mark.turn);
        // an answer that was slow to end takes nothing back
        if session.mark.as_ref().is_none_or(|before| before.turn <= mark.turn) {
            session.mark = Some(mark);
            session.restarted = false;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlotValue for Session {
    fn stored(&self) -> Option<String> {
        let session = self.state();
        let mark = session.mark.as_ref().map(|mark| {
            let at = mark.at.duration_since(UNIX_EPOCH).unwrap_or_default();
            StoredMark {
                provider: mark.model.provider.clone(),
                model: mark.model.model.clone(),
                canon: mark.canon.as_ref().map_or_else(|hash| *hash, |canon| canon.hash),
                turn: mark.turn,
                at: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            }
        });
        let stored = Stored {
            // a mark of an earlier process stays one until there is another
            process: if session.restarted { !self.process } else { self.process },
            turns: session.turns,
            mark,
        };
        serde_json::to_string(&stored).ok()
    }
}

/// What is planned for a session that ends with its turn: it is always a new one, and nothing is remembered.
pub(super) const EPHEMERAL: Plan = Plan {
    turn: 1,
    step: Step::Read(Cause::Due(Reason::NewSession)),
    kept: None,
};

#[cfg(test)]
mod tests;
