//! The conductor: owns the cast of one turn until its end, asks one candidate after the other, writes the ending.

use std::sync::Arc;
use std::time::Duration;

use understudy_messages::client::ClientFrame;
use understudy_messages::clock::Instant;
use understudy_messages::events::{Event, FailoverDecided};
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::ids::ModelRef;
use understudy_messages::provider::{Answered, Attempt, AttemptError, Perform};
use understudy_messages::session::{PreparePrompt, Prompt};
use understudy_messages::terminal::{Outcome, Tried, TurnFailure, conclude};
use understudy_messages::turn::{
    AttemptOutcome, AttemptRecord, Candidate, Cast, Performance, TurnContext, TurnOutcome,
};

use super::ProviderContext;
use super::failover::{Situation, Step, next_step};
use crate::telemetry::StreamEnd;

/// How long an ending may wait for a client that does not read.
const ENDING_GRACE: Duration = Duration::from_secs(5);

/// One turn under way.
pub(super) struct Conductor {
    turn: Arc<TurnContext>,
    cast: Cast,
    context: ProviderContext,
    position: usize,
    attempts: Vec<AttemptRecord>,
    failures: Vec<(ModelRef, Failure)>,
    first_failure: Option<(Instant, Reason)>,
    upstream: Duration,
}

impl Conductor {
    pub(super) fn new(perform: Perform, context: ProviderContext) -> Self {
        Self {
            turn: perform.turn,
            cast: perform.cast,
            context,
            position: 0,
            attempts: Vec::new(),
            failures: Vec::new(),
            first_failure: None,
            upstream: Duration::ZERO,
        }
    }

    /// Asks candidates until one has answered, the turn is cancelled or nobody is left.
    pub(super) async fn run(mut self) -> Performance {
        loop {
            let Some(candidate) = self.cast.candidates.get(self.position).cloned() else {
                return self.surface(&Failure::observed(Reason::Unknown, Cut::Refused)).await;
            };
            let sent = self.context.clock.now();
            let result = self.attempt(&candidate).await;
            self.book(&candidate.model, sent, &result);
            match result {
                Ok(answered) => {
                    return self.answered(candidate.model.clone(), sent, answered).await;
                }
                Err(AttemptError::Cancelled) => return self.cancelled().await,
                Err(AttemptError::Failed { failure, .. }) => match self.decide(&candidate.model, &failure) {
                    Step::FallbackModel { to } => self.position = to,
                    Step::Surface => return self.surface(&failure).await,
                },
            }
        }
    }

    async fn attempt(&self, candidate: &Arc<Candidate>) -> Result<Answered, AttemptError> {
        let prompt = self.prompt(candidate).await?;
        let lost = || AttemptError::Failed {
            failure: Failure::observed(Reason::Unknown, Cut::Lost),
            malformed: 0,
        };
        let slot = self.turn.providers.get(candidate.provider).and_then(|slot| slot.get());
        let attempt = Attempt {
            turn: self.turn.clone(),
            candidate: candidate.clone(),
            prompt,
            number: u32::try_from(self.attempts.len() + 1).unwrap_or(u32::MAX),
            successor: self.position + 1 < self.cast.candidates.len(),
            cancel: self.turn.cancel.child(),
        };
        let port = slot.ok_or_else(lost)?;
        port.attempt.send(attempt).await.unwrap_or_else(|_| Err(lost()))
    }

    /// Asks the session what this candidate is to be told.
    async fn prompt(&self, candidate: &Arc<Candidate>) -> Result<Prompt, AttemptError> {
        let ask = PreparePrompt {
            turn: self.turn.clone(),
            candidate: candidate.clone(),
        };
        let session_lost = |_| AttemptError::Failed {
            failure: Failure::observed(Reason::Unknown, Cut::Refused),
            malformed: 0,
        };
        self.turn.session.prepare.send(ask).await.map_err(session_lost)
    }

