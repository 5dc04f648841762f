//! Anthropic Messages: the request on its way up, the answer on its way down.

pub mod answer;
mod arguments;
mod block;
pub mod count;
pub mod decode;
mod event;
pub mod request;
mod usage;
pub mod write;
