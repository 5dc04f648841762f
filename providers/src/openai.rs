//! The wire formats of OpenAI, which half the industry speaks.

pub mod chat;
pub mod embeddings;
pub mod error;
pub mod responses;
