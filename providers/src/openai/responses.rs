//! Responses: the request on its way up, the answer on its way down.

pub mod answer;
pub mod decode;
mod event;
pub mod kept;
pub mod request;
mod response;
mod seal;
pub mod write;
