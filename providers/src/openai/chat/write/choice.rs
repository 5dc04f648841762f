//! One choice of an answer that is being written.

use understudy_messages::answer::{Finish, Piece};
use understudy_messages::conversation::Seal;
use understudy_messages::settings::Api;

use super::json::{Delta, Detail, ToolCall};

/// The most reasoning that is kept for its seal, in bytes; a seal of more is left out.
const MAX_THOUGHT: usize = 1 << 20;

/// What is known of a choice.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// Whether the client was told who speaks.
    pub(super) introduced: bool,
    /// Whether the client was told that it has ended, and why.
    pub(super) ended: bool,
    calls_tools: bool,
    finish: Option<Finish>,
    /// The reasoning since the last seal.
    thought: Option<String>,
    /// Whether there was more of it than is kept.
    overgrown: bool,
    /// How many seals have been written.
    seals: usize,
}

impl Choice {
    /// Why it ended, or must have.
    pub(super) fn finish(&self) -> Finish {
        match self.finish {
            Some(Finish::Stop) | None if self.calls_tools => Finish::ToolCalls,
            finish => finish.unwrap_or(Finish::Stop),
        }
    }

    /// Whether it is known why it ended.
    pub(super) const fn has_finish(&self) -> bool {
        self.finish.is_some()
    }

    /// Somebody else goes on: no seal of theirs is one of what was thought so far.
    pub(super) fn hand_over(&mut self) {
        (self.thought, self.overgrown) = (None, false);
    }

    /// What a piece adds; `None` for nothing.
    pub(super) fn delta(&mut self, piece: Piece) -> Option<Delta> {
        let mut delta = Delta::default();
        match piece {
            Piece::Text { text, .. } => delta.content = Some(text),
            Piece::Refusal { text, .. } => delta.refusal = Some(text),
            Piece::Reasoning { text, .. } => {
                self.think(&text);
                delta.reasoning_content = Some(text);
            }
            Piece::Sealed { seal, .. } => delta.reasoning_details = self.sealed(&seal)?,
            Piece::ToolCall {
                index,
                id,
                name,
                arguments,
                seal,
                ..
            } => {
                self.calls_tools = true;
                delta.tool_calls = vec![ToolCall::new(index, id, name, arguments, seal.as_ref())];
            }
            Piece::Finish { finish, .. } => {
                self.finish = Some(finish);
                return None;
            }
            Piece::Begin { .. } | Piece::Usage(_) | Piece::Ping => return None,
        }
        Some(delta)
    }

    fn think(&mut self, text: &str) {
        let thought = self.thought.get_or_insert_default();
        if thought.len() + text.len() > MAX_THOUGHT {
            self.overgrown = true;
        }
        if !self.overgrown {
            thought.push_str(text);
        }
    }

    /// A seal together with what it seals.
    fn sealed(&mut self, seal: &Seal) -> Option<Vec<Detail>> {
        let thought = self.thought.take().filter(|thought| !thought.is_empty());
        let overgrown = std::mem::take(&mut self.overgrown);
        let index = self.seals;
        self.seals += 1;
        let data = seal.in_format(Api::OpenaiChat);
        match (seal.whole, thought) {
            (false, _) if overgrown => None,
            (false, thought) => Some(vec![Detail::signed(index, thought.unwrap_or_default(), data)]),
            (true, None) => Some(vec![Detail::encrypted(index, data)]),
            (true, Some(thought)) => Some(vec![Detail::summary(index, thought), Detail::encrypted(index, data)]),
        }
    }
}
