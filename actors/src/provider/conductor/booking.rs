//! What the conductor publishes: metrics, logs and events of attempts and steps.

use understudy_messages::answer::{Progress, Usage};
use understudy_messages::clock::Instant;
use understudy_messages::events::{CandidateSkipped, Event, FailoverDecided, ProbeResult};
use understudy_messages::failure::{Cut, Failure, Nuance, Reason};
use understudy_messages::ids::ModelRef;
use understudy_messages::provider::{Answered, AttemptError};
use understudy_messages::request::Endpoint;
use understudy_messages::turn::{AttemptOutcome, AttemptRecord, Candidate};

use super::Conductor;
use crate::provider::failover::Step;
use crate::provider::ledger::{Settled, Ticket};
use crate::telemetry::StreamEnd;

type AttemptResult = Result<Answered, AttemptError>;

impl Conductor {
    /// Tells the ledger what came of an attempt, and publishes what follows.
    pub(super) fn settle(&self, ticket: Ticket, model: &ModelRef, result: &AttemptResult) {
        let (now, probe) = (self.context.clock.now(), ticket.is_probe());
        let settled = match result {
            _ if self.is_no_verdict(result) => {
                drop(ticket);
                Settled::default()
            }
            Ok(_) => ticket.succeeded(now),
            Err(AttemptError::Failed { failure, .. }) => ticket.failed(failure, now),
            Err(AttemptError::Cancelled) => Settled::default(),
        };
        if probe {
            self.probed(model, settled.probe);
        }
        let Some(opened) = settled.opened else { return };
        let rest = opened.until.saturating_duration_since(now);
        self.context.telemetry.cooldown(model, opened.reason);
        tracing::warn!(%model, reason = opened.reason.as_label(), ?rest, stated = opened.stated, "left alone for a while");
        self.context.tap.publish(|| Event::WindowOpened {
            model: model.clone(),
            reason: opened.reason,
            rest_ms: u64::try_from(rest.as_millis()).unwrap_or(u64::MAX),
            stated: opened.stated,
        });
    }

    /// Whether an attempt tells nothing of how its model answers. A count of tokens does not: providers limit it apart from
    /// answers, and many do not count at all. Nor does the refusal of vectors that the model may not be there for.
    fn is_no_verdict(&self, result: &AttemptResult) -> bool {
        match (self.turn.request.endpoint, result) {
            (Endpoint::CountTokens, _) | (_, Err(AttemptError::Cancelled)) => true,
            (endpoint, Err(AttemptError::Failed { failure, .. })) => {
                let is_elsewhere = matches!(failure.status, Some(403..=405));
                let own = matches!(failure.nuance, Some(Nuance::Untranslatable | Nuance::OwnLimit));
                own || endpoint == Endpoint::Embeddings && is_elsewhere
            }
            (_, Ok(_)) => false,
        }
    }

    fn probed(&self, model: &ModelRef, verdict: Option<bool>) {
        let result = match verdict {
            Some(true) => ProbeResult::Success,
            Some(false) => ProbeResult::Failure,
            None => ProbeResult::Cancelled,
        };
        self.context.telemetry.probe(model, result);
        tracing::info!(%model, result = result.as_label(), "probed");
        self.context.tap.publish(|| Event::Probed {
            model: model.clone(),
            result,
        });
    }

    /// Whoever runs the gateway has to know of a limit that no provider set.
    fn warn_of_own_limit(failure: &Failure) {
        if failure.nuance == Some(Nuance::OwnLimit) {
            tracing::error!("no connection can be opened: this process has as many files open as it may (ulimit -n)");
        }
    }

    /// Books one upstream call; a request that never left is none.
    pub(super) fn book(&mut self, model: &ModelRef, sent: Instant, result: &AttemptResult) {
        if matches!(result, Err(AttemptError::Failed { failure, .. }) if failure.nuance == Some(Nuance::Untranslatable))
        {
            return;
        }
        let duration = self.context.clock.now().duration_since(sent);
        self.upstream += duration;
        let (outcome, malformed) = match result {
            Ok(answered) => (AttemptOutcome::Ok, answered.malformed),
            Err(AttemptError::Cancelled) => (AttemptOutcome::Cancelled, 0),
            Err(AttemptError::Failed {
                failure,
                malformed,
                usage,
                ..
            }) => {
                self.book_failure(model, failure, usage.as_deref());
                let error = AttemptOutcome::Error {
                    reason: failure.reason,
                    status: failure.status,
                    cut: failure.cut,
                };
                (error, *malformed)
            }
        };
        if let Some(metrics) = self.context.telemetry.candidates().get(model) {
            metrics.attempt(&outcome, duration);
            metrics.parse_faults(malformed);
        }
        self.attempts.push(AttemptRecord {
            model: model.clone(),
            outcome,
            duration,
        });
    }

