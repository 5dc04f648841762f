//! The answer as Anthropic's Messages.

use serde_json::{Value, json};

use super::{Beat, MadeAnswer, MadeCall, named};

/// What seals simulated reasoning.
const SIGNATURE: &str = "c2ltdWxhdGVk";

pub(super) fn beats(answer: &MadeAnswer<'_>) -> Vec<Beat> {
    let mut message = message(answer, json!([]));
    message["stop_reason"] = Value::Null;
    message["usage"]["output_tokens"] = json!(0);
    let mut beats = vec![silent(json!({ "type": "message_start", "message": message }))];
    let mut index: u64 = 0;
    let mut block = |begun: Value, deltas: Vec<Value>| {
        let silent = |data: Value| Beat::silent(named(&data));
        let delta = |delta| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        beats.push(silent(
            json!({ "type": "content_block_start", "index": index, "content_block": begun }),
        ));
        beats.extend(deltas.into_iter().map(|it| Beat::content(named(&delta(it)))));
        beats.push(silent(json!({ "type": "content_block_stop", "index": index })));
        index += 1;
    };
    if let Some(reasoning) = &answer.script.reasoning {
        let thought = json!({ "type": "thinking_delta", "thinking": reasoning });
        let sealed = json!({ "type": "signature_delta", "signature": SIGNATURE });
        block(
            json!({ "type": "thinking", "thinking": "", "signature": "" }),
            vec![thought, sealed],
        );
    }
    let texts = answer.texts();
    if !texts.is_empty() {
        let delta = |text: &String| json!({ "type": "text_delta", "text": text });
        block(json!({ "type": "text", "text": "" }), texts.iter().map(delta).collect());
    }
    for call in answer.calls() {
        let delta = |piece: &String| json!({ "type": "input_json_delta", "partial_json": piece });
        block(
            tool_use(&call, &json!({})),
            call.arguments().iter().map(delta).collect(),
        );
    }
    let stop = json!({ "stop_reason": stop_reason(answer), "stop_sequence": null });
    let usage = json!({ "output_tokens": answer.usage.completion_tokens });
    beats.push(silent(
        json!({ "type": "message_delta", "delta": stop, "usage": usage }),
    ));
    beats.push(silent(json!({ "type": "message_stop" })));
    beats
}

pub(super) fn whole(answer: &MadeAnswer<'_>) -> Value {
    let thinking = answer.script.reasoning.iter();
    let thinking = thinking.map(|text| json!({ "type": "thinking", "thinking": text, "signature": SIGNATURE }));
    let text = (!answer.text.is_empty()).then(|| json!({ "type": "text", "text": answer.text }));
    let calls = answer.calls().map(|call| tool_use(&call, call.arguments));
    let content: Vec<Value> = thinking.chain(text).chain(calls).collect();
    message(answer, json!(content))
}

fn silent(data: Value) -> Beat {
    Beat::silent(named(&data))
}

fn tool_use(call: &MadeCall<'_>, input: &Value) -> Value {
    json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
}

fn stop_reason(answer: &MadeAnswer<'_>) -> &'static str {
    match answer.script.tool_calls.is_empty() {
        true => "end_turn",
        false => "tool_use",
    }
}

fn message(answer: &MadeAnswer<'_>, content: Value) -> Value {
    let usage = answer.usage;
    json!({
        "id": answer.id("msg_sim_"), "type": "message", "role": "assistant", "model": answer.model,
        "content": content, "stop_reason": stop_reason(answer), "stop_sequence": null,
        "usage": { "input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens },
    })
}
