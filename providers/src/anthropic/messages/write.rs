//! An answer written as Anthropic Messages.
//!
//! One block is open at a time and closed when another kind of thing is said. The seal of another API goes as a signature
//! behind its maker's name; where it belongs to a call, as a thought of its own before it.

use bytes::Bytes;
use understudy_messages::answer::{Finish, Piece, Usage};
use understudy_messages::client::Seam;
use understudy_messages::conversation::Seal;
use understudy_messages::settings::Api;

use self::json::{Block, Delta, Ending, Event, Message};
use self::sent::Sent;
use crate::wire::Style;

mod json;
mod sent;
#[cfg(test)]
mod tests;
mod whole;

/// The most tool calls that are told of one answer: several times what providers allow.
const MAX_CALLS: usize = 1024;

/// Writes one answer. Anthropic knows one choice: that is the first.
#[derive(Debug)]
pub struct Writer {
    style: Style,
    id: String,
    model: String,
    /// Whether anything was written here, so that the end is ours too.
    writes: bool,
    /// Whether the provider said who it is.
    begun: bool,
    /// Whether the message's beginning is out.
    started: bool,
    open: Option<Open>,
    /// The next block's index.
    next: u64,
    /// The block of each call.
    calls: Vec<Option<u64>>,
    has_called: bool,
    has_refused: bool,
    finish: Option<(Finish, Option<String>)>,
    /// Tokens of those who wrote earlier parts.
    earlier: Usage,
    usage: Option<Usage>,
}

/// A block that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    index: u64,
    kind: OpenKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenKind {
    Text,
    Thinking,
    Other,
}

impl Writer {
    /// At the beginning of an answer.
    pub(crate) fn new(style: Style) -> Self {
        Self {
            id: format!("msg_{}", style.request.id),
            model: style.served_by.model.to_string(),
            style,
            writes: false,
            begun: false,
            started: false,
            open: None,
            next: 0,
            calls: Vec::new(),
            has_called: false,
            has_refused: false,
            finish: None,
            earlier: Usage::default(),
            usage: None,
        }
    }

    /// Pieces as frames of a stream.
    pub(crate) fn pieces(&mut self, pieces: Vec<Piece>) -> Bytes {
        let mut frames = Vec::new();
        for piece in pieces {
            self.piece(piece, &mut frames);
        }
        if self.begun {
            self.start(&mut frames);
        }
        frames.into()
    }

    /// From here on the answer comes in pieces: somebody else's, or the rest of what was sent. Open text stays open; what else
    /// is open is closed where somebody else goes on.
    pub(crate) fn seam(&mut self, seam: &Seam) -> Bytes {
        let mut frames = Vec::new();
        self.writes = true;
        if !seam.sent.is_empty() {
            self.take_over(Sent::read(&seam.sent));
        }
        if seam.continued {
            self.earlier = self.earlier + self.usage.take().unwrap_or_default();
            if self.open.is_some_and(|open| open.kind != OpenKind::Text) {
                self.close(&mut frames);
            }
            self.calls.clear();
            self.finish = None;
            frames.extend(format!(": understudy continued by {}\n\n", seam.served_by).bytes());
        }
        frames.into()
    }

    /// The proper end of a stream.
    pub(crate) fn end(&mut self, last: Option<Bytes>) -> Bytes {
        let mut frames = Vec::new();
        if !self.writes {
            return last.unwrap_or_else(|| {
                Event::MessageStop.write(&mut frames);
                frames.into()
            });
        }
        self.start(&mut frames);
        self.close(&mut frames);
        let ended = Event::MessageDelta {
            delta: self.ending(),
            usage: self.total().into(),
        };
        ended.write(&mut frames);
        Event::MessageStop.write(&mut frames);
        frames.into()
    }

    /// All of an answer that does not stream.
    pub(crate) fn whole(&mut self, pieces: Vec<Piece>) -> Bytes {
        let mut parts = Vec::new();
        for piece in pieces {
            self.note(&piece);
            whole::add(&mut parts, piece);
        }
        let content = whole::content(&mut parts, &self.style.request.id);
        let message = Message {
            content,
            ending: self.ending(),
            ..self.message()
        };
        message.json().into()
    }

    /// What a client got of the answer before.
    fn take_over(&mut self, sent: Sent) {
        self.started = sent.started;
        self.id = sent.id.unwrap_or(std::mem::take(&mut self.id));
        self.model = sent.model.unwrap_or(std::mem::take(&mut self.model));
        self.open = sent.open;
        self.next = sent.next;
        self.usage = sent.usage.or(self.usage);
    }

    /// What a piece says of the answer as a whole.
    fn note(&mut self, piece: &Piece) {
        self.writes = true;
        match piece {
            Piece::Begin { id, model } if !self.begun && !self.started => {
                self.begun = true;
                if let Some(id) = id.as_ref().filter(|id| id.starts_with("msg_")) {
                    self.id.clone_from(id);
                }
                if let Some(model) = model {
                    self.model.clone_from(model);
                }
            }
            Piece::Usage(usage) => self.usage = Some(*usage),
            Piece::Refusal { choice: 0, .. } => self.has_refused = true,
            Piece::ToolCall { choice: 0, .. } => self.has_called = true,
            Piece::Finish {
                choice: 0,
                finish,
                stop_sequence,
            } => self.finish = Some((*finish, stop_sequence.clone())),
            _ => {}
        }
    }

