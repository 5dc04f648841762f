//! Anthropic Messages: the request on its way up, the answer on its way down.

pub mod answer;
pub mod decode;
pub mod request;
pub mod write;
