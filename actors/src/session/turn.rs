//! The main path of one turn: wait for its place, admit, cast, perform, end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use understudy_messages::client::ClientFrame;
use understudy_messages::clock::Instant;
use understudy_messages::events::{Event, TerminalFailure, TerminalKind, TurnEnded};
use understudy_messages::failure::{CancelCause, Reason};
use understudy_messages::ids::ModelRef;
use understudy_messages::ports::SessionPort;
use understudy_messages::provider::Perform;
use understudy_messages::registry::AdmitError;
use understudy_messages::session::RunTurn;
use understudy_messages::settings::AgentSettings;
use understudy_messages::terminal::{Source, TurnFailure};
use understudy_messages::turn::{Candidate, Cast, Performance, SideEffects, TurnContext, TurnOutcome};

use super::SessionContext;
use crate::registry::{CastError, GATE_WAIT, Held};
use crate::telemetry::{QueueCause, ServedBy, TurnResult};

/// How long a conductor may take to end a turn that has been cancelled, before it counts as lost: longer than it waits
/// for a client that does not read.
const ENDING_GRACE: Duration = Duration::from_secs(10);

/// One turn, from acceptance to its end.
pub(super) struct Turn {
    run: RunTurn,
    session: SessionPort,
    place: Arc<Semaphore>,
    context: SessionContext,
}

/// A turn that ended before anybody could be asked.
enum Refusal {
    Cancelled(CancelCause),
    SessionBusy,
    Admission(AdmitError),
    Cast(CastError),
}

impl Turn {
    pub(super) fn new(run: RunTurn, session: SessionPort, place: Arc<Semaphore>, context: SessionContext) -> Self {
        Self {
            run,
            session,
            place,
            context,
        }
    }

    /// Runs the turn and tells who answered. Exactly one ending goes to the client.
    pub(super) async fn play(self) -> Option<ModelRef> {
        let telemetry = self.context.telemetry.clone();
        let in_flight = telemetry.turns().agent(self.run.request.agent.as_ref()).enter();
        let (place, held, waited) = match self.enter().await {
            Ok(entered) => entered,
            Err(refusal) => {
                self.refuse(refusal).await;
                return None;
            }
        };
        let performance = match self.cast(&held) {
            Ok((agent, cast)) => {
                let turn = Arc::new(self.turn_context(&held, agent));
                let performance = self.perform(&turn, cast).await;
                self.end(&turn.agent, &held, &performance, waited);
                performance
            }
            Err(error) => {
                self.refuse(Refusal::Cast(error)).await;
                return None;
            }
        };
        drop((place, in_flight));
        performance.served_by.map(|(_, model)| model)
    }

    /// Waits behind the session's other turns, then at the gate.
    async fn enter(&self) -> Result<(OwnedSemaphorePermit, Held, Duration), Refusal> {
        let began = self.context.clock.now();
        let place = self.wait_for_place().await?;
        let asked = self.queued(QueueCause::SessionBusy, began);
        let admission = self.context.admission.admit(self.deadline(GATE_WAIT));
        let held = tokio::select! {
            biased;
            held = admission => held.map_err(Refusal::Admission)?,
            cause = self.run.cancel.cancelled() => return Err(Refusal::Cancelled(cause)),
        };
        let entered = self.queued(QueueCause::AdmissionGate, asked);
        Ok((place, held, entered.duration_since(began)))
    }

