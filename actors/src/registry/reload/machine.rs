//! One reload, step by step (contract-registry §2, amended by design §4). Pure: events in, effects out.
//!
//! ```text
//! Candidate ─ shared ──────────────────────────────► Registering ► Starting ► Publishing ► Published ► applied, degraded
//!     └─ exclusive ► Draining ► Stopping ► Disposing ──┘               │           │
//!                        └ deadline, cancelled: rolled back            └───────────┴ after a stop: Recovering ► restored, failed
//! ```
//!
//! Where only the configuration has changed, an old service that is late to stop is waited for in `Recovering`, and disposal goes on.

use understudy_messages::clock::Instant;
use understudy_messages::registry::{Phase, ReloadOutcome};

/// Where a reload stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// What is to come is looked at; nothing has been touched.
    Candidate,
    /// The gate holds those who would use a target; those inside finish.
    Draining {
        /// When it gives up.
        until: Instant,
    },
    /// Services of the old instances stop.
    Stopping,
    /// The old instances let go of what they hold.
    Disposing,
    /// The new ones register.
    Registering {
        /// Whether the old ones are gone.
        stopped: bool,
    },
    /// Their services start.
    Starting {
        /// Whether the old ones are gone.
        stopped: bool,
    },
    /// The registry is asked to let the new generation serve.
    Publishing {
        /// Whether the old ones are gone.
        stopped: bool,
    },
    /// The new generation serves; what comes after it may still fail.
    Published,
    /// The old cleanup is waited for longer than it should have taken.
    Recovering {
        /// When it gives up.
        until: Instant,
        /// Whether the new code takes its place then: it is only the configuration that has changed. Else the old one is put back.
        forward: bool,
    },
    /// It is over.
    Done(ReloadOutcome),
}

/// What is to be replaced, and how long that may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Whether anything changes at all.
    pub changes: bool,
    /// Whether a target's resources cannot be held twice: then those who use it finish first.
    pub exclusive: bool,
    /// When draining gives up.
    pub drain_until: Instant,
    /// Whether it was the configuration's watcher that asked: then what times out is tried again by itself.
    pub watched: bool,
}

/// How a cleanup ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup {
    /// In time.
    Done,
    /// It goes on, but nobody waits any longer.
    Late,
    /// It failed: what it held may still be held.
    Rejected,
}

/// What happens to a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The candidate is sound.
    Prepared(Plan),
    /// It is not, or it may not be: nothing was touched.
    Refused,
    /// It is asked for by what it would wait for. Nothing was touched.
    FromInside,
    /// A newer one takes its place.
    Superseded,
    /// Whoever asked is gone.
    RequesterGone,
    /// Nobody holds a target any longer.
    Empty,
    /// The time of draining or recovering is over.
    Deadline,
    /// The services of the old instances have stopped.
    Stopped(Cleanup),
    /// The old instances have let go.
    Disposed(Cleanup),
    /// The new instances have registered; those that failed are recorded.
    Registered,
    /// A plugin that served before could not register anew.
    RegistrationFailed,
    /// The services of the new instances are up.
    Started,
    /// One is not.
    StartFailed,
    /// The new generation serves.
    Published,
    /// It could not be published: the old one is what is published.
    NotPublished,
    /// What follows a publication has been done.
    Settled,
    /// Some of it failed.
    Unsettled,
    /// The old instances' own cleanup has ended, and nobody holds them.
    CleanedUp,
    /// The old code serves again.
    Restored,
    /// It cannot be put back.
    RestoreFailed,
    /// The gateway is about to stop.
    Shutdown,
}

/// What is to be done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Hold turns that would use a target, and watch those inside until this time.
    HoldGate(Instant),
    /// Stop watching: what settles later changes nothing.
    DropObservers,
    /// Let the held turns pass.
    OpenGate,
    /// Close the targets for calls.
    Quiesce,
    /// Open them again.
    Resume,
    /// Stop their services.
    StopServices,
    /// Let them go of what they hold.
    Dispose,
    /// Register the new instances.
    Register,
    /// Start their services.
    Start,
    /// Let the new instances go.
    Discard,
    /// Swap the generation.
    Publish,
    /// Do what follows a publication.
    Settle,
    /// Wait for the original cleanup of the old instances.
    JoinCleanup(Instant),
    /// Register the old code anew, start it and let it serve.
    Restore,
    /// Not ready: say who and why, until a later reload succeeds.
    MarkUnready,
    /// Try the newest configuration once the old work is idle.
    RetryWhenIdle,
}

