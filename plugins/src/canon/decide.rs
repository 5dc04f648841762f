//! When the canon is due. Pure.
//!
//! The canon is due when a session is new, when another model is about to answer than answered before, when the last
//! injection is long ago or was made by an earlier process, and every so many turns. What a turn changes counts only when an attempt that carried the canon
//! answered ([`Mark`]); what happened earlier within the same turn counts at once ([`History::candidate`]), so that a model
//! that takes over in the middle of a turn is told.

use std::time::{Duration, SystemTime};

use serde::Deserialize;
use understudy_messages::ids::ModelRef;

/// How the canon reaches the turns that no reason falls on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// What a reason had read is repeated, byte for byte, until the next reason.
    #[default]
    Sticky,
    /// Not at all.
    Selective,
    /// It is read anew.
    Always,
}

/// Why the canon is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing of this session has been answered with it.
    NewSession,
    /// Another model is about to answer.
    ModelSwitch,
    /// The last injection is long ago.
    RestartOrIdle,
    /// So many turns have passed.
    Periodic,
}

/// Why a request carries the canon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It was due.
    Due(Reason),
    /// It was due before, and is repeated.
    Repeat,
    /// Every turn carries it.
    EveryTurn,
}

/// What to do for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read the canon and add it.
    Read(Cause),
    /// Add what the last reason had read.
    Repeat,
    /// Add nothing.
    Nothing,
}

/// When the canon is due by the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Every so many turns; 0: never by number.
    pub interval: u64,
    /// After so long; zero: never by time.
    pub idle: Duration,
    /// What the other turns get.
    pub mode: Mode,
}

/// What an attempt that carried the canon leaves when it has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark<C> {
    /// The model that answered.
    pub model: ModelRef,
    /// What it was told.
    pub canon: C,
    /// In which turn of the session, counted from 1.
    pub turn: u64,
    /// When.
    pub at: SystemTime,
}

/// What went before the request, as the decision sees it.
#[derive(Clone, Copy, Debug)]
pub struct History<'a, C> {
    /// The last answer that came from an attempt with the canon.
    pub mark: Option<&'a Mark<C>>,
    /// The candidate that this same turn was prepared for before.
    pub candidate: Option<&'a ModelRef>,
    /// Whether that answer was given to an earlier process.
    pub restarted: bool,
}

impl Rules {
    /// Why the canon is due in `turn`, for `model`; `None`: it is not.
    pub fn reason<C>(&self, history: History<'_, C>, turn: u64, model: &ModelRef, now: SystemTime) -> Option<Reason> {
        let Some(before) = history.candidate.or(history.mark.map(|mark| &mark.model)) else {
            return Some(Reason::NewSession);
        };
        if before != model {
            return Some(Reason::ModelSwitch);
        }
        let Some(mark) = history.mark else {
            return Some(Reason::NewSession);
        };
        // a clock that was put back has measured no time
        let since = now.duration_since(mark.at).unwrap_or_default();
        if history.restarted || (!self.idle.is_zero() && since > self.idle) {
            return Some(Reason::RestartOrIdle);
        }
        // by periods, not by remainders: one that was missed is made up for
        let period = |turn: u64| turn.checked_div(self.interval).unwrap_or_default();
        (period(turn) > period(mark.turn)).then_some(Reason::Periodic)
    }

    /// What a reason, or none, comes to.
    pub const fn step(&self, reason: Option<Reason>) -> Step {
        match (reason, self.mode) {
            (Some(reason), _) => Step::Read(Cause::Due(reason)),
            (None, Mode::Sticky) => Step::Repeat,
            (None, Mode::Selective) => Step::Nothing,
            (None, Mode::Always) => Step::Read(Cause::EveryTurn),
        }
    }
}

impl Cause {
    /// A label for metrics and logs.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Due(Reason::NewSession) => "new_session",
            Self::Due(Reason::ModelSwitch) => "model_switch",
            Self::Due(Reason::RestartOrIdle) => "restart_or_idle",
            Self::Due(Reason::Periodic) => "periodic",
            Self::Repeat => "repeat",
            Self::EveryTurn => "every_turn",
        }
    }
}

#[cfg(test)]
mod tests;
