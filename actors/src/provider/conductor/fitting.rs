//! What a session remembers is made to fit the model about to answer; the session itself forgets nothing by that.

use std::sync::Arc;
use std::time::Duration;

use understudy_messages::client::ClientFrame;
use understudy_messages::events::Event;
use understudy_messages::failure::{Failure, Reason};
use understudy_messages::hooks::{Compaction, Hook, HookEvent, Snapshot};
use understudy_messages::request::Endpoint;
use understudy_messages::session::{Edited, Prompt};
use understudy_messages::tools::{ContextFitted, TurnNote};
use understudy_messages::turn::Candidate;
use understudy_providers::native::fit::{self, Told};
use understudy_providers::wire;

use super::Conductor;
use crate::provider::failover::Step;
use crate::provider::ledger::{Purpose, Ticket};
use crate::session::told;

/// How much of what was too long is told once more, in percent.
const SQUEEZED: u64 = 70;

/// How the candidate under way is made to listen.
#[derive(Debug, Default)]
pub(super) struct Fitting {
    /// How many tokens it may be told, after it has said that it was told too much.
    most: Option<u64>,
    /// What was left out, for the client.
    left_out: Vec<ContextFitted>,
}

impl Conductor {
    /// Leaves out of the prompt what has no room in the candidate's window.
    pub(super) fn fit(&mut self, candidate: &Candidate, prompt: Prompt) -> Prompt {
        if self.turn.request.endpoint != Endpoint::Native {
            return prompt;
        }
        let Some(most) = self.most_tokens(candidate, &prompt) else {
            return prompt;
        };
        let Some((body, left_out)) = fit::fit(self.told(&prompt), most) else {
            return prompt;
        };
        let fitted = match wire::scan(Endpoint::Native, &body) {
            Ok(facts) => {
                let read = body.clone();
                let conversation = Snapshot::new(move || told::body(Endpoint::Native, &read));
                let marks = prompt.edited.as_ref().map(|edited| edited.marks.clone());
                let edited = Edited {
                    facts,
                    conversation,
                    marks: marks.unwrap_or_default(),
                };
                Prompt {
                    body,
                    edited: Some(Arc::new(edited)),
                    ..prompt.clone()
                }
            }
            Err(error) => {
                tracing::warn!(turn = %self.turn.request.id, %error, "a shortened conversation cannot be read: left as it was");
                return prompt;
            }
        };
        self.tell_fitted(candidate, &prompt, left_out);
        self.here.prompt = Some(fitted.clone());
        fitted
    }

    /// Leave to ask the same candidate once more with less, where it was told too much and nobody has a larger window. Once
    /// a turn.
    pub(super) fn squeeze(&mut self, from: &Candidate, failure: &Failure) -> Option<Ticket> {
        let is_too_long = failure.reason == Reason::ContextOverflow && failure.nuance.is_none();
        let is_mute = !self.turn.client.attempt_progress().is_answer();
        if self.squeezed || !is_too_long || !is_mute || self.turn.request.endpoint != Endpoint::Native {
            return None;
        }
        let mut prompt = self.here.prompt.clone()?;
        prompt.rounds = self.rounds.done().clone();
        let told = self.told(&prompt);
        let window = from.settings.context.map(|window| fit::room(told.body, window));
        let most = fit::tokens(told).min(window.unwrap_or(u64::MAX)) * SQUEEZED / 100;
        fit::fit(told, most)?;
        let credential = self.here.used.last().copied().unwrap_or_default();
        let ticket = self.enter(from, Purpose::Retry { credential }).ok()?;
        self.squeezed = true;
        self.here.fitting.most = Some(most);
        let after = Duration::ZERO;
        self.decided(from, failure, Step::RetrySame { after }, Some(from.model.clone()));
        Some(ticket)
    }

    /// Tells the client what whoever answered was not told. `false` when it left.
    pub(super) async fn tell_left_out(&mut self) -> bool {
        for left_out in std::mem::take(&mut self.here.fitting.left_out) {
            let note = TurnNote::ContextFitted(left_out);
            if !self.tell(ClientFrame::Note(note)).await {
                return false;
            }
        }
        true
    }

    /// `None`: as many as there are.
    fn most_tokens(&self, candidate: &Candidate, prompt: &Prompt) -> Option<u64> {
        let told = self.told(prompt);
        let window = candidate.settings.context;
        let window = window.filter(|window| !fit::surely_fits(told, *window));
        let room = window.map(|window| fit::room(told.body, window));
        room.into_iter().chain(self.here.fitting.most).min()
    }

    fn told<'a>(&'a self, prompt: &'a Prompt) -> Told<'a> {
        Told {
            body: &prompt.body,
            facts: prompt.facts(&self.turn.request),
            asked: self.asked_items(),
            rounds: &prompt.rounds,
        }
    }

    fn tell_fitted(&mut self, candidate: &Candidate, whole: &Prompt, fitted: ContextFitted) {
        let turn = &self.turn;
        let compacted = fitted.dropped_messages + fitted.dropped_tool_results;
        tracing::info!(turn = %turn.request.id, model = %candidate.model, dropped = fitted.dropped_messages,
            shortened = fitted.dropped_tool_results, tokens = fitted.tokens, "conversation fitted to the model's window");
        if turn.hooks.fires(Hook::BeforeCompaction) {
            let event = HookEvent::BeforeCompaction {
                conversation: whole.conversation(&turn.scene).clone(),
                compaction: Compaction {
                    messages: fitted.messages,
                    compacted,
                    tokens: fitted.tokens_before,
                },
            };
            self.fire(event, candidate);
        }
        if turn.hooks.fires(Hook::AfterCompaction) {
            let event = HookEvent::AfterCompaction(Compaction {
                messages: fitted.messages - fitted.dropped_messages,
                compacted,
                tokens: fitted.tokens,
            });
            self.fire(event, candidate);
        }
        self.context.tap.publish(|| Event::ContextFitted {
            turn: turn.request.id,
            model: candidate.model.clone(),
            fitted,
        });
        self.here.fitting.left_out.push(fitted);
    }
}
