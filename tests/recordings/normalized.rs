//! Answers in the words of the recordings, and how they differ.

use serde_json::{Map, Value, json};
use understudy_messages::answer::Finish;
use understudy_messages::failure::ProviderWords;
use understudy_providers::openai::chat::answer::{Answer, ToolCall};

/// The answer in the words of the recordings.
pub(crate) fn normalized(answer: &Answer, end: &str) -> Map<String, Value> {
    let calls: Vec<Value> = answer.tool_calls.iter().map(tool_call).collect();
    let mut map = Map::new();
    map.insert("end".into(), end.into());
    map.insert("text".into(), answer.text.as_str().into());
    map.insert("tool_calls".into(), calls.into());
    map.insert("finish".into(), answer.finish.map(finish).into());
    if let Some(usage) = answer.usage {
        map.insert("usage".into(), json!({"input": usage.input, "output": usage.output}));
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

fn tool_call(call: &ToolCall) -> Value {
    let arguments = match serde_json::from_str(&call.arguments) {
        Ok(Value::Null) => json!({}),
        Ok(arguments) => arguments,
        Err(_) => json!({"_unparsable": call.arguments}),
    };
    json!({"id": call.id, "name": call.name, "arguments": arguments})
}

fn finish(finish: Finish) -> &'static str {
    match finish {
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::ToolCalls => "tool_calls",
        Finish::ContentFilter => "content_filter",
        Finish::Other => "other",
    }
}

/// The members in which two answers differ, if any.
pub(crate) fn compare(expected: &Map<String, Value>, read: &Map<String, Value>) -> Result<(), String> {
    let mut expected = expected.clone();
    expected.remove("note");
    let code = expected.get_mut("error").and_then(|error| error.get_mut("code"));
    if let Some(code) = code.filter(|code| code.is_number()) {
        *code = code.to_string().into();
    }
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
