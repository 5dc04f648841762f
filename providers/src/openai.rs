//! The wire formats of OpenAI, which half the industry speaks.

pub mod chat;