    async fn wait_for_place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let wait = self.context.admission.queue_wait();
        let clock = &self.context.clock;
        if let Ok(place) = self.place.clone().try_acquire_owned() {
            return Ok(place);
        }
        let deadline = self.deadline(wait);
        tokio::select! {
            biased;
            place = self.place.clone().acquire_owned() => place.map_err(|_| Refusal::SessionBusy),
            cause = self.run.cancel.cancelled() => Err(Refusal::Cancelled(cause)),
            () = clock.sleep_until(deadline) => Err(self.waited_too_long(deadline)),
        }
    }

    /// The caller's deadline, or `limit` after the request, whichever comes first.
    fn deadline(&self, limit: Duration) -> Instant {
        let own = self.run.received + limit;
        self.run.deadline.map_or(own, |callers| callers.min(own))
    }

    fn waited_too_long(&self, deadline: Instant) -> Refusal {
        match self.run.deadline == Some(deadline) {
            true => Refusal::Cancelled(CancelCause::CallerDeadline),
            false => Refusal::SessionBusy,
        }
    }

    /// Books a wait that ends now.
    fn queued(&self, cause: QueueCause, since: Instant) -> Instant {
        let now = self.context.clock.now();
        self.context.telemetry.turns().queued(cause, now.duration_since(since));
        now
    }

    fn cast(&self, held: &Held) -> Result<(Arc<AgentSettings>, Cast), CastError> {
        let (roster, request) = (&held.generation().roster, &self.run.request);
        let agent = roster.agent(request.agent.as_deref(), &request.facts.model)?;
        Ok((
            agent.clone(),
            roster.cast(&request.facts.model, request.facts.fallbacks.as_deref())?,
        ))
    }

    fn turn_context(&self, held: &Held, agent: Arc<AgentSettings>) -> TurnContext {
        let generation = held.generation();
        TurnContext {
            request: self.run.request.clone(),
            client: self.run.client.clone(),
            cancel: self.run.cancel.clone(),
            received: self.run.received,
            deadline: self.deadline(generation.roster.settings().timeouts.turn),
            effects: SideEffects::default(),
            retry: generation.roster.settings().retry,
            lease: held.lease(),
            agent,
            timeouts: generation.roster.settings().timeouts,
            session: self.session.clone(),
            providers: generation.providers(self.run.home),
        }
    }

    /// Lets the lead's provider conduct the turn, within the turn's budget and the caller's deadline.
    async fn perform(&self, turn: &Arc<TurnContext>, cast: Cast) -> Performance {
        let lead = self.lead(&cast).and_then(|lead| turn.providers.get(lead.provider));
        let Some(conductor) = lead.and_then(|slot| slot.get()) else {
            return self.conductor_lost(turn).await;
        };
        let perform = conductor.perform.send(Perform {
            turn: turn.clone(),
            cast,
        });
        tokio::pin!(perform);
        let performed = tokio::select! {
            biased;
            performed = &mut perform => performed.ok(),
            cause = self.out_of_time(turn.deadline) => {
                turn.cancel.cancel(cause);
                let grace = self.context.clock.now() + ENDING_GRACE;
                self.context.clock.timeout_at(grace, perform).await.ok().and_then(Result::ok)
            }
        };
        match performed {
            Some(performance) => performance,
            None => self.conductor_lost(turn).await,
        }
    }

    /// The first usable candidate, else the first: its provider conducts the turn.
    fn lead<'a>(&self, cast: &'a Cast) -> Option<&'a Arc<Candidate>> {
        let now = self.context.clock.now();
        let usable = |candidate: &&Arc<Candidate>| {
            let ledger = self.context.ledgers.get(candidate.provider);
            ledger.is_some_and(|ledger| ledger.rest(&candidate.model.model, now).is_none())
        };
        cast.candidates.iter().find(usable).or(cast.candidates.first())
    }

    /// Waits for what ends the turn from our side: the caller's deadline, the turn's budget, a shutdown.
    async fn out_of_time(&self, deadline: Instant) -> CancelCause {
        tokio::select! {
            () = self.context.abort.cancelled() => CancelCause::Shutdown,
            () = self.context.clock.sleep_until(deadline) => match self.run.deadline == Some(deadline) {
                true => CancelCause::CallerDeadline,
                false => CancelCause::RunBudget,
            },
        }
    }

    /// The conductor died: the session writes the ending in its place.
    async fn conductor_lost(&self, turn: &TurnContext) -> Performance {
        tracing::error!(turn = %turn.request.id, "conductor lost");
        turn.cancel.cancel(CancelCause::RunBudget);
        let failure = TurnFailure::ours(500, "conductor_lost", "The gateway lost this turn. Please try again.");
        self.tell(failure.clone()).await;
        Performance {
            outcome: TurnOutcome::Failed {
                reason: Reason::Unknown,
                after_content: turn.client.progress().is_answer(),
            },
            attempts: Vec::new(),
            served_by: None,
            usage: None,
            upstream: Duration::ZERO,
            failure: Some(failure),
        }
    }

    async fn tell(&self, failure: TurnFailure) {
        let grace = self.context.clock.now() + ENDING_GRACE;
        let told = self.run.client.send(ClientFrame::Failed(failure));
        let _left_or_too_slow = self.context.clock.timeout_at(grace, told).await;
    }

    async fn refuse(&self, refusal: Refusal) {
        let result = match refusal {
            Refusal::Cancelled(_) => TurnResult::Cancelled,
            Refusal::SessionBusy | Refusal::Admission(_) | Refusal::Cast(_) => TurnResult::Rejected,
        };
        let telemetry = &self.context.telemetry;
        telemetry
            .turns()
            .agent(self.run.request.agent.as_ref())
            .ended(result, ServedBy::None);
        let duration = self.context.clock.now().duration_since(self.run.received);
        telemetry.turns().ended(result, ServedBy::None, duration, 0);
        tracing::debug!(turn = %self.run.request.id, result = result.as_label(), "turn refused");
        self.tell(refusal.failure()).await;
    }

    fn end(&self, agent: &AgentSettings, held: &Held, performance: &Performance, waited: Duration) {
        let duration = self.context.clock.now().duration_since(self.run.received);
        let result = TurnResult::from(&performance.outcome);
        let served_by = ServedBy::from_place(performance.served_by.as_ref().map(|(place, _)| *place));
        let turns = self.context.telemetry.turns();
        turns.agent(Some(&agent.name)).ended(result, served_by);
        turns.ended(result, served_by, duration, performance.attempts.len());
        self.terminal(agent, performance);
        turns.overhead(duration.saturating_sub(performance.upstream + waited));
        self.context.tap.publish(|| {
            Event::TurnEnded(TurnEnded {
                turn: self.run.request.id,
                request: self.run.request.request_id.clone(),
                session: self.run.request.session.clone(),
                agent: agent.name.clone(),
                generation: held.generation().id,
                outcome: performance.outcome,
                served_by: performance.served_by.as_ref().map(|(_, model)| model.clone()),
                attempts: performance.attempts.clone(),
                usage: performance.usage,
                duration,
            })
        });
        tracing::debug!(turn = %self.run.request.id, result = result.as_label(), attempts = performance.attempts.len(), "turn ended");
    }
}

