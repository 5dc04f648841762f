//! The conductor: owns the cast of one turn until its end, asks one candidate after the other, writes the ending.

mod booking;
mod broken;
mod guarded;
mod path;
mod telling;

use std::sync::Arc;
use std::time::Duration;

use understudy_messages::client::ClientFrame;
use understudy_messages::clock::Instant;
use understudy_messages::failure::{CancelCause, Cut, Failure, Reason};
use understudy_messages::hooks::RunBlock;
use understudy_messages::ids::ModelRef;
use understudy_messages::provider::{Answered, Attempt, AttemptError, Perform};
use understudy_messages::session::{PreparePrompt, Prompt};
use understudy_messages::terminal::{TurnFailure, conclude};
use understudy_messages::traffic::Traffic;
use understudy_messages::turn::{AttemptRecord, Candidate, Cast, Performance, TurnContext, TurnOutcome};

use self::broken::Broken;
use self::path::{Here, Tried};
use super::ProviderContext;
use super::failover::{Situation, Step, next_step};
use super::ledger::{Purpose, Rest, Ticket};
use crate::telemetry::StreamEnd;

/// How long an ending may wait for a client that does not read.
const ENDING_GRACE: Duration = Duration::from_secs(5);

/// One turn under way.
pub(super) struct Conductor {
    turn: Arc<TurnContext>,
    cast: Cast,
    context: Arc<ProviderContext>,
    here: Here,
    tried: Vec<Tried>,
    attempts: Vec<AttemptRecord>,
    broken: Broken,
    /// Providers whose certificate could not be trusted in this turn.
    untrusted: Vec<usize>,
    /// The first verdict of a content filter, once another provider has been asked about it.
    filtered: Option<Failure>,
    /// Whether a rest of our own guessing has been cut short for this turn: once is enough.
    asked_early: bool,
    first_failure: Option<(Instant, Reason)>,
    /// Those who rest and of whom plugins have not been told yet.
    passed_over: Vec<(ModelRef, Reason)>,
    /// What the attempt under way exchanges, where somebody wants to know it.
    traffic: Option<Arc<Traffic>>,
    /// Time spent on providers and on waits that they asked for.
    upstream: Duration,
}

/// Why there is nothing to ask with.
enum NoPrompt {
    SessionLost,
    Blocked(RunBlock),
}

/// What comes after a failed attempt.
enum Next {
    Ask(Ticket),
    Surface { retry_after: Option<Duration> },
    Cancelled,
}

impl Conductor {
    pub(super) fn new(perform: Perform, context: Arc<ProviderContext>) -> Self {
        Self {
            turn: perform.turn,
            cast: perform.cast,
            context,
            here: Here::default(),
            tried: Vec::new(),
            attempts: Vec::new(),
            broken: Broken::default(),
            untrusted: Vec::new(),
            filtered: None,
            asked_early: false,
            first_failure: None,
            passed_over: Vec::new(),
            traffic: None,
            upstream: Duration::ZERO,
        }
    }

