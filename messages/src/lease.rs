//! What keeps a generation alive while a turn runs on it.

use std::fmt;
use std::sync::Arc;

use crate::ids::GenerationId;

/// Something that a generation counts until it is dropped.
pub trait Holding: Send + Sync {
    /// The generation that is held.
    fn generation(&self) -> GenerationId;
}

/// Held by a turn from admission to its end, and by every task that works for it. Clones share one count.
#[derive(Clone)]
pub struct TurnLease(Arc<dyn Holding>);

impl TurnLease {
    /// Wraps what the registry counts.
    pub fn new(held: Arc<dyn Holding>) -> Self {
        Self(held)
    }

    /// The generation that admitted the turn.
    pub fn generation(&self) -> GenerationId {
        self.0.generation()
    }
}

impl fmt::Debug for TurnLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TurnLease(generation {})", self.generation())
    }
}
