//! Which sessions are in memory: one with work is never taken out of the store, and one without that was taken out, or was
//! replaced, is read again before its next turn.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

const IDLE: u8 = 0;
const WORKING: u8 = 1;
const STALE: u8 = 2;

/// The sessions of one store that are in memory.
#[derive(Debug, Default)]
pub(super) struct Residents {
    here: Mutex<HashMap<Box<[u8]>, Weak<Residence>>>,
    /// How many changes take sessions away and are perhaps not committed.
    leaving: AtomicUsize,
}

/// One session in memory.
#[derive(Debug)]
pub struct Residence {
    state: AtomicU8,
    of: Option<(Arc<Residents>, Box<[u8]>)>,
}

impl Residence {
    /// Of a session that no store knows.
    pub fn untracked() -> Arc<Self> {
        let state = AtomicU8::new(IDLE);
        Arc::new(Self { state, of: None })
    }

    /// Work begins: from now on the store keeps it.
    pub(in crate::session) fn enter(&self) {
        // a stale one stays so until it is read
        let idle = self
            .state
            .compare_exchange(IDLE, WORKING, Ordering::AcqRel, Ordering::Acquire);
        if idle == Err(STALE) {
            self.state.store(WORKING | STALE, Ordering::Release);
        }
    }

    /// No work is left.
    pub(in crate::session) fn leave(&self) {
        self.state.fetch_and(!WORKING, Ordering::AcqRel);
    }

    /// What is in memory is no longer what the store has.
    pub(in crate::session) fn is_stale(&self) -> bool {
        self.state.load(Ordering::Acquire) & STALE != 0
    }

    /// It is about to be read.
    pub(in crate::session) fn refresh(&self) {
        self.state.fetch_and(!STALE, Ordering::AcqRel);
    }

    /// The store takes it away, unless it has work.
    fn claim(&self) -> bool {
        let claimed = self
            .state
            .compare_exchange(IDLE, STALE, Ordering::AcqRel, Ordering::Acquire);
        matches!(claimed, Ok(_) | Err(STALE))
    }
}

impl Drop for Residence {
    fn drop(&mut self) {
        let Some((residents, key)) = &self.of else { return };
        let mut here = residents.here();
        // another one of the same name may have come in its place
        if here.get(key).is_some_and(|known| known.strong_count() == 0) {
            here.remove(key);
        }
    }
}

impl Residents {
    /// A session comes into memory.
    pub(super) fn reside(self: &Arc<Self>, key: Vec<u8>) -> Arc<Residence> {
        let key = key.into_boxed_slice();
        let residence = Arc::new(Residence {
            state: AtomicU8::new(IDLE),
            of: Some((self.clone(), key.clone())),
        });
        self.here().insert(key, Arc::downgrade(&residence));
        residence
    }

    /// Whether a session may be taken out of the store: it has no work, and is read again before it has some.
    pub(super) fn claim(&self, key: &[u8]) -> bool {
        let known = self.here().get(key).and_then(Weak::upgrade);
        known.is_none_or(|residence| residence.claim())
    }

    /// Whether a change is perhaps not committed that takes sessions away: whoever reads then waits for it first.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire) > 0
    }

    /// Sessions may be taken away from now on, until it is dropped: when that is committed, or never will be.
    pub(super) fn leaving(self: &Arc<Self>) -> Leaving {
        self.leaving.fetch_add(1, Ordering::AcqRel);
        Leaving(self.clone())
    }

    fn here(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Weak<Residence>>> {
        self.here.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.here().len()
    }
}

/// Sessions are being taken away.
#[derive(Debug)]
pub(super) struct Leaving(Arc<Residents>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.leaving.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_with_work_is_not_claimed_and_one_without_is_stale_until_it_is_read() {
        let residents = Arc::new(Residents::default());
        let residence = residents.reside(b"s".to_vec());
        residence.enter();
        assert!(!residents.claim(b"s") && !residence.is_stale());
        residence.leave();
        assert!(residents.claim(b"s") && residence.is_stale());
        residence.enter();
        assert!(
            residence.is_stale() && !residents.claim(b"s"),
            "it has work, and is to be read"
        );
        residence.refresh();
        residence.leave();
        assert!(!residence.is_stale());
    }

    #[test]
    fn who_has_left_is_forgotten_and_whoever_came_in_its_place_is_not() {
        let residents = Arc::new(Residents::default());
        let first = residents.reside(b"s".to_vec());
        let second = residents.reside(b"s".to_vec());
        drop(first);
        second.enter();
        assert!(!residents.claim(b"s"));
        drop(second);
        assert_eq!(residents.len(), 0);
        assert!(residents.claim(b"s"), "nobody has it");
    }
}
