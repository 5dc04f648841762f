//! A plugin with the tool of the recordings, and a guard that does with its calls what it did there.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{Hook, HookResult};
use understudy_messages::plugin::CallTool;
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::{HookOptions, ToolRegistration};

use crate::trace::Guard;

/// How long a guard thinks that thinks for too long.
const TOO_LONG: Duration = Duration::from_secs(17);

pub(crate) struct Gate {
    pub(crate) guard: Guard,
    pub(crate) clock: Clock,
}

impl NativePlugin for Gate {
    fn id(&self) -> &str {
        "gate"
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        let (guard, clock) = (self.guard, self.clock.clone());
        let judge = Arc::new(move |_, _, _| {
            let clock = clock.clone();
            async move {
                let verdict = match guard {
                    Guard::Passes => return Ok(HookResult::None),
                    Guard::Throws => return Err("GATE-THROWS".to_owned()),
                    Guard::Blocks => json!({ "block": true, "blockReason": "GATE-BLOCK-REASON" }),
                    Guard::Rewrites => json!({ "params": { "command": "echo REWRITTEN" } }),
                    Guard::Thinks => {
                        clock.sleep(TOO_LONG).await;
                        return Ok(HookResult::None);
                    }
                };
                HookResult::read(Hook::BeforeToolCall, verdict).map_err(|invalid| invalid.to_string())
            }
            .boxed()
        });
        let options = HookOptions {
            priority: 100,
            ..HookOptions::default()
        };
        api.on("before_tool_call", options, judge);
        let tool = ToolRegistration {
            name: "exec".to_owned(),
            description: Some("runs a command".to_owned()),
            parameters: Some(r#"{"type":"object","properties":{"command":{"type":"string"}}}"#.to_owned()),
            replay_safe: false,
        };
        let says = |call: CallTool| {
            let command = call.params.get("command").and_then(Value::as_str).unwrap_or_default();
            let said = command.strip_prefix("echo ").unwrap_or_default().to_owned();
            async move { Ok(json!({ "content": [{ "type": "text", "text": said }] })) }.boxed()
        };
        api.tool(tool, Arc::new(says));
        Ok(())
    }
}
