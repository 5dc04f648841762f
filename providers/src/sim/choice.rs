//! Which call is played next: pure, given the script, the time since the start and the request's credential.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::call::{Call, Connect};
use super::headers::Credential;
use super::script::{CallList, Course, KeyLimit, Phase, Script};

/// The most credentials whose windows are remembered; past that, a new one counts as over its limit.
const MAX_WINDOWS: usize = 10_000;

/// How far a script has been played.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// Requests so far, whatever was played to them.
    drawn: u64,
    /// Calls taken from the script's own list.
    taken: u64,
    /// Calls taken from the list of each credential that has one.
    taken_by: BTreeMap<Credential, u64>,
    windows: BTreeMap<Option<Credential>, Window>,
}

/// What one request gets.
#[derive(Debug, Default)]
pub(crate) struct Draw {
    /// The request's number, from 1.
    pub(crate) number: u64,
    /// `None`: the script is over, this request should not have come.
    pub(crate) call: Option<Arc<Call>>,
}

/// What a port should be doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stance {
    pub(crate) connect: Connect,
    /// Time since the start at which a schedule changes it.
    pub(crate) until: Option<Duration>,
}

#[derive(Debug)]
struct Window {
    began: Duration,
    requests: u64,
}

impl Cursor {
    /// Takes the call for a request that comes `elapsed` after the start.
    pub(crate) fn draw(&mut self, script: &Script, elapsed: Duration, credential: Option<&Credential>) -> Draw {
        self.drawn += 1;
        let beyond = script
            .key_limit
            .as_ref()
            .filter(|limit| !self.admit(limit, elapsed, credential));
        let call = match beyond {
            Some(limit) => Some(Arc::clone(&limit.call)),
            None => self.take(script, elapsed, credential),
        };
        Draw {
            number: self.drawn,
            call,
        }
    }

    /// Passes over the next call of the list: it was played where nobody could see it.
    pub(crate) fn pass(&mut self) {
        self.drawn += 1;
        self.taken += 1;
    }

    /// Requests so far.
    pub(crate) fn drawn(&self) -> u64 {
        self.drawn
    }

    /// What the port should be doing `elapsed` after the start. Past the end it accepts, so that a breach is seen.
    pub(crate) fn stance(&self, script: &Script, elapsed: Duration) -> Stance {
        match &script.course {
            Course::Calls(list) => Stance {
                connect: list.nth(self.taken).map(|c| c.connect).unwrap_or_default(),
                until: None,
            },
            Course::Schedule(phases) => {
                let (call, until) = scheduled(phases, elapsed);
                Stance {
                    connect: call.map(|c| c.connect).unwrap_or_default(),
                    until,
                }
            }
        }
    }

    fn take(&mut self, script: &Script, elapsed: Duration, credential: Option<&Credential>) -> Option<Arc<Call>> {
        let own = credential.and_then(|key| Some((key, script.credentials.get(key)?)));
        if let Some((key, list)) = own {
            let taken = self.taken_by.entry(key.clone()).or_default();
            *taken += 1;
            return list.nth(*taken - 1).cloned();
        }
        self.taken += 1;
        match &script.course {
            Course::Calls(list) => list.nth(self.taken - 1).cloned(),
            Course::Schedule(phases) => scheduled(phases, elapsed).0.cloned(),
        }
    }

    fn admit(&mut self, limit: &KeyLimit, elapsed: Duration, credential: Option<&Credential>) -> bool {
        let open = |window: &Window| elapsed < window.began + limit.window;
        let key = credential.cloned();
        if !self.windows.contains_key(&key) && self.windows.len() >= MAX_WINDOWS {
            self.windows.retain(|_, window| open(window));
            if self.windows.len() >= MAX_WINDOWS {
                return false;
            }
        }
        let fresh = || Window {
            began: elapsed,
            requests: 0,
        };
        let window = self.windows.entry(key).or_insert_with(fresh);
        if !open(window) {
            *window = fresh();
        }
        window.requests = window.requests.saturating_add(1);
        window.requests <= limit.requests
    }
}

impl CallList {
    /// The call for the request with this index, from 0; `None` past the end of a list that does not repeat.
    fn nth(&self, index: u64) -> Option<&Arc<Call>> {
        let mut end = 0_u64;
        let covers = |call: &&Arc<Call>| {
            end = end.saturating_add(call.times.get());
            index < end
        };
        let last = self.calls.last().filter(|_| self.repeat_last);
        self.calls.iter().find(covers).or(last)
    }
}

/// The call that stands at this time, and when it stops standing.
fn scheduled(phases: &[Phase], elapsed: Duration) -> (Option<&Arc<Call>>, Option<Duration>) {
    let mut end = Duration::ZERO;
    let (last, earlier) = match phases.split_last() {
        Some((last, earlier)) => (Some(&last.call), earlier),
        None => (None, phases),
    };
    for phase in earlier {
        end = end.saturating_add(phase.lasts);
        if elapsed < end {
            return (Some(&phase.call), Some(end));
        }
    }
    (last, None)
}

#[cfg(test)]
mod tests;
