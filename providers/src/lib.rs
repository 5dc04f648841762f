//! How a model is asked: wire formats and what their failures mean.

pub mod classify;
