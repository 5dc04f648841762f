//! Handles of turns: by agent, and of all together.

use std::collections::HashMap;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};
use understudy_messages::failure::Reason;
use understudy_messages::ids::Name;
use understudy_messages::turn::TurnOutcome;

use super::{
    FAILOVER_DELAY, OTHER, OVERHEAD, STREAMS, Series, TURN_ATTEMPTS, TURN_DURATION, TURN_QUEUE, TURNS, TURNS_IN_FLIGHT,
    TURNS_SHED, TURNS_WAITING,
};

/// How a turn ended, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnResult {
    /// The client got a whole answer.
    Ok,
    /// It did not.
    Error,
    /// Ended from outside.
    Cancelled,
    /// A guard refused it.
    Blocked,
    /// It was refused before any work.
    Rejected,
}

impl TurnResult {
    const ALL: [Self; 5] = [Self::Ok, Self::Error, Self::Cancelled, Self::Blocked, Self::Rejected];

    /// The label's spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
            Self::Blocked => "blocked",
            Self::Rejected => "rejected",
        }
    }
}

impl From<&TurnOutcome> for TurnResult {
    fn from(outcome: &TurnOutcome) -> Self {
        match outcome {
            TurnOutcome::Completed => Self::Ok,
            TurnOutcome::Failed { .. } => Self::Error,
            TurnOutcome::Cancelled { .. } => Self::Cancelled,
            TurnOutcome::Blocked => Self::Blocked,
        }
    }
}

/// Who answered, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedBy {
    /// The first candidate of the cast.
    Primary,
    /// A later one.
    Fallback,
    /// Nobody.
    None,
}

impl ServedBy {
    const ALL: [Self; 3] = [Self::Primary, Self::Fallback, Self::None];

    const fn as_label(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Fallback => "fallback",
            Self::None => "none",
        }
    }

    /// From the place in the cast of who answered.
    pub fn from_place(place: Option<usize>) -> Self {
        match place {
            Some(0) => Self::Primary,
            Some(_) => Self::Fallback,
            None => Self::None,
        }
    }
}

/// What a turn waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueCause {
    /// Another turn of its session.
    SessionBusy,
    /// A closed gate.
    AdmissionGate,
    /// A place among all turns.
    GatewayFull,
    /// A place among those of its agent.
    AgentFull,
    /// A place at a provider.
    ProviderFull,
}

impl QueueCause {
    const ALL: [Self; 5] = [
        Self::SessionBusy,
        Self::AdmissionGate,
        Self::GatewayFull,
        Self::AgentFull,
        Self::ProviderFull,
    ];

    const fn as_label(self) -> &'static str {
        match self {
            Self::SessionBusy => "session_busy",
            Self::AdmissionGate => "admission_gate",
            Self::GatewayFull => "gateway_full",
            Self::AgentFull => "agent_full",
            Self::ProviderFull => "provider_full",
        }
    }
}

/// Whose places are bounded, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bounded {
    /// The gateway's.
    Gateway,
    /// An agent's.
    Agent,
    /// A provider's.
    Provider,
}

impl Bounded {
    const ALL: [Self; 3] = [Self::Gateway, Self::Agent, Self::Provider];

    const fn as_label(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Agent => "agent",
            Self::Provider => "provider",
        }
    }
}

impl From<Bounded> for QueueCause {
    fn from(bounded: Bounded) -> Self {
        match bounded {
            Bounded::Gateway => Self::GatewayFull,
            Bounded::Agent => Self::AgentFull,
            Bounded::Provider => Self::ProviderFull,
        }
    }
}

/// Why a turn got no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Shed {
    /// As many wait as may.
    #[error("too many wait already")]
    QueueFull,
    /// It waited as long as it may.
    #[error("no place became free in time")]
    Waited,
}

impl Shed {
    const ALL: [Self; 2] = [Self::QueueFull, Self::Waited];

    const fn as_label(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Waited => "waited",
        }
    }
}

/// How a stream ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// Whole.
    Ok,
    /// The body ended or the connection broke before the answer was whole.
    Truncated,
    /// It fell silent.
    IdleTimeout,
    /// The provider sent an error after content.
    ErrorAfterContent,
    /// The turn was cancelled.
    Cancelled,
}

impl StreamEnd {
    const ALL: [Self; 5] = [
        Self::Ok,
        Self::Truncated,
        Self::IdleTimeout,
        Self::ErrorAfterContent,
        Self::Cancelled,
    ];

