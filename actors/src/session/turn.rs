//! The main path of one turn: wait for its place, admit, cast, perform, end.

mod asking;
mod closing;
mod native;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use understudy_messages::client::{ClientChannel, ClientFrame};
use understudy_messages::clock::Instant;
use understudy_messages::failure::{CancelCause, Reason};
use understudy_messages::hooks::Scene;
use understudy_messages::provider::Perform;
use understudy_messages::registry::AdmitError;
use understudy_messages::session::RunTurn;
use understudy_messages::terminal::TurnFailure;
use understudy_messages::turn::{Candidate, Cast, Performance, SideEffects, TurnContext, TurnOutcome};
use understudy_providers::wire::RequestError;

pub(super) use self::closing::Closing;
use super::fault::no_room;
use super::memory::{Memory, NoRoom, Unread};
use super::{Session, SessionContext, failure, told};
use crate::capacity::{CapacityPermit, Whose};
use crate::provider::ledger::Ledgers;
use crate::registry::{CastError, Held};
use crate::telemetry::{QueueCause, Shed, TurnResult};

/// How long a conductor may take to end a turn that has been cancelled, before it counts as lost: longer than it waits
/// for a client that does not read.
const ENDING_GRACE: Duration = Duration::from_secs(10);

/// One turn, from acceptance to its end.
pub(super) struct Turn {
    run: RunTurn,
    /// `None` for a turn that belongs to none: nobody is before it, and nothing is remembered.
    session: Option<Session>,
    /// What the user says, where the session keeps it.
    asked: Vec<String>,
    /// What the session has kept of the turn, for a context engine.
    committed: Vec<String>,
    context: Arc<SessionContext>,
}

/// A turn's place in its session, and that among the turns of its agent where these are bounded.
type Places = (Option<OwnedSemaphorePermit>, Option<CapacityPermit>);

/// A turn that ended before anybody could be asked.
enum Refusal {
    Cancelled(CancelCause),
    SessionBusy,
    Fault(TurnFailure),
    AgentBusy(Shed),
    Room(NoRoom),
    Unreadable(RequestError),
    Admission(AdmitError),
    Cast(CastError),
}

impl Turn {
    pub(super) fn new(run: RunTurn, session: Option<Session>, context: Arc<SessionContext>) -> Self {
        Self {
            run,
            session,
            asked: Vec::new(),
            committed: Vec::new(),
            context,
        }
    }

    /// What is published should the turn's task be lost.
    pub(super) fn closing(&self) -> Closing {
        Closing::new(self.run.request.clone(), self.run.received, self.context.clone())
    }

    /// Where the answer goes.
    pub(super) fn client(&self) -> ClientChannel {
        self.run.client.clone()
    }

    /// Runs the turn. Exactly one ending goes to the client.
    pub(super) async fn play(mut self) {
        let closing = self.closing();
        let in_flight = closing.enter();
        let (places, held, waited) = match self.enter().await {
            Ok(entered) => entered,
            Err(refusal) => {
                closing.refused(refusal.result(), refusal.at_gate());
                return self.tell(refusal.failure()).await;
            }
        };
        let (turn, cast) = match self.stage(&held).await {
            Ok(staged) => staged,
            Err(error) => {
                let refusal = Refusal::Cast(error);
                closing.uncast(refusal.result(), held.generation());
                return self.tell(refusal.failure()).await;
            }
        };
        let selected = cast.candidates.first().map(|lead| lead.model.clone());
        let hooks = held.generation().hooks_of(&turn.agent);
        let performance = match self.claimed(&turn, &cast, hooks).await {
            Some(claimed) => claimed,
            None => match self.unguarded(&turn).await {
                Some(refused) => refused,
                None => self.perform(&held, &turn, cast).await,
            },
        };
        let (performance, change) = self.kept(&turn, selected.as_ref(), performance).await;
        self.commit(&turn).await;
        closing.ended(&turn, held.generation().id, &performance, waited);
        self.told_end(&turn, &performance);
        drop((places, in_flight));
        if let Some(change) = change {
            self.tell_change(change).await;
        }
    }

    /// Waits behind the session's other turns, then at the gate.
    async fn enter(&mut self) -> Result<(Places, Held, Duration), Refusal> {
        let began = self.context.clock.now();
        let place = self.wait_for_place().await?;
        self.open().await?;
        self.find_room()?;
        let asked = self.queued(QueueCause::SessionBusy, began);
        let run = &self.run;
        let admission = self.context.admission.admit(&run.request, run.origin, run.deadline);
        let held = tokio::select! {
            biased;
            held = admission => held.map_err(|why| self.in_vain(Refusal::Admission(why)))?,
            cause = self.run.cancel.cancelled() => return Err(Refusal::Cancelled(cause)),
        };
        let _booked = self.queued(QueueCause::AdmissionGate, asked);
        let among_agents = self.wait_among_agents(&held).await?;
        let entered = self.context.clock.now();
        self.recall(held.generation())?;
        Ok(((place, among_agents), held, entered.duration_since(began)))
    }