    /// Asks candidates until one has answered, the turn is cancelled or nobody is left.
    pub(super) async fn run(mut self) -> Performance {
        let Some(mut ticket) = self.advance(None).or_else(|| self.ask_early()) else {
            return self.surface(None).await;
        };
        loop {
            let Some(candidate) = self.cast.candidates.get(self.here.position).cloned() else {
                return self.surface(None).await;
            };
            // a session that is lost, or a guard, is no fault of the candidate: its ticket drops without a verdict
            let prompt = match self.prompt(&candidate).await {
                Ok(prompt) => prompt,
                Err(NoPrompt::SessionLost) => return self.session_lost().await,
                Err(NoPrompt::Blocked(block)) => {
                    drop(ticket);
                    match self.step_past(&candidate, &block) {
                        Some(next) => ticket = next,
                        None => return self.blocked(block).await,
                    }
                    continue;
                }
            };
            if self.turn.cancel.cause().is_some() {
                return self.cancelled().await;
            }
            let continuation = prompt.continuation.clone();
            self.here.going_on = continuation.as_ref().is_some_and(|it| !it.text.is_empty());
            self.here.prefilled = continuation.as_ref().is_some_and(|it| it.prefill);
            let (sent, probe) = (self.context.clock.now(), ticket.is_probe());
            self.here.used.push(ticket.credential());
            self.calling(&candidate, &prompt);
            let result = self.attempt(&candidate, prompt, ticket.credential()).await;
            self.called(&candidate, sent, &result);
            self.settle(ticket, &candidate.model, &result);
            self.book(&candidate.model, sent, &result);
            self.continued(&candidate.model, continuation.as_deref());
            let (failure, delivered) = match result {
                Ok(answered) => {
                    self.here.prompt.iter().for_each(Prompt::was_answered);
                    return self.answered(candidate.model.clone(), sent, answered).await;
                }
                Err(AttemptError::Cancelled) => return self.cancelled().await,
                Err(AttemptError::Failed { failure, delivered, .. }) => (failure, delivered),
            };
            self.note(&candidate, &failure);
            self.note_broken(&candidate, &failure, delivered);
            match self.decide(&candidate, &failure, probe).await {
                Next::Ask(next) => ticket = next,
                Next::Surface { retry_after } => return self.surface(retry_after).await,
                Next::Cancelled => return self.cancelled().await,
            }
        }
    }

