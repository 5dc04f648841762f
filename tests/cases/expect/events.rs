//! `events`: hooks that fired.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Complaints;
use super::rules::{Number, is_part_of};
use crate::hooks::Fired;
use crate::plugins::OBSERVER;
use crate::seen::Seen;

/// A hook, as cases name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hook {
    ModelFailover,
    ModelFailureTerminal,
    AgentEnd,
    /// `agent_end` of a turn that succeeded.
    AfterResponse,
    /// `agent_end` of a turn that did not.
    OnError,
    BeforePromptBuild,
    BeforeAgentStart,
    BeforeAgentRun,
    BeforeModelCall,
    BeforeToolCall,
}

impl Hook {
    pub(crate) const ALL: [Self; 10] = [
        Self::ModelFailover,
        Self::ModelFailureTerminal,
        Self::AgentEnd,
        Self::AfterResponse,
        Self::OnError,
        Self::BeforePromptBuild,
        Self::BeforeAgentStart,
        Self::BeforeAgentRun,
        Self::BeforeModelCall,
        Self::BeforeToolCall,
    ];

    /// The product's hook.
    pub(crate) const fn products(self) -> &'static str {
        match self {
            Self::ModelFailover => "model_failover",
            Self::ModelFailureTerminal => "model_failure_terminal",
            Self::AgentEnd | Self::AfterResponse | Self::OnError => "agent_end",
            Self::BeforePromptBuild | Self::BeforeAgentStart => "before_prompt_build",
            Self::BeforeAgentRun | Self::BeforeModelCall => "before_agent_run",
            Self::BeforeToolCall => "before_tool_call",
        }
    }

    /// Whether the product's hook with these facts is the case's. `model_failover` counts moves to another model only
    /// (design §2.5).
    pub(crate) fn concerns(self, facts: &Map<String, Value>) -> bool {
        let is = |name: &str, value: Value| facts.get(name) == Some(&value);
        match self {
            Self::ModelFailover => is("decision", "fallback_model".into()),
            Self::AfterResponse => is("success", true.into()),
            Self::OnError => is("success", false.into()),
            Self::ModelFailureTerminal
            | Self::AgentEnd
            | Self::BeforePromptBuild
            | Self::BeforeAgentStart
            | Self::BeforeAgentRun
            | Self::BeforeModelCall
            | Self::BeforeToolCall => true,
        }
    }
}

/// How often a hook fires, and with what.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventRule {
    pub(crate) hook: Hook,
    /// Of the firings that the other members describe; without it at least one.
    count: Option<Number>,
    /// Members that each firing has.
    payload: Option<Map<String, Value>>,
    /// Every firing, in order.
    payloads: Option<Vec<Map<String, Value>>>,
    /// Whose view is meant; without it the observer's.
    plugin: Option<String>,
    request: Option<String>,
}

impl EventRule {
    fn concerns(&self, fired: &Fired) -> bool {
        let asked = self
            .request
            .as_ref()
            .is_none_or(|request| fired.request.as_ref() == Some(request));
        let plugin = self.plugin.as_deref().unwrap_or(OBSERVER);
        fired.hook == self.hook && fired.plugin == plugin && asked
    }

    fn describes(&self, fired: &Fired) -> bool {
        let payload = self.payload.as_ref();
        payload.is_none_or(|payload| is_part_of(&Value::Object(payload.clone()), &fired.payload))
    }
}

pub(super) fn check(rules: &[EventRule], seen: &Seen, complaints: &mut Complaints) {
    for rule in rules {
        if let Some(request) = &rule.request {
            let sent = seen.replies.contains_key(request);
            complaints.unless(sent, "events.request", request, &"no such request");
        }
        let fired: Vec<_> = seen.fired.iter().filter(|fired| rule.concerns(fired)).collect();
        let count = fired.iter().filter(|fired| rule.describes(fired)).count() as u64;
        let admitted = rule.count.map_or(count > 0, |expected| expected.admits(count));
        complaints.unless(admitted, "events", rule, &fired);
        if let Some(payloads) = &rule.payloads {
            let expected = payloads.iter().cloned().map(Value::Object).collect();
            let payloads = fired.iter().map(|fired| fired.payload.clone()).collect();
            let admitted = is_part_of(&Value::Array(expected), &Value::Array(payloads));
            complaints.unless(admitted, "events.payloads", rule, &fired);
        }
    }
    complaints.unless(
        seen.events_missed == 0,
        "event tap",
        &"nothing missed",
        &seen.events_missed,
    );
}