    fn piece(&mut self, piece: Piece, frames: &mut Vec<u8>) {
        self.note(&piece);
        match piece {
            Piece::Text { choice: 0, text } | Piece::Refusal { choice: 0, text } => {
                let index = self.block(OpenKind::Text, frames);
                Event::delta(index, Delta::Text { text: &text }).write(frames);
            }
            Piece::Reasoning { choice: 0, text } => {
                let index = self.block(OpenKind::Thinking, frames);
                Event::delta(index, Delta::Thinking { thinking: &text }).write(frames);
            }
            Piece::Sealed { choice: 0, seal } => self.sealed(&seal, frames),
            Piece::ToolCall {
                choice: 0,
                index,
                id,
                name,
                arguments,
                seal,
            } => {
                let block = match self.calls.get(index as usize).copied().flatten() {
                    Some(block) => Some(block),
                    None => self.call(index, id, name.unwrap_or_default(), seal, frames),
                };
                if let Some(block) = block.filter(|_| !arguments.is_empty()) {
                    let partial_json = &arguments;
                    Event::delta(block, Delta::InputJson { partial_json }).write(frames);
                }
            }
            Piece::Finish { choice: 0, .. } => self.close(frames),
            // before its beginning a message has no events
            Piece::Ping if !self.started => frames.extend_from_slice(b": keep-alive\n\n"),
            Piece::Ping => Event::Ping.write(frames),
            _ => {}
        }
    }

    /// The seal of the thought that is open, or a thought of its own.
    fn sealed(&mut self, seal: &Seal, frames: &mut Vec<u8>) {
        let data = seal.in_format(Api::AnthropicMessages);
        if seal.whole && self.open.is_none_or(|open| open.kind != OpenKind::Thinking) {
            self.begin(Block::RedactedThinking { data: &data }, OpenKind::Other, frames);
        } else {
            let index = self.block(OpenKind::Thinking, frames);
            Event::delta(index, Delta::Signature { signature: &data }).write(frames);
        }
        self.close(frames);
    }

    /// A call begins; none does beyond the bound.
    fn call(
        &mut self,
        call: u32,
        id: Option<String>,
        name: String,
        seal: Option<Seal>,
        frames: &mut Vec<u8>,
    ) -> Option<u64> {
        let place = call as usize;
        if place >= MAX_CALLS {
            return None;
        }
        self.close(frames);
        if let Some(seal) = seal {
            self.sealed(&Seal { whole: false, ..seal }, frames);
        }
        let id = id.unwrap_or_else(|| whole::made_up_id(&self.style.request.id, call));
        let index = self.begin(Block::call(&id, &name), OpenKind::Other, frames);
        if self.calls.len() <= place {
            self.calls.resize(place + 1, None);
        }
        if let Some(block) = self.calls.get_mut(place) {
            *block = Some(index);
        }
        Some(index)
    }

    /// The index of an open block of text or of thinking.
    fn block(&mut self, kind: OpenKind, frames: &mut Vec<u8>) -> u64 {
        match self.open {
            Some(open) if open.kind == kind => open.index,
            Some(_) | None => {
                let block = match kind {
                    OpenKind::Thinking => Block::thinking("", ""),
                    OpenKind::Text | OpenKind::Other => Block::Text { text: "" },
                };
                self.begin(block, kind, frames)
            }
        }
    }

    fn begin(&mut self, content_block: Block<'_>, kind: OpenKind, frames: &mut Vec<u8>) -> u64 {
        self.start(frames);
        self.close(frames);
        let index = self.next;
        self.next = index.saturating_add(1);
        self.open = Some(Open { index, kind });
        Event::ContentBlockStart { index, content_block }.write(frames);
        index
    }

    fn close(&mut self, frames: &mut Vec<u8>) {
        if let Some(Open { index, .. }) = self.open.take() {
            Event::ContentBlockStop { index }.write(frames);
        }
    }

    fn start(&mut self, frames: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.started, true) {
            let message = self.message();
            Event::MessageStart { message }.write(frames);
        }
    }

    fn message(&self) -> Message<'_> {
        Message {
            id: &self.id,
            model: &self.model,
            usage: self.total().into(),
            ..Message::default()
        }
    }

    /// Tokens of all who wrote.
    fn total(&self) -> Usage {
        self.earlier + self.usage.unwrap_or_default()
    }

    /// Why the answer ended. Some providers say no more than `stop` of one that calls tools.
    fn ending(&self) -> Ending<'_> {
        let (finish, sequence) = self.finish.as_ref().map_or((Finish::Stop, None), |(finish, sequence)| {
            (*finish, sequence.as_deref())
        });
        let reason = match finish {
            Finish::Length => "max_tokens",
            Finish::ContentFilter => "refusal",
            _ if self.has_refused => "refusal",
            Finish::ToolCalls => "tool_use",
            _ if self.has_called => "tool_use",
            Finish::Stop if sequence.is_some() => "stop_sequence",
            Finish::Stop | Finish::Other => "end_turn",
        };
        Ending {
            stop_reason: Some(reason),
            stop_sequence: sequence.filter(|_| reason == "stop_sequence"),
        }
    }
}
