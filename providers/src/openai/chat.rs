//! Chat completions: the request on its way up, the answer on its way down.

pub mod answer;
pub mod chunk;
pub mod decode;
mod event;
pub mod request;
pub mod write;
