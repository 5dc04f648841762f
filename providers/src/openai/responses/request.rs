//! Responses requests: read once for routing, taken apart for other formats, put together from them.

use bytes::Bytes;
use understudy_messages::request::RequestFacts;

use crate::splice::{Edit, splice};

pub use self::expand::{expand, own_items};
pub use self::references::{TooLarge, dereference, identified};
use self::scan::Draft;
use crate::json::{Cursor, Kind};
use crate::request_error::RequestError;

mod expand;
mod read;
mod references;
mod scan;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use self::read::read;
pub(crate) use self::write::write;

/// Reads a request as far as routing depends on it. Linear in its length; allocates for names only.
pub(crate) fn scan(body: &Bytes) -> Result<RequestFacts, RequestError> {
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

/// The client's own body for a Responses provider: the model's name in it, out of it what is ours and the reasoning that this
/// provider cannot read, the rest as it came. With nothing to change it is the same allocation.
pub(crate) fn for_model(body: &Bytes, facts: &RequestFacts, model: &str) -> Bytes {
    let quoted = serde_json::Value::from(model).to_string();
    let name = Edit {
        span: facts.model_span.clone(),
        text: quoted.as_bytes(),
    };
    let foreign = facts.responses.iter().flat_map(|facts| facts.foreign.iter().cloned());
    let removed = facts.fallbacks_span.iter().cloned().chain(foreign);
    let mut edits: Vec<Edit<'_>> = removed.map(|span| Edit { span, text: b"" }).collect();
    if model != &*facts.model {
        edits.push(name);
    }
    edits.sort_unstable_by_key(|edit| (edit.span.start, edit.span.end));
    splice(body, &edits)
}
