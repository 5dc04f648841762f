//! An answer written as chat completions.
//!
//! Reasoning is `reasoning_content`, as most servers and clients have it. A seal comes in `reasoning_details`, together with
//! the text that it seals, so that a client that sends the list back gives all that its maker needs.

use bytes::Bytes;
use understudy_messages::answer::{Finish, Piece, Usage};
use understudy_messages::client::Seam;
use understudy_messages::conversation::Seal;
use understudy_messages::settings::Api;

use self::choice::Choice;
use self::json::{Delta, Head, Message};
use self::sent::Sent;
use crate::wire::Style;

mod choice;
mod json;
mod sent;
#[cfg(test)]
mod tests;

/// The most choices that are told apart; providers allow 128.
const MAX_CHOICES: u32 = 128;

/// Writes one answer.
#[derive(Debug)]
pub struct Writer {
    style: Style,
    id: String,
    created: u64,
    model: String,
    /// The choices that were begun, by index.
    choices: Vec<Option<Choice>>,
    /// Tokens of those who wrote earlier parts.
    earlier: Usage,
    usage: Option<Usage>,
    /// Whether anything was written here, so that the end is ours too.
    writes: bool,
}

impl Writer {
    /// At the beginning of an answer.
    pub(crate) fn new(style: Style) -> Self {
        Self {
            id: format!("chatcmpl-{}", style.request.id),
            created: style.created,
            model: style.served_by.model.to_string(),
            choices: Vec::new(),
            earlier: Usage::default(),
            usage: None,
            writes: false,
            style,
        }
    }

    /// Pieces as frames of a stream.
    pub(crate) fn pieces(&mut self, pieces: Vec<Piece>) -> Bytes {
        let mut frames = Vec::new();
        for piece in pieces {
            self.piece(piece, &mut frames);
        }
        frames.into()
    }

    /// From here on the answer comes in pieces: somebody else's, or the rest of what was sent.
    pub(crate) fn seam(&mut self, seam: &Seam) -> Bytes {
        self.writes = true;
        if !seam.sent.is_empty() {
            self.take_over(sent::read(&seam.sent));
        }
        if !seam.continued {
            return Bytes::new();
        }
        self.earlier = self.earlier + self.usage.take().unwrap_or_default();
        self.choices.iter_mut().flatten().for_each(Choice::hand_over);
        self.model = seam.served_by.model.to_string();
        format!(": understudy continued by {}\n\n", seam.served_by).into()
    }

    /// What a client got of the answer before.
    fn take_over(&mut self, sent: Sent) {
        self.id = sent.id.unwrap_or(std::mem::take(&mut self.id));
        self.created = sent.created.unwrap_or(self.created);
        for piece in sent.pieces {
            match piece {
                Piece::Begin { model, .. } => self.model = model.unwrap_or(std::mem::take(&mut self.model)),
                Piece::Usage(usage) => self.usage = Some(usage),
                piece => drop(self.delta(piece)),
            }
        }
        for choice in self.choices.iter_mut().flatten() {
            choice.ended = choice.has_finish();
        }
        if let Some(choice) = self.choice(0) {
            choice.introduced = true;
        }
    }

    /// The proper end of a stream.
    pub(crate) fn end(&mut self, last: Option<Bytes>) -> Bytes {
        const DONE: &[u8] = b"data: [DONE]\n\n";
        if !self.writes {
            return last.unwrap_or(Bytes::from_static(DONE));
        }
        let mut frames = Vec::new();
        for index in 0..self.choices.len() as u32 {
            if let Some(choice) = self.begun(index).filter(|choice| !choice.ended) {
                let delta = Delta {
                    role: (!choice.introduced).then_some("assistant"),
                    ..Delta::default()
                };
                self.head()
                    .chunk(&mut frames, index, &delta, Some(word(choice.finish())));
            }
        }
        if self.style.request.facts.include_usage
            && let Some(usage) = self.total()
        {
            self.head().usage_chunk(&mut frames, usage);
        }
        frames.extend_from_slice(DONE);
        frames.into()
    }

