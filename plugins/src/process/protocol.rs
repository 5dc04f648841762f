//! The lines that gateway and child say to each other; `docs/plugins.md` describes them.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use understudy_messages::hooks::HookContext;
use understudy_messages::hooks::wire::EventView;
use understudy_messages::service::{RouteRequest, ServiceTurn};

/// The version of this protocol.
pub(super) const VERSION: u32 = 1;

/// What the gateway says.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum ToChild<'a> {
    /// The first line: who are you?
    Register {
        id: &'a str,
        config: &'a Value,
        protocol: u32,
    },
    /// Run a handler.
    Hook {
        call: u64,
        handler: u32,
        hook: &'static str,
        event: EventView<'a>,
        context: &'a HookContext,
    },
    /// Ask a policy.
    Policy {
        call: u64,
        policy: &'a str,
        event: EventView<'a>,
        context: &'a HookContext,
    },
    /// Run a tool.
    Tool {
        call: u64,
        tool: &'a str,
        tool_call_id: &'a str,
        params: &'a Map<String, Value>,
        context: &'a HookContext,
    },
    /// Start or stop a service.
    Service {
        call: u64,
        service: &'a str,
        turn: ServiceTurn,
    },
    /// Answer a request to a route.
    Route {
        call: u64,
        route: &'a str,
        request: &'a RouteRequest,
    },
    /// Ask the context engine.
    Engine {
        call: u64,
        work: &'static str,
        told: &'a Value,
        context: &'a HookContext,
    },
    /// Nobody waits for this call any longer.
    Cancel { call: u64 },
    /// The last line.
    Stop,
}

impl ToChild<'_> {
    /// The line, with its end.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// What a child says.
#[derive(Debug, Deserialize)]
pub(super) struct FromChild {
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    pub(super) call: Option<u64>,
    /// Absent is no opinion; null is null.
    #[serde(default, deserialize_with = "present")]
    pub(super) result: Option<Value>,
    pub(super) message: Option<String>,
    pub(super) level: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// The first line; what it holds is a [`crate::declared::Declared`].
    Registered,
    /// What a call came to.
    Result,
    /// A call failed; without a number, the registration.
    Error,
    /// A line for the log.
    Log,
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}
