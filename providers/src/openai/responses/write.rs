//! An answer written as Responses.
//!
//! Frames of the provider's own pass as they are; of them only the first and the last are remembered, so that the stream can
//! end properly whatever comes. What comes in pieces is written as the events that clients expect, numbered without a gap.
//! Calls stay open until the end: their arguments may come in turns.

use bytes::Bytes;
use understudy_messages::answer::{Finish, Piece, Usage};
use understudy_messages::client::Seam;
use understudy_messages::conversation::Seal;
use understudy_messages::terminal::TurnFailure;

use self::envelope::{Echo, Envelope, Status, WireFailure};
use self::events::Events;
use self::item::{Item, Kind, Voice};
use super::kept::{self, Kept};
use super::seal;
use crate::wire::Style;

mod envelope;
mod events;
mod item;
mod passed;
#[cfg(test)]
mod tests;

/// The most items of one answer; what begins later is left out.
const MAX_ITEMS: usize = 2048;
/// The most bytes of text that are kept to be told again at the end.
const MAX_TEXT: usize = 32 << 20;

/// Writes one answer.
#[derive(Debug)]
pub struct Writer {
    style: Style,
    passed: Option<Passed>,
    /// What is written in pieces; `None` as long as nothing is.
    draft: Option<Draft>,
    kept: Option<Kept>,
}

/// What is remembered of frames that passed.
#[derive(Debug)]
struct Passed {
    first: Bytes,
    last: Bytes,
}

/// An answer that is written here.
#[derive(Debug)]
struct Draft {
    id: String,
    created: u64,
    model: String,
    echo: Echo,
    events: Events,
    items: Vec<Item>,
    /// Which item each call is, by the number of the call.
    calls: Vec<(u32, usize)>,
    finish: Option<Finish>,
    usage: Option<Usage>,
    /// What those used who wrote before the latest seam.
    before: Option<Usage>,
    room: usize,
    turn: String,
}

impl Writer {
    /// At the beginning of an answer.
    pub(crate) fn new(style: Style) -> Self {
        Self {
            style,
            passed: None,
            draft: None,
            kept: None,
        }
    }

    /// A frame on its way as it is.
    pub(crate) fn pass(&mut self, frame: &Bytes) {
        if frame.starts_with(b":") {
            return;
        }
        match &mut self.passed {
            Some(passed) => passed.last = frame.clone(),
            None => {
                self.passed = Some(Passed {
                    first: frame.clone(),
                    last: frame.clone(),
                });
            }
        }
        if self.stores()
            && let Some(kept) = kept::of_frame(frame)
        {
            self.kept = Some(kept);
        }
    }

    /// Pieces as frames of a stream.
    pub(crate) fn pieces(&mut self, pieces: Vec<Piece>) -> Bytes {
        let draft = self.draft();
        pieces.into_iter().for_each(|piece| draft.piece(piece));
        draft.events.take()
    }

    /// From here on somebody else goes on with the answer.
    pub(crate) fn seam(&mut self, seam: &Seam) -> Bytes {
        let nothing_written = self.draft.as_ref().is_none_or(|draft| !draft.events.begun());
        if !seam.sent.is_empty() && nothing_written {
            let mut draft = Draft::new(&self.style);
            passed::go_on(&mut draft, &seam.sent);
            self.draft = Some(draft);
        }
        let draft = self.draft();
        draft.close_reasoning();
        if let Some(usage) = draft.usage.take() {
            draft.before = Some(sum(draft.before.unwrap_or_default(), usage));
        }
        draft.finish = None;
        draft.model = seam.served_by.model.to_string();
        let name = seam.served_by.to_string().replace(char::is_control, "");
        draft.events.comment(&format!("understudy continued by {name}"));
        draft.events.take()
    }

    /// The proper end of a stream.
    pub(crate) fn end(&mut self, last: Option<Bytes>) -> Bytes {
        let stores = self.stores();
        let Some(draft) = &mut self.draft else {
            return last.unwrap_or_default();
        };
        let status = Status::of(draft.finish);
        draft.close(status);
        if stores {
            self.kept = kept::of_body(&draft.body(status, None));
        }
        let kind = format!("response.{}", status.as_label());
        draft.respond(&kind, status, None);
        draft.events.take()
    }

    /// The proper end of a stream that is not whole.
    pub(crate) fn fail(&mut self, failure: &TurnFailure) -> Bytes {
        self.kept = None;
        if let Some(passed) = self.passed.take().filter(|_| self.draft.is_none()) {
            let mut draft = Draft::new(&self.style);
            passed::go_on(&mut draft, &[passed.first, passed.last]);
            // of what passed between the two nothing is known
            draft.items.clear();
            self.draft = Some(draft);
        }
        let draft = self.draft();
        draft.begin();
        draft.respond("response.failed", Status::Failed, Some(failure));
        draft.events.take()
    }

