//! The room that all transcripts of the process share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much of what is said in sessions may be in memory.
#[derive(Clone, Debug)]
pub struct TranscriptRoom {
    held: Arc<AtomicUsize>,
    most: usize,
}

impl TranscriptRoom {
    /// So many bytes.
    pub fn of(most: usize) -> Self {
        let held = Arc::default();
        Self { held, most }
    }

    pub(super) fn has(&self, size: usize) -> bool {
        self.held.load(Ordering::Relaxed).saturating_add(size) <= self.most
    }

    pub(super) fn take(&self, size: usize) -> bool {
        let more = |held: usize| held.checked_add(size).filter(|sum| *sum <= self.most);
        let taken = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok()
    }

    pub(super) fn give_back(&self, size: usize) {
        self.held.fetch_sub(size, Ordering::Relaxed);
    }

    /// Whether so little is left that sessions without work should leave.
    pub(in crate::session) fn is_tight(&self) -> bool {
        self.held.load(Ordering::Relaxed) > self.most - self.most / 4
    }

    #[cfg(test)]
    pub(in crate::session) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}
