//! A guard that is compiled in: blocks tool calls whose arguments hold a forbidden word.

use std::sync::Arc;

use serde_json::Value;
use understudy_messages::hooks::{HookContext, HookEvent, HookResult, ToolVerdict};
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::HookOptions;

/// The guard.
pub struct Guard;

impl NativePlugin for Guard {
    fn id(&self) -> &str {
        "native-guard"
    }

    fn register(&self, api: &mut NativeApi, settings: &Value) -> Result<(), String> {
        let words: Vec<String> = match settings.get("words") {
            Some(words) => serde_json::from_value(words.clone()).map_err(|_| "words is no list of texts")?,
            None => vec!["rm -rf".to_owned()],
        };
        // quick: called on the turn's own thread, nothing is copied for it
        let judge = move |event: &HookEvent, _: &HookContext| Ok(judge(&words, event));
        api.on_quick("before_tool_call", HookOptions::default(), Arc::new(judge));
        Ok(())
    }
}

fn judge(words: &[String], event: &HookEvent) -> HookResult {
    let HookEvent::BeforeToolCall {
        params, conversation, ..
    } = event
    else {
        return HookResult::None;
    };
    let holds = |value: &Value, word: &str| value.to_string().contains(word);
    let Some(word) = words
        .iter()
        .find(|word| params.values().any(|value| holds(value, word)))
    else {
        return HookResult::None;
    };
    // taken apart when it is looked at, once for all who look
    let mut users = conversation
        .look()
        .messages
        .iter()
        .filter(|message| message["role"] == "user");
    let asked = users.any(|message| holds(&message["content"], word));
    let also = if asked { ", also when the user asks for it" } else { "" };
    HookResult::Tool(ToolVerdict {
        block: true,
        block_reason: Some(format!("The arguments hold \"{word}\", which is forbidden{also}.")),
        ..ToolVerdict::default()
    })
}