/// An event that cannot happen in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event cannot happen in this state of a reload")]
pub struct Unexpected;

/// A reload under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    state: State,
    watched: bool,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            state: State::Candidate,
            watched: false,
        }
    }
}

impl Machine {
    /// Where it stands.
    pub const fn state(&self) -> State {
        self.state
    }

    /// The phase, as operators are told it.
    pub const fn phase(&self) -> Phase {
        match self.state {
            State::Candidate => Phase::Prepare,
            State::Draining { .. } => Phase::Drain,
            State::Stopping | State::Disposing => Phase::Dispose,
            State::Registering { .. }
            | State::Starting { .. }
            | State::Publishing { .. }
            | State::Published
            | State::Recovering { .. }
            | State::Done(_) => Phase::Activate,
        }
    }

    /// Whether the new generation serves.
    pub const fn is_committed(&self) -> bool {
        matches!(
            self.state,
            State::Published | State::Done(ReloadOutcome::Applied | ReloadOutcome::Degraded)
        )
    }

    /// Takes one event. `recover_until` is when a recovery that begins now gives up.
    ///
    /// # Errors
    /// [`Unexpected`]; nothing has changed. Events of observers that were dropped are such.
    pub fn step(&mut self, event: Event, recover_until: Instant) -> Result<Vec<Effect>, Unexpected> {
        if let (State::Candidate, Event::Prepared(plan)) = (self.state, event) {
            self.watched = plan.watched;
        }
        let next = match self.state {
            State::Candidate => candidate(event),
            State::Draining { .. } => draining(event, self.watched),
            State::Stopping | State::Disposing => clearing(self.state, event, self.watched, recover_until),
            State::Registering { stopped } | State::Starting { stopped } | State::Publishing { stopped } => {
                building(self.state, event, stopped, recover_until)
            }
            State::Published => published(event),
            State::Recovering { .. } => recovering(self.state, event),
            State::Done(_) => None,
        };
        let (state, effects) = next.ok_or(Unexpected)?;
        self.state = state;
        Ok(effects)
    }
}

type Next = Option<(State, Vec<Effect>)>;

const fn done(outcome: ReloadOutcome, effects: Vec<Effect>) -> Next {
    Some((State::Done(outcome), effects))
}

fn candidate(event: Event) -> Next {
    match (State::Candidate, event) {
        (_, Event::Prepared(plan)) if !plan.changes => done(ReloadOutcome::Unchanged, Vec::new()),
        (_, Event::Prepared(plan)) if plan.exclusive => {
            let until = plan.drain_until;
            Some((State::Draining { until }, vec![Effect::HoldGate(until)]))
        }
        (_, Event::Prepared(_)) => Some((State::Registering { stopped: false }, vec![Effect::Register])),
        (_, Event::Refused | Event::Superseded) => done(ReloadOutcome::Rejected, Vec::new()),
        (_, Event::FromInside) => done(ReloadOutcome::Deferred, vec![Effect::RetryWhenIdle]),
        (_, Event::RequesterGone | Event::Shutdown) => done(ReloadOutcome::Cancelled, Vec::new()),
        _ => None,
    }
}

/// Observers go before instances are opened again: a settlement that comes late must not close one that serves.
fn draining(event: Event, watched: bool) -> Next {
    let back = [Effect::DropObservers, Effect::Resume, Effect::OpenGate];
    match (watched, event) {
        (_, Event::Empty) => Some((State::Stopping, vec![Effect::Quiesce, Effect::StopServices])),
        (false, Event::Deadline) => done(ReloadOutcome::DrainTimeout, back.to_vec()),
        (true, Event::Deadline) => done(ReloadOutcome::Deferred, [&back[..], &[Effect::RetryWhenIdle]].concat()),
        (_, Event::RequesterGone) => done(ReloadOutcome::Cancelled, back.to_vec()),
        (_, Event::Superseded) => done(ReloadOutcome::RolledBack, back.to_vec()),
        // the gate stays closed: nobody comes in any more
        (_, Event::Shutdown) => done(ReloadOutcome::Cancelled, vec![Effect::DropObservers]),
        _ => None,
    }
}