impl Turn {
    /// A turn that failed before a byte of an answer is told of as such, whatever the path that led there.
    fn terminal(&self, agent: &AgentSettings, performance: &Performance) {
        let (
            TurnOutcome::Failed {
                after_content: false, ..
            },
            Some(failure),
        ) = (performance.outcome, &performance.failure)
        else {
            return;
        };
        let kind = match failure.source {
            Source::Chain => TerminalKind::AllModelsFailed,
            Source::Cancelled(_) | Source::Gateway => TerminalKind::RunFailedBeforeReply,
        };
        self.context.telemetry.terminal(kind, failure.cause);
        tracing::warn!(turn = %self.run.request.id, kind = kind.as_label(), reason = failure.reason_label(), attempts = performance.attempts.len(), "terminal failure");
        self.context.tap.publish(|| {
            Event::TerminalFailure(TerminalFailure {
                turn: self.run.request.id,
                agent: agent.name.clone(),
                kind,
                reason: failure.cause,
                final_message: failure.sentence.clone(),
                attempts: performance.attempts.clone(),
            })
        });
    }
}

impl Refusal {
    fn failure(&self) -> TurnFailure {
        let ours = TurnFailure::ours;
        match self {
            Self::Cancelled(cause) => TurnFailure::cancelled(*cause, 0),
            Self::SessionBusy => ours(429, "session_busy", "Another turn of this session is still running."),
            Self::Admission(AdmitError::Starting) => ours(503, "starting", "The gateway is starting."),
            Self::Admission(AdmitError::ShuttingDown) => ours(503, "shutting_down", "The gateway is shutting down."),
            Self::Admission(AdmitError::HeldTooLong) => ours(503, "admission_held", "A reload takes too long."),
            Self::Admission(AdmitError::QueueFull) => ours(503, "admission_full", "Too many turns wait for a reload."),
            Self::Cast(CastError::UnknownModel) => ours(
                404,
                "model_not_found",
                "No model, alias or agent of this name is configured.",
            ),
            Self::Cast(CastError::UnknownAgent) => ours(404, "agent_not_found", "No agent of this name is configured."),
        }
    }
}
