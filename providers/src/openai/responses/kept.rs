//! A whole answer as it is kept, so that a later request can go on from it.

use std::ops::Range;

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
    /// All of it, as it was written.
    pub response: Box<str>,
    /// Where its items stand in it, separated by commas.
    pub output: Range<usize>,
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
    let list = wire.output.get();
    let items = list.strip_prefix('[')?.strip_suffix(']')?.trim();
    let start = items.as_ptr().addr().wrapping_sub(response.as_ptr().addr());
    (is_whole && !wire.id.is_empty()).then(|| Kept {
        id: wire.id,
        response: response.into(),
        output: start..start + items.len(),
    })
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    response: &'a RawValue,
}

/// Of the frame that ends an answer; `None` for any other, which a search for its name tells apart.
pub(super) fn of_frame(frame: &Bytes) -> Option<Kept> {
    let names: [&[u8]; 2] = [b"response.completed", b"response.incomplete"];
    let ends = match frame.strip_prefix(b"event: ") {
        Some(named) => names.iter().any(|name| named.starts_with(name)),
        None => names.iter().any(|name| memmem::find(frame, name).is_some()),
    };
    if !ends {
        return None;
    }
    let mut decoder = SseDecoder::default();
    decoder.push(frame.clone());
    let data = decoder.next_frame().ok()??.data?;
    let event: Event<'_> = serde_json::from_slice(&data).ok()?;
    let is_end = matches!(
        event.kind.as_deref(),
        None | Some("response.completed" | "response.incomplete")
    );
    let kept = is_end.then(|| of_body(event.response.get().as_bytes()));
    kept.flatten()
}