    const fn as_label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Truncated => "truncated",
            Self::IdleTimeout => "idle_timeout",
            Self::ErrorAfterContent => "error_after_content",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The handles of one agent.
pub struct AgentMetrics {
    ended: [[Counter; 3]; 5],
    in_flight: Gauge,
}

impl AgentMetrics {
    fn new(series: &Series, agent: &str) -> Self {
        let in_flight = series.gauge(&TURNS_IN_FLIGHT, &[("agent", agent)]);
        in_flight.increment(0.0);
        Self {
            ended: TurnResult::ALL.map(|result| {
                ServedBy::ALL.map(|served_by| {
                    let labels = [
                        ("agent", agent),
                        ("outcome", result.as_label()),
                        ("served_by", served_by.as_label()),
                    ];
                    series.touched(&TURNS, &labels)
                })
            }),
            in_flight,
        }
    }

    /// Counts a turn as in flight until the guard drops.
    pub fn enter(&self) -> InFlight {
        self.in_flight.increment(1.0);
        InFlight(self.in_flight.clone())
    }

    /// Books the end of a turn.
    pub fn ended(&self, result: TurnResult, served_by: ServedBy) {
        self.ended[result as usize][served_by as usize].increment(1);
    }
}

/// A turn that is counted until this drops.
pub struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// The handles of turns.
pub struct TurnMetrics {
    agents: HashMap<Name, AgentMetrics>,
    other: AgentMetrics,
    duration: [[Histogram; 3]; 5],
    attempts: [Histogram; 5],
    queue: [Histogram; 5],
    waiting: [Gauge; 3],
    shed: [[Counter; 2]; 3],
    overhead: Histogram,
    failover_delay: [Histogram; Reason::ALL.len()],
    streams: [Counter; 5],
}

impl TurnMetrics {
    pub(super) fn new(series: &Series, agents: &[Name]) -> Self {
        Self {
            agents: agents
                .iter()
                .map(|agent| (agent.clone(), AgentMetrics::new(series, agent)))
                .collect(),
            other: AgentMetrics::new(series, OTHER),
            duration: TurnResult::ALL.map(|result| {
                ServedBy::ALL.map(|served_by| {
                    let labels = [("outcome", result.as_label()), ("served_by", served_by.as_label())];
                    series.histogram(&TURN_DURATION, &labels)
                })
            }),
            attempts: TurnResult::ALL.map(|result| series.histogram(&TURN_ATTEMPTS, &[("outcome", result.as_label())])),
            queue: QueueCause::ALL.map(|cause| series.histogram(&TURN_QUEUE, &[("cause", cause.as_label())])),
            waiting: Bounded::ALL.map(|whose| {
                let waiting = series.gauge(&TURNS_WAITING, &[("bound", whose.as_label())]);
                waiting.increment(0.0);
                waiting
            }),
            shed: Bounded::ALL.map(|whose| {
                let labels = |why: Shed| [("bound", whose.as_label()), ("why", why.as_label())];
                Shed::ALL.map(|why| series.touched(&TURNS_SHED, &labels(why)))
            }),
            overhead: series.histogram(&OVERHEAD, &[]),
            failover_delay: Reason::ALL
                .map(|reason| series.histogram(&FAILOVER_DELAY, &[("reason", reason.as_label())])),
            streams: StreamEnd::ALL.map(|end| series.touched(&STREAMS, &[("end", end.as_label())])),
        }
    }

    /// The handles of an agent; turns whose agent is not known yet, or not configured, share one set.
    pub fn agent(&self, name: Option<&Name>) -> &AgentMetrics {
        name.and_then(|name| self.agents.get(name)).unwrap_or(&self.other)
    }

    /// Books a turn's length and the number of its upstream calls.
    pub fn ended(&self, result: TurnResult, served_by: ServedBy, duration: Duration, attempts: usize) {
        self.duration[result as usize][served_by as usize].record(duration);
        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        self.attempts[result as usize].record(attempts as f64);
    }

    /// Books a wait before work began.
    pub fn queued(&self, cause: QueueCause, wait: Duration) {
        self.queue[cause as usize].record(wait);
    }

    /// Counts a turn as one that waits for a place until the guard drops.
    pub fn waits(&self, whose: Bounded) -> InFlight {
        let waiting = &self.waiting[whose as usize];
        waiting.increment(1.0);
        InFlight(waiting.clone())
    }

    /// Books a turn that found no place.
    pub fn shed(&self, whose: Bounded, why: Shed) {
        self.shed[whose as usize][why as usize].increment(1);
    }

    /// Books the gateway's own share of a turn.
    pub fn overhead(&self, own: Duration) {
        self.overhead.record(own);
    }

    /// Books what a failover cost the client: from the first failure to the successor's first byte.
    pub fn failover_delay(&self, reason: Reason, delay: Duration) {
        self.failover_delay[reason as usize].record(delay);
    }

    /// Books how a stream ended.
    pub fn stream(&self, end: StreamEnd) {
        self.streams[end as usize].increment(1);
    }
}
