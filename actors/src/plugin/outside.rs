//! What an instance is kept by that belongs to no turn, by name: read when something waits for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use understudy_messages::clock::Instant;
use understudy_messages::registry::Holder;

use super::Served;

/// Those of one instance. There are no more of them than requests that are open.
#[derive(Default)]
pub(super) struct Outside(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    begun: u64,
    open: BTreeMap<u64, (String, Instant)>,
}

/// One of them, for as long as it lives.
pub(super) struct Call(Arc<Served>, u64);

impl Outside {
    fn lock(&self) -> MutexGuard<'_, Calls> {
        // nothing in here panics half-way
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    /// Notes a call under what people know it by.
    pub(super) fn new(served: Arc<Served>, name: &str) -> Self {
        let now = served.supervision.clock.now();
        let mut calls = served.outside.lock();
        calls.begun += 1;
        let number = calls.begun;
        calls.open.insert(number, (name.to_owned(), now));
        drop(calls);
        Self(served, number)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.outside.lock().open.remove(&self.1);
    }
}

impl Served {
    /// The calls under way that belong to no turn.
    pub fn callers(&self, now: Instant) -> Vec<Holder> {
        let calls = self.outside.lock();
        let row = |(name, since): &(String, Instant)| self.holder("call", name, now.duration_since(*since));
        calls.open.values().map(row).collect()
    }

    /// Its services that run, or have not ended yet.
    pub fn services(&self, now: Instant) -> Vec<Holder> {
        let running = self.services.running();
        let row = |(name, since): &(String, Instant)| self.holder("service", name, now.duration_since(*since));
        running.iter().map(row).collect()
    }

    fn holder(&self, kind: &'static str, name: &str, age: Duration) -> Holder {
        Holder {
            kind,
            id: name.to_owned(),
            session: None,
            agent: None,
            plugin: Some(self.id.clone()),
            parent: None,
            age,
        }
    }
}
