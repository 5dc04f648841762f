//! When one provider is asked for its list of models, and what becomes of the answer. Pure: events in, effects out.
//!
//! ```text
//! Idle ─ due or asked ► Admitting ─ discovery ► Refreshing ─ a list ► Idle
//!   ▲        (not while a reload is under way)                └ while a reload is under way ► Arrived ► Idle
//!   └ backoff, or when somebody asks ─ Failed ◄ stalled, too late, refused, lost
//! ```

use std::sync::Arc;
use std::time::Duration;

use understudy_messages::catalog::{CatalogError, Listing, Stage};
use understudy_messages::clock::Instant;
use understudy_messages::ids::Name;

/// How long a list may take, once whoever lists is ready.
pub const DEADLINE: Duration = Duration::from_secs(180);
/// How long whoever lists may take to get on with being made ready.
pub const STALL: Duration = Duration::from_secs(180);
/// How often it is told that something moves.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// The first wait after a failure; it doubles up to [`BACKOFF_CAP`].
const BACKOFF: Duration = Duration::from_secs(30);
/// The longest wait after a failure.
const BACKOFF_CAP: Duration = Duration::from_secs(30 * 60);

/// Where a look at a provider's list stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The list is good until then.
    Idle {
        /// When it is asked for again.
        due: Instant,
    },
    /// Whoever lists is being made ready.
    Admitting {
        /// When something moved last.
        moved: Instant,
    },
    /// The list is being read.
    Refreshing {
        /// When it is given up.
        until: Instant,
    },
    /// The list is there, and is taken once the reload that is under way has ended.
    Arrived(Arc<Listing>),
    /// There is no new list.
    Failed {
        /// Why.
        error: CatalogError,
        /// When it is tried again; `None`: when somebody asks.
        again: Option<Instant>,
    },
}

impl State {
    /// As it is spelled to people.
    pub const fn as_label(&self) -> &'static str {
        match self {
            Self::Idle { .. } => "idle",
            Self::Admitting { .. } => "admitting",
            Self::Refreshing { .. } => "refreshing",
            Self::Arrived(_) => "arrived",
            Self::Failed { .. } => "failed",
        }
    }
}

/// What happens to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody wants a new list.
    Ask,
    /// Time has passed, or a reload has begun or ended.
    Tick,
    /// A look gets on.
    Moved {
        /// Which look.
        run: u64,
        /// How far it is.
        stage: Stage,
    },
    /// A look has ended.
    Ended {
        /// Which look.
        run: u64,
        /// What it found.
        found: Result<Arc<Listing>, CatalogError>,
    },
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Look at the list.
    Begin {
        /// The number of the look; the list that it finds has this version.
        run: u64,
    },
    /// Give up the look that is under way: it has failed.
    End(CatalogError),
    /// A look has failed by itself.
    Fail(CatalogError),
    /// Take the list.
    Adopt {
        /// Its version.
        version: u64,
        /// The list.
        listing: Arc<Listing>,
    },
    /// Tell that the look gets on.
    Tell(Stage),
}

/// The looks at one provider's list: at most one at a time.
#[derive(Debug)]
pub struct Machine {
    refresh: Duration,
    /// The plugin that lists, to be named where it does not get on.
    plugin: Option<Name>,
    state: State,
    run: u64,
    asked: bool,
    failures: u32,
    told: Option<(Instant, Stage)>,
}

impl Machine {
    /// A list that is good for `refresh` and due at once. Looks are counted from `version` on.
    pub const fn new(refresh: Duration, plugin: Option<Name>, version: u64, now: Instant) -> Self {
        Self {
            refresh,
            plugin,
            state: State::Idle { due: now },
            run: version,
            asked: false,
            failures: 0,
            told: None,
        }
    }

    /// Where it stands.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// How long a list is good.
    pub const fn refresh(&self) -> Duration {
        self.refresh
    }

