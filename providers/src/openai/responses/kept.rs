//! A whole answer as it is kept, so that a later request can go on from it.

use bytes::Bytes;
use memchr::memmem;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::sse::SseDecoder;

/// A whole answer: who it is and what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The response's id.
    pub id: String,
    /// The list of its items, as it was written.
    pub output: Box<str>,
    /// All of it, as it was written.
    pub response: Box<str>,
}

#[derive(Deserialize)]
struct Wire<'a> {
    id: String,
    #[serde(default)]
    status: Option<String>,
    #[serde(borrow)]
    output: &'a RawValue,
}

/// Of a body that is one answer; `None` for one that failed, or is no answer.
pub fn of_body(body: &[u8]) -> Option<Kept> {
    let response = std::str::from_utf8(body).ok()?.trim();
    let wire: Wire<'_> = serde_json::from_str(response).ok()?;
    let is_whole = matches!(wire.status.as_deref(), None | Some("completed" | "incomplete"));
    let is_list = wire.output.get().starts_with('[');
    (is_whole && is_list && !wire.id.is_empty()).then(|| Kept {
        id: wire.id,
        output: wire.output.get().into(),
        response: response.into(),
    })
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    response: &'a RawValue,
}

/// Of the frame that ends an answer; `None` for any other, which a search for its name tells apart.
pub(super) fn of_frame(frame: &Bytes) -> Option<Kept> {
    let ends = |name: &[u8]| memmem::find(frame, name).is_some();
    if !ends(b"\"response.completed\"") && !ends(b"\"response.incomplete\"") {
        return None;
    }
    let mut decoder = SseDecoder::default();
    decoder.push(frame.clone());
    let data = decoder.next_frame().ok()??.data?;
    let event: Event<'_> = serde_json::from_slice(&data).ok()?;
    of_body(event.response.get().as_bytes())
}
