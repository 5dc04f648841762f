//! What happened at the simulated upstreams: bounded records of single calls, and counts that never drop.
//!
//! Writers are the simulator's connections; whoever reads sees a consistent state and can wait for one.

use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::ids::ModelRef;

use super::call::Then;
use super::entries::{End, EndedBy, Entries, Record};
use super::http1::Request;
use super::player::Played;

/// How much a journal remembers of single calls; the oldest are forgotten first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalLimits {
    /// The most records.
    pub records: usize,
    /// The most bytes of request bodies in all records together; the newest record is kept whatever its size.
    pub body_bytes: usize,
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self {
            records: 100_000,
            body_bytes: 256 * 1024 * 1024,
        }
    }
}

/// A request that broke its script: it came past the end of a list that does not repeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The target that was asked.
    pub target: ModelRef,
    /// The number of the request, from 1.
    pub number: u64,
}

/// The journal of a simulator. Clones share it; it outlives the simulator.
#[derive(Clone, Debug)]
pub struct Journal {
    entries: watch::Sender<Entries>,
    clock: Clock,
    started: Instant,
}

impl Journal {
    /// An empty journal whose times count from now.
    pub(crate) fn new(limits: JournalLimits, clock: Clock) -> Self {
        Self {
            entries: watch::Sender::new(Entries::new(limits)),
            started: clock.now(),
            clock,
        }
    }

    /// The time since the simulator's start, on its clock: what every time in a record counts from.
    pub fn elapsed(&self) -> Duration {
        self.clock.now().saturating_duration_since(self.started)
    }

    /// The simulator's start.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// Looks at the journal as it is. Nothing is written meanwhile: be quick, and do not ask the journal within.
    pub fn read<T>(&self, look: impl FnOnce(&Entries) -> T) -> T {
        look(&self.entries.borrow())
    }

    /// Waits until the journal is as described; at once if it already is. **Cancel safety:** safe.
    pub async fn wait_until(&self, described: impl FnMut(&Entries) -> bool) {
        // fails only without a sender, and `self` is one
        let _ = self.entries.subscribe().wait_for(described).await;
    }

    /// Counts a connection until the guard is dropped.
    pub(crate) fn connection(&self) -> OpenConnection {
        self.entries.send_modify(|it| it.connection_opened());
        OpenConnection {
            journal: self.clone(),
            target: None,
        }
    }

    /// Begins the record of a call. Dropped before its end, the call counts as stopped by the simulator.
    pub(crate) fn begin(&self, target: ModelRef, number: u64, request: &Request, then: Then) -> OpenCall {
        let record = Record {
            target: target.clone(),
            number,
            credential: request.headers.credential(),
            started: self.elapsed(),
            method: request.method.clone(),
            path: request.path.clone(),
            headers: request.headers.clone(),
            body: request.body.clone(),
            status: None,
            bytes_written: 0,
            then,
            end: None,
        };
        let mut id = 0;
        self.entries.send_modify(|it| id = it.begin(record));
        OpenCall {
            journal: self.clone(),
            id,
            target,
            status: None,
            ended: false,
        }
    }

    /// Notes a request that broke its script.
    pub(crate) fn violated(&self, target: ModelRef, number: u64) {
        let violation = Violation { target, number };
        self.entries.send_modify(|it| it.violated(violation));
    }
}

/// A call that is being played.
#[derive(Debug)]
pub(crate) struct OpenCall {
    journal: Journal,
    id: u64,
    target: ModelRef,
    status: Option<u16>,
    ended: bool,
}

impl OpenCall {
    /// Notes bytes that went out, and the status if it was among them.
    pub(crate) fn wrote(&mut self, status: Option<u16>, bytes: u64) {
        self.status = self.status.or(status);
        let (id, status) = (self.id, self.status);
        self.journal.entries.send_modify(|it| it.wrote(id, status, bytes));
    }

    /// Notes the end.
    pub(crate) fn ended(mut self, played: Played) {
        self.end(match played {
            Played::Whole | Played::Reset => EndedBy::Sim,
            Played::PeerLeft => EndedBy::Peer,
        });
    }

    fn end(&mut self, by: EndedBy) {
        self.ended = true;
        let at = self.journal.elapsed();
        let (id, target, status) = (self.id, &self.target, self.status);
        self.journal
            .entries
            .send_modify(|it| it.end(id, target, status, End { at, by }));
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if !self.ended {
            self.end(EndedBy::Stop);
        }
    }
}

/// A connection that is open; it counts for the target that it asked last.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    journal: Journal,
    target: Option<ModelRef>,
}

impl OpenConnection {
    /// Counts the connection for this target from now on.
    pub(crate) fn asks(&mut self, target: &ModelRef) {
        if self.target.as_ref() != Some(target) {
            let before = self.target.replace(target.clone());
            self.journal
                .entries
                .send_modify(|it| it.connection_moved(before.as_ref(), Some(target)));
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let target = self.target.as_ref();
        self.journal.entries.send_modify(|it| {
            it.connection_moved(target, None);
            it.connection_closed();
        });
    }
}

#[cfg(test)]
mod tests;
