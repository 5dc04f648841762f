//! A chat request read once: what the gateway decides on, and where it stands.
//!
//! The body is scanned in one pass and no tree is built. What changes on the way up is spliced into it, so that every
//! other byte, key order and number spelling included, stays the client's.

use bytes::Bytes;
use understudy_messages::request::RequestFacts;

use self::scan::Draft;
use crate::json::{Cursor, Kind};
use crate::splice::{Edit, splice};

mod messages;
mod read;
pub(crate) mod scan;
mod stream_options;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use self::read::read;
pub(crate) use self::write::write;
pub use crate::request_error::RequestError;

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
