//! The rounds of a turn: each a whole answer whose calls of tools were answered here, so that its model is asked again.
//!
//! The client sees one answer: what it has read stays, and what the next round says comes below a blank line.

use std::sync::Arc;

use understudy_messages::client::ClientFrame;
use understudy_messages::conversation::{Message, Part, Speaker, ToolResult};
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::hooks::Snapshot;
use understudy_messages::provider::Answered;
use understudy_messages::request::Endpoint;
use understudy_messages::session::Continuation;
use understudy_messages::tools::{RemovedCall, ToolRound, TurnNote};
use understudy_messages::turn::Candidate;

use super::Conductor;
use super::broken::Broken;
use super::gate::Follows;
use super::path::Here;
use crate::provider::ledger::Purpose;
use crate::session::told;

/// How often tools are run for one turn before it has to come to an answer.
pub(super) const MOST_ROUNDS: usize = 24;

/// What models and tools have said to each other in this turn.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    done: Arc<Vec<ToolRound>>,
    /// Attempts made before the round under way.
    pub(super) began: usize,
    /// Bytes that tools have returned.
    pub(super) returned: usize,
    /// Calls that guards took out.
    pub(super) removed: Vec<RemovedCall>,
    /// The text that the client has read in earlier rounds, where somebody wants to know it.
    text: String,
}

impl Rounds {
    pub(super) const fn done(&self) -> &Arc<Vec<ToolRound>> {
        &self.done
    }

    pub(super) fn count(&self) -> usize {
        self.done.len()
    }

    /// The text of all rounds, where the last one said `text`.
    pub(super) fn whole_text(&self, text: &str) -> String {
        below(&self.text, text)
    }
}

impl Conductor {
    /// Adds a round; the next one is another start for the same candidate.
    pub(super) fn next_round(&mut self, answered: Answered, results: Vec<ToolResult>) {
        let before = std::mem::take(&mut self.broken);
        let text = format!("{}{}", before.text(), answered.text.as_deref().unwrap_or_default());
        self.rounds.text = below(&self.rounds.text, &text);
        let said = behind(before.text(), answered.said);
        Arc::make_mut(&mut self.rounds.done).push(ToolRound { said, results });
        self.rounds.began = self.attempts.len();
        self.broken = Broken::new(Continuation {
            after_text: self.turn.client.progress().is_answer(),
            usage: before.usage() + answered.usage.unwrap_or_default(),
            ..Continuation::default()
        });
        self.here = Here {
            prompt: self.here.prompt.take(),
            refused_prefill: self.here.refused_prefill,
            fitting: std::mem::take(&mut self.here.fitting),
            ..Here::at(self.here.position)
        };
    }

    /// Leave to ask the same candidate in the next round. One that rests by now is passed over like any other, unless
    /// something was done that nobody else may go on from.
    pub(super) fn again(&mut self, candidate: &Candidate) -> Follows {
        let rest = match self.enter(candidate, Purpose::Fresh) {
            Ok(ticket) => return Follows::Ask(ticket),
            Err(rest) => rest,
        };
        self.pass_over(self.here.position, candidate, rest);
        if !self.turn.effects.replay_safe() {
            return Follows::Nobody;
        }
        let aside = Failure::observed(Reason::Unclassified, Cut::Refused);
        let next = self.advance(Some(&aside)).or_else(|| self.late(Some(&aside)));
        next.map_or(Follows::Nobody, Follows::Ask)
    }

    /// The conversation as the candidate is told it, with this turn's rounds and what is being said now behind it. Nothing
    /// is made before somebody looks.
    pub(super) fn shown(&self, now: Option<ToolRound>) -> Arc<Snapshot> {
        let scene = &self.turn.scene;
        let prompt = self.here.prompt.as_ref();
        let told = prompt.map_or_else(|| scene.conversation(), |prompt| prompt.conversation(scene));
        if now.is_none() && self.rounds.count() == 0 {
            return told.clone();
        }
        let (told, rounds) = (told.clone(), self.rounds.done.clone());
        Snapshot::new(move || {
            let messages: Vec<Message> = rounds.iter().chain(&now).flat_map(ToolRound::messages).collect();
            told::with_messages(told.look(), &messages)
        })
    }

    /// All that this turn adds to the conversation, where the session keeps it and the last round says `said`.
    pub(super) fn whole_said(&self, said: Vec<Part>) -> Vec<Message> {
        if self.turn.request.endpoint != Endpoint::Native {
            return Vec::new();
        }
        let last = Message {
            speaker: Speaker::Assistant,
            parts: behind(self.broken.text(), said),
        };
        let rounds = self.rounds.done.iter().flat_map(ToolRound::messages);
        rounds.chain((!last.parts.is_empty()).then_some(last)).collect()
    }

    /// Tells the client which calls were taken out; where tools run here it has been told already. `false` when it left.
    pub(super) async fn tell_removed(&self) -> bool {
        if self.turn.request.endpoint == Endpoint::Native {
            return true;
        }
        for removed in &self.rounds.removed {
            let note = TurnNote::CallRemoved(removed.clone());
            if !self.tell(ClientFrame::Note(note)).await {
                return false;
            }
        }
        true
    }
}

/// One text below the other, a blank line between them.
fn below(above: &str, text: &str) -> String {
    let blank = match above.is_empty() || text.is_empty() || text.starts_with("\n\n") {
        true => "",
        false => "\n\n",
    };
    format!("{above}{blank}{text}")
}

/// What was said, where its first text goes on from `before`.
fn behind(before: &str, mut said: Vec<Part>) -> Vec<Part> {
    if before.is_empty() {
        return said;
    }
    let first = said.iter_mut().find_map(|part| match part {
        Part::Text(text) => Some(text),
        Part::Refusal(_) | Part::Media(_) | Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    });
    match first {
        Some(text) => text.insert_str(0, before),
        None => {
            let thought = said
                .iter()
                .take_while(|part| matches!(part, Part::Reasoning(_)))
                .count();
            said.insert(thought, Part::Text(before.to_owned()));
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use understudy_messages::conversation::{Reasoning, ToolCall};

    use super::*;

    #[test]
    fn texts_of_rounds_are_told_apart_by_one_blank_line() {
        assert_eq!(below("", "a"), "a");
        assert_eq!(below("a", ""), "a");
        assert_eq!(below("a", "b"), "a\n\nb");
        assert_eq!(below("a", "\n\nb"), "a\n\nb");
    }

    #[test]
    fn what_another_candidate_had_begun_is_part_of_what_was_said() {
        let call = || Part::ToolCall(ToolCall::default());
        let thought = || Part::Reasoning(Reasoning::default());
        let text = |text: &str| Part::Text(text.to_owned());
        assert_eq!(
            behind("be", vec![thought(), text("gun"), call()]),
            [thought(), text("begun"), call()]
        );
        assert_eq!(behind("be", vec![thought(), call()]), [thought(), text("be"), call()]);
        assert_eq!(behind("", vec![call()]), [call()]);
    }
}
