//! `events`: hooks that fired.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Complaints;
use super::rules::{Number, is_part_of};
use crate::hooks::Fired;
use crate::seen::Seen;

/// A hook, as cases name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
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
    /// Whether nothing is seen of it without a plugin.
    pub(crate) fn is_seen_by_plugins_alone(self) -> bool {
        self == Self::BeforeToolCall
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
    plugin: Option<String>,
    request: Option<String>,
}

impl EventRule {
    /// Whose view of the hook is meant.
    pub(crate) fn plugin(&self) -> Option<&str> {
        self.plugin.as_deref()
    }

    fn concerns(&self, fired: &Fired) -> bool {
        let asked = self
            .request
            .as_ref()
            .is_none_or(|request| fired.request.as_ref() == Some(request));
        fired.hook == self.hook && asked
    }

    fn describes(&self, fired: &Fired) -> bool {
        let payload = self.payload.as_ref();
        payload.is_none_or(|payload| is_part_of(&Value::Object(payload.clone()), &fired.payload))
    }
}

pub(super) fn check(rules: &[EventRule], seen: &Seen, complaints: &mut Complaints) {
    for rule in rules.iter().filter(|rule| !rule.hook.is_seen_by_plugins_alone()) {
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
