//! The frames of a Responses stream.
//!
//! Providers differ in what they repeat: the same text may come as deltas, again when its part is done, again with its
//! item, and again in the response at the end. It is told once, from wherever it came first.

use understudy_messages::answer::Piece;
use understudy_messages::conversation::Seal;
use understudy_messages::settings::Api;

use self::told::Told;
use super::event::Event;
use super::response::{Item, ItemKind, Response, Voice};
use crate::json::JsonStr;
use crate::sse::Frame;
use crate::stream::{Delta, FrameRead, Signal, answers_alone};
use crate::wire_error::WireError;

#[cfg(test)]
mod tests;
mod told;

/// The most items of one answer that are told apart; those that came first are forgotten first.
const MAX_ITEMS: usize = 1024;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct Decoder {
    begun: bool,
    ended: bool,
    /// Whether anything was said that is an answer.
    answered: bool,
    /// Whether text or a refusal was.
    spoke: bool,
    /// Whether reasoning was.
    reasoned: bool,
    /// How many tool calls were begun.
    calls: u32,
    /// Whether a tool was called of which no piece tells: an errand, or a call that only the response at the end has.
    untold: bool,
    /// Whether a call was told in one way and then in another; known where pieces are asked for.
    differs: bool,
    items: Vec<Open>,
}

/// An item that was begun.
#[derive(Debug)]
struct Open {
    index: u64,
    kind: ItemKind,
    /// The parts of which something was said; those from 63 on are one.
    said: u64,
    /// The number of the call, if it is one.
    call: u32,
    /// Whether it was told what it is.
    announced: bool,
    /// What was told of it, if it is a call.
    told: Told,
}

/// What is made of one frame.
struct Out<'p> {
    delta: Delta,
    pieces: Option<&'p mut Vec<Piece>>,
}

impl Out<'_> {
    const fn is_asked(&self) -> bool {
        self.pieces.is_some()
    }

    fn push(&mut self, piece: impl FnOnce() -> Piece) {
        if let Some(pieces) = &mut self.pieces {
            pieces.push(piece());
        }
    }
}

impl Decoder {
    /// Reads a frame, and adds what it says to `pieces`. Without them nothing is allocated but for an item that is new.
    pub(crate) fn read(&mut self, frame: &Frame, pieces: Option<&mut Vec<Piece>>) -> FrameRead {
        let named = frame.event.as_deref();
        let data = frame.data.as_deref().unwrap_or_default().trim_ascii();
        if data.is_empty() && named != Some(b"error") {
            return Signal::Comment.into();
        }
        if data == b"[DONE]" {
            return Signal::Done.into();
        }
        let mut delta = Delta::default();
        delta.choices.insert(0);
        let out = Out { delta, pieces };
        match Event::read(data) {
            Ok(event) => {
                let kind = event.kind.map(JsonStr::decode);
                let name = named.and_then(|name| std::str::from_utf8(name).ok());
                let kind = kind.as_deref().or(name).unwrap_or_default();
                self.event(kind, &event, data, out)
            }
            Err(_) if named == Some(b"error") => failed(out.delta, WireError::words(&String::from_utf8_lossy(data))),
            Err(_) => Signal::Malformed.into(),
        }
    }

    /// Whether a tool was called without pieces that tell of it.
    pub(crate) fn untold(&self) -> bool {
        self.untold
    }

    /// Whether a call was told in one way and then in another: what was told first is in the pieces.
    pub(crate) fn differs(&self) -> bool {
        self.differs
    }

