//! The lease counter and the gate of one generation, in one word.
//!
//! The top bit says closed, the rest counts holders. Entering an open gate is one compare-and-swap, without a message and
//! without a lock; a closed gate admits nobody, so that after [`Gate::close`] the count only falls, save by those whom
//! somebody inside waits for: they come in beside them, and the gate is not empty before all have left.

use super::sync::{AtomicU64, Ordering};

const CLOSED: u64 = 1 << 63;

/// Counts who is inside and keeps others out when closed.
#[derive(Debug)]
pub(crate) struct Gate(AtomicU64);

impl Gate {
    /// An open gate with nobody inside.
    pub(crate) fn open() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Enters; `false` when the gate is closed. Whoever entered must leave once.
    #[must_use]
    pub(crate) fn enter(&self) -> bool {
        let step = |word: u64| (word & CLOSED == 0).then(|| word + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, step).is_ok()
    }

    /// Enters beside somebody who is inside and stays until this has returned, whether or not the gate is closed. Whoever
    /// entered must leave once.
    pub(crate) fn enter_beside(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Leaves; `true` for the one who leaves a closed gate empty.
    pub(crate) fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) == CLOSED | 1
    }

    /// Closes the gate and tells how many are still inside.
    pub(crate) fn close(&self) -> u64 {
        self.0.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED
    }

    /// Opens the gate again.
    pub(crate) fn reopen(&self) {
        self.0.fetch_and(!CLOSED, Ordering::AcqRel);
    }

    /// How many are inside.
    pub(crate) fn holders(&self) -> u64 {
        self.0.load(Ordering::Acquire) & !CLOSED
    }
}
