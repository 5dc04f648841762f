//! The answer as Gemini's generateContent.

use serde_json::{Value, json};

use super::{Beat, MadeAnswer};

pub(super) fn beats(answer: &MadeAnswer<'_>) -> Vec<Beat> {
    let thoughts = answer.script.reasoning.iter().map(thought);
    let texts = answer.texts().into_iter().map(|text| json!({ "text": text }));
    let content = thoughts.chain(texts).chain(calls(answer));
    let frame = |parts: Value, finish: Option<&str>| format!("data: {}\n\n", response(answer, parts, finish));
    let mut beats: Vec<Beat> = content.map(|part| Beat::content(frame(json!([part]), None))).collect();
    beats.push(Beat::silent(frame(json!([{ "text": "" }]), Some("STOP"))));
    beats
}

pub(super) fn whole(answer: &MadeAnswer<'_>) -> Value {
    let thoughts = answer.script.reasoning.iter().map(thought);
    let text = (!answer.text.is_empty()).then(|| json!({ "text": answer.text }));
    let parts: Vec<Value> = thoughts.chain(text).chain(calls(answer)).collect();
    response(answer, json!(parts), Some("STOP"))
}

fn thought(text: &String) -> Value {
    json!({ "text": text, "thought": true })
}

/// Calls come whole, and without ids.
fn calls(answer: &MadeAnswer<'_>) -> impl Iterator<Item = Value> {
    answer
        .calls()
        .map(|call| json!({ "functionCall": { "name": call.name, "args": call.arguments } }))
}

fn response(answer: &MadeAnswer<'_>, parts: Value, finish: Option<&str>) -> Value {
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({
        "candidates": [candidate], "modelVersion": answer.model, "responseId": answer.id("sim-"),
        "usageMetadata": {
            "promptTokenCount": answer.usage.prompt_tokens, "candidatesTokenCount": answer.usage.completion_tokens,
            "totalTokenCount": answer.total(),
        },
    })
}
