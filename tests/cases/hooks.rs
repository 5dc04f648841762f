//! The hooks that plugins saw fire, in the words of cases.

use serde_json::{Map, Value, json};
use understudy_messages::events::{Decision, Event, SharedEvent};

use crate::expect::events::Hook;
use crate::plugins::Call;

/// A hook that a plugin saw fire.
#[derive(Clone, Debug)]
pub(crate) struct Fired {
    pub(crate) plugin: String,
    pub(crate) hook: Hook,
    /// The request's id, once its turn has ended.
    pub(crate) request: Option<String>,
    pub(crate) payload: Value,
}

/// The hooks that plugins heard of, in order. The events name the requests, and tell failures from rests: that a candidate
/// which rests was passed over is told to plugins, and no case counts it.
pub(crate) fn fired(calls: Vec<Call>, events: &[SharedEvent]) -> Vec<Fired> {
    let counts = |call: &Call| call.hook != Hook::ModelFailover || has_failed(events, call);
    let fired = calls.into_iter().filter(counts).map(|call| Fired {
        request: call.turn.and_then(|turn| request(events, &turn)),
        payload: payload(call.hook, call.facts),
        hook: call.hook,
        plugin: call.plugin,
    });
    fired.collect()
}

/// Whether somebody failed before this failover.
fn has_failed(events: &[SharedEvent], call: &Call) -> bool {
    let from = target(&call.facts, "sourceProvider", "sourceModel");
    events.iter().any(|event| match &**event {
        Event::FailoverDecided(decided) => {
            Some(decided.turn.to_string()) == call.turn
                && decided.from.to_string() == from
                && decided.decision == Decision::FallbackModel
        }
        Event::TurnEnded(_)
        | Event::CandidateSkipped(_)
        | Event::WindowOpened { .. }
        | Event::Probed { .. }
        | Event::TerminalFailure(_)
        | Event::StreamContinued(_)
        | Event::ContextFitted { .. }
        | Event::TranscriptCut { .. }
        | Event::SessionFault { .. }
        | Event::GenerationPublished { .. }
        | Event::PluginsChanged { .. }
        | Event::ReloadProgress(_) => false,
    })
}

/// The request whose turn it is.
fn request(events: &[SharedEvent], turn: &str) -> Option<String> {
    events.iter().find_map(|event| match &**event {
        Event::TurnEnded(ended) if ended.turn.to_string() == turn => Some(ended.request.to_string()),
        Event::TurnEnded(_)
        | Event::FailoverDecided(_)
        | Event::CandidateSkipped(_)
        | Event::WindowOpened { .. }
        | Event::Probed { .. }
        | Event::TerminalFailure(_)
        | Event::StreamContinued(_)
        | Event::ContextFitted { .. }
        | Event::TranscriptCut { .. }
        | Event::SessionFault { .. }
        | Event::GenerationPublished { .. }
        | Event::PluginsChanged { .. }
        | Event::ReloadProgress(_) => None,
    })
}

/// The payload under the names that cases have for its members.
fn payload(hook: Hook, facts: Map<String, Value>) -> Value {
    match hook {
        Hook::ModelFailover => json!({
            "from": target(&facts, "sourceProvider", "sourceModel"), "to": target(&facts, "provider", "model"),
            "reason": facts.get("failoverReason"), "status": facts.get("status"),
        }),
        Hook::ModelFailureTerminal => json!({
            "kind": facts.get("kind"), "final_message": facts.get("finalMessage"),
            "attempts": facts.get("attempts").and_then(Value::as_array).map(|tried| tried.iter().map(attempt).collect::<Vec<_>>()),
        }),
        Hook::AgentEnd
        | Hook::AfterResponse
        | Hook::OnError
        | Hook::BeforePromptBuild
        | Hook::BeforeAgentStart
        | Hook::BeforeAgentRun
        | Hook::BeforeModelCall
        | Hook::BeforeToolCall => Value::Object(facts),
    }
}

fn attempt(tried: &Value) -> Value {
    let target = tried.as_object().map(|tried| target(tried, "provider", "model"));
    json!({ "target": target, "reason": tried["reason"] })
}

fn target(facts: &Map<String, Value>, provider: &str, model: &str) -> String {
    let part = |name: &str| facts.get(name).and_then(Value::as_str).unwrap_or("none");
    format!("{}/{}", part(provider), part(model))
}
