//! How a model is asked: wire formats and one attempt against one upstream. No retry, no metrics.

pub mod upstream;

pub use upstream::Upstream;
