//! Answers in the words of the recordings, and how they differ.
//!
//! The recordings keep each provider's own words for why an answer ended, and its own way to count tokens. Tables here
//! turn those into what an answer says in all formats alike; they are not those of the gateway.

use serde_json::{Map, Value, json};
use understudy_messages::answer::Finish;
use understudy_messages::failure::ProviderWords;
use understudy_messages::settings::Api;
use understudy_providers::wire::Answer;

/// The answer in the words of the recordings.
pub(crate) fn normalized(answer: &Answer, end: &str) -> Map<String, Value> {
    let calls = answer
        .tool_calls
        .iter()
        .map(|call| json!({"id": call.id, "name": call.name, "arguments": arguments(&call.arguments)}));
    let mut map = Map::new();
    map.insert("end".into(), end.into());
    map.insert("text".into(), answer.text.as_str().into());
    map.insert("tool_calls".into(), calls.collect());
    map.insert("finish".into(), answer.finish.map(finish).into());
    if let Some(usage) = answer.usage {
        let usage = json!({"input": usage.input, "output": usage.output, "reasoning": usage.reasoning,
            "cache": usage.cache_read + usage.cache_write});
        map.insert("usage".into(), usage);
    }
    if !answer.refusal.is_empty() {
        map.insert("refusal".into(), answer.refusal.as_str().into());
    }
    let reasoning = answer.reasoning.chars().count();
    if reasoning > 0 {
        map.insert("reasoning_chars".into(), reasoning.into());
    }
    if let Some(error) = &answer.error {
        let message = error.message.as_ref().map(ProviderWords::reveal);
        map.insert(
            "error".into(),
            json!({"code": error.code, "message": message, "type": error.kind}),
        );
    }
    map
}

fn arguments(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(Value::Null) => json!({}),
        Ok(arguments) => arguments,
        Err(_) if text.is_empty() => json!({}),
        Err(_) => json!({"_unparsable": text}),
    }
}

pub(crate) fn finish(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool_calls",
        Finish::ContentFilter => "content_filter",
        Finish::Other => "other",
    }
}

/// The members in which an answer differs from what the recording says, if any.
pub(crate) fn compare(api: Api, recorded: &Map<String, Value>, read: &Map<String, Value>) -> Result<(), String> {
    let mut read = read.clone();
    let expected = expected(api, recorded, &mut read);
    let keys = expected
        .keys()
        .chain(read.keys().filter(|key| !expected.contains_key(*key)));
    let differences: Vec<String> = keys
        .filter(|key| expected.get(*key) != read.get(*key))
        .map(|key| format!("{key}: {:?} instead of {:?}", read.get(key), expected.get(key)))
        .collect();
    if differences.is_empty() {
        Ok(())
    } else {
        Err(differences.join("; "))
    }
}

/// What the recording says in words that all formats share. What it leaves open is taken from `read`.
fn expected(api: Api, recorded: &Map<String, Value>, read: &mut Map<String, Value>) -> Map<String, Value> {
    let mut expected = recorded.clone();
    for remark in ["note", "objects_complete", "last_event_unterminated"] {
        expected.remove(remark);
    }
    let calls = expected
        .get("tool_calls")
        .and_then(Value::as_array)
        .is_some_and(|calls| !calls.is_empty());
    if let Some(finish) = expected.get_mut("finish")
        && let Some(word) = finish.as_str()
    {
        *finish = shared_finish(api, word, calls).into();
    }
    if let Some(error) = expected.get_mut("error").and_then(Value::as_object_mut) {
        let code = error.entry("code").or_insert(Value::Null);
        if code.is_number() {
            *code = code.to_string().into();
        }
    }
    for at in 0..recorded.get("tool_calls").and_then(Value::as_array).map_or(0, Vec::len) {
        let read = read.get("tool_calls").and_then(|calls| calls.get(at)).cloned();
        let call = expected.get_mut("tool_calls").and_then(|calls| calls.get_mut(at));
        if let Some((call, read)) = call.zip(read) {
            shared_call(call, &read);
        }
    }
    shared_usage(api, &mut expected, read);
    expected
}

/// Why an answer ended, of a provider's own word for it.
fn shared_finish(api: Api, word: &str, calls: bool) -> &'static str {
    match (api, word) {
        (Api::OpenaiResponses, "completed") | (Api::Gemini, "STOP") if calls => "tool_calls",
        (Api::OpenaiChat, "stop") | (Api::OpenaiResponses, "completed") | (Api::Gemini, "STOP") => "stop",
        (Api::AnthropicMessages, "end_turn" | "stop_sequence") => "stop",
        (Api::OpenaiChat, "length") | (Api::OpenaiResponses, "incomplete:max_output_tokens") => "length",
        (Api::AnthropicMessages, "max_tokens") | (Api::Gemini, "MAX_TOKENS") => "length",
        (Api::OpenaiChat, "tool_calls" | "function_call") | (Api::AnthropicMessages, "tool_use") => "tool_calls",
        (Api::OpenaiChat, "content_filter") | (Api::AnthropicMessages, "refusal") => "content_filter",
        (Api::Gemini, "SAFETY" | "BLOCKED:SAFETY" | "BLOCKED:MODEL_ARMOR") => "content_filter",
        _ => "other",
    }
}

/// Gemini gives a call no id, so that one is made up; what a custom tool is given is no JSON.
fn shared_call(call: &mut Value, read: &Value) {
    let made_up = read["id"].as_str().is_some_and(|id| !id.is_empty());
    if call["id"].is_null() && made_up {
        call["id"] = read["id"].clone();
    }
    if let Some(text) = call["arguments"].as_str() {
        call["arguments"] = json!({"_unparsable": text});
    }
}

/// Anthropic counts what came from or went to its cache beside the input, Gemini thoughts beside the output: both are part
/// of them here. The recordings tell neither apart.
fn shared_usage(api: Api, expected: &mut Map<String, Value>, read: &mut Map<String, Value>) {
    let Some(usage) = read.get_mut("usage") else {
        // nothing was counted
        if expected.get("usage") == Some(&json!({"input": null, "output": null})) {
            expected.remove("usage");
        }
        return;
    };
    let count = |name: &str| usage[name].as_u64().unwrap_or(0);
    let beside = match api {
        Api::AnthropicMessages => (count("cache"), 0),
        Api::Gemini => (0, count("reasoning")),
        Api::OpenaiChat | Api::OpenaiResponses => (0, 0),
    };
    *usage = json!({
        "input": count("input").saturating_sub(beside.0),
        "output": count("output").saturating_sub(beside.1),
    });
    if let Some(usage) = expected.get_mut("usage").and_then(Value::as_object_mut) {
        usage
            .values_mut()
            .filter(|count| count.is_null())
            .for_each(|count| *count = 0.into());
    }
}