    /// All of an answer that does not stream.
    pub(crate) fn whole(&mut self, pieces: Vec<Piece>) -> Bytes {
        let stores = self.stores();
        let draft = self.draft();
        pieces.into_iter().for_each(|piece| draft.piece(piece));
        let status = Status::of(draft.finish);
        draft.close(status);
        let _events_of_a_stream = draft.events.take();
        let body = draft.body(status, None);
        if stores {
            self.kept = kept::of_body(&body);
        }
        body.into()
    }

    /// The answer, once it is whole, if it is to be found again by its id.
    pub(crate) fn kept(&mut self) -> Option<Kept> {
        self.kept.take()
    }

    fn stores(&self) -> bool {
        self.style
            .request
            .facts
            .responses
            .as_ref()
            .is_some_and(|facts| facts.store)
    }

    fn draft(&mut self) -> &mut Draft {
        let style = &self.style;
        self.draft.get_or_insert_with(|| Draft::new(style))
    }
}

fn sum(one: Usage, other: Usage) -> Usage {
    Usage {
        input: one.input.saturating_add(other.input),
        output: one.output.saturating_add(other.output),
        cache_read: one.cache_read.saturating_add(other.cache_read),
        cache_write: one.cache_write.saturating_add(other.cache_write),
        reasoning: one.reasoning.saturating_add(other.reasoning),
    }
}

impl Draft {
    fn new(style: &Style) -> Self {
        let turn = style.request.id.to_string();
        Self {
            id: format!("resp_{turn}"),
            created: style.created,
            model: style.served_by.model.to_string(),
            echo: Echo::of(&style.request),
            events: Events::default(),
            items: Vec::new(),
            calls: Vec::new(),
            finish: None,
            usage: None,
            before: None,
            room: MAX_TEXT,
            turn,
        }
    }

    fn piece(&mut self, piece: Piece) {
        match piece {
            Piece::Begin { model, .. } => {
                self.model = model.unwrap_or(std::mem::take(&mut self.model));
                self.begin();
            }
            Piece::Text { choice: 0, text } => self.say(Voice::Text, &text),
            Piece::Refusal { choice: 0, text } => self.say(Voice::Refusal, &text),
            Piece::Reasoning { choice: 0, text } => self.say(Voice::Summary, &text),
            Piece::Sealed { choice: 0, seal } => self.seal(&seal),
            Piece::ToolCall {
                choice: 0,
                index,
                id,
                name,
                arguments,
                seal,
            } => {
                if let Some(seal) = seal {
                    self.close_texts(Status::Completed);
                    self.seal(&seal);
                }
                self.call(index, id, name, &arguments);
            }
            Piece::Finish { choice: 0, finish, .. } => self.finish = Some(finish),
            Piece::Usage(usage) => self.usage = Some(usage),
            Piece::Ping => self.events.comment("keep-alive"),
            // only chat knows several choices
            Piece::Text { .. }
            | Piece::Refusal { .. }
            | Piece::Reasoning { .. }
            | Piece::Sealed { .. }
            | Piece::ToolCall { .. }
            | Piece::Finish { .. } => {}
        }
    }

    /// The response is there, if it was not yet.
    fn begin(&mut self) {
        if !self.events.begun() {
            self.respond("response.created", Status::InProgress, None);
            self.respond("response.in_progress", Status::InProgress, None);
        }
    }

    fn say(&mut self, voice: Voice, text: &str) {
        self.begin();
        let open = self.items.iter().rposition(|item| item.takes(voice));
        let Some(place) = open.or_else(|| self.open(voice)) else {
            return;
        };
        let Some(item) = self.items.get_mut(place) else { return };
        let part = match item.open_part().filter(|(_, part)| part.voice == voice) {
            Some((part, _)) => part,
            None => {
                self.events.end_part(place, item);
                let part = item.begin_part(voice);
                self.events.begin_part(place, item, part);
                part
            }
        };
        self.events.delta(place, &item.id, voice, part, text);
        if let Some((_, part)) = item.open_part()
            && let Some(room) = self.room.checked_sub(text.len())
        {
            self.room = room;
            part.text.push_str(text);
        }
    }