    /// A place among the turns of its agent, where these are bounded. What is asked from inside of a turn or a call needs none:
    /// whoever holds one may wait for it.
    async fn wait_among_agents(&self, held: &Held) -> Result<Option<CapacityPermit>, Refusal> {
        let (request, settings) = (&self.run.request, held.generation().roster.settings());
        let agent = held
            .generation()
            .roster
            .agent(request.agent.as_deref(), &request.facts.model);
        // an agent that is not known is told of by whoever casts
        let Some((agent, most)) = agent.ok().and_then(|agent| Some((agent, agent.max_concurrent?))) else {
            return Ok(None);
        };
        if held.is_nested() {
            return Ok(None);
        }
        let (whose, bound) = (Whose::Agent(agent.name.clone()), settings.limits.bound(most));
        let capacities = &self.context.capacities;
        tokio::select! {
            biased;
            entered = capacities.enter(&whose, &bound, &agent.name, self.run.deadline) => match entered {
                Ok(permit) => Ok(Some(permit)),
                Err(why) => Err(self.in_vain(Refusal::AgentBusy(why))),
            },
            cause = self.run.cancel.cancelled() => Err(Refusal::Cancelled(cause)),
        }
    }

    /// Why a wait has ended without a place: because of `why`, unless its caller's time is over.
    fn in_vain(&self, why: Refusal) -> Refusal {
        let now = self.context.clock.now();
        match self.run.deadline.is_some_and(|deadline| deadline <= now) {
            true => Refusal::Cancelled(CancelCause::CallerDeadline),
            false => why,
        }
    }

    async fn wait_for_place(&self) -> Result<Option<OwnedSemaphorePermit>, Refusal> {
        let Some(Session { place, .. }) = &self.session else {
            return Ok(None);
        };
        if let Ok(place) = place.clone().try_acquire_owned() {
            return Ok(Some(place));
        }
        let clock = &self.context.clock;
        let deadline = self.deadline(self.run.received, self.context.admission.queue_wait());
        tokio::select! {
            biased;
            place = place.clone().acquire_owned() => place.map(Some).map_err(|_| Refusal::SessionBusy),
            cause = self.run.cancel.cancelled() => Err(Refusal::Cancelled(cause)),
            () = clock.sleep_until(deadline) => Err(self.in_vain(Refusal::SessionBusy)),
        }
    }

    /// What its session remembers, where it belongs to one.
    fn memory(&self) -> Option<&Memory> {
        self.session.as_ref().map(|session| &*session.memory)
    }

    /// Makes sure that it is known what the session remembers.
    async fn open(&self) -> Result<(), Refusal> {
        let Some(memory) = self.memory() else {
            return Ok(());
        };
        let opened = tokio::select! {
            biased;
            opened = memory.open() => opened,
            cause = self.run.cancel.cancelled() => return Err(Refusal::Cancelled(cause)),
        };
        opened.map_err(|unread| match unread {
            Unread::Fault(fault) => Refusal::Fault(failure(&fault, &self.run.request.session)),
            Unread::Room(room) => Refusal::Room(room),
        })
    }

    /// The caller's deadline, or `limit` after `since`, whichever comes first.
    fn deadline(&self, since: Instant, limit: Duration) -> Instant {
        let own = since + limit;
        self.run.deadline.map_or(own, |callers| callers.min(own))
    }

    /// Books a wait that ends now.
    fn queued(&self, cause: QueueCause, since: Instant) -> Instant {
        let now = self.context.clock.now();
        self.context.telemetry.turns().queued(cause, now.duration_since(since));
        now
    }

    /// Who speaks, and who may answer.
    async fn stage(&self, held: &Held) -> Result<(Arc<TurnContext>, Cast), CastError> {
        let (generation, request) = (held.generation(), &self.run.request);
        let agent = generation
            .roster
            .agent(request.agent.as_deref(), &request.facts.model)?;
        let scene = Scene::new(request.clone(), agent.clone(), told::request, Some(held.origin()))
            .with_slots(self.memory().map(Memory::slots));
        let deadline = self.deadline(self.run.received, generation.roster.settings().timeouts.turn);
        let cast = self.cast(held, generation.hooks_of(agent), &scene, deadline).await?;
        let turn = TurnContext {
            request: request.clone(),
            client: self.run.client.clone(),
            cancel: self.run.cancel.clone(),
            received: self.run.received,
            deadline,
            effects: SideEffects::default(),
            retry: generation.roster.settings().retry,
            lease: held.lease(),
            hooks: generation.hooks_of(agent).clone(),
            tools: generation.tools_of(agent).clone(),
            engine: generation.engine_of(agent),
            scene,
            agent: agent.clone(),
            timeouts: generation.roster.settings().timeouts,
            providers: generation.providers(self.run.home),
        };
        Ok((Arc::new(turn), cast))
    }

