//! What is remembered of each session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use understudy_messages::ids::ModelRef;

use super::decide::{Cause, History, Mark, Reason, Rules, Step};
use super::recent::Recent;
use super::text::Canon;

/// How many sessions are remembered at the least. One that is forgotten is as a new one: it gets the canon again.
const SESSIONS: usize = 100_000;

/// The sessions of one process. In memory: after a restart every session is as a new one. Letting go of a session's actor
/// changes nothing here, nor does a new instance with other settings.
pub(super) struct Sessions(Mutex<Recent<String, Session>>);

#[derive(Default)]
struct Session {
    /// How many turns have begun.
    turns: u64,
    /// The last of them; `None`: it has no id, and nothing else belongs to it.
    run: Option<String>,
    /// Whom that one was prepared for last.
    candidate: Option<Candidate>,
    mark: Option<Mark<Arc<Canon>>>,
}

struct Candidate {
    model: ModelRef,
    reason: Option<Reason>,
    /// What was read for it.
    canon: Option<Arc<Canon>>,
}

/// The request that is about to be prepared.
pub(super) struct Request<'a> {
    pub(super) session: &'a str,
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

impl Default for Sessions {
    fn default() -> Self {
        Self(Mutex::new(Recent::new(SESSIONS)))
    }
}

impl Sessions {
    /// Decides for one request. Asked again for the same candidate of the same turn it says the same.
    pub(super) fn plan(&self, rules: &Rules, request: &Request<'_>) -> Plan {
        let mut sessions = self.lock();
        let session = sessions.entry(request.session.to_owned());
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
            Step::Repeat => session.mark.as_ref().map(|mark| mark.canon.clone()),
            Step::Nothing => None,
        };
        session.candidate = Some(candidate);
        Plan { turn, step, kept }
    }

    /// Keeps what was read for a candidate, so that its prompt comes out the same when it is built again.
    pub(super) fn keep(&self, request: &Request<'_>, canon: &Arc<Canon>) {
        let mut sessions = self.lock();
        let session = sessions.get(request.session);
        let candidate = session
            .filter(|session| session.run.as_deref() == request.run)
            .and_then(|session| session.candidate.as_mut())
            .filter(|candidate| candidate.model == *request.model);
        if let Some(candidate) = candidate {
            candidate.canon = Some(canon.clone());
        }
    }

    /// An attempt that carried the canon has answered.
    pub(super) fn mark(&self, session: &str, mark: Mark<Arc<Canon>>) {
        let mut sessions = self.lock();
        let session = sessions.entry(session.to_owned());
        session.turns = session.turns.max(mark.turn);
        // an answer that was slow to end takes nothing back
        if session.mark.as_ref().is_none_or(|before| before.turn <= mark.turn) {
            session.mark = Some(mark);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Recent<String, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
