//! Sessions, and the store of those that nobody works on.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};

use super::{SESSION_EVENTS, SESSION_STORE, SESSION_STORE_ERRORS, SESSIONS, Series};

/// What becomes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// Its first turn was kept.
    Created,
    /// It came back from the store.
    Restored,
    /// It was idle, and left memory.
    Passivated,
    /// It was forgotten: nobody had used it for too long.
    Expired,
    /// It left memory because there was no room for all.
    Evicted,
    /// It, or a response, was removed from the disk to make room there.
    Displaced,
}

impl SessionEvent {
    const ALL: [Self; 6] = [
        Self::Created,
        Self::Restored,
        Self::Passivated,
        Self::Expired,
        Self::Evicted,
        Self::Displaced,
    ];

    const fn as_label(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Restored => "restored",
            Self::Passivated => "passivated",
            Self::Expired => "expired",
            Self::Evicted => "evicted",
            Self::Displaced => "displaced",
        }
    }
}

/// What is done in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOp {
    /// A session is read.
    Load,
    /// A turn or a choice is written.
    Save,
    /// A session is removed.
    Delete,
    /// Sessions are listed.
    Scan,
}

impl StoreOp {
    const ALL: [Self; 4] = [Self::Load, Self::Save, Self::Delete, Self::Scan];

    /// The label's spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Save => "save",
            Self::Delete => "delete",
            Self::Scan => "scan",
        }
    }
}

/// The handles of sessions.
pub struct SessionMetrics {
    active: Gauge,
    idle: Gauge,
    passivated: Gauge,
    events: [Counter; 6],
    store: [Histogram; 4],
    errors: [Counter; 4],
}

impl SessionMetrics {
    pub(super) fn new(series: &Series) -> Self {
        let state = |state| {
            let gauge = series.gauge(&SESSIONS, &[("state", state)]);
            gauge.set(0.0);
            gauge
        };
        Self {
            active: state("active"),
            idle: state("idle"),
            passivated: state("passivated"),
            events: SessionEvent::ALL.map(|event| series.touched(&SESSION_EVENTS, &[("event", event.as_label())])),
            store: StoreOp::ALL.map(|op| series.histogram(&SESSION_STORE, &[("op", op.as_label())])),
            errors: StoreOp::ALL.map(|op| series.touched(&SESSION_STORE_ERRORS, &[("op", op.as_label())])),
        }
    }

    /// So many sessions more have work, or less.
    pub fn active(&self, change: f64) {
        self.active.increment(change);
    }

    /// So many more are in memory without work, or less.
    pub fn idle(&self, change: f64) {
        self.idle.increment(change);
    }

    /// So many more are in the store alone, or less.
    pub fn passivated(&self, change: f64) {
        self.passivated.increment(change);
    }

    /// It happened to so many.
    pub fn happened(&self, event: SessionEvent, times: u64) {
        self.events[event as usize].increment(times);
    }

    /// An operation of the store has ended.
    pub fn stored(&self, op: StoreOp, took: Duration) {
        self.store[op as usize].record(took);
    }

    /// It had failed.
    pub fn failed(&self, op: StoreOp) {
        self.errors[op as usize].increment(1);
    }
}
