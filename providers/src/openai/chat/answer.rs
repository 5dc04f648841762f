//! A whole chat answer, put together from a stream or read from one JSON body.

use understudy_messages::answer::Piece;

use super::chunk::keep;
use super::decode::{Telling, begin};
use super::event::tool_call::{Arguments, ToolCallPiece};
use super::event::{Event, Part, Said, walk};
use crate::answer::Whole;
use crate::json::{JsonError, JsonStr};

#[cfg(test)]
mod tests;

/// The most tool calls that are kept of one answer: several times what providers allow.
const MAX_TOOL_CALLS: usize = 1024;

pub use crate::answer::{Answer, AnswerError, ToolCall};

/// Reads a body that is one JSON answer.
///
/// # Errors
/// [`AnswerError`] when it is not a chat answer; one that says nothing, or an error, is.
pub fn read(body: &[u8]) -> Result<Answer, AnswerError> {
    let mut assembly = Assembly::with_limit(usize::MAX); // the body is bounded already
    let has_choices = walk_body(body, |event| assembly.add(event))?;
    let answer = assembly.finish();
    if has_choices || answer.error.is_some() {
        Ok(answer)
    } else {
        Err(AnswerError::NotAnAnswer)
    }
}

/// Reads a body that is one JSON answer, as far as the course of a turn depends on it: once, and without keeping what it says
/// unless it is asked for.
pub(crate) fn read_whole(body: &[u8], pieces: Option<&mut Vec<Piece>>) -> Result<Whole, AnswerError> {
    let (mut whole, mut events, is_told) = (Whole::default(), Vec::new(), pieces.is_some());
    let has_choices = walk_body(body, |event| {
        note(&mut whole, &event);
        if is_told {
            events.push(event);
        }
    })?;
    if !has_choices && whole.error.is_none() {
        return Err(AnswerError::NotAnAnswer);
    }
    if let Some(pieces) = pieces {
        let mut telling = Telling::default();
        pieces.push(begin(body));
        telling.tell(&events, pieces);
        whole.untold = telling.untold();
    }
    Ok(whole)
}

/// Tells `sink` what is in a whole answer; whether it had a member `choices` at all.
fn walk_body<'a>(body: &'a [u8], mut sink: impl FnMut(Event<'a>)) -> Result<bool, AnswerError> {
    if body.trim_ascii().is_empty() {
        return Err(AnswerError::NoBody);
    }
    walk(body, Said::Message, &mut sink).map_err(|error| match error {
        JsonError::Truncated { .. } => AnswerError::Truncated,
        JsonError::Syntax { at } | JsonError::TooDeep { at } => AnswerError::NotJson { at },
    })
}

/// Adds what an event means to the course of a turn.
fn note(whole: &mut Whole, event: &Event<'_>) {
    match event {
        Event::Choice { choice, finish } => whole.finish = finish.filter(|_| *choice == 0).or(whole.finish),
        Event::Text { part, .. } => whole.says_something |= *part != Part::Reasoning,
        Event::ToolCall { choice, piece } if piece.says_something() => {
            whole.says_something = true;
            whole.calls_tools |= *choice == 0;
        }
        Event::ToolCall { .. } | Event::Details { .. } => {}
        Event::Usage(usage) => whole.usage = Some(*usage),
        Event::Error(error) => keep(&mut whole.error, error.clone()),
    }
}

/// An answer being put together, bounded.
#[derive(Debug)]
pub struct Assembly {
    answer: Answer,
    /// The provider's index of each tool call.
    indexes: Vec<Option<u64>>,
    left: usize,
}

impl Assembly {
    /// Keeps at most `limit` bytes of text, arguments included.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            answer: Answer::default(),
            indexes: Vec::new(),
            left: limit,
        }
    }

    /// The answer as far as it has come.
    pub fn finish(self) -> Answer {
        self.answer
    }

    pub(super) fn add(&mut self, event: Event<'_>) {
        match event {
            Event::Choice { choice, finish } => {
                self.answer.finish = finish.filter(|_| choice == 0).or(self.answer.finish);
            }
            Event::Text { choice, part, text } => self.text(choice, part, text),
            Event::ToolCall { choice, piece } if piece.says_something() => {
                self.answer.says_something = true;
                if choice == 0 {
                    self.tool_call(&piece);
                }
            }
            Event::ToolCall { .. } | Event::Details { .. } => {}
            Event::Usage(usage) => self.answer.usage = Some(usage),
            Event::Error(error) => keep(&mut self.answer.error, error),
        }
    }

    fn text(&mut self, choice: u64, part: Part, text: JsonStr<'_>) {
        self.answer.says_something |= part != Part::Reasoning;
        if choice != 0 || !self.has_room(text.len()) {
            return;
        }
        let whole = match part {
            Part::Reasoning => &mut self.answer.reasoning,
            Part::Content => &mut self.answer.text,
            Part::Refusal => &mut self.answer.refusal,
        };
        whole.push_str(&text.decode());
    }

    fn tool_call(&mut self, piece: &ToolCallPiece<'_>) {
        let len = |text: Option<JsonStr<'_>>| text.map_or(0, JsonStr::len);
        let arguments = match piece.arguments {
            Some(Arguments::Text(text)) => text.decode(),
            Some(Arguments::Json(json)) => json.into(),
            None => "".into(),
        };
        if !self.has_room(len(piece.id) + len(piece.name) + arguments.len()) {
            return;
        }
        let place = match self.begun(piece) {
            Some(place) => place,
            None if self.answer.tool_calls.len() < MAX_TOOL_CALLS => {
                self.indexes.push(piece.index);
                self.answer.tool_calls.push(ToolCall::default());
                self.answer.tool_calls.len() - 1
            }
            None => {
                self.answer.is_cut = true;
                return;
            }
        };
        if let Some(call) = self.answer.tool_calls.get_mut(place) {
            fill(&mut call.id, piece.id);
            fill(&mut call.name, piece.name);
            call.arguments.push_str(&arguments);
        }
    }

    /// Which begun call a piece belongs to: the one with its id, else with its index, else the latest. A new id
    /// together with a name begins a new call, whatever its index; without an index either of them does.
    fn begun(&self, piece: &ToolCallPiece<'_>) -> Option<usize> {
        let calls = &self.answer.tool_calls;
        let known = piece.id.and_then(|id| {
            let id = id.decode();
            calls.iter().rposition(|call| call.id == id)
        });
        let (id, name) = (piece.id.is_some(), piece.name.is_some());
        known.or_else(|| match piece.index {
            Some(_) if id && name => None,
            Some(_) => self.indexes.iter().rposition(|index| *index == piece.index),
            None if id || name => None,
            None => calls.len().checked_sub(1),
        })
    }

    fn has_room(&mut self, len: usize) -> bool {
        match self.left.checked_sub(len) {
            Some(left) => self.left = left,
            None => self.answer.is_cut = true,
        }
        !self.answer.is_cut
    }
}

/// Sets what is not known yet: ids and names come once, or again as they were.
fn fill(slot: &mut String, text: Option<JsonStr<'_>>) {
    if let Some(text) = text.filter(|_| slot.is_empty()) {
        slot.push_str(&text.decode());
    }
}
