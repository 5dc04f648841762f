//! What became of one turn.

use std::time::Duration;

use super::agenda::Turn;
use super::verdict::Flaw;

/// One turn, as its client saw it. Times count from when it was due, in closed loop from when it was begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receipt {
    pub(crate) turn: Turn,
    /// Until the first word of the answer.
    pub(crate) first: Option<Duration>,
    /// Until its last byte.
    pub(crate) took: Duration,
    /// How many models were asked, as the gateway tells.
    pub(crate) attempts: u32,
    /// What it was told before that: come back later.
    pub(crate) refusals: Refusals,
    /// Whether the client took its time to read; its latencies are its own.
    pub(crate) slow: bool,
    pub(crate) ending: Ending,
}

/// The refusals of one turn, 429 and 503.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refusals {
    pub(crate) count: u32,
    /// Those that did not say when to come back.
    pub(crate) without_advice: u32,
    /// The longest that it took to be refused.
    pub(crate) longest: Duration,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With the right answer, all of it.
    Whole,
    /// With an error response of this status.
    Refused(u16),
    /// With an error in its stream.
    Error,
    /// By its client, which went away.
    Left,
    /// With nothing that a client could use.
    Lost(Loss),
}

/// How a turn was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// There was no connection to be had.
    Unreachable,
    /// There was no end of it in time.
    TimedOut,
    /// The connection or the stream ended early.
    BrokenOff,
    /// What came was not what its format knows.
    Garbled,
    /// It ended as it should, and was wrong.
    Wrong(Flaw),
}

impl Loss {
    /// Its name in reports.
    pub(crate) fn as_label(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::BrokenOff => "broken_off",
            Self::Garbled => "garbled",
            Self::Wrong(Flaw::NotWhole) => "not_whole",
            Self::Wrong(Flaw::Twice) => "twice",
            Self::Wrong(Flaw::OutOfOrder) => "out_of_order",
            Self::Wrong(Flaw::OtherSession) => "other_session",
        }
    }
}
