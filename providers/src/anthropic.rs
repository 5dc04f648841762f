//! The wire format of Anthropic.

pub mod error;
pub mod messages;