    /// Lets the lead's provider conduct the turn, within the turn's budget and the caller's deadline.
    async fn perform(&self, held: &Held, turn: &Arc<TurnContext>, cast: Cast) -> Performance {
        let lead = self.lead(&cast, &held.generation().ledgers);
        let lead = lead.and_then(|lead| turn.providers.get(lead.provider));
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
    fn lead<'a>(&self, cast: &'a Cast, ledgers: &Ledgers) -> Option<&'a Arc<Candidate>> {
        let now = self.context.clock.now();
        let usable = |candidate: &&Arc<Candidate>| {
            let ledger = ledgers.get(candidate.provider);
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
        let outcome = TurnOutcome::Failed {
            reason: Reason::Unknown,
            after_content: turn.client.progress().is_answer(),
        };
        Performance::nothing(outcome, Some(failure))
    }

    async fn tell(&self, failure: TurnFailure) {
        self.send(ClientFrame::Failed(failure)).await;
    }

    async fn send(&self, frame: ClientFrame) {
        let grace = self.context.clock.now() + ENDING_GRACE;
        let told = self.run.client.send(frame);
        let _left_or_too_slow = self.context.clock.timeout_at(grace, told).await;
    }
}

impl Refusal {
    /// How it is booked. What the gate refused and what was shed has counters of its own.
    fn result(&self) -> TurnResult {
        match self {
            Self::Cancelled(_) => TurnResult::Cancelled,
            Self::Fault(_) => TurnResult::Error,
            Self::SessionBusy | Self::AgentBusy(_) | Self::Admission(_) => TurnResult::Rejected,
            Self::Room(_) | Self::Unreadable(_) | Self::Cast(_) => match self.failure().status < 500 {
                true => TurnResult::Rejected,
                false => TurnResult::Error,
            },
        }
    }

    /// Why the gate did not let it in, where that is what refused it.
    fn at_gate(&self) -> Option<AdmitError> {
        match self {
            Self::Admission(why) => Some(*why),
            Self::Cancelled(_)
            | Self::SessionBusy
            | Self::Fault(_)
            | Self::AgentBusy(_)
            | Self::Room(_)
            | Self::Unreadable(_)
            | Self::Cast(_) => None,
        }
    }

    fn failure(&self) -> TurnFailure {
        let ours = TurnFailure::ours;
        match self {
            Self::Cancelled(cause) => TurnFailure::cancelled(*cause, 0),
            Self::SessionBusy => ours(429, "session_busy", "Another turn of this session is still running."),
            Self::Fault(failure) => failure.clone(),
            Self::Room(room) => no_room(*room),
            Self::AgentBusy(why) => {
                let sentence = format!("The agent has as many turns as it may (max_concurrent), and {why}.");
                ours(429, "agent_busy", &sentence)
            }
            Self::Unreadable(error) => {
                let sentence = format!("With what the session remembers it is no request: {error}.");
                ours(500, "invalid_request", &sentence)
            }
            Self::Admission(AdmitError::Starting) => ours(503, "starting", "The gateway is starting."),
            Self::Admission(AdmitError::ShuttingDown) => ours(503, "shutting_down", "The gateway is shutting down."),
            Self::Admission(AdmitError::HeldTooLong) => ours(503, "admission_held", "A reload takes too long."),
            Self::Admission(AdmitError::QueueFull) => ours(503, "admission_full", "Too many turns wait for a reload."),
            Self::Admission(AdmitError::NestedTooDeep) => ours(
                400,
                "nested_too_deep",
                "Plugins that ask the gateway from inside of turns have done so too deep. Ask from fewer turns.",
            ),
            Self::Cast(CastError::UnknownModel) => ours(
                404,
                "model_not_found",
                "No model, alias or agent of this name is configured.",
            ),
            Self::Cast(CastError::NotServing(model)) => {
                let provider = &model.provider;
                let sentence = format!(
                    "The provider {provider} is a plugin's that does not serve: whoever runs the gateway has to look at its plugins."
                );
                ours(503, "provider_not_serving", &sentence)
            }
            Self::Cast(CastError::UnknownAgent) => ours(404, "agent_not_found", "No agent of this name is configured."),
        }
    }
}

#[cfg(test)]
mod tests;
