//! Tools inside a turn: the calls that an answer proposes, what becomes of them, and the tools that run here.
//!
//! [`calls`] finds calls in the pieces of an answer, [`rulings`] writes the answer anew after they have been judged; both are
//! pure. [`served`] runs the tools of plugins.

pub mod calls;
pub mod rulings;
mod served;

pub use self::served::Tools;