    /// Begins an item for this voice; whatever else was said is done.
    fn open(&mut self, voice: Voice) -> Option<usize> {
        self.close_texts(Status::Completed);
        let parts = Vec::new();
        match voice {
            Voice::Text | Voice::Refusal => self.add("msg", Kind::Message { parts }),
            Voice::Summary | Voice::Reasoning => {
                let encrypted = None;
                self.add("rs", Kind::Reasoning { parts, encrypted })
            }
        }
    }

    fn add(&mut self, prefix: &str, kind: Kind) -> Option<usize> {
        let place = self.items.len();
        if place >= MAX_ITEMS {
            return None;
        }
        self.items.push(Item {
            id: seal::item_id(prefix, &self.turn, place),
            kind,
            done: false,
        });
        self.events.begin_item(place, self.items.last()?);
        Some(place)
    }

    /// What seals the reasoning before it, or is all of it.
    fn seal(&mut self, by: &Seal) {
        self.begin();
        let open = self.items.iter().rposition(|item| item.takes(Voice::Summary));
        let Some(place) = open.or_else(|| self.open(Voice::Summary)) else {
            return;
        };
        if let Some(Item {
            kind: Kind::Reasoning { encrypted, .. },
            ..
        }) = self.items.get_mut(place)
        {
            *encrypted = Some(seal::write(by).into_owned());
        }
        self.close_item(place, Status::Completed);
    }

    fn call(&mut self, index: u32, id: Option<String>, name: Option<String>, more: &str) {
        self.begin();
        let known = self
            .calls
            .iter()
            .find(|(call, _)| *call == index)
            .map(|(_, place)| *place);
        let place = known.or_else(|| {
            self.close_texts(Status::Completed);
            let place = self.add(
                "fc",
                Kind::Call {
                    call_id: id.unwrap_or_else(|| format!("call_{}_{index}", self.turn)),
                    name: name.unwrap_or_default(),
                    arguments: String::new(),
                },
            )?;
            self.calls.push((index, place));
            Some(place)
        });
        if let Some(place) = place.filter(|_| !more.is_empty()) {
            self.arguments(place, more);
        }
    }

    fn arguments(&mut self, place: usize, more: &str) {
        let (Some(item), Some(room)) = (self.items.get_mut(place), self.room.checked_sub(more.len())) else {
            return;
        };
        self.room = room;
        self.events.arguments(place, &item.id, more);
        if let Kind::Call { arguments, .. } = &mut item.kind {
            arguments.push_str(more);
        }
    }

    fn close_reasoning(&mut self) {
        while let Some(place) = self.items.iter().rposition(|item| item.takes(Voice::Summary)) {
            self.close_item(place, Status::Completed);
        }
    }

    /// Whatever is being said or thought is done; calls are not.
    fn close_texts(&mut self, status: Status) {
        for place in 0..self.items.len() {
            let is_text = |item: &Item| item.takes(Voice::Text) || item.takes(Voice::Summary);
            if self.items.get(place).is_some_and(is_text) {
                self.close_item(place, status);
            }
        }
    }

    /// Everything is done.
    fn close(&mut self, status: Status) {
        self.begin();
        for place in 0..self.items.len() {
            if self.items.get(place).is_some_and(|item| !item.done) {
                self.close_item(place, status);
            }
        }
    }

    fn close_item(&mut self, place: usize, status: Status) {
        if let Some(Kind::Call { arguments, .. }) = self.items.get(place).map(|item| &item.kind)
            && arguments.is_empty()
        {
            self.arguments(place, "{}");
        }
        if let Some(item) = self.items.get_mut(place) {
            self.events.end_item(place, item, status.of_item());
        }
    }

    fn envelope<'a>(&'a self, status: Status, failure: Option<&'a TurnFailure>) -> Envelope<'a> {
        let written = |item: &'a Item| item.as_wire(if item.done { "completed" } else { status.of_item() });
        let usage = match (self.before, self.usage) {
            (Some(before), now) => Some(sum(before, now.unwrap_or_default())),
            (None, now) => now,
        };
        Envelope {
            id: &self.id,
            created: self.created,
            model: &self.model,
            status,
            error: failure.map(|failure| WireFailure {
                code: &failure.code,
                message: failure.client_message(),
                reason: failure.reason_label(),
            }),
            output: self.items.iter().map(written).collect(),
            usage: usage.map(Into::into),
            echo: &self.echo,
        }
    }

    fn respond(&mut self, kind: &str, status: Status, failure: Option<&TurnFailure>) {
        let mut events = std::mem::take(&mut self.events);
        events.response(kind, &self.envelope(status, failure));
        self.events = events;
    }

    fn body(&self, status: Status, failure: Option<&TurnFailure>) -> Vec<u8> {
        serde_json::to_vec(&self.envelope(status, failure)).unwrap_or_default()
    }
}
