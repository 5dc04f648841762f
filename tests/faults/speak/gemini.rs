//! Gemini: its streams have no closing word.

use serde_json::{Value, json};
use understudy_messages::settings::Api;

use super::{Frames, INPUT, data, error};
use crate::scenario::Refusal;

pub(super) fn frames(said: &[String], filtered: bool) -> Frames {
    let text = said.iter().map(|text| {
        let candidate = json!({ "index": 0, "content": { "role": "model", "parts": [{ "text": text }] } });
        data(&json!({ "candidates": [candidate], "modelVersion": "m", "responseId": "r1" }))
    });
    let mut finish = whole("", said.len() as u64);
    if filtered {
        finish["candidates"][0]["finishReason"] = "SAFETY".into();
    }
    let call = json!({ "functionCall": { "name": "look", "args": { "at": "sea" } } });
    let call = json!({ "index": 0, "content": { "role": "model", "parts": [call] } });
    Frames {
        before: Vec::new(),
        text: text.collect(),
        call: vec![data(
            &json!({ "candidates": [call], "modelVersion": "m", "responseId": "r1" }),
        )],
        finish: vec![data(&finish)],
        closing: Vec::new(),
        error: data(&error(Refusal::Overloaded, Api::Gemini).1),
        malformed: "data: {\"candidates\":[{\"con\n\n".to_owned(),
    }
}

pub(super) fn whole(text: &str, output: u64) -> Value {
    json!({
        "candidates": [{ "index": 0, "finishReason": "STOP",
            "content": { "role": "model", "parts": [{ "text": text }] } }],
        "usageMetadata": { "promptTokenCount": INPUT, "candidatesTokenCount": output, "totalTokenCount": INPUT + output },
        "modelVersion": "m", "responseId": "r1",
    })
}
