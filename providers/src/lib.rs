//! How a model is asked.

pub mod sim;
