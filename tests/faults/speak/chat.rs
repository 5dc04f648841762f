//! OpenAI chat completions.

use serde_json::{Value, json};

use super::{Frames, INPUT, data, error};
use crate::scenario::Refusal;
use understudy_messages::settings::Api;

pub(super) fn frames(said: &[String], filtered: bool) -> Frames {
    let chunk = |delta: Value, finish: Value| {
        data(
            &json!({ "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }),
        )
    };
    let text = said.iter().map(|text| chunk(json!({ "content": text }), Value::Null));
    Frames {
        before: vec![chunk(json!({ "role": "assistant", "content": "" }), Value::Null)],
        text: text.collect(),
        call: vec![chunk(
            json!({ "tool_calls": [{ "index": 0, "id": "t1", "type": "function",
                "function": { "name": "look", "arguments": "{\"at" } }] }),
            Value::Null,
        )],
        finish: vec![
            chunk(json!({}), json!(if filtered { "content_filter" } else { "stop" })),
            data(
                &json!({ "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [], "usage": usage(said.len() as u64) }),
            ),
        ],
        closing: vec!["data: [DONE]\n\n".to_owned()],
        error: data(&error(Refusal::Overloaded, Api::OpenaiChat).1),
        malformed: "data: {\"choices\":[{\"in\n\n".to_owned(),
    }
}

pub(super) fn whole(text: &str, output: u64) -> Value {
    json!({ "id": "c1", "object": "chat.completion", "created": 1, "model": "m", "usage": usage(output),
        "choices": [{ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": text } }] })
}

fn usage(output: u64) -> Value {
    json!({ "prompt_tokens": INPUT, "completion_tokens": output, "total_tokens": INPUT + output })
}
