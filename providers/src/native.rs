//! The gateway's own format: turns of a session whose transcript is kept here.
//!
//! Inside, a request is one in the words of Responses, so that everything that reads and extends requests works on it; no
//! provider gets it as it is. The transcript is a list of items of Responses, each as JSON.

pub mod assembled;
pub mod fit;
mod items;
mod request;
mod write;

pub use self::items::items;
pub use self::request::{Ask, AskError, Setting, compose, own_items, read, read_choice};
pub use self::write::Writer;
