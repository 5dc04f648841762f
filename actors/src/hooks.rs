//! The hook runner: one dispatch point for every hook of every turn.
//!
//! [`table`] says who is called, [`merge`] what their answers come to (`policies` for those who judge tools first), [`runner`] calls them: in order, each within its
//! deadline, cancelled when it has passed.

mod asking;
pub mod merge;
mod policies;
pub mod runner;
pub mod table;

pub use self::runner::{Hooks, LANE_QUEUE, LANE_WIDTH, Refused};
pub use self::table::{Access, HookTable, LoadedPlugin};
