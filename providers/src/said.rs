//! What a model said, put together from pieces: for the rounds of a turn, and for whoever remembers it. Pure.

use std::collections::HashMap;

use understudy_messages::answer::Piece;
use understudy_messages::conversation::{Part, Reasoning, ToolCall};

#[cfg(test)]
mod tests;

/// The most bytes of text, reasoning and seals that are kept of one answer: many times what models say at once. What comes
/// later is left out; calls never are, for whoever gives the pieces bounds them.
const MOST: usize = 8 << 20;

/// What was said so far in the first choice.
#[derive(Debug)]
pub(crate) struct Said {
    parts: Vec<Part>,
    /// Which part each call is, by the call's number.
    calls: HashMap<u32, usize>,
    room: usize,
}

impl Default for Said {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            calls: HashMap::new(),
            room: MOST,
        }
    }
}

impl Said {
    /// Adds what a piece says.
    pub(crate) fn add(&mut self, piece: &Piece) {
        match piece {
            Piece::Text { choice: 0, text } if self.has_room(text) => match self.parts.last_mut() {
                Some(Part::Text(said)) => said.push_str(text),
                _ => self.parts.push(Part::Text(text.clone())),
            },
            Piece::Refusal { choice: 0, text } if self.has_room(text) => match self.parts.last_mut() {
                Some(Part::Refusal(said)) => said.push_str(text),
                _ => self.parts.push(Part::Refusal(text.clone())),
            },
            Piece::Reasoning { choice: 0, text } if self.has_room(text) => {
                self.think(|thought| thought.text.push_str(text));
            }
            // ends the thought: what is thought next is another one
            Piece::Sealed { choice: 0, seal } if self.has_room(&seal.data) => {
                self.think(|thought| thought.seal = Some(seal.clone()));
            }
            Piece::ToolCall { choice: 0, .. } => self.call(piece),
            Piece::Text { .. }
            | Piece::Refusal { .. }
            | Piece::Reasoning { .. }
            | Piece::Sealed { .. }
            | Piece::ToolCall { .. }
            | Piece::Begin { .. }
            | Piece::Finish { .. }
            | Piece::Usage(_)
            | Piece::Ping => {}
        }
    }

    /// All that was said, in order.
    pub(crate) fn into_parts(self) -> Vec<Part> {
        self.parts
    }

    /// Adds to the thought that is not sealed yet, or to a new one.
    fn think(&mut self, add: impl FnOnce(&mut Reasoning)) {
        match self.parts.last_mut() {
            Some(Part::Reasoning(thought)) if thought.seal.is_none() => add(thought),
            _ => {
                let mut thought = Reasoning::default();
                add(&mut thought);
                self.parts.push(Part::Reasoning(thought));
            }
        }
    }

    /// A call begins, or more of one comes: several may come in turns.
    fn call(&mut self, piece: &Piece) {
        let Piece::ToolCall {
            index,
            id,
            name,
            arguments,
            seal,
            ..
        } = piece
        else {
            return;
        };
        let begun = self.calls.get(index);
        if let Some(Part::ToolCall(call)) = begun.and_then(|place| self.parts.get_mut(*place)) {
            call.arguments.push_str(arguments);
            call.seal = seal.clone().or(call.seal.take());
            return;
        }
        self.calls.insert(*index, self.parts.len());
        self.parts.push(Part::ToolCall(ToolCall {
            id: id.clone().unwrap_or_default(),
            name: name.clone().unwrap_or_default(),
            arguments: arguments.clone(),
            seal: seal.clone(),
        }));
    }

    fn has_room(&mut self, text: &str) -> bool {
        let left = self.room.checked_sub(text.len());
        self.room = left.unwrap_or(0);
        left.is_some()
    }
}

/// What these pieces say.
pub(crate) fn of(pieces: &[Piece]) -> Vec<Part> {
    let mut said = Said::default();
    pieces.iter().for_each(|piece| said.add(piece));
    said.into_parts()
}
