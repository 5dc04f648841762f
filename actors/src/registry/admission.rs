//! How a turn gets its lease. Gate open: an atomic and an `arc_swap` load. Gate closed: it waits at the registry, in order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actix::{Message, Recipient};
use tokio::sync::oneshot;
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::origin::OriginToken;
use understudy_messages::ports::Slot;
use understudy_messages::registry::{AdmissionState, AdmitError};
use understudy_messages::turn::TurnRequest;

use crate::supervision::Supervision;
use crate::telemetry::AdmissionMetrics;

use super::generation::Generation;
use super::held::{Agents, Comer, Held};
use super::origins::{Parent, Within};
use super::published::Published;

/// How long a turn waits at a closed gate, unless the reload says that it takes longer: longer than a reload usually waits for those
/// inside. With equal times one that came as the gate closed could be refused before the old generation goes on.
const GATE_WAIT: Duration = Duration::from_secs(75);
/// How many turns may wait at a closed gate.
const GATE_QUEUE: usize = 100_000;

/// Wait for the closed gate. Asked only when the fast path found it closed.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Held, AdmitError>")]
pub struct AdmitTurn(pub(super) Comer);

/// The way in, for every turn.
#[derive(Clone, Debug)]
pub struct Admission {
    published: Arc<Published>,
    registry: Arc<Slot<Recipient<AdmitTurn>>>,
    clock: Clock,
    metrics: AdmissionMetrics,
}

impl Admission {
    /// Admission to whatever `published` holds; `registry` is asked when the gate is closed.
    pub fn new(
        published: Arc<Published>,
        registry: Arc<Slot<Recipient<AdmitTurn>>>,
        supervision: &Supervision,
    ) -> Self {
        Self {
            published,
            registry,
            clock: supervision.clock.clone(),
            metrics: supervision.telemetry.admissions(),
        }
    }

    /// How long a turn may wait behind another of its session.
    pub fn queue_wait(&self) -> Duration {
        let serving = self.published.load();
        serving.map_or_else(Duration::default, |serving| {
            serving.roster.settings().session.queue_wait
        })
    }

    /// Admits a turn. One that is asked from inside of a turn that it may come in beside does so. Any other waits at a closed gate
    /// until `callers`, and at most 75 s, or as long as the reload that closed it and a little longer.
    /// **Cancel safety:** a cancelled wait gives up its place.
    ///
    /// # Errors
    /// Why the turn may not run.
    pub async fn admit(
        &self,
        turn: &Arc<TurnRequest>,
        origin: Option<OriginToken>,
        callers: Option<Instant>,
    ) -> Result<Held, AdmitError> {
        let now = self.clock.now();
        let parent = origin.and_then(|token| self.published.origins().find(token));
        let Ok(within) = Within::of(parent.as_ref()) else {
            // its caller's fault: the gate has refused nothing
            return Err(AdmitError::NestedTooDeep);
        };
        let turn = turn.clone();
        let comer = Comer { turn, within };
        let serving = self.published.load();
        let waits = serving.is_some() && !self.published.closing();
        let beside = parent
            .as_ref()
            .and_then(Parent::turn)
            .and_then(|parent| parent.lend(&comer, now));
        let held = beside.or_else(|| Held::enter(serving?, &comer, now));
        // nobody is held for longer by this than the turn itself lives
        drop(parent);
        if let Some(held) = held {
            self.metrics.admitted();
            return Ok(held);
        }
        if waits {
            self.metrics.held();
        }
        let answer = self.wait(comer, now + GATE_WAIT, callers).await;
        let ended = self.clock.now();
        let waited = waits.then(|| ended.duration_since(now));
        let is_late = callers.is_some_and(|callers| callers <= ended);
        self.metrics.answered(&answer, waited, is_late);
        answer
    }

    /// Waits at a closed gate.
    async fn wait(&self, comer: Comer, usual: Instant, callers: Option<Instant>) -> Result<Held, AdmitError> {
        let asked = self.ask(comer);
        tokio::pin!(asked);
        loop {
            // a reload that waits, and then recovers, says so as it goes on
            let until = self.published.gives_up(usual);
            let over = callers.filter(|callers| *callers <= until);
            match self.clock.timeout_at(over.unwrap_or(until), &mut asked).await {
                Ok(admitted) => return admitted,
                Err(_elapsed) if over.is_none() && self.published.gives_up(usual) > until => {}
                Err(_elapsed) => return Err(AdmitError::HeldTooLong),
            }
        }
    }
}

