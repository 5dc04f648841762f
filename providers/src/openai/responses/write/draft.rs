//! An answer while it is written: its items, and the events that told of them.

use understudy_messages::answer::{Finish, Piece, Usage};
use understudy_messages::conversation::Seal;
use understudy_messages::terminal::TurnFailure;

use super::envelope::{Echo, Envelope, Status, WireFailure};
use super::events::Events;
use super::item::{Item, Kind, Voice};
use crate::openai::responses::seal;
use crate::wire::Style;

/// The most items of one answer; what begins later is left out.
const MAX_ITEMS: usize = 2048;
/// The most bytes of text that are kept to be told again at the end.
const MAX_TEXT: usize = 32 << 20;

/// An answer that is written here.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
    echo: Echo,
    pub(super) events: Events,
    pub(super) items: Vec<Item>,
    /// Which item each call is, by the number of the call.
    calls: Vec<(u32, usize)>,
    pub(super) finish: Option<Finish>,
    usage: Option<Usage>,
    /// What those used who wrote before the latest seam.
    before: Option<Usage>,
    room: usize,
    turn: String,
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
    pub(super) fn new(style: &Style) -> Self {
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

    pub(super) fn piece(&mut self, piece: Piece) {
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
    pub(super) fn begin(&mut self) {
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
            done: None,
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

    /// From here on somebody else writes.
    pub(super) fn handed_to(&mut self, model: &str) {
        self.close_reasoning();
        self.calls.clear();
        if let Some(usage) = self.usage.take() {
            self.before = Some(sum(self.before.unwrap_or_default(), usage));
        }
        self.finish = None;
        model.clone_into(&mut self.model);
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
    pub(super) fn close(&mut self, status: Status) {
        self.begin();
        for place in 0..self.items.len() {
            if self.items.get(place).is_some_and(|item| item.done.is_none()) {
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
        let written = |item: &'a Item| item.as_wire(item.done.unwrap_or(status.of_item()));
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

    pub(super) fn respond(&mut self, kind: &str, status: Status, failure: Option<&TurnFailure>) {
        let mut events = std::mem::take(&mut self.events);
        events.response(kind, &self.envelope(status, failure));
        self.events = events;
    }

    pub(super) fn body(&self, status: Status, failure: Option<&TurnFailure>) -> Vec<u8> {
        serde_json::to_vec(&self.envelope(status, failure)).unwrap_or_default()
    }
}