/// From the first stop on a reload is finished one way or the other, whoever asked for it.
fn clearing(state: State, event: Event, watched: bool, recover_until: Instant) -> Next {
    match (state, event) {
        (State::Stopping, Event::Stopped(Cleanup::Done)) => Some((State::Disposing, vec![Effect::Dispose])),
        (State::Stopping, Event::Stopped(Cleanup::Late)) => Some(recover(Vec::new(), recover_until, watched)),
        (State::Disposing, Event::Disposed(Cleanup::Done)) => {
            Some((State::Registering { stopped: true }, vec![Effect::Register]))
        }
        (State::Stopping, Event::Stopped(Cleanup::Rejected))
        | (State::Disposing, Event::Disposed(Cleanup::Late | Cleanup::Rejected)) => barred(),
        (_, Event::Shutdown) => done(ReloadOutcome::Cancelled, Vec::new()),
        (_, Event::RequesterGone | Event::Superseded) => Some((state, Vec::new())),
        _ => None,
    }
}

/// Where nothing was stopped the old instances serve all along: then there is nothing to do but to let the new ones go.
fn building(state: State, event: Event, stopped: bool, recover_until: Instant) -> Next {
    let discard = || vec![Effect::Discard];
    match (state, event) {
        (State::Registering { .. }, Event::Registered) => Some((State::Starting { stopped }, vec![Effect::Start])),
        (State::Starting { .. }, Event::Started) => Some((State::Publishing { stopped }, vec![Effect::Publish])),
        (State::Publishing { .. }, Event::Published) => {
            Some((State::Published, vec![Effect::OpenGate, Effect::Settle]))
        }
        (State::Registering { .. }, Event::RegistrationFailed)
        | (State::Starting { .. }, Event::StartFailed)
        | (State::Publishing { .. }, Event::NotPublished) => match stopped {
            false => done(ReloadOutcome::RolledBack, discard()),
            true => Some(recover(discard(), recover_until, false)),
        },
        // whether it was published is about to be known
        (State::Publishing { .. }, Event::Shutdown | Event::RequesterGone | Event::Superseded) => {
            Some((state, Vec::new()))
        }
        (_, Event::Shutdown) => done(ReloadOutcome::Cancelled, discard()),
        (_, Event::RequesterGone) if !stopped => done(ReloadOutcome::Cancelled, discard()),
        (_, Event::Superseded) if !stopped => done(ReloadOutcome::RolledBack, discard()),
        (_, Event::RequesterGone | Event::Superseded) => Some((state, Vec::new())),
        _ => None,
    }
}

/// What has been published is never taken back.
fn published(event: Event) -> Next {
    match (State::Published, event) {
        (_, Event::Settled) => done(ReloadOutcome::Applied, Vec::new()),
        (_, Event::Unsettled) => done(ReloadOutcome::Degraded, Vec::new()),
        (state, Event::RequesterGone | Event::Superseded | Event::Shutdown) => Some((state, Vec::new())),
        _ => None,
    }
}

fn recovering(state: State, event: Event) -> Next {
    match (state, event) {
        (State::Recovering { forward: true, .. }, Event::CleanedUp) => Some((State::Disposing, vec![Effect::Dispose])),
        (_, Event::CleanedUp) => Some((state, vec![Effect::Restore])),
        (_, Event::Restored) => done(ReloadOutcome::Restored, vec![Effect::OpenGate]),
        (_, Event::RestoreFailed | Event::Deadline) => barred(),
        (_, Event::Shutdown) => done(ReloadOutcome::Cancelled, Vec::new()),
        (_, Event::RequesterGone | Event::Superseded) => Some((state, Vec::new())),
        _ => None,
    }
}

fn recover(mut effects: Vec<Effect>, until: Instant, forward: bool) -> (State, Vec<Effect>) {
    effects.push(Effect::JoinCleanup(until));
    (State::Recovering { until, forward }, effects)
}

/// Nothing may be put back: what the old instance held may still be held, or nothing of it is left.
fn barred() -> Next {
    done(ReloadOutcome::Failed, vec![Effect::MarkUnready, Effect::OpenGate])
}

#[cfg(test)]
mod tests;
