//! The wire format of Gemini: asked, never served.

pub mod answer;
pub mod decode;
pub mod request;
