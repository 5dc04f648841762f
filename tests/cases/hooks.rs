//! The hooks that events stand for, until there are hooks.

use serde_json::{Value, json};
use understudy_messages::events::{Decision, Event, FailoverDecided, SharedEvent, TerminalFailure, TurnEnded};
use understudy_messages::ids::TurnId;
use understudy_messages::turn::{AttemptOutcome, AttemptRecord, TurnOutcome};

use crate::expect::events::Hook;

/// A hook that would have fired.
#[derive(Clone, Debug)]
pub(crate) struct Fired {
    pub(crate) hook: Hook,
    /// The request's id, once its turn has ended.
    pub(crate) request: Option<String>,
    pub(crate) payload: Value,
}

/// The hooks that these events stand for, in order.
pub(crate) fn fired(events: &[SharedEvent]) -> Vec<Fired> {
    let hooks = events.iter().flat_map(|event| hooks(event));
    hooks
        .map(|(turn, hook, payload)| Fired {
            hook,
            request: request(events, turn),
            payload,
        })
        .collect()
}

/// The request whose turn it is.
fn request(events: &[SharedEvent], turn: TurnId) -> Option<String> {
    events.iter().find_map(|event| match &**event {
        Event::TurnEnded(ended) if ended.turn == turn => Some(ended.request.to_string()),
        Event::TurnEnded(_)
        | Event::FailoverDecided(_)
        | Event::CandidateSkipped(_)
        | Event::WindowOpened { .. }
        | Event::Probed { .. }
        | Event::TerminalFailure(_)
        | Event::StreamContinued(_)
        | Event::ContextFitted { .. }
        | Event::TranscriptCut { .. }
        | Event::GenerationPublished { .. } => None,
    })
}

fn hooks(event: &Event) -> Vec<(TurnId, Hook, Value)> {
    match event {
        Event::FailoverDecided(decided) => failover(decided).into_iter().collect(),
        Event::TerminalFailure(terminal) => vec![(terminal.turn, Hook::ModelFailureTerminal, failure(terminal))],
        Event::TurnEnded(ended) => agent_end(ended).into(),
        Event::CandidateSkipped(_)
        | Event::WindowOpened { .. }
        | Event::Probed { .. }
        | Event::StreamContinued(_)
        | Event::ContextFitted { .. }
        | Event::TranscriptCut { .. }
        | Event::GenerationPublished { .. } => Vec::new(),
    }
}

/// In the cases `model_failover` counts moves to another model only (design §2.5).
fn failover(decided: &FailoverDecided) -> Option<(TurnId, Hook, Value)> {
    match decided.decision {
        Decision::FallbackModel => Some((decided.turn, Hook::ModelFailover, json!(decided))),
        Decision::RetrySame | Decision::RotateCredential | Decision::SurfaceError => None,
    }
}

fn failure(terminal: &TerminalFailure) -> Value {
    let failed = |attempt: &AttemptRecord| match &attempt.outcome {
        AttemptOutcome::Error { reason, .. } => Some(json!({ "target": attempt.model, "reason": reason })),
        AttemptOutcome::Ok | AttemptOutcome::Cancelled => None,
    };
    let attempts: Vec<_> = terminal.attempts.iter().filter_map(failed).collect();
    json!({ "kind": terminal.kind, "final_message": terminal.final_message, "attempts": attempts })
}

/// One hook for every turn; cases also name it by its success.
fn agent_end(ended: &TurnEnded) -> [(TurnId, Hook, Value); 2] {
    let success = match ended.outcome {
        TurnOutcome::Completed => true,
        TurnOutcome::Failed { .. } | TurnOutcome::Cancelled { .. } | TurnOutcome::Blocked => false,
    };
    let by_success = if success { Hook::AfterResponse } else { Hook::OnError };
    [Hook::AgentEnd, by_success].map(|hook| (ended.turn, hook, json!({ "success": success })))
}
