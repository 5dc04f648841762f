//! The conductor: owns the cast of one turn until its end, asks one candidate after the other, writes the ending.

mod asking;
mod booking;
mod broken;
mod endings;
mod engine;
mod fitting;
mod gate;
mod guarded;
mod path;
mod rounds;
mod running;
mod seat;
mod telling;

use std::sync::Arc;
use std::time::Duration;

use understudy_messages::clock::Instant;
use understudy_messages::failure::{Failure, Reason};
use understudy_messages::ids::ModelRef;
use understudy_messages::provider::{Answered, AttemptError, Perform};
use understudy_messages::session::Prompt;
use understudy_messages::traffic::Traffic;
use understudy_messages::turn::{AttemptRecord, Candidate, Cast, Performance, TurnContext};

use self::broken::Broken;
use self::gate::Follows;
use self::path::{Here, Tried};
use self::rounds::Rounds;
use self::seat::Seat;
use super::ProviderContext;
use super::failover::{Situation, Step, next_step};
use super::ledger::{Ledgers, Purpose, Rest, Ticket};
use super::own::Own;

/// How long an ending may wait for a client that does not read.
const ENDING_GRACE: Duration = Duration::from_secs(5);

/// One turn under way.
pub(super) struct Conductor {
    turn: Arc<TurnContext>,
    cast: Cast,
    own: Own,
    context: Arc<ProviderContext>,
    /// Those of the turn's generation.
    ledgers: Arc<Ledgers>,
    here: Here,
    tried: Vec<Tried>,
    attempts: Vec<AttemptRecord>,
    broken: Broken,
    rounds: Rounds,
    /// Providers whose certificate could not be trusted in this turn.
    untrusted: Vec<usize>,
    /// The first verdict of a content filter, once another provider has been asked about it.
    filtered: Option<Failure>,
    /// Whether a rest of our own guessing has been cut short for this turn: once is enough.
    asked_early: bool,
    /// Whether it has waited for a place at a provider and got none: once is enough.
    waited_in_vain: bool,
    /// Whether a candidate that was told too much was told less: once is enough.
    squeezed: bool,
    first_failure: Option<(Instant, Reason)>,
    /// Those who rest and of whom plugins have not been told yet.
    passed_over: Vec<(ModelRef, Reason)>,
    /// What the attempt under way exchanges, where somebody wants to know it.
    traffic: Option<Arc<Traffic>>,
    /// Time spent on providers, on waits that they asked for, and on tools.
    upstream: Duration,
}

/// What comes after a failed attempt.
enum Next {
    Ask(Ticket),
    Surface { retry_after: Option<Duration> },
    Cancelled,
}

impl Conductor {
    pub(super) fn new(perform: Perform, own: Own, context: Arc<ProviderContext>) -> Self {
        Self {
            ledgers: context.ledgers.of(perform.turn.lease.generation()),
            turn: perform.turn,
            cast: perform.cast,
            own,
            context,
            here: Here::default(),
            tried: Vec::new(),
            attempts: Vec::new(),
            broken: Broken::default(),
            rounds: Rounds::default(),
            untrusted: Vec::new(),
            filtered: None,
            asked_early: false,
            waited_in_vain: false,
            squeezed: false,
            first_failure: None,
            passed_over: Vec::new(),
            traffic: None,
            upstream: Duration::ZERO,
        }
    }

    /// Asks candidates until one has answered, the turn is cancelled or nobody is left.
    pub(super) async fn run(mut self) -> Performance {
        let Some(mut ticket) = self.advance(None).or_else(|| self.late(None)) else {
            return self.surface(None).await;
        };
        loop {
            let Some(candidate) = self.cast.candidates.get(self.here.position).cloned() else {
                return self.surface(None).await;
            };
            // a guard is no fault of the candidate: its ticket drops without a verdict
            let prompt = match self.prompt(&candidate).await {
                Ok(prompt) => prompt,
                Err(block) => {
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
            let (leave, place) = match self.seat(&candidate, ticket).await {
                Seat::Taken(leave, place) => (leave, place),
                Seat::Elsewhere(next) => {
                    ticket = next;
                    continue;
                }
                Seat::Nowhere(wait) => return self.surface(Some(wait)).await,
                Seat::Cancelled => return self.cancelled().await,
            };
            let probe = leave.is_probe();
            let asked = self.ask(&candidate, prompt, leave).await;
            drop(place);
            let (failure, delivered) = match asked {
                Ok(answered) => match self.follow(&candidate, answered).await {
                    Follows::End(answered) => return self.answered(candidate.model.clone(), *answered).await,
                    Follows::Cancelled => return self.cancelled().await,
                    Follows::TooManyRounds => return self.too_many_rounds().await,
                    Follows::Nobody => return self.surface(None).await,
                    Follows::Ask(next) => {
                        ticket = next;
                        continue;
                    }
                },
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

    /// Makes one attempt; it is booked and told of.
    async fn ask(
        &mut self,
        candidate: &Arc<Candidate>,
        prompt: Prompt,
        ticket: Ticket,
    ) -> Result<Answered, AttemptError> {
        let continuation = prompt.continuation.clone();
        self.here.going_on = continuation.as_ref().is_some_and(|it| !it.text.is_empty());
        self.here.prefilled = continuation.as_ref().is_some_and(|it| it.prefill);
        let (model, sent) = (&candidate.model, self.context.clock.now());
        self.here.used.push(ticket.credential());
        self.calling(candidate);
        let result = self.attempt(candidate, prompt, ticket.credential()).await;
        self.called(candidate, sent, &result);
        self.settle(ticket, model, &result);
        self.book(model, sent, &result);
        self.continued(model, continuation.as_deref());
        if let Ok(answered) = &result {
            self.here.prompt.iter().for_each(Prompt::was_answered);
            self.book_answer(model, sent, answered);
        }
        result
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
        let ledger = self.ledgers.get(from.provider);
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
            attempts: u32::try_from(self.attempts.len() - self.rounds.began).unwrap_or(u32::MAX),
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
        match would_move.then(|| self.late(Some(failure))).flatten() {
            Some(ticket) => self.moved(from, failure, ticket),
            None => match self.squeeze(from, failure) {
                Some(ticket) => Next::Ask(ticket),
                None => {
                    self.decided(from, failure, Step::Surface { retry_after }, None);
                    Next::Surface { retry_after }
                }
            },
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
        let ledger = self.ledgers.get(candidate.provider);
        ledger
            .ok_or(Rest::nobody(now))?
            .enter(&candidate.model.model, purpose, now)
    }
}
