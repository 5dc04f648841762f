//! What a turn holds while it runs: the generation that serves it, and its place among the others.

use std::any::Any;
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

/// A turn's place among those in flight; free again when it drops.
pub struct TurnPermit(Box<dyn Any + Send + Sync>);

impl TurnPermit {
    /// Wraps what whoever counts takes back.
    pub fn new(place: impl Send + Sync + 'static) -> Self {
        Self(Box::new(place))
    }
}

impl fmt::Debug for TurnPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(_place) = self;
        f.write_str("TurnPermit")
    }
}
