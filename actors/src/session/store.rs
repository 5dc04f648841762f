//! Where sessions are while nobody works on them: a port, so that another store can take the place of the one in the state file.

mod codec;
#[cfg(test)]
mod flips;
pub mod portable;
mod residence;
mod responses;
mod room;
mod stored;
mod tables;

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use futures::future::BoxFuture;
use understudy_messages::ids::{ModelRef, Name, SessionKey};
use understudy_messages::session::{SessionFault, SessionInfo, SessionView};
use understudy_messages::tools::FallbackNotice;

pub use self::residence::Residence;
pub use self::stored::{StateSessions, StateSessionsOptions};
pub use self::tables::check;
use crate::state::Copier;

/// What a copy of the state file has to have of sessions.
pub const SESSION_TABLES: [Copier; 1] = [tables::copy];

/// What is stored of a session, beside what was said in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Grows with each change; 0: nothing is stored.
    pub revision: u64,
    /// The agent that spoke last.
    pub agent: Option<Name>,
    /// The model that was chosen for it.
    pub pinned: Option<Name>,
    /// Who answered last.
    pub last_model: Option<ModelRef>,
    /// Who answers in whose place, while that is so.
    pub fallback: Option<FallbackNotice>,
    /// How many turns have been taken.
    pub turns: u64,
    /// When it was first heard of.
    pub created: SystemTime,
    /// When it was last changed.
    pub updated: SystemTime,
    /// The number of the oldest turn whose words are kept.
    pub first: u64,
    /// The number of the next one.
    pub next: u64,
    /// What plugins keep with it.
    pub slots: Vec<(Name, String)>,
}

impl Header {
    /// Of a session that nobody has spoken in.
    pub const fn new(now: SystemTime) -> Self {
        Self {
            revision: 0,
            agent: None,
            pinned: None,
            last_model: None,
            fallback: None,
            turns: 0,
            created: now,
            updated: now,
            first: 0,
            next: 0,
            slots: Vec::new(),
        }
    }

    /// As it is told.
    pub fn info(&self, id: &Name) -> SessionInfo {
        SessionInfo {
            id: id.clone(),
            agent: self.agent.clone(),
            pinned: self.pinned.clone(),
            last_model: self.last_model.clone(),
            fallback: self.fallback.clone(),
            turns: self.turns,
            created: self.created,
            updated: self.updated,
        }
    }
}

/// A session as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSession {
    /// What is known of it.
    pub header: Header,
    /// What was said, by turns, oldest first.
    pub turns: Vec<Vec<Arc<str>>>,
}

impl StoredSession {
    /// As it is told.
    pub fn view(self, id: &Name) -> SessionView {
        SessionView {
            info: self.header.info(id),
            transcript: self.turns.into_iter().flatten().collect(),
        }
    }
}

/// A change of one session. It is made whole or not at all.
#[derive(Clone, Debug)]
pub struct SessionChange {
    /// The revision that it was made from: where another one is stored, nothing is changed.
    pub base: u64,
    /// What is known from now on.
    pub header: Header,
    /// What was said in the turn before `header.next`, if anything.
    pub said: Vec<Arc<str>>,
    /// The numbers of turns whose words go.
    pub forgets: Range<u64>,
}

/// Keeps sessions. Nothing of it blocks; each operation has an end, and is made although nobody waits for it any longer.
pub trait SessionStore: Send + Sync {
    /// A session and what was said in it, if there is one.
    fn load<'a>(&'a self, key: &'a SessionKey) -> BoxFuture<'a, Result<Option<StoredSession>, SessionFault>>;

    /// Makes a change, and ends when it is as durable as this store promises. From then on every [`SessionStore::load`]
    /// finds it.
    fn commit<'a>(&'a self, key: &'a SessionKey, change: SessionChange) -> BoxFuture<'a, Result<(), SessionFault>>;

    /// Puts a session in whole. Where there is one that is [`SessionFault::Changed`], unless this one is to `replace` it, and
    /// [`SessionFault::Busy`] where that has work. It is as durable then as anything can be.
    fn restore<'a>(
        &'a self,
        key: &'a SessionKey,
        session: StoredSession,
        replace: bool,
    ) -> BoxFuture<'a, Result<(), SessionFault>>;

    /// Forgets a session; `resident` if somebody has told that it was restored or was first committed. Tells whether there
    /// was one.
    fn delete<'a>(&'a self, key: &'a SessionKey, resident: bool) -> BoxFuture<'a, Result<bool, SessionFault>>;

    /// Sessions of one client key behind a name, in the order of their names.
    fn page(
        &self,
        owner: Option<u32>,
        after: Option<Name>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<SessionInfo>, SessionFault>>;

    /// Whether it takes no new session.
    fn is_full(&self) -> bool;

    /// A session comes into memory: while it has work the store does not take it away, and tells when it did.
    fn reside(&self, key: &SessionKey) -> Arc<Residence>;

    /// A session was loaded and is in memory from now on.
    fn restored(&self);

    /// A session that was restored, or first committed, is no longer in memory.
    fn left(&self);
}
