//! An answer that went through as bytes and is gone on with in pieces: what it was is read from its frames.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::draft::Draft;
use super::item::{Item, Kind, Part, Voice};
use crate::sse::SseDecoder;

/// What matters of an event, whatever it is.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    sequence_number: Option<u64>,
    response: Option<Response>,
    output_index: usize,
    item_id: String,
    item: Option<Box<RawValue>>,
    part: Option<Fields>,
    delta: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Response {
    id: Option<String>,
    model: Option<String>,
    created_at: Option<f64>,
}

/// An item or a part, by its kind.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    text: Option<String>,
    refusal: Option<String>,
}

/// Makes `draft` what these frames were.
pub(super) fn go_on(draft: &mut Draft, frames: &[Bytes]) {
    let mut decoder = SseDecoder::default();
    for raw in frames {
        decoder.push(raw.clone());
        while let Ok(Some(frame)) = decoder.next_frame() {
            let event = frame.data.and_then(|data| serde_json::from_slice::<Event>(&data).ok());
            if let Some(event) = event {
                let number = event.sequence_number.unwrap_or(draft.events.next());
                draft.events.after(number);
                draft.passed(event);
            }
        }
    }
}

impl Draft {
    fn passed(&mut self, event: Event) {
        if let Some(response) = event.response {
            self.id = response.id.unwrap_or(std::mem::take(&mut self.id));
            self.model = response.model.unwrap_or(std::mem::take(&mut self.model));
            self.created = response.created_at.map_or(self.created, |at| at as u64);
        }
        match (&*event.kind, event.item) {
            ("response.output_item.added", Some(raw)) if self.items.len() == event.output_index => {
                self.items.push(begun(raw));
            }
            ("response.output_item.done", Some(raw)) => {
                if let Some(item) = self.items.get_mut(event.output_index) {
                    (item.kind, item.done) = (Kind::Passed(raw), Some("completed"));
                }
            }
            (kind, _) => {
                // not every provider announces what it says
                if let Some(voice) = spoken(kind).filter(|_| self.items.len() == event.output_index) {
                    self.items.push(unannounced(event.item_id, voice));
                }
                if let Some(item) = self.items.get_mut(event.output_index) {
                    passed_part(item, kind, event.part, event.delta);
                }
            }
        }
    }
}

fn begun(raw: Box<RawValue>) -> Item {
    let fields: Fields = serde_json::from_str(raw.get()).unwrap_or_default();
    let parts = Vec::new();
    let kind = match &*fields.kind {
        "message" => Kind::Message { parts },
        "reasoning" => Kind::Reasoning { parts, encrypted: None },
        // never gone on with
        _ => Kind::Passed(raw),
    };
    Item {
        id: fields.id,
        done: matches!(kind, Kind::Passed(_)).then_some("completed"),
        kind,
    }
}

/// The voice of which an event tells more.
fn spoken(kind: &str) -> Option<Voice> {
    let voices = [Voice::Text, Voice::Refusal, Voice::Summary, Voice::Reasoning];
    voices
        .into_iter()
        .find(|voice| kind.strip_prefix(voice.event()) == Some(".delta"))
}

fn unannounced(id: String, voice: Voice) -> Item {
    let parts = Vec::new();
    let kind = match voice {
        Voice::Text | Voice::Refusal => Kind::Message { parts },
        Voice::Summary | Voice::Reasoning => Kind::Reasoning { parts, encrypted: None },
    };
    Item { id, kind, done: None }
}

fn passed_part(item: &mut Item, kind: &str, part: Option<Fields>, delta: Option<String>) {
    if let (Some(voice), Some(delta)) = (spoken(kind), delta) {
        if item.open_part().is_none_or(|(_, open)| open.voice != voice) {
            item.begin_part(voice);
        }
        if let Some((_, open)) = item.open_part() {
            open.text.push_str(&delta);
        }
        return;
    }
    let Some(part) = part else { return };
    let begins = kind.ends_with("_part.added");
    if let Some(voice) = Voice::of_part(&part.kind).filter(|_| begins) {
        item.begin_part(voice);
    }
    let text = part.text.or(part.refusal).unwrap_or_default();
    if let Some((_, open)) = item.open_part() {
        let Part { text: known, done, .. } = open;
        if known.is_empty() {
            *known = text;
        }
        *done = kind.ends_with("_part.done");
    }
}
