//! A chat request read once: what the gateway decides on, and where it stands.
//!
//! The body is scanned in one pass and no tree is built. What changes on the way up is spliced into it, so that every
//! other byte, key order and number spelling included, stays the client's.

use bytes::Bytes;
use understudy_messages::request::RequestFacts;

use self::scan::Draft;
use crate::json::{Cursor, JsonError, Kind, MAX_DEPTH};
use crate::splice::{Edit, splice};

mod messages;
mod scan;
mod stream_options;
#[cfg(test)]
mod tests;

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
}

/// Reads a chat request. Linear in its length; allocates for the model's and the fallbacks' names only.
///
/// # Errors
/// [`RequestError`], the client's fault in every case.
pub fn scan(body: &Bytes) -> Result<RequestFacts, RequestError> {
    let mut cursor = Cursor::new(body)?;
    if cursor.kind()? != Kind::Object {
        return Err(RequestError::NotAnObject);
    }
    let brace = cursor.position();
    let mut draft = Draft::default();
    cursor.object(|cursor, key| draft.member(cursor, key))?;
    cursor.end()?;
    draft.finish(body, brace)
}

/// The body for an upstream that is to answer as `model`: that name in it, `fallbacks` out of it, the rest as it came;
/// with `ask_usage` a stream ends with a report of tokens (design §6, "Usage").
/// With nothing to change it is the same allocation. `facts` are those of `body`.
pub fn for_model(body: &Bytes, facts: &RequestFacts, model: &str, ask_usage: bool) -> Bytes {
    let mut edits = Vec::with_capacity(3);
    let quoted;
    if model != &*facts.model {
        quoted = serde_json::Value::from(model).to_string();
        edits.push(Edit {
            span: facts.model_span.clone(),
            text: quoted.as_bytes(),
        });
    }
    if let Some(span) = facts.fallbacks_span.clone() {
        edits.push(Edit { span, text: b"" });
    }
    if let Some(edit) = facts.usage_edit.as_ref().filter(|_| ask_usage) {
        edits.push(Edit {
            span: edit.span.clone(),
            text: edit.text.as_bytes(),
        });
    }
    edits.sort_unstable_by_key(|edit| (edit.span.start, edit.span.end));
    splice(body, &edits)
}

impl From<JsonError> for RequestError {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Syntax { at } | JsonError::Truncated { at } => Self::NotJson { at },
            JsonError::TooDeep { at } => Self::TooDeep { at },
        }
    }
}
