//! Anthropic Messages: a message, its blocks one after the other, why it ended, and the end.

use serde_json::Value;

use super::{Ending, Event, must};

/// What may come inside a block of each type.
const DELTAS: [(&str, &[&str]); 4] = [
    ("text", &["text_delta"]),
    ("thinking", &["thinking_delta", "signature_delta"]),
    ("redacted_thinking", &[]),
    ("tool_use", &["input_json_delta"]),
];

/// What is wrong with a whole stream, if anything is.
pub(super) fn check(events: &[Event], ending: Ending) -> Result<(), String> {
    let (mut blocks, mut open, mut stopped, mut over) = (0_u64, None::<String>, false, false);
    for (at, event) in events.iter().enumerate() {
        let (kind, json) = event.typed()?;
        must(!over, "nothing comes after the end", &json)?;
        must(
            (kind == "message_start") == (at == 0),
            "the message starts once, first",
            &json,
        )?;
        match &*kind {
            "message_start" => begins(&json)?,
            "content_block_start" => {
                let block = json["content_block"]["type"].as_str().unwrap_or_default().to_owned();
                must(
                    open.is_none() && !stopped && json["index"] == blocks,
                    "a block out of place",
                    &json,
                )?;
                must(
                    DELTAS.iter().any(|(known, _)| *known == block),
                    "a strange block",
                    &json,
                )?;
                must(
                    block != "tool_use" || is_call(&json["content_block"]),
                    "a call's beginning",
                    &json,
                )?;
                open = Some(block);
            }
            "content_block_delta" => {
                let deltas = DELTAS.iter().find(|(known, _)| open.as_deref() == Some(known));
                let delta = json["delta"]["type"].as_str().unwrap_or_default();
                let fits = deltas.is_some_and(|(_, deltas)| deltas.contains(&delta));
                must(fits && json["index"] == blocks, "a delta out of place", &json)?;
            }
            "content_block_stop" => {
                must(open.take().is_some() && json["index"] == blocks, "no such block", &json)?;
                blocks += 1;
            }
            "message_delta" => {
                let known = ["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"];
                let reason = &json["delta"]["stop_reason"];
                must(open.is_none() && !stopped, "a block is open", &json)?;
                must(known.iter().any(|word| reason == word), "stop_reason", &json)?;
                must(json["usage"]["output_tokens"].is_u64(), "usage", &json)?;
                stopped = true;
            }
            "message_stop" if ending == Ending::Whole => over = true,
            "error" if ending == Ending::Error => {
                let error = &json["error"];
                must(
                    error["type"].is_string() && error["message"].is_string(),
                    "an error",
                    &json,
                )?;
                over = true;
            }
            "ping" => {}
            _ => return Err(format!("a strange event: {kind}")),
        }
    }
    if over && (stopped || ending == Ending::Error) {
        Ok(())
    } else {
        Err("the message has no end".to_owned())
    }
}

fn begins(json: &Value) -> Result<(), String> {
    let message = &json["message"];
    let is_message = message["type"] == "message" && message["role"] == "assistant";
    must(
        is_message && message["id"].is_string() && message["model"].is_string(),
        "a message",
        json,
    )?;
    must(
        message["content"].as_array().is_some_and(Vec::is_empty),
        "an empty message",
        json,
    )?;
    must(message["usage"]["input_tokens"].is_u64(), "usage", json)?;
    must(message["stop_reason"].is_null(), "no reason to stop yet", json)
}

fn is_call(block: &Value) -> bool {
    block["id"].is_string() && block["name"].is_string() && block["input"].is_object()
}
