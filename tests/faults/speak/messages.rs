//! Anthropic Messages.

use serde_json::{Value, json};
use understudy_messages::settings::Api;

use super::{Frames, INPUT, error, event};
use crate::scenario::Refusal;

pub(super) fn frames(said: &[String], filtered: bool) -> Frames {
    let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": INPUT, "output_tokens": 1 } });
    let block = json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } });
    let text = said.iter().map(|text| {
        let delta = json!({ "type": "text_delta", "text": text });
        event(
            "content_block_delta",
            &json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        )
    });
    let output = said.len();
    Frames {
        before: vec![
            event("message_start", &json!({ "type": "message_start", "message": message })),
            event("content_block_start", &block),
        ],
        text: text.collect(),
        call: vec![
            event(
                "content_block_stop",
                &json!({ "type": "content_block_stop", "index": 0 }),
            ),
            event(
                "content_block_start",
                &json!({ "type": "content_block_start", "index": 1,
                "content_block": { "type": "tool_use", "id": "t1", "name": "look", "input": {} } }),
            ),
            event(
                "content_block_delta",
                &json!({ "type": "content_block_delta", "index": 1,
                "delta": { "type": "input_json_delta", "partial_json": "{\"at" } }),
            ),
        ],
        finish: vec![
            event(
                "content_block_stop",
                &json!({ "type": "content_block_stop", "index": 0 }),
            ),
            event(
                "message_delta",
                &json!({ "type": "message_delta", "usage": { "output_tokens": output },
                "delta": { "stop_reason": if filtered { "refusal" } else { "end_turn" }, "stop_sequence": null } }),
            ),
        ],
        closing: vec![event("message_stop", &json!({ "type": "message_stop" }))],
        error: event("error", &error(Refusal::Overloaded, Api::AnthropicMessages).1),
        malformed: "event: content_block_delta\ndata: {\"type\":\"content_bl\n\n".to_owned(),
    }
}

pub(super) fn whole(text: &str, output: u64) -> Value {
    json!({ "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "stop_sequence": null, "content": [{ "type": "text", "text": text }],
        "usage": { "input_tokens": INPUT, "output_tokens": output } })
}
