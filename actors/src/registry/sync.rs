//! The atomics of the gate. The loom test compiles the gate with loom's in their place.

pub(super) use std::sync::atomic::{AtomicU64, Ordering};
