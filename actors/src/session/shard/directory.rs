//! The sessions that are in memory: those with work, and the others in the order in which they were last used. Nothing that is
//! done for one of them takes longer because there are many.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;

use actix::Addr;
use understudy_messages::clock::Instant;
use understudy_messages::ids::{Name, SessionKey};
use understudy_messages::session::SessionInfo;

use super::SessionShardSettings;
use crate::session::memory::Memory;
use crate::session::{SessionActor, SessionContext};
use crate::telemetry::{SessionEvent, SessionMetrics};

/// A session in memory.
pub(super) struct Record {
    /// The actor, while there is work.
    pub(super) actor: Option<Addr<SessionActor>>,
    pub(super) memory: Arc<Memory>,
    /// Turns in work or waiting, and other work.
    work: usize,
    /// Its place among those without work.
    place: u64,
}

/// The sessions that are in memory.
pub(super) struct Directory {
    /// In the order of their names, so that a page of them is found at once.
    sessions: BTreeMap<SessionKey, Record>,
    /// Those without work, the least recently used first, and since when.
    idle: BTreeMap<u64, (SessionKey, Instant)>,
    uses: u64,
    settings: SessionShardSettings,
    context: Arc<SessionContext>,
}

impl Directory {
    pub(super) const fn new(context: Arc<SessionContext>, settings: SessionShardSettings) -> Self {
        Self {
            sessions: BTreeMap::new(),
            idle: BTreeMap::new(),
            uses: 0,
            settings,
            context,
        }
    }

    /// Work begins in a session. `None`: there are too many.
    pub(super) fn enter(&mut self, key: &SessionKey) -> Option<&mut Record> {
        let full = self.sessions.len() >= self.settings.capacity && !self.sessions.contains_key(key);
        if full && !(self.context.store.is_some() && self.let_go(SessionEvent::Evicted)) {
            return None;
        }
        let metrics = self.context.telemetry.sessions();
        let record = match self.sessions.entry(key.clone()) {
            Entry::Occupied(known) => {
                let record = known.into_mut();
                if self.idle.remove(&record.place).is_some() {
                    metrics.idle(-1.0);
                    metrics.active(1.0);
                }
                record
            }
            Entry::Vacant(new) => {
                metrics.active(1.0);
                new.insert(Record {
                    actor: None,
                    memory: Arc::new(self.context.memory(key)),
                    work: 0,
                    place: 0,
                })
            }
        };
        if record.work == 0 {
            record.memory.enter();
        }
        record.work += 1;
        Some(record)
    }

    /// Work has ended in a session. One whose first turn was not even taken is none.
    pub(super) fn leave(&mut self, key: &SessionKey) {
        let Some(record) = self.sessions.get_mut(key) else {
            return;
        };
        record.work = record.work.saturating_sub(1);
        if record.work > 0 {
            return;
        }
        record.actor = None;
        record.memory.leave();
        self.metrics().active(-1.0);
        let Some(record) = self.sessions.get_mut(key).filter(|record| !record.memory.is_blank()) else {
            self.sessions.remove(key);
            return;
        };
        self.uses += 1;
        record.place = self.uses;
        self.idle.insert(self.uses, (key.clone(), self.context.clock.now()));
        self.metrics().idle(1.0);
        self.make_room();
    }

    /// Lets go of those that have been idle for too long, or that there is no room for.
    pub(super) fn sweep(&mut self) {
        let (now, longest) = (self.context.clock.now(), self.settings.idle);
        let event = match self.context.store {
            Some(_) => SessionEvent::Passivated,
            None => SessionEvent::Expired,
        };
        let is_old = |(_, since): &(SessionKey, Instant)| now.duration_since(*since) >= longest;
        while self.idle.first_key_value().is_some_and(|(_, oldest)| is_old(oldest)) {
            self.let_go(event);
        }
        self.make_room();
    }

    /// Where sessions are stored, they leave memory before it is full.
    fn make_room(&mut self) {
        while self.context.store.is_some() && self.context.transcripts.is_tight() {
            if !self.let_go(SessionEvent::Evicted) {
                return;
            }
        }
    }

    /// The least recently used session without work leaves memory, if there is one.
    fn let_go(&mut self, event: SessionEvent) -> bool {
        let Some((_, (key, _))) = self.idle.pop_first() else {
            return false;
        };
        self.sessions.remove(&key);
        self.metrics().idle(-1.0);
        self.metrics().happened(event, 1);
        true
    }

    pub(super) fn is_at_work(&self, key: &SessionKey) -> bool {
        self.sessions.get(key).is_some_and(|record| record.work > 0)
    }

    pub(super) fn memory(&self, key: &SessionKey) -> Option<Arc<Memory>> {
        Some(self.sessions.get(key)?.memory.clone())
    }

    /// Sessions of one client key behind a name, in the order of their names.
    pub(super) fn page(&self, owner: Option<u32>, after: Option<Name>, limit: usize) -> Vec<SessionInfo> {
        let key = after.unwrap_or_default();
        let behind = (Bound::Excluded(SessionKey::Keyed { owner, key }), Bound::Unbounded);
        let listed = self.sessions.range(behind).map_while(|(key, record)| match key {
            SessionKey::Keyed { owner: whose, key } if *whose == owner => Some(record.memory.info(key)),
            SessionKey::Keyed { .. } | SessionKey::Ephemeral => None,
        });
        listed.take(limit).collect()
    }

    fn metrics(&self) -> &SessionMetrics {
        self.context.telemetry.sessions()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let idle = self.idle.len();
        self.metrics().idle(-(idle as f64));
        self.metrics().active(-((self.sessions.len() - idle) as f64));
    }
}
