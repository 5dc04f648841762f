//! Handlers that are called without a gateway around them, and what they are called for.

use std::sync::Arc;

use actix::Recipient;
use bytes::Bytes;
use serde_json::{Map, json};
use understudy_actors::hooks::{Access, HookTable, Hooks, LoadedPlugin};
use understudy_actors::session::told;
use understudy_actors::supervision::Tasks;
use understudy_actors::telemetry::Telemetry;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{HookEvent, Snapshot};
use understudy_messages::plugin::CallHook;
use understudy_messages::request::Endpoint;
use understudy_plugins::registration::Registration;

use super::load::SENTENCE;

/// What the only plugin is called.
pub const ID: &str = "bench";

/// The hooks of one plugin that has registered this; it sees conversations if it `sees`.
pub fn alone(
    registration: Registration,
    port: Option<Recipient<CallHook>>,
    sees: bool,
    telemetry: Arc<Telemetry>,
) -> Hooks {
    let plugin = LoadedPlugin {
        id: ID.into(),
        access: Access {
            conversation: sees,
            injection: true,
            ..Access::default()
        },
        registration: Arc::new(registration),
        port,
        tools: None,
    };
    let (table, _left_out) = HookTable::new(&[plugin], Vec::new());
    Hooks::new(Arc::new(table), Clock::real(), Tasks::new(), telemetry)
}

/// The body of a request with so many messages of so many sentences.
pub fn conversation(messages: usize, sentences: usize) -> Bytes {
    let content = SENTENCE.repeat(sentences);
    let messages: Vec<_> = (0..messages)
        .map(|n| json!({ "role": if n % 2 == 0 { "user" } else { "assistant" }, "content": content }))
        .collect();
    json!({ "model": "bench", "messages": messages }).to_string().into()
}

/// The conversation as a turn has it: taken apart when somebody looks.
pub fn snapshot(body: &Bytes) -> Arc<Snapshot> {
    let body = body.clone();
    Snapshot::new(move || told::body(Endpoint::Chat, &body))
}

/// A model's call of a tool, as it is laid before guards.
pub fn tool_call(conversation: Arc<Snapshot>) -> HookEvent {
    let params = Map::from_iter([("command".to_owned(), "ls -l".into())]);
    HookEvent::BeforeToolCall {
        run_id: None,
        tool_name: "exec".into(),
        params: Arc::new(params),
        tool_call_id: "call_1".to_owned(),
        conversation,
    }
}
