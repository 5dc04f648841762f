//! Leave to ask a candidate once. Whoever holds a ticket tells the ledger what came of it; dropped, it gives no verdict.

use std::sync::Arc;

use understudy_messages::clock::Instant;
use understudy_messages::failure::{Failure, Reason};
use understudy_messages::ids::Name;

use super::ladder::Ladder;
use super::windows::Asked;
use super::{Ledger, says_nothing};

/// What leave is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose<'a> {
    /// A turn that comes to the candidate.
    Fresh,
    /// The turn's own retry on the same credential: the rate-limit window that its own failure opened does not hold it.
    Retry {
        /// The credential that was used.
        credential: usize,
    },
    /// Another credential of the same candidate.
    Rotate {
        /// Those that were used.
        used: &'a [usize],
    },
    /// Nothing else is usable and the end of the rest is only guessed: ask once, before it ends.
    Early,
}

impl Purpose<'_> {
    pub(super) fn allows(self, credential: usize) -> bool {
        match self {
            Self::Fresh | Self::Early => true,
            Self::Retry { credential: same } => credential == same,
            Self::Rotate { used } => !used.contains(&credential),
        }
    }

    pub(super) fn ignores(self, ladder: &Ladder) -> bool {
        matches!(self, Self::Retry { .. }) && ladder.reason == Reason::RateLimit
    }
}

/// A window or a breaker that a failure opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowOpened {
    /// Why.
    pub reason: Reason,
    /// Until when.
    pub until: Instant,
    /// Whether the provider stated that end.
    pub stated: bool,
}

/// What telling the ledger led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// A rest that began.
    pub opened: Option<WindowOpened>,
    /// What a probe has shown: `Some(true)` that the candidate is well; `None` for no probe or no verdict.
    pub probe: Option<bool>,
}

/// Leave to ask a candidate once.
#[derive(Debug)]
#[must_use = "an attempt that is not settled gives no verdict"]
pub struct Ticket {
    ledger: Arc<Ledger>,
    model: Name,
    credential: usize,
    probe: bool,
    settled: bool,
}

impl Ticket {
    pub(super) fn new(ledger: Arc<Ledger>, model: Name, credential: usize, probe: bool) -> Self {
        Self {
            ledger,
            model,
            credential,
            probe,
            settled: false,
        }
    }

    /// Which credential is used.
    pub fn credential(&self) -> usize {
        self.credential
    }

    /// Whether this is the one probe of a candidate whose rest is over.
    pub fn is_probe(&self) -> bool {
        self.probe
    }

    /// The candidate answered: what covered it is cleared.
    pub fn succeeded(mut self, now: Instant) -> Settled {
        self.settled = true;
        self.ledger.note_success(&self.model, now);
        if !self.ledger.is_clean() {
            let asked = self.asked();
            self.ledger.windows(|windows| windows.succeeded(asked));
            self.ledger.breakers(|breakers| breakers.remove(&self.model));
        }
        Settled {
            opened: None,
            probe: self.probe.then_some(true),
        }
    }

    /// The candidate failed.
    pub fn failed(mut self, failure: &Failure, now: Instant) -> Settled {
        if says_nothing(failure.reason) {
            return Settled::default();
        }
        self.settled = true;
        let (asked, spread) = (self.asked(), self.ledger.spread);
        let window = self.ledger.windows(|windows| {
            let again = self.probe.then(|| windows.probe_failed(asked, failure, now)).flatten();
            let opened = windows.failed(asked, failure, spread, now).or(again);
            windows.sweep(now);
            opened
        });
        let window = window.map(|opened| WindowOpened {
            reason: failure.reason,
            until: opened.until,
            stated: opened.stated,
        });
        Settled {
            opened: window.or(self.trip(failure, now)),
            probe: self.probe.then_some(false),
        }
    }

    /// Books a failure with the breaker; tells the rest that began.
    fn trip(&self, failure: &Failure, now: Instant) -> Option<WindowOpened> {
        let last_success = self.ledger.last_success(&self.model);
        self.ledger.breakers(|breakers| {
            let breaker = breakers.entry(self.model.clone()).or_default();
            let again = self.probe && breaker.probe_failed(failure, &self.ledger.breaker, now);
            let tripped = again || breaker.failed(failure, &self.ledger.breaker, last_success, now);
            let until = breaker.open.filter(|_| tripped).map(|open| open.until);
            if breaker.is_clean() {
                breakers.remove(&self.model);
            }
            until.map(|until| WindowOpened {
                reason: failure.reason,
                until,
                stated: false,
            })
        })
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            credential: self.credential,
            model: &self.model,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.probe && !self.settled {
            let asked = self.asked();
            self.ledger.windows(|windows| windows.probe_abandoned(asked));
            self.ledger.breakers(|breakers| {
                if let Some(breaker) = breakers.get_mut(&self.model) {
                    breaker.probe_abandoned();
                }
            });
        }
    }
}
