//! The wire format of Gemini: asked, never served.

pub mod answer;
pub mod array;
pub mod decode;
mod event;
pub mod request;
