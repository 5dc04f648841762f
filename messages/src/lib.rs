//! What the actors of Understudy say to each other.
//!
//! No I/O, no metrics, no decisions.

pub mod answer;
pub mod clock;
pub mod failure;
pub mod ids;
pub mod settings;
pub mod terminal;
