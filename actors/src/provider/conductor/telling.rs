//! What the conductor tells plugins: calls of models as they are made, and every step that is not the same again.

use std::sync::Arc;
use std::time::Duration;

use understudy_messages::clock::Instant;
use understudy_messages::conversation::Part;
use understudy_messages::events::{CandidateSkipped, Decision, FailoverDecided};
use understudy_messages::failure::Reason;
use understudy_messages::hooks::{CallEnd, Hook, HookEvent, ModelCall, ModelFailoverEvent, RunIds};
use understudy_messages::ids::ModelRef;
use understudy_messages::provider::{Answered, AttemptError};
use understudy_messages::turn::Candidate;

use super::Conductor;

impl Conductor {
    /// A model is about to be asked.
    pub(super) fn calling(&mut self, candidate: &Candidate) {
        let turn = &self.turn;
        if turn.hooks.fires(Hook::LlmInput) && turn.request.endpoint.is_conversation() {
            let event = HookEvent::LlmInput {
                call: self.call(candidate),
                conversation: self.shown(None),
            };
            self.fire(event, candidate);
        }
        if turn.hooks.fires(Hook::ModelCallStarted) {
            self.fire(HookEvent::ModelCallStarted(self.call(candidate)), candidate);
        }
        self.traffic = turn.hooks.fires(Hook::ModelCallEnded).then(Arc::default);
    }

    /// It has answered, or not. To be called before the attempt is booked.
    pub(super) fn called(&self, candidate: &Candidate, sent: Instant, result: &Result<Answered, AttemptError>) {
        let hooks = &self.turn.hooks;
        if hooks.fires(Hook::ModelCallEnded) {
            let took = self.context.clock.now().duration_since(sent);
            let event = HookEvent::ModelCallEnded {
                call: self.call(candidate),
                end: CallEnd::of(result, took, self.traffic.as_deref()),
            };
            self.fire(event, candidate);
        }
        if let Ok(answered) = result
            && hooks.fires(Hook::LlmOutput)
            && self.turn.request.endpoint.is_conversation()
        {
            let event = HookEvent::LlmOutput {
                call: self.call(candidate),
                conversation: self.shown(None),
                text: said(answered),
                finish: answered.finish,
                usage: answered.usage,
            };
            self.fire(event, candidate);
        }
    }

    /// Something is done about a failure; asking the same again is no failover.
    pub(super) fn told_failover(&self, decided: &FailoverDecided) {
        let decision = match decided.decision {
            Decision::RetrySame => return,
            Decision::RotateCredential => "rotate_profile",
            Decision::FallbackModel => "fallback_model",
            Decision::SurfaceError => "surface_error",
        };
        let to = decided.to.as_ref().unwrap_or(&decided.from);
        self.fire_failover(&decided.from, to, decision, decided.reason, decided.status);
    }

    /// Notes that a candidate rests; it is told of when it is known who is asked instead.
    pub(super) fn note_passed_over(&mut self, skipped: &CandidateSkipped) {
        if self.turn.hooks.fires(Hook::ModelFailover) {
            self.passed_over.push((skipped.model.clone(), skipped.reason));
        }
    }

    /// Tells of those who rest: `to` is asked instead, or nobody is.
    pub(super) fn told_passed_over(&mut self, to: Option<&ModelRef>) {
        for (from, reason) in std::mem::take(&mut self.passed_over) {
            match to {
                Some(to) if *to == from => {}
                Some(to) => self.fire_failover(&from, to, "fallback_model", reason, None),
                None => self.fire_failover(&from, &from, "surface_error", reason, None),
            }
        }
    }

    fn fire_failover(
        &self,
        from: &ModelRef,
        to: &ModelRef,
        decision: &'static str,
        reason: Reason,
        status: Option<u16>,
    ) {
        let turn = &self.turn;
        if !turn.hooks.fires(Hook::ModelFailover) {
            return;
        }
        let context = turn.scene.context();
        let answering = turn.client.attempt_progress().is_answer();
        let event = ModelFailoverEvent {
            run: RunIds::from(&**context),
            provider: to.provider.clone(),
            model: to.model.clone(),
            source_provider: Some(from.provider.clone()),
            source_model: Some(from.model.clone()),
            stage: if answering { "assistant" } else { "prompt" },
            decision,
            failover_reason: Some(reason),
            profile_failure_reason: rests_credential(reason).then_some(reason),
            fallback_configured: self.cast.candidates.len() > 1,
            timed_out: Some(reason == Reason::Timeout),
            status,
            source_recoverable: Some(reason.is_recoverable()),
        };
        turn.hooks
            .fire(HookEvent::ModelFailover(event), context.clone(), turn.lease.clone());
    }

    pub(super) fn fire(&self, event: HookEvent, candidate: &Candidate) {
        self.turn
            .hooks
            .fire(event, self.turn.scene.context_for(candidate), self.turn.lease.clone());
    }

    /// The call under way.
    fn call(&self, candidate: &Candidate) -> ModelCall {
        let context = self.turn.scene.context();
        ModelCall {
            run_id: context.run_id.clone(),
            call_id: format!("{}:model:{}", self.turn.request.id, self.attempts.len() + 1),
            session_key: context.session_key.clone(),
            session_id: context.session_id.clone(),
            provider: candidate.model.provider.clone(),
            model: candidate.model.model.clone(),
            api: candidate.api.as_label(),
            transport: "http",
            context_token_budget: candidate.settings.context,
        }
    }
}

/// What the model said, whether or not the client has it yet.
fn said(answered: &Answered) -> Arc<str> {
    if answered.held.is_none() {
        return Arc::from(answered.text.as_deref().unwrap_or_default());
    }
    let texts = answered.said.iter().filter_map(|part| match part {
        Part::Text(text) | Part::Refusal(text) => Some(&**text),
        Part::Media(_) | Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    });
    texts.collect::<String>().into()
}

/// Whether a failure of this reason lets the credential rest, and not just the model.
const fn rests_credential(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::RateLimit | Reason::Auth | Reason::AuthPermanent | Reason::Billing
    )
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
