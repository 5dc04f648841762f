//! What all connections of a simulator share: scripts with how far they are played, clock, journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{Semaphore, watch};
use understudy_messages::clock::Clock;
use understudy_messages::ids::ModelRef;

use super::call::Connect;
use super::choice::{Cursor, Draw, Stance};
use super::headers::Credential;
use super::journal::Journal;
use super::script::Script;

/// The most connections at one time; more wait to be accepted.
pub(crate) const MAX_CONNECTIONS: usize = 60_000;

/// Shared by all connections.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) clock: Clock,
    pub(crate) journal: Journal,
    pub(crate) upstreams: BTreeMap<ModelRef, Arc<Upstream>>,
    pub(crate) default: Option<Arc<Upstream>>,
    pub(crate) room: Arc<Semaphore>,
}

impl Stage {
    /// Who answers for this target.
    pub(crate) fn upstream(&self, target: &ModelRef) -> Option<&Arc<Upstream>> {
        self.upstreams.get(target).or(self.default.as_ref())
    }
}

/// One upstream while it is played.
#[derive(Debug)]
pub(crate) struct Upstream {
    script: Script,
    cursor: watch::Sender<Cursor>,
    /// Present when the upstream has a port of its own.
    door: Option<watch::Sender<Door>>,
}

/// What an upstream's own port was last made to do, and after how many requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Door {
    pub(crate) drawn: u64,
    pub(crate) connect: Connect,
}

impl Upstream {
    /// The upstream before its first request.
    pub(crate) fn new(script: Script) -> Self {
        let closed = Door {
            drawn: 0,
            connect: Connect::Refuse,
        };
        Self {
            door: script.uses_connect().then(|| watch::Sender::new(closed)),
            cursor: watch::Sender::new(Cursor::default()),
            script,
        }
    }

    /// Takes the call for a request; once it returns, the upstream's own port does what the next call says.
    pub(crate) async fn draw(&self, journal: &Journal, credential: Option<&Credential>) -> Draw {
        let mut draw = Draw::default();
        let elapsed = journal.elapsed();
        self.cursor
            .send_modify(|cursor| draw = cursor.draw(&self.script, elapsed, credential));
        self.port_follows(draw.number).await;
        draw
    }

    /// Passes over a call that was played where it could not be seen.
    pub(crate) async fn pass(&self) {
        self.cursor.send_modify(Cursor::pass);
        let drawn = self.cursor.borrow().drawn();
        self.port_follows(drawn).await;
    }

    /// What the upstream's own port should be doing, and after how many requests that holds.
    pub(crate) fn stance(&self, journal: &Journal) -> (u64, Stance) {
        let cursor = self.cursor.borrow();
        (cursor.drawn(), cursor.stance(&self.script, journal.elapsed()))
    }

    /// Wakes whenever a request was drawn.
    pub(crate) fn draws(&self) -> watch::Receiver<Cursor> {
        self.cursor.subscribe()
    }

    /// Wakes whenever the own port was changed; `None` without one.
    pub(crate) fn door(&self) -> Option<watch::Receiver<Door>> {
        self.door.as_ref().map(watch::Sender::subscribe)
    }

    /// Says what the own port does now.
    pub(crate) fn show(&self, door: Door) {
        if let Some(shown) = &self.door {
            shown.send_replace(door);
        }
    }

    async fn port_follows(&self, drawn: u64) {
        if let Some(mut door) = self.door() {
            // fails only without a sender, and `self` holds it
            let _ = door.wait_for(|door| door.drawn >= drawn).await;
        }
    }
}
