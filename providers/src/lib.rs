//! How a model is asked: wire formats and one attempt against one upstream. No retry, no metrics.

pub mod answer;
pub mod anthropic;
pub mod catalog;
pub mod classify;
pub mod continuation;
pub mod gemini;
pub mod inject;
pub(crate) mod json;
pub mod native;
pub mod openai;
mod request_error;
pub(crate) mod said;
pub mod sim;
pub mod splice;
pub mod sse;
pub mod stream;
pub mod upstream;
pub mod wire;
pub mod wire_error;

pub use upstream::{Rest, Upstream, http_client};