    async fn attempt(
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
            successor: self.successor(None).is_some(),
            continuable: self.is_continuable(),
            gated: self.turn.is_gated(),
            credential,
            traffic: self.traffic.clone(),
            cancel: self.turn.cancel.child(),
        };
        let port = slot.ok_or_else(lost)?;
        self.turn.client.begin_attempt();
        let answer = self.kept_alive(port.attempt.send(attempt)).await;
        answer.unwrap_or_else(|_| Err(lost()))
    }

    /// What this candidate is to be told: asked for once, and the same for each of its attempts.
    async fn prompt(&mut self, candidate: &Arc<Candidate>) -> Result<Prompt, NoPrompt> {
        self.told_passed_over(Some(&candidate.model));
        let prompt = match self.here.prompt.clone() {
            Some(prompt) => prompt,
            None => self.prepared(candidate).await?,
        };
        let continuation = self.continuation(candidate);
        Ok(Prompt { continuation, ..prompt })
    }

    async fn prepared(&mut self, candidate: &Arc<Candidate>) -> Result<Prompt, NoPrompt> {
        let ask = PreparePrompt {
            turn: self.turn.clone(),
            candidate: candidate.clone(),
        };
        self.turn.client.begin_attempt();
        let prepared = self.kept_alive(self.turn.session.prepare.send(ask)).await;
        let prompt = prepared
            .map_err(|_| NoPrompt::SessionLost)?
            .map_err(NoPrompt::Blocked)?;
        self.here.prompt = Some(prompt.clone());
        Ok(prompt)
    }

    /// Decides what to do about a failure and takes leave for it. What is published is what is done: a retry whose wait is
    /// over, a candidate that could still be had.
    async fn decide(&mut self, from: &Candidate, failure: &Failure, probe: bool) -> Next {
        let situation = self.situation(from, failure, probe);
        match next_step(failure, &situation) {
            step @ Step::RetrySame { after } => {
                tracing::debug!(turn = %self.turn.request.id, model = %from.model, ?after, "waiting before a retry");
                if !self.wait(after).await {
                    return Next::Cancelled;
                }
                let credential = self.here.used.last().copied().unwrap_or_default();
                match self.enter(from, Purpose::Retry { credential }) {
                    Ok(ticket) => {
                        self.here.retries += 1;
                        self.decided(from, failure, step, Some(from.model.clone()));
                        Next::Ask(ticket)
                    }
                    Err(_rests_now) => self.onward(from, failure, None),
                }
            }
            step @ Step::RotateCredential => match self.enter(from, Purpose::Rotate { used: &self.here.used }) {
                Ok(ticket) => {
                    self.here.rotations += 1;
                    self.decided(from, failure, step, Some(from.model.clone()));
                    Next::Ask(ticket)
                }
                Err(_rests_now) => self.onward(from, failure, None),
            },
            Step::FallbackModel { .. } => self.onward(from, failure, None),
            Step::Surface { retry_after } => self.last_resort(from, failure, retry_after),
        }
    }

    fn situation(&self, from: &Candidate, failure: &Failure, probe: bool) -> Situation<'_> {
        let now = self.context.clock.now();
        let ledger = self.context.ledgers.get(from.provider);
        let credential = self.here.used.last().copied().unwrap_or_default();
        let retry = &self.turn.retry;
        let most = u32::try_from(2 * self.cast.candidates.len() + 2).unwrap_or(u32::MAX);
        Situation {
            delivered: self.turn.client.attempt_progress(),
            continuable: self.broken.is_plain && self.is_continuable(),
            going_on: self.here.going_on,
            prefilled: self.here.prefilled,
            replay_safe: self.turn.effects.replay_safe(),
            successor: self.successor(Some(failure)),
            same_again: !probe && ledger.is_some_and(|ledger| ledger.may_retry(&from.model.model, credential, now)),
            took: self.attempts.last().map_or(Duration::ZERO, |last| last.duration),
            retries: self.here.retries,
            other_credential: !probe
                && ledger.is_some_and(|ledger| ledger.another_credential(&from.model.model, &self.here.used, now)),
            rotations: self.here.rotations,
            attempts: u32::try_from(self.attempts.len()).unwrap_or(u32::MAX),
            max_attempts: retry.max_total.unwrap_or(most),
            remaining: self.turn.deadline.saturating_duration_since(now),
            jitter: 0.5 + fastrand::f64(),
            retry,
            on_broken_stream: self.turn.agent.on_broken_stream,
            on_content_filter: self.turn.agent.on_content_filter,
            on_status: failure
                .status
                .is_some_and(|status| self.turn.agent.failover_on_status.contains(&status)),
        }
    }

    /// Moves on to the next candidate that is usable and suits the failure; the client is told when there is none.
    fn onward(&mut self, from: &Candidate, failure: &Failure, retry_after: Option<Duration>) -> Next {
        match self.advance(Some(failure)) {
            Some(ticket) => self.moved(from, failure, ticket),
            None => self.last_resort(from, failure, retry_after),
        }
    }

    /// Nothing usable is left. A candidate whose rest we only guessed is asked once, where the failure would have moved on.
    fn last_resort(&mut self, from: &Candidate, failure: &Failure, retry_after: Option<Duration>) -> Next {
        let pretended = Situation {
            successor: Some(self.here.position + 1),
            same_again: false,
            other_credential: false,
            ..self.situation(from, failure, true)
        };
        let would_move = matches!(next_step(failure, &pretended), Step::FallbackModel { .. });
        match would_move.then(|| self.ask_early()).flatten() {
            Some(ticket) => self.moved(from, failure, ticket),
            None => {
                self.decided(from, failure, Step::Surface { retry_after }, None);
                Next::Surface { retry_after }
            }
        }
    }

    fn moved(&self, from: &Candidate, failure: &Failure, ticket: Ticket) -> Next {
        let to = self.here.position;
        let model = self.cast.candidates.get(to).map(|next| next.model.clone());
        self.decided(from, failure, Step::FallbackModel { to }, model);
        Next::Ask(ticket)
    }

    /// Waits before a retry; `false` when the turn was cancelled meanwhile.
    async fn wait(&mut self, after: Duration) -> bool {
        if after.is_zero() {
            return true;
        }
        let clock = &self.context.clock;
        let began = clock.now();
        let wait = async {
            tokio::select! {
                biased;
                _ = self.turn.cancel.cancelled() => false,
                () = clock.sleep_until(began + after) => true,
            }
        };
        self.turn.client.begin_attempt();
        let waited = self.kept_alive(wait).await;
        self.upstream += clock.now().duration_since(began);
        waited
    }

    fn enter(&self, candidate: &Candidate, purpose: Purpose<'_>) -> Result<Ticket, Rest> {
        let now = self.context.clock.now();
        let ledger = self.context.ledgers.get(candidate.provider);
        ledger
            .ok_or(Rest::nobody(now))?
            .enter(&candidate.model.model, purpose, now)
    }

    async fn answered(self, model: ModelRef, sent: Instant, mut answered: Answered) -> Performance {
        let text = answered.text.take().map(|text| self.whole_text(text));
        self.book_answer(&model, sent, &answered);
        let whole = self.tell(ClientFrame::End { last: answered.last }).await;
        if !whole {
            return self.cancelled().await;
        }
        self.stream_ended(StreamEnd::Ok);
        let served_by = Some((self.here.position, model));
        Performance {
            served_by,
            usage: self.whole_usage(answered.usage),
            text,
            ..self.performance(TurnOutcome::Completed, None)
        }
    }

    async fn cancelled(self) -> Performance {
        let cause = self.turn.cancel.cause().unwrap_or(CancelCause::Client);
        let failure = TurnFailure::cancelled(cause, self.attempts.len());
        if cause != CancelCause::Client {
            self.tell(ClientFrame::Failed(failure.clone())).await;
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
        self.performance(outcome, Some(failure))
    }

    /// The session died before it could say what the candidate is to be told.
    async fn session_lost(self) -> Performance {
        let hint = "The session is being restarted. Please try again.";
        let failure = TurnFailure::ours(503, "session_lost", hint);
        self.tell(ClientFrame::Failed(failure.clone())).await;
        let after_content = self.turn.client.progress().is_answer();
        let reason = Reason::Unknown;
        self.performance(TurnOutcome::Failed { reason, after_content }, Some(failure))
    }

    /// Nobody could answer: tells the client why, and when to come back.
    async fn surface(mut self, retry_after: Option<Duration>) -> Performance {
        self.told_passed_over(None);
        let soonest = self.soonest().into_iter().chain(retry_after).min();
        let failure = self.outgrown().or_else(|| self.unsupported());
        let failure = TurnFailure {
            attempts: u32::try_from(self.attempts.len()).unwrap_or(u32::MAX),
            ..failure.unwrap_or_else(|| conclude(&self.concluding(), soonest))
        };
        let last = self.tried.iter().rev().find_map(Tried::failure);
        let last = self.broken.cause.as_ref().map(|(_, failure)| failure).or(last);
        let reason = failure
            .cause
            .or(last.map(|last| last.reason))
            .unwrap_or(Reason::Unknown);
        let cut = last.map_or(Cut::Refused, |last| last.cut);
        self.tell(ClientFrame::Failed(failure.clone())).await;
        self.stream_ended(StreamEnd::from(cut));
        let after_content = self.turn.client.progress().is_answer();
        self.performance(TurnOutcome::Failed { reason, after_content }, Some(failure))
    }

    /// Writes the ending. `false` when the client left or does not read.
    async fn tell(&self, frame: ClientFrame) -> bool {
        let grace = self.context.clock.now() + ENDING_GRACE;
        let told = self.context.clock.timeout_at(grace, self.turn.client.send(frame)).await;
        matches!(told, Ok(Ok(())))
    }

    fn performance(self, outcome: TurnOutcome, failure: Option<TurnFailure>) -> Performance {
        Performance {
            outcome,
            attempts: self.attempts,
            served_by: None,
            usage: None,
            upstream: self.upstream,
            failure,
            tried: self.tried.iter().map(Tried::told).collect(),
            text: None,
            removed: Vec::new(),
            said: Vec::new(),
        }
    }
}