    fn book_failure(&self, model: &ModelRef, failure: &Failure, usage: Option<&Usage>) {
        Self::warn_of_own_limit(failure);
        let telemetry = &self.context.telemetry;
        if let Some((usage, metrics)) = usage.zip(telemetry.candidates().get(model)) {
            metrics.tokens(usage);
        }
        if failure.reason == Reason::Unclassified {
            telemetry.unclassified(&model.provider);
        }
        if let Some(wait) = failure.retry_after {
            telemetry.retry_after(&model.provider, wait);
        }
    }

    pub(super) fn book_answer(&mut self, model: &ModelRef, sent: Instant, answered: &Answered) {
        let telemetry = &self.context.telemetry;
        let candidates = telemetry.candidates();
        let metrics = candidates.get(model);
        if let Some((usage, metrics)) = answered.usage.as_ref().zip(metrics) {
            metrics.tokens(usage);
        }
        if let Some(after) = answered.first_content {
            metrics.inspect(|metrics| metrics.first_content(after));
            if self.rounds.count() == 0 {
                let requested = &self.turn.request.facts.model;
                candidates.first_token(requested, (sent + after).duration_since(self.turn.received));
            }
        }
        if let Some((failed, reason)) = self.first_failure.take() {
            let content = answered.first_content.map(|after| sent + after);
            let content = content.unwrap_or_else(|| self.context.clock.now());
            telemetry.turns().failover_delay(reason, content.duration_since(failed));
        }
    }

    /// Publishes what is done about a failed attempt.
    pub(super) fn decided(&self, from: &Candidate, failure: &Failure, step: Step, to: Option<ModelRef>) {
        let mut places = self.cast.candidates.iter();
        let decided = FailoverDecided {
            turn: self.turn.request.id,
            agent: self.turn.agent.name.clone(),
            from: from.model.clone(),
            to,
            reason: failure.reason,
            status: failure.status,
            cut: failure.cut,
            decision: step.decision(),
            position: places.position(|one| one.model == from.model).unwrap_or_default(),
            candidates: self.cast.candidates.len(),
        };
        self.context.telemetry.failover(&decided);
        tracing::info!(request = %self.turn.request.request_id, turn = %decided.turn,
            from = %decided.from, to = decided.to.as_ref().map(tracing::field::display),
            reason = decided.reason.as_label(), status = decided.status, cut = ?decided.cut,
            decision = decided.decision.as_label(), "failover decided");
        self.told_failover(&decided);
        self.context.tap.publish(|| Event::FailoverDecided(decided));
    }

    /// Publishes that a candidate was passed over.
    pub(super) fn skipped(&self, skipped: &CandidateSkipped) {
        self.context.telemetry.skipped(&skipped.model, skipped.reason);
        tracing::debug!(turn = %skipped.turn, model = %skipped.model, reason = skipped.reason.as_label(),
            absent = skipped.absent, "candidate skipped");
        self.context.tap.publish(|| Event::CandidateSkipped(skipped.clone()));
    }

    /// Books the end of a stream that the client has seen begin.
    pub(super) fn stream_ended(&self, end: StreamEnd) {
        if self.turn.request.facts.stream && self.turn.client.progress() >= Progress::Head {
            self.context.telemetry.turns().stream(end);
        }
    }
}

impl From<Cut> for StreamEnd {
    fn from(cut: Cut) -> Self {
        match cut {
            Cut::IdleLimit | Cut::FirstContentLimit | Cut::WholeLimit => Self::IdleTimeout,
            Cut::Answered | Cut::TooLarge => Self::ErrorAfterContent,
            Cut::CleanEnd | Cut::Lost | Cut::LostBeforeFirstByte | Cut::Refused => Self::Truncated,
        }
    }
}