    fn event(&mut self, kind: &str, event: &Event<'_>, data: &[u8], mut out: Out<'_>) -> FrameRead {
        if kind == "error" {
            return failed(out.delta, event.failure(data));
        }
        if self.ended {
            return Signal::Delta(out.delta).into();
        }
        match kind {
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                return self.end(kind, event, out);
            }
            "response.created" | "response.in_progress" | "response.queued" => self.begin(event, &mut out),
            "response.output_item.added" => self.added(event, &mut out),
            "response.output_item.done" => self.done(event, &mut out),
            "response.output_text.delta" => self.delta(event, Voice::Text, &mut out),
            "response.refusal.delta" => self.delta(event, Voice::Refusal, &mut out),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.delta(event, Voice::Reasoning, &mut out);
            }
            "response.output_text.done" => self.whole(event, Voice::Text, &mut out),
            "response.refusal.done" => self.whole(event, Voice::Refusal, &mut out),
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.arguments(event, event.delta, false, &mut out);
            }
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                self.arguments(event, event.whole, true, &mut out);
            }
            // a tool at the provider makes progress
            other if other.contains("_call") || other.contains("mcp_") => out.delta.content = true,
            _ => {
                if let Some(error) = event.stray_error() {
                    return failed(out.delta, error);
                }
            }
        }
        self.answered |= out.delta.content || out.delta.tool_call;
        Signal::Delta(out.delta).into()
    }

    fn begin(&mut self, event: &Event<'_>, out: &mut Out<'_>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let response = event.response.unwrap_or_default();
        let text = |text: Option<JsonStr<'_>>| text.map(|text| text.decode().into_owned());
        out.push(|| Piece::Begin {
            id: text(response.id),
            model: text(response.model),
        });
    }

    fn added(&mut self, event: &Event<'_>, out: &mut Out<'_>) {
        self.begin(event, out);
        let item = event.item.unwrap_or_default();
        // its texts and arguments come later, so that none comes twice
        let place = self.insert(event.output_index, item.kind());
        self.announce(place, &item, out);
    }

    fn insert(&mut self, index: u64, kind: ItemKind) -> usize {
        if self.items.len() == MAX_ITEMS {
            self.items.remove(0);
        }
        let call = self.calls;
        self.untold |= kind == ItemKind::Errand;
        if let ItemKind::Call | ItemKind::Errand = kind {
            self.calls = self.calls.saturating_add(1);
        }
        self.items.push(Open {
            index,
            kind,
            said: 0,
            call,
            announced: false,
            told: Told::default(),
        });
        self.items.len() - 1
    }

    /// Tells what an item is, once.
    fn announce(&mut self, place: usize, item: &Item<'_>, out: &mut Out<'_>) {
        let Some(open) = self.items.get_mut(place) else { return };
        let announced = std::mem::replace(&mut open.announced, true);
        let index = open.call;
        match open.kind {
            ItemKind::Message | ItemKind::Reasoning => {}
            ItemKind::Errand => out.delta.tool_call = true,
            ItemKind::Other => out.delta.content = true,
            ItemKind::Call => {
                out.delta.tool_call = true;
                if !announced {
                    if let Some(name) = item.name.filter(|_| out.is_asked()) {
                        open.told.name(name);
                    }
                    out.push(|| Piece::ToolCall {
                        choice: 0,
                        index,
                        id: item.call_id().map(|id| id.decode().into_owned()),
                        name: item.name.map(|name| name.decode().into_owned()),
                        arguments: String::new(),
                        seal: None,
                    });
                }
            }
        }
    }

    fn find(&self, index: u64, kind: ItemKind) -> Option<usize> {
        self.items
            .iter()
            .rposition(|item| item.index == index && item.kind == kind)
    }

    /// The place of the item that an event is about; it need not have been announced.
    fn place(&mut self, index: u64, kind: ItemKind) -> usize {
        self.find(index, kind).unwrap_or_else(|| self.insert(index, kind))
    }

    fn delta(&mut self, event: &Event<'_>, voice: Voice, out: &mut Out<'_>) {
        self.begin(event, out);
        let text = event.delta.unwrap_or(JsonStr::EMPTY);
        self.part(event.output_index, event.part_index, voice, text, true, out);
    }

    fn whole(&mut self, event: &Event<'_>, voice: Voice, out: &mut Out<'_>) {
        self.begin(event, out);
        let text = event.whole.unwrap_or(JsonStr::EMPTY);
        self.part(event.output_index, event.part_index, voice, text, false, out);
    }

    /// Some text of a part; what is not `new` is told only where nothing of the part was.
    fn part(&mut self, index: u64, part: u64, voice: Voice, text: JsonStr<'_>, new: bool, out: &mut Out<'_>) {
        let kind = match voice {
            Voice::Text | Voice::Refusal => ItemKind::Message,
            Voice::Reasoning => ItemKind::Reasoning,
        };
        let (place, bit) = (self.place(index, kind), 1 << part.min(63));
        let Some(item) = self.items.get_mut(place).filter(|_| !text.is_empty()) else {
            return;
        };
        let before = item.said;
        item.said |= bit;
        if before & bit != 0 && !new {
            return;
        }
        let gap = kind == ItemKind::Reasoning && before != 0 && before & bit == 0;
        self.say(voice, text, gap, out);
    }

    /// Tells a text; with `gap` behind a blank line.
    fn say(&mut self, voice: Voice, text: JsonStr<'_>, gap: bool, out: &mut Out<'_>) {
        match voice {
            Voice::Text | Voice::Refusal => {
                (self.spoke, out.delta.content) = (true, true);
            }
            Voice::Reasoning => (self.reasoned, out.delta.reasoning) = (true, true),
        }
        out.push(|| {
            let (choice, text) = (0, text.decode().into_owned());
            match voice {
                Voice::Text => Piece::Text { choice, text },
                Voice::Refusal => Piece::Refusal { choice, text },
                Voice::Reasoning if gap => Piece::Reasoning {
                    choice,
                    text: format!("\n\n{text}"),
                },
                Voice::Reasoning => Piece::Reasoning { choice, text },
            }
        });
    }

    fn arguments(&mut self, event: &Event<'_>, text: Option<JsonStr<'_>>, all: bool, out: &mut Out<'_>) {
        self.begin(event, out);
        let place = self.place(event.output_index, ItemKind::Call);
        self.more_arguments(place, text, all, out);
    }

    /// More arguments of a call; `all` of them are told only where none were.
    fn more_arguments(&mut self, place: usize, text: Option<JsonStr<'_>>, all: bool, out: &mut Out<'_>) {
        let Some((item, text)) = self.items.get_mut(place).zip(text.filter(|text| !text.is_empty())) else {
            return;
        };
        if std::mem::replace(&mut item.said, 1) != 0 && all {
            self.differs |= out.is_asked() && !item.told.is_given(text);
            return;
        }
        let index = item.call;
        out.delta.tool_call = true;
        if out.is_asked() {
            item.told.arguments(text);
        }
        out.push(|| Piece::ToolCall {
            choice: 0,
            index,
            id: None,
            name: None,
            arguments: text.decode().into_owned(),
            seal: None,
        });
    }

    fn done(&mut self, event: &Event<'_>, out: &mut Out<'_>) {
        self.begin(event, out);
        let item = event.item.unwrap_or_default();
        self.finished(event.output_index, &item, out);
    }

    /// An item is whole: what of it was not told yet is told now.
    fn finished(&mut self, index: u64, item: &Item<'_>, out: &mut Out<'_>) {
        let kind = item.kind();
        let place = self.place(index, kind);
        self.announce(place, item, out);
        match kind {
            ItemKind::Message => {
                item.texts(|part, voice, text| self.part(index, part, voice, text, false, out));
            }
            ItemKind::Reasoning => {
                if self.items.get(place).is_some_and(|open| open.said == 0) {
                    item.texts(|part, voice, text| self.part(index, part, voice, text, false, out));
                }
                self.seal(item, out);
            }
            ItemKind::Call => {
                self.more_arguments(place, item.arguments, true, out);
                self.compare(item, out);
            }
            ItemKind::Errand | ItemKind::Other => {}
        }
    }

    /// Whether a call that is told again, whole, is still the one that was told.
    fn compare(&mut self, item: &Item<'_>, out: &Out<'_>) {
        if out.is_asked() {
            let calls = self.items.iter().filter(|open| open.kind == ItemKind::Call);
            self.differs |= !Told::is_among(item, calls.map(|open| &open.told));
        }
    }

    fn seal(&mut self, item: &Item<'_>, out: &mut Out<'_>) {
        let Some(data) = item.encrypted else { return };
        (self.reasoned, out.delta.reasoning) = (true, true);
        out.push(|| Piece::Sealed {
            choice: 0,
            seal: Seal {
                maker: Api::OpenaiResponses,
                whole: true,
                data: data.decode().into_owned(),
            },
        });
    }

    fn end(&mut self, kind: &str, event: &Event<'_>, mut out: Out<'_>) -> FrameRead {
        let response = event.response.unwrap_or_default();
        out.delta.usage = response.usage;
        if let "response.failed" | "response.cancelled" = kind {
            return failed(out.delta, response.failure().unwrap_or_default());
        }
        if let Some(error) = response.failure() {
            return failed(out.delta, error);
        }
        self.begin(event, &mut out);
        self.catch_up(&response, &mut out);
        self.answered |= out.delta.content || out.delta.tool_call;
        let finish = response.finish(kind == "response.incomplete", self.calls > 0);
        if !self.answered && !answers_alone(finish) {
            // the answer is over before it began
            return Signal::Done.into();
        }
        self.ended = true;
        if let Some(usage) = response.usage {
            out.push(|| Piece::Usage(usage));
        }
        out.push(|| Piece::Finish {
            choice: 0,
            finish,
            stop_sequence: None,
        });
        out.delta.finish = Some(finish);
        out.delta.ended.insert(0);
        out.delta.last = true;
        Signal::Delta(out.delta).into()
    }

    /// What only the response at the end says: kinds of items of which nothing was told.
    fn catch_up(&mut self, response: &Response<'_>, out: &mut Out<'_>) {
        let (spoke, reasoned, called) = (self.spoke, self.reasoned, self.calls > 0);
        let (mut index, mut calls) = (0, 0);
        response.items(|item| {
            let told = match item.kind() {
                ItemKind::Message => spoke,
                ItemKind::Reasoning => reasoned,
                ItemKind::Call | ItemKind::Errand => called,
                ItemKind::Other => false,
            };
            match (told, item.kind()) {
                (false, _) => self.finished(index, &item, out),
                (true, ItemKind::Call) => self.compare(&item, out),
                (true, ItemKind::Message | ItemKind::Reasoning | ItemKind::Errand | ItemKind::Other) => {}
            }
            index += 1;
            calls += u32::from(matches!(item.kind(), ItemKind::Call | ItemKind::Errand));
        });
        self.untold |= calls > self.calls;
    }
}

/// The provider says that it failed.
fn failed(mut delta: Delta, error: WireError) -> FrameRead {
    delta.error = true;
    FrameRead {
        signal: Signal::Delta(delta),
        error: Some(error),
    }
}
