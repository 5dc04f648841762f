//! The events of a stream: numbered, and gathered until they are taken.

use bytes::Bytes;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::envelope::Envelope;
use super::item::{Item, Kind, Nothing, Voice, WireItem};

/// The events that were not taken yet, and the number of the next one.
#[derive(Debug, Default)]
pub(super) struct Events {
    written: Vec<u8>,
    next: u64,
}

/// One event; the place of the item, its id and the place of its part where it has them.
struct Event<'a, T> {
    kind: &'a str,
    number: u64,
    place: Option<usize>,
    id: Option<&'a str>,
    part: Option<(&'static str, usize)>,
    /// What it says, and under which name.
    says: (&'static str, T),
    /// Whether it has a list of probabilities, which is empty here.
    logprobs: bool,
}

impl<T: Serialize> Serialize for Event<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.kind)?;
        map.serialize_entry("sequence_number", &self.number)?;
        if let Some(place) = self.place {
            map.serialize_entry("output_index", &place)?;
        }
        if let Some(id) = self.id {
            map.serialize_entry("item_id", id)?;
        }
        if let Some((name, part)) = self.part {
            map.serialize_entry(name, &part)?;
        }
        map.serialize_entry(self.says.0, &self.says.1)?;
        if self.logprobs {
            map.serialize_entry("logprobs", &Nothing)?;
        }
        map.end()
    }
}

impl Events {
    /// Whether there was any.
    pub(super) fn begun(&self) -> bool {
        self.next > 0
    }

    /// The number of the next one.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Those of this number were written by somebody else.
    pub(super) fn after(&mut self, number: u64) {
        self.next = self.next.max(number.saturating_add(1));
    }

    /// What is to be sent.
    pub(super) fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.written).into()
    }

    /// A comment, which has no number.
    pub(super) fn comment(&mut self, text: &str) {
        self.written.extend_from_slice(b": ");
        self.written.extend_from_slice(text.as_bytes());
        self.written.extend_from_slice(b"\n\n");
    }

    pub(super) fn response(&mut self, kind: &str, response: &Envelope<'_>) {
        self.push(kind, None, None, None, ("response", response));
    }

    pub(super) fn begin_item(&mut self, place: usize, item: &Item) {
        let says = ("item", item.as_wire("in_progress"));
        self.push("response.output_item.added", Some(place), None, None, says);
    }

    /// The item is done, and so are its part and its arguments.
    pub(super) fn end_item(&mut self, place: usize, item: &mut Item, status: &'static str) {
        self.end_part(place, item);
        item.done = Some(status);
        if let Kind::Call { arguments, .. } = &item.kind {
            let kind = "response.function_call_arguments.done";
            self.push(kind, Some(place), Some(&item.id), None, ("arguments", arguments));
        }
        let says: (_, WireItem<'_>) = ("item", item.as_wire(status));
        self.push("response.output_item.done", Some(place), None, None, says);
    }

    pub(super) fn begin_part(&mut self, place: usize, item: &mut Item, part: usize) {
        let Item { id, .. } = item;
        let id = id.clone();
        if let Some((_, open)) = item.open_part() {
            let kind = format!("{}.added", open.voice.part_event());
            let at = Some((open.voice.index(), part));
            self.push(&kind, Some(place), Some(&id), at, ("part", open.as_wire()));
        }
    }

    /// The part that is being written, if one is, is done.
    pub(super) fn end_part(&mut self, place: usize, item: &mut Item) {
        let id = item.id.clone();
        let Some((part, open)) = item.open_part() else { return };
        open.done = true;
        let (voice, at) = (open.voice, Some((open.voice.index(), part)));
        let name = match voice {
            Voice::Refusal => "refusal",
            Voice::Text | Voice::Summary | Voice::Reasoning => "text",
        };
        let kind = format!("{}.done", voice.event());
        self.push(&kind, Some(place), Some(&id), at, (name, &open.text));
        let kind = format!("{}.done", voice.part_event());
        self.push(&kind, Some(place), Some(&id), at, ("part", open.as_wire()));
    }

    pub(super) fn delta(&mut self, place: usize, id: &str, voice: Voice, part: usize, text: &str) {
        let kind = format!("{}.delta", voice.event());
        let at = Some((voice.index(), part));
        self.push(&kind, Some(place), Some(id), at, ("delta", text));
    }

    pub(super) fn arguments(&mut self, place: usize, id: &str, more: &str) {
        let kind = "response.function_call_arguments.delta";
        self.push(kind, Some(place), Some(id), None, ("delta", more));
    }

    fn push<T: Serialize>(
        &mut self,
        kind: &str,
        place: Option<usize>,
        id: Option<&str>,
        part: Option<(&'static str, usize)>,
        says: (&'static str, T),
    ) {
        let event = Event {
            kind,
            number: self.next,
            place,
            id,
            part,
            says,
            logprobs: kind.starts_with("response.output_text."),
        };
        self.next += 1;
        self.written.extend_from_slice(b"event: ");
        self.written.extend_from_slice(kind.as_bytes());
        self.written.extend_from_slice(b"\ndata: ");
        let start = self.written.len();
        // all that is written is text and numbers
        let _cannot_fail = serde_json::to_writer(&mut self.written, &event);
        // what is repeated as others wrote it may have lines; in JSON they stand between tokens only
        let json = self.written.iter_mut().skip(start);
        json.filter(|byte| matches!(byte, b'\n' | b'\r'))
            .for_each(|byte| *byte = b' ');
        self.written.extend_from_slice(b"\n\n");
    }
}