    /// Failed looks in a row.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// Takes an event; `held` while a reload is under way: then no look begins, and no list is taken.
    pub fn step(&mut self, event: Event, held: bool, now: Instant) -> Option<Effect> {
        match event {
            Event::Ask => {
                self.asked |= !self.is_looking();
                None
            }
            Event::Tick => self.tick(held, now),
            Event::Moved { run, stage } => (run == self.run).then(|| self.moved(stage, now)).flatten(),
            Event::Ended { run, found } if run == self.run && self.is_looking() => match found {
                Ok(listing) if held => {
                    self.state = State::Arrived(listing);
                    None
                }
                Ok(listing) => Some(self.adopt(listing, now)),
                Err(error) => Some(Effect::Fail(self.fail(error, now))),
            },
            // of a look that was given up
            Event::Ended { .. } => None,
        }
    }

    /// When it has to be looked at again, if nothing else happens before.
    pub fn wake(&self, held: bool, now: Instant) -> Option<Instant> {
        match &self.state {
            State::Idle { .. } | State::Failed { .. } | State::Arrived(_) if held => None,
            State::Idle { .. } | State::Failed { .. } if self.asked => Some(now),
            State::Idle { due } => Some(*due),
            State::Failed { again, .. } => *again,
            State::Arrived(_) => Some(now),
            State::Admitting { moved } => Some(*moved + STALL),
            State::Refreshing { until } => Some(*until),
        }
    }

    fn tick(&mut self, held: bool, now: Instant) -> Option<Effect> {
        let is_time = self.wake(held, now).is_some_and(|wake| wake <= now);
        if !is_time {
            return None;
        }
        match &self.state {
            State::Idle { .. } | State::Failed { .. } => Some(self.begin(now)),
            State::Arrived(listing) => {
                let listing = listing.clone();
                Some(self.adopt(listing, now))
            }
            State::Admitting { .. } => {
                let stalled = CatalogError::Stalled {
                    plugin: self.plugin.clone(),
                    stage: Stage::Admission,
                };
                Some(Effect::End(self.fail(stalled, now)))
            }
            State::Refreshing { .. } => Some(Effect::End(self.fail(CatalogError::Deadline, now))),
        }
    }

    fn begin(&mut self, now: Instant) -> Effect {
        self.run += 1;
        self.asked = false;
        self.told = None;
        self.state = State::Admitting { moved: now };
        Effect::Begin { run: self.run }
    }

    fn moved(&mut self, stage: Stage, now: Instant) -> Option<Effect> {
        match (&self.state, stage) {
            (State::Admitting { .. }, Stage::Admission) => self.state = State::Admitting { moved: now },
            (State::Admitting { .. }, Stage::Discovery) => self.state = State::Refreshing { until: now + DEADLINE },
            (State::Refreshing { .. }, Stage::Discovery) => {}
            // there is no way back, and nothing to tell of a look that was given up
            (State::Refreshing { .. }, Stage::Admission)
            | (State::Idle { .. } | State::Arrived(_) | State::Failed { .. }, Stage::Admission | Stage::Discovery) => {
                return None;
            }
        }
        let was_told = |(at, told): (Instant, Stage)| told == stage && now < at + TELL_EVERY;
        if self.told.is_some_and(was_told) {
            return None;
        }
        self.told = Some((now, stage));
        Some(Effect::Tell(stage))
    }

    fn adopt(&mut self, listing: Arc<Listing>, now: Instant) -> Effect {
        self.failures = 0;
        self.state = State::Idle {
            due: now + self.refresh,
        };
        Effect::Adopt {
            version: self.run,
            listing,
        }
    }

    /// One that stalled is not tried again by itself: what did not get on once would not get on again.
    fn fail(&mut self, error: CatalogError, now: Instant) -> CatalogError {
        self.failures = self.failures.saturating_add(1);
        let doubled = BACKOFF.saturating_mul(1 << (self.failures - 1).min(10));
        let stalled = matches!(error, CatalogError::Stalled { .. });
        self.state = State::Failed {
            error: error.clone(),
            again: (!stalled).then_some(now + doubled.min(BACKOFF_CAP)),
        };
        error
    }

    const fn is_looking(&self) -> bool {
        matches!(
            self.state,
            State::Admitting { .. } | State::Refreshing { .. } | State::Arrived(_)
        )
    }
}

#[cfg(test)]
mod tests;
