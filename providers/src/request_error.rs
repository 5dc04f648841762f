//! Why a request's body is refused.

use crate::json::{JsonError, MAX_DEPTH};

/// Why a request body is refused. Keys and offsets, never content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It is not JSON.
    #[error("not JSON at byte {at}")]
    NotJson {
        /// Where reading stopped.
        at: usize,
    },
    /// It is nested too deep.
    #[error("nested deeper than {MAX_DEPTH} levels at byte {at}")]
    TooDeep {
        /// Where the bound was passed.
        at: usize,
    },
    /// It is JSON, but not an object.
    #[error("the body must be a JSON object")]
    NotAnObject,
    /// A member is missing that must be there.
    #[error("`{key}` is missing")]
    Missing {
        /// Which member.
        key: &'static str,
    },
    /// A member is empty that must not be.
    #[error("`{key}` is empty")]
    Empty {
        /// Which member.
        key: &'static str,
    },
    /// A member is of the wrong type.
    #[error("`{key}` must be {expected}")]
    WrongType {
        /// Which member.
        key: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// A member that the gateway reads is there twice: readers differ in which one they believe.
    #[error("`{key}` is given twice")]
    Duplicate {
        /// Which member.
        key: &'static str,
    },
    /// A member asks for what no other wire format has words for.
    #[error("`{key}` cannot be carried over into another wire format")]
    Untranslatable {
        /// Which member.
        key: &'static str,
    },
}

impl From<JsonError> for RequestError {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Syntax { at } | JsonError::Truncated { at } => Self::NotJson { at },
            JsonError::TooDeep { at } => Self::TooDeep { at },
        }
    }
}
