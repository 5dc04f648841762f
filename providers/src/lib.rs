//! .

pub(crate) mod json;
pub mod openai;
pub mod splice;
pub mod sse;
pub mod stream;
pub mod wire_error;
