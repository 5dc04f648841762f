//! Everything that was seen of a case, as data: what clients got, what upstreams received, what the gateway told.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use understudy::scrape::Scrape;
use understudy_messages::events::{Decision, Event, FailoverDecided, SharedEvent, TerminalFailure, TurnEnded};
use understudy_messages::turn::{AttemptOutcome, TurnOutcome};
use understudy_providers::sim::entries::{End, Record};
use understudy_providers::sim::headers::RequestHeaders;
use understudy_providers::sim::journal::Journal;

use crate::expect::events::Hook;
use crate::log::Log;
use crate::reply::Reply;
use crate::windows::Window;

/// What was seen of one case.
pub(crate) struct Seen {
    /// By request id.
    pub(crate) replies: BTreeMap<String, Reply>,
    pub(crate) calls: Vec<Call>,
    /// By target, idle ones included.
    pub(crate) open_connections: BTreeMap<String, u64>,
    /// Targets that were asked past the end of their script.
    pub(crate) violations: Vec<String>,
    /// When clients left, since the simulator's start.
    pub(crate) leaves: Vec<Duration>,
    pub(crate) fired: Vec<Fired>,
    pub(crate) events_missed: u64,
    /// All events, as JSON.
    pub(crate) event_texts: String,
    pub(crate) before: Page,
    pub(crate) after: Page,
    pub(crate) windows: Result<Vec<Window>, String>,
    pub(crate) config_debug: String,
    pub(crate) log: Log,
}

/// One upstream call. Times count from the simulator's start.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) target: String,
    pub(crate) started: Duration,
    pub(crate) end: Option<End>,
    pub(crate) headers: RequestHeaders,
    pub(crate) body: String,
}

/// A hook that fired, or would have: read from the event tap.
#[derive(Clone, Debug)]
pub(crate) struct Fired {
    pub(crate) hook: Hook,
    /// The request's id, once its turn has ended.
    pub(crate) request: Option<String>,
    pub(crate) payload: Value,
}

/// The metrics page.
#[derive(Default)]
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) scrape: Scrape,
}

impl Seen {
    /// The calls of one target, in order.
    pub(crate) fn calls_of(&self, target: &str) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(move |call| call.target == target)
    }
}

impl Page {
    pub(crate) fn new(text: String) -> Self {
        Self {
            scrape: Scrape::parse(&text),
            text,
        }
    }
}

impl From<&Record> for Call {
    fn from(record: &Record) -> Self {
        Self {
            target: record.target.to_string(),
            started: record.started,
            end: record.end,
            headers: record.headers.clone(),
            body: String::from_utf8_lossy(&record.body).into_owned(),
        }
    }
}

/// The calls of a journal, in order.
pub(crate) fn calls(journal: &Journal) -> Vec<Call> {
    journal.read(|entries| entries.records().map(Call::from).collect())
}

/// Connections open now, by target.
pub(crate) fn open_connections(journal: &Journal) -> BTreeMap<String, u64> {
    journal.read(|entries| {
        let tallies = entries.tallies().iter();
        tallies
            .map(|(target, tally)| (target.to_string(), tally.open_connections))
            .collect()
    })
}

/// The hooks that these events stand for, in order.
pub(crate) fn fired(events: &[SharedEvent]) -> Vec<Fired> {
    let ends = || {
        events.iter().filter_map(|event| match &**event {
            Event::TurnEnded(ended) => Some(ended),
            _ => None,
        })
    };
    let request_of = |turn| {
        ends()
            .find(|ended| ended.turn == turn)
            .map(|ended| ended.request.to_string())
    };
    let hooks = |event: &SharedEvent| match &**event {
        Event::FailoverDecided(decided) => failover(decided).into_iter().collect(),
        Event::TurnEnded(ended) => ended_hooks(ended),
        Event::TerminalFailure(failure) => vec![(Hook::ModelFailureTerminal, terminal_payload(failure))],
        _ => Vec::new(),
    };
    let turn_of = |event: &SharedEvent| match &**event {
        Event::FailoverDecided(decided) => Some(decided.turn),
        Event::TerminalFailure(failure) => Some(failure.turn),
        Event::TurnEnded(ended) => Some(ended.turn),
        _ => None,
    };
    let of_event = |event: &SharedEvent| {
        let request = turn_of(event).and_then(request_of);
        let fired = hooks(event).into_iter().map(move |(hook, payload)| Fired {
            hook,
            request: request.clone(),
            payload,
        });
        fired.collect::<Vec<_>>()
    };
    events.iter().flat_map(of_event).collect()
}

/// In the cases `model_failover` counts moves to another model only (design §2.5).
fn failover(decided: &FailoverDecided) -> Option<(Hook, Value)> {
    match decided.decision {
        Decision::FallbackModel => Some((Hook::ModelFailover, json!(decided))),
        Decision::RetrySame | Decision::RotateCredential | Decision::SurfaceError => None,
    }
}

/// `agent_end` for every turn.
fn ended_hooks(ended: &TurnEnded) -> Vec<(Hook, Value)> {
    let success = matches!(ended.outcome, TurnOutcome::Completed);
    let face = if success { Hook::AfterResponse } else { Hook::OnError };
    vec![
        (Hook::AgentEnd, json!({ "success": success })),
        (face, json!({ "success": success })),
    ]
}

fn terminal_payload(failure: &TerminalFailure) -> Value {
    let attempts = failure.attempts.iter().filter_map(|attempt| match &attempt.outcome {
        AttemptOutcome::Error { reason, .. } => Some(json!({ "target": attempt.model, "reason": reason })),
        AttemptOutcome::Ok | AttemptOutcome::Cancelled => None,
    });
    let attempts: Vec<_> = attempts.collect();
    json!({ "kind": failure.kind, "attempts": attempts, "final_message": failure.final_message })
}