impl Admission {
    /// Asks the registry for a place. Where it dies meanwhile, the one that is started in its place is asked.
    async fn ask(&self, comer: Comer) -> Result<Held, AdmitError> {
        loop {
            let next = self.published.under_way().next();
            tokio::pin!(next);
            next.as_mut().enable();
            let registry = self.registry.get().ok_or(AdmitError::Starting)?;
            let answer = registry.send(AdmitTurn(comer.clone())).await;
            match answer.unwrap_or(Err(AdmitError::ShuttingDown)) {
                // nobody has closed the gate for good: it is the registry that has died
                Err(AdmitError::ShuttingDown) if !self.published.closing() => next.await,
                answer => return answer,
            }
        }
    }
}

/// Who waits at the gate, and in which state it is. Owned by the registry.
#[derive(Debug)]
pub(super) struct Turnstile {
    state: AdmissionState,
    waiting: VecDeque<Waiting>,
    capacity: usize,
}

/// A turn at a closed gate, and where its answer goes.
type Waiting = (Comer, Answer);
type Answer = oneshot::Sender<Result<Held, AdmitError>>;

impl Default for Turnstile {
    fn default() -> Self {
        Self {
            state: AdmissionState::Starting,
            waiting: VecDeque::new(),
            capacity: GATE_QUEUE,
        }
    }
}

impl Turnstile {
    pub(super) fn state(&self) -> AdmissionState {
        self.state
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.iter().filter(|(_, answer)| !answer.is_closed()).count()
    }

    /// A turn asks for the serving generation: now, later or never.
    pub(super) fn ask(
        &mut self,
        comer: Comer,
        serving: Option<&Arc<Generation>>,
        now: Instant,
    ) -> oneshot::Receiver<Result<Held, AdmitError>> {
        let (answer, answered) = oneshot::channel();
        match (self.state, serving) {
            (AdmissionState::Closed, _) => refuse(answer, AdmitError::ShuttingDown),
            (AdmissionState::Starting, _) | (AdmissionState::Open, None) => refuse(answer, AdmitError::Starting),
            (AdmissionState::Open, Some(serving)) => let_in((comer, answer), serving, now),
            (AdmissionState::Held, serving) => {
                // the gate of its agent may be open, or have opened meanwhile
                match serving.and_then(|serving| Held::enter(serving.clone(), &comer, now)) {
                    Some(held) => tell(answer, Ok(held)),
                    None => self.queue((comer, answer)),
                }
            }
        }
        answered
    }

    fn queue(&mut self, turn: Waiting) {
        self.waiting.retain(|(_, answer)| !answer.is_closed());
        match self.waiting.len() < self.capacity {
            true => self.waiting.push_back(turn),
            false => refuse(turn.1, AdmitError::QueueFull),
        }
    }

    /// Closes the gates of some agents in `serving`: their turns wait from now on. A gate that was closed for good stays so.
    pub(super) fn hold(&mut self, serving: &Generation, agents: &Agents) {
        if self.state != AdmissionState::Closed {
            self.state = AdmissionState::Held;
            serving.close(agents);
        }
    }

    /// Opens the gate of `serving`, which may be a new generation: those who waited come first, in order.
    pub(super) fn open(&mut self, serving: &Arc<Generation>, now: Instant) {
        if self.state == AdmissionState::Closed {
            return;
        }
        self.state = AdmissionState::Open;
        serving.reopen();
        for turn in self.waiting.drain(..) {
            let_in(turn, serving, now);
        }
    }

    /// Closes the gate for good.
    pub(super) fn close(&mut self, serving: Option<&Generation>) {
        self.state = AdmissionState::Closed;
        if let Some(serving) = serving {
            serving.close(&Agents::All);
        }
        for (_, answer) in self.waiting.drain(..) {
            refuse(answer, AdmitError::ShuttingDown);
        }
    }
}

fn let_in((comer, answer): Waiting, serving: &Arc<Generation>, now: Instant) {
    let admitted = Held::enter(serving.clone(), &comer, now).ok_or(AdmitError::Starting);
    tell(answer, admitted);
}

fn refuse(answer: Answer, error: AdmitError) {
    tell(answer, Err(error));
}

fn tell(answer: Answer, admitted: Result<Held, AdmitError>) {
    let _gone_meanwhile = answer.send(admitted);
}

#[cfg(test)]
mod tests;
