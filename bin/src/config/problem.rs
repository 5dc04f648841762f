//! One thing that is wrong with a configuration.

use std::fmt;

use serde::Serialize;

/// What is wrong, where, and what to do about it. Never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The place in the document (`providers.openai.base_url`), or a variable's name; empty for the document as a whole.
    pub path: String,
    /// The line, counted from 1, when the problem has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The column, counted from 1; known for syntax errors only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// What stands there, as it was written: a `${VARIABLE}` is not replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// What is wrong with it.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}