    /// All of an answer that does not stream.
    pub(crate) fn whole(&mut self, pieces: Vec<Piece>) -> Bytes {
        let mut messages: Vec<Message> = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Begin { .. } | Piece::Usage(_) | Piece::Ping => self.piece(piece, &mut Vec::new()),
                piece => self.gather(piece, &mut messages),
            }
        }
        messages.resize_with(self.choices.len().max(1), Message::default);
        let finishes = (0..).map(|index| self.begun(index).map_or(Finish::Stop, |choice| choice.finish()));
        let choices = messages.iter().zip(finishes.map(word));
        self.head().whole(choices, self.total()).into()
    }

    fn head(&self) -> Head<'_> {
        Head {
            id: &self.id,
            created: self.created,
            model: &self.model,
        }
    }

    /// Tokens of all who wrote, as far as anything was reported.
    fn total(&self) -> Option<Usage> {
        let total = self.earlier + self.usage.unwrap_or_default();
        (self.usage.is_some() || total != Usage::default()).then_some(total)
    }

    fn begun(&self, index: u32) -> Option<&Choice> {
        self.choices.get(index as usize)?.as_ref()
    }

    /// A choice, begun or not; none beyond the bound.
    fn choice(&mut self, index: u32) -> Option<&mut Choice> {
        if index >= MAX_CHOICES {
            return None;
        }
        let place = index as usize;
        if self.choices.len() <= place {
            self.choices.resize_with(place + 1, || None);
        }
        self.choices.get_mut(place).map(Option::get_or_insert_default)
    }

    fn piece(&mut self, piece: Piece, frames: &mut Vec<u8>) {
        self.writes = true;
        match piece {
            Piece::Begin { model, .. } => self.model = model.unwrap_or(std::mem::take(&mut self.model)),
            Piece::Usage(usage) => self.usage = Some(usage),
            Piece::Ping => frames.extend_from_slice(b": keep-alive\n\n"),
            piece => {
                if let Some((index, delta)) = self.delta(piece) {
                    self.head().chunk(frames, index, &delta, None);
                }
            }
        }
    }

    /// What a piece adds to a choice; nothing for an end, which comes when all has been said.
    fn delta(&mut self, mut piece: Piece) -> Option<(u32, Delta)> {
        self.identify(&mut piece);
        let index = choice_of(&piece)?;
        let choice = self.choice(index)?;
        let mut delta = choice.delta(piece)?;
        delta.role = (!std::mem::replace(&mut choice.introduced, true)).then_some("assistant");
        Some((index, delta))
    }

    /// A call whose provider gave it no id gets one that no other turn has: a conversation goes on with one choice only, and
    /// OpenAI takes ids of at most 40 bytes.
    fn identify(&self, piece: &mut Piece) {
        if let Piece::ToolCall {
            index,
            id: id @ None,
            name: Some(_),
            ..
        } = piece
        {
            *id = Some(format!("call_{}_{index}", self.style.request.id));
        }
    }

    fn gather(&mut self, piece: Piece, messages: &mut Vec<Message>) {
        if let Some((index, delta)) = self.delta(piece) {
            let place = index as usize;
            if messages.len() <= place {
                messages.resize_with(place + 1, Message::default);
            }
            messages[place].add(delta);
        }
    }
}

/// Which choice a piece is about.
fn choice_of(piece: &Piece) -> Option<u32> {
    match piece {
        Piece::Text { choice, .. }
        | Piece::Refusal { choice, .. }
        | Piece::Reasoning { choice, .. }
        | Piece::Sealed { choice, .. }
        | Piece::ToolCall { choice, .. }
        | Piece::Finish { choice, .. } => Some(*choice),
        Piece::Begin { .. } | Piece::Usage(_) | Piece::Ping => None,
    }
}

fn word(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop | Finish::Other => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool_calls",
        Finish::ContentFilter => "content_filter",
    }
}

/// A seal in a tool call, where Gemini's compatible API puts its own.
fn signature(seal: &Seal) -> String {
    seal.in_format(Api::Gemini)
}
