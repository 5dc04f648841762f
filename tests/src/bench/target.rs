//! What is measured.

use super::process::Program;

/// Where gateways are asked.
pub const CHAT: &str = "/v1/chat/completions";
/// What a gateway tells of an answer that the first candidate gave.
pub const FIRST_ATTEMPT: &[(&str, &str)] = &[("x-understudy-served-by", "ok/m"), ("x-understudy-attempts", "1")];

/// One way through one program.
pub struct Target<'a> {
    /// What it is called.
    pub name: &'static str,
    /// The program.
    pub program: &'a Program,
    /// The path that is asked.
    pub path: &'static str,
    /// The model that is asked for.
    pub model: &'static str,
    /// Whether every connection names a session of its own.
    pub sessions: bool,
    /// Response headers that every answer must have.
    pub expected: &'static [(&'static str, &'static str)],
}