    fn book(&mut self, model: &ModelRef, sent: Instant, result: &Result<Answered, AttemptError>) {
        let duration = self.context.clock.now().duration_since(sent);
        self.upstream += duration;
        let (outcome, malformed) = match result {
            Ok(answered) => (AttemptOutcome::Ok, answered.malformed),
            Err(AttemptError::Cancelled) => (AttemptOutcome::Cancelled, 0),
            Err(AttemptError::Failed { failure, malformed }) => {
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

    fn decide(&mut self, from: &ModelRef, failure: &Failure) -> Step {
        let failed = (self.context.clock.now(), failure.reason);
        self.first_failure.get_or_insert(failed);
        self.failures.push((from.clone(), failure.clone()));
        let step = next_step(
            failure,
            &Situation {
                position: self.position,
                candidates: self.cast.candidates.len(),
                delivered: self.turn.client.progress(),
                attempts: self.attempts.len(),
                on_broken_stream: self.turn.agent.on_broken_stream,
            },
        );
        let to = match step {
            Step::FallbackModel { to } => self.cast.candidates.get(to).map(|next| next.model.clone()),
            Step::Surface => None,
        };
        let decided = FailoverDecided {
            turn: self.turn.request.id,
            agent: self.turn.agent.name.clone(),
            from: from.clone(),
            to,
            reason: failure.reason,
            status: failure.status,
            cut: failure.cut,
            decision: step.decision(),
            position: self.position,
            candidates: self.cast.candidates.len(),
        };
        self.context.telemetry.failover(&decided);
        tracing::info!(turn = %decided.turn, from = %decided.from, to = decided.to.as_ref().map(tracing::field::display),
            reason = decided.reason.as_label(), status = decided.status, decision = decided.decision.as_label(), "failover decided");
        self.context.tap.publish(|| Event::FailoverDecided(decided));
        step
    }

    async fn answered(self, model: ModelRef, sent: Instant, answered: Answered) -> Performance {
        let telemetry = &self.context.telemetry;
        let first_content = answered
            .first_content
            .map_or_else(|| self.context.clock.now(), |after| sent + after);
        if let Some(usage) = &answered.usage
            && let Some(metrics) = telemetry.candidates().get(&model)
        {
            metrics.tokens(usage);
        }
        if let Some(after) = answered.first_content {
            telemetry
                .candidates()
                .get(&model)
                .inspect(|metrics| metrics.first_content(after));
            let requested = &self.turn.request.facts.model;
            telemetry
                .candidates()
                .first_token(requested, first_content.duration_since(self.turn.received));
        }
        if let Some((failed, reason)) = self.first_failure {
            telemetry
                .turns()
                .failover_delay(reason, first_content.duration_since(failed));
        }
        let whole = self.tell(ClientFrame::End { last: answered.last }).await;
        if !whole {
            return self.cancelled().await;
        }
        self.stream_ended(StreamEnd::Ok);
        let served_by = Some((self.position, model));
        self.performance(TurnOutcome::Completed, served_by, answered.usage)
    }

    async fn cancelled(self) -> Performance {
        use understudy_messages::failure::CancelCause;
        let cause = self.turn.cancel.cause().unwrap_or(CancelCause::Client);
        let failure = TurnFailure::cancelled(cause, self.attempts.len());
        if cause != CancelCause::Client {
            self.tell(ClientFrame::Failed(failure)).await;
        }
        self.stream_ended(StreamEnd::Cancelled);
        let outcome = match cause {
            CancelCause::RunBudget => TurnOutcome::Failed {
                reason: Reason::Timeout,
                after_content: self.turn.client.progress().is_answer(),
            },
            CancelCause::Client | CancelCause::CallerDeadline | CancelCause::Shutdown => {
                TurnOutcome::Cancelled { cause }
            }
        };
        self.performance(outcome, None, None)
    }

    async fn surface(self, failure: &Failure) -> Performance {
        let tried: Vec<Tried<'_>> = self
            .failures
            .iter()
            .map(|(model, failure)| Tried {
                model,
                outcome: Outcome::Failed(failure),
            })
            .collect();
        let soonest = self
            .failures
            .iter()
            .filter_map(|(_, failure)| failure.retry_after)
            .min();
        let ending = conclude(&tried, soonest);
        let reason = ending.cause.unwrap_or(failure.reason);
        self.tell(ClientFrame::Failed(ending)).await;
        self.stream_ended(match failure.cut {
            Cut::IdleLimit | Cut::FirstContentLimit | Cut::WholeLimit => StreamEnd::IdleTimeout,
            Cut::Answered | Cut::TooLarge => StreamEnd::ErrorAfterContent,
            Cut::CleanEnd | Cut::Lost | Cut::LostBeforeFirstByte | Cut::Refused => StreamEnd::Truncated,
        });
        let after_content = self.turn.client.progress().is_answer();
        self.performance(TurnOutcome::Failed { reason, after_content }, None, None)
    }

    /// Writes the ending. `false` when the client left or does not read.
    async fn tell(&self, frame: ClientFrame) -> bool {
        let grace = self.context.clock.now() + ENDING_GRACE;
        let told = self.context.clock.timeout_at(grace, self.turn.client.send(frame)).await;
        matches!(told, Ok(Ok(())))
    }

    /// Books the end of a stream that the client has seen begin.
    fn stream_ended(&self, end: StreamEnd) {
        use understudy_messages::answer::Progress;
        if self.turn.request.facts.stream && self.turn.client.progress() >= Progress::Head {
            self.context.telemetry.turns().stream(end);
        }
    }

    fn performance(
        self,
        outcome: TurnOutcome,
        served_by: Option<(usize, ModelRef)>,
        usage: Option<understudy_messages::answer::Usage>,
    ) -> Performance {
        Performance {
            outcome,
            attempts: self.attempts,
            served_by,
            usage,
            upstream: self.upstream,
        }
    }
}
