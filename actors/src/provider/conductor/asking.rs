//! What a candidate is told, and one attempt to have it answer.

use std::pin::pin;
use std::sync::Arc;

use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::hooks::RunBlock;
use understudy_messages::provider::{Answered, Attempt, AttemptError};
use understudy_messages::session::Prompt;
use understudy_messages::turn::Candidate;

use super::Conductor;
use crate::provider::own;
use crate::session::prompt;

impl Conductor {
    pub(super) async fn attempt(
        &self,
        candidate: &Arc<Candidate>,
        prompt: Prompt,
        credential: usize,
    ) -> Result<Answered, AttemptError> {
        let lost = || AttemptError::Failed {
            failure: Failure::observed(Reason::Unknown, Cut::Lost),
            malformed: 0,
            usage: None,
            delivered: None,
        };
        let slot = self.turn.providers.get(candidate.provider).and_then(|slot| slot.get());
        let attempt = Attempt {
            turn: self.turn.clone(),
            candidate: candidate.clone(),
            prompt,
            number: u32::try_from(self.attempts.len() + 1).unwrap_or(u32::MAX),
            successor: self.turn.effects.replay_safe() && self.successor(None).is_some(),
            continuable: self.is_continuable(),
            gated: self.turn.is_gated(),
            credential,
            traffic: self.traffic.clone(),
            cancel: self.turn.cancel.child(),
        };
        let port = slot.ok_or_else(lost)?;
        self.turn.client.begin_attempt();
        let answer = match self.own.behind(&port) {
            Some(upstream) => {
                let asking = pin!(own::survived(own::attempt(upstream, &attempt, &self.context.tasks)));
                self.kept_alive(asking).await
            }
            None => self.kept_alive(port.attempt.send(attempt)).await.ok(),
        };
        answer.unwrap_or_else(|| Err(lost()))
    }

    /// What this candidate is to be told: asked for once, and the same for each of its attempts but for what has been said
    /// meanwhile.
    ///
    /// # Errors
    /// The block of a guard.
    pub(super) async fn prompt(&mut self, candidate: &Arc<Candidate>) -> Result<Prompt, RunBlock> {
        self.told_passed_over(Some(&candidate.model));
        let prompt = match self.here.prompt.clone() {
            Some(prompt) => prompt,
            None => self.prepared(candidate).await?,
        };
        let prompt = Prompt {
            rounds: self.rounds.done().clone(),
            ..prompt
        };
        Ok(Prompt {
            continuation: self.continuation(candidate),
            ..self.fit(candidate, prompt)
        })
    }

    async fn prepared(&mut self, candidate: &Arc<Candidate>) -> Result<Prompt, RunBlock> {
        self.turn.client.begin_attempt();
        let prompt = match prompt::is_shaped(&self.turn) {
            false => prompt::plain(&self.turn),
            true => self.kept_alive(Box::pin(prompt::shaped(&self.turn, candidate))).await?,
        };
        let prompt = self.assembled(candidate, prompt).await;
        self.here.prompt = Some(prompt.clone());
        Ok(prompt)
    }
}
