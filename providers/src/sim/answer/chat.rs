//! The answer as OpenAI's chat completions.

use serde_json::{Value, json};

use super::{Beat, CREATED, MadeAnswer};

pub(super) fn beats(answer: &MadeAnswer<'_>, include_usage: bool) -> Vec<Beat> {
    let delta = |delta: Value, finish: Option<&str>| {
        let choice = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
        chunk(answer, choice, include_usage.then_some(Value::Null))
    };
    let content = |content: Value| Beat::content(delta(content, None));
    let mut beats = vec![Beat::silent(delta(json!({ "role": "assistant", "content": "" }), None))];
    let thoughts = answer.script.reasoning.iter();
    beats.extend(thoughts.map(|text| content(json!({ "reasoning_content": text }))));
    beats.extend(answer.texts().iter().map(|text| content(json!({ "content": text }))));
    for (index, call) in (0..).zip(answer.calls()) {
        let index: u64 = index;
        let begun = json!({ "index": index, "id": call.id, "type": "function", "function": { "name": call.name, "arguments": "" } });
        beats.push(content(json!({ "tool_calls": [begun] })));
        for piece in call.arguments() {
            let piece = json!({ "index": index, "function": { "arguments": piece } });
            beats.push(Beat::silent(delta(json!({ "tool_calls": [piece] }), None)));
        }
    }
    beats.push(Beat::silent(delta(json!({}), Some(finish(answer)))));
    if include_usage {
        beats.push(Beat::silent(chunk(answer, json!([]), Some(usage(answer)))));
    }
    beats.push(Beat::silent("data: [DONE]\n\n".to_owned()));
    beats
}

pub(super) fn whole(answer: &MadeAnswer<'_>) -> Value {
    let mut message = json!({ "role": "assistant", "content": answer.text });
    if let Some(reasoning) = &answer.script.reasoning {
        message["reasoning_content"] = json!(reasoning);
    }
    let calls = answer.calls().map(|call| {
        let function = json!({ "name": call.name, "arguments": call.arguments.to_string() });
        json!({ "id": call.id, "type": "function", "function": function })
    });
    let calls: Vec<Value> = calls.collect();
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    json!({
        "id": answer.id("chatcmpl-sim-"), "object": "chat.completion", "created": CREATED, "model": answer.model,
        "choices": [{ "index": 0, "message": message, "finish_reason": finish(answer) }],
        "usage": usage(answer),
    })
}

fn finish(answer: &MadeAnswer<'_>) -> &'static str {
    match answer.script.tool_calls.is_empty() {
        true => "stop",
        false => "tool_calls",
    }
}

fn usage(answer: &MadeAnswer<'_>) -> Value {
    json!({
        "prompt_tokens": answer.usage.prompt_tokens,
        "completion_tokens": answer.usage.completion_tokens,
        "total_tokens": answer.total(),
    })
}

fn chunk(answer: &MadeAnswer<'_>, choices: Value, usage: Option<Value>) -> String {
    let mut chunk = json!({
        "id": answer.id("chatcmpl-sim-"), "object": "chat.completion.chunk", "created": CREATED, "model": answer.model,
        "choices": choices,
    });
    if let Some(usage) = usage {
        chunk["usage"] = usage;
    }
    format!("data: {chunk}\n\n")
}
