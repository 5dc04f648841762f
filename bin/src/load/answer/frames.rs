//! The events of streamed answers.

use serde_json::Value;

use super::{End, Heard};
use crate::load::scenario::Format;

/// Reads one event.
pub(super) fn read(format: Format, event: &Value, heard: &mut Heard) {
    match format {
        Format::Chat => chat(event, heard),
        Format::Messages => messages(event, heard),
        Format::Responses => responses(event, heard),
        Format::Native => native(event, heard),
    }
}

fn chat(event: &Value, heard: &mut Heard) {
    if event["error"].is_object() {
        heard.end = End::Error;
    }
    let Some(choice) = event["choices"].get(0) else {
        return;
    };
    let delta = &choice["delta"];
    heard.say(&delta["content"]);
    let calls = delta["tool_calls"].as_array().into_iter().flatten();
    for _named in calls.filter(|call| call["function"]["name"].is_string()) {
        heard.calls += 1;
    }
    heard.finished |= choice["finish_reason"].is_string();
}

fn messages(event: &Value, heard: &mut Heard) {
    match event["type"].as_str().unwrap_or_default() {
        "content_block_delta" => heard.say(&event["delta"]["text"]),
        "content_block_start" => heard.calls += u32::from(event["content_block"]["type"] == "tool_use"),
        "message_stop" => heard.end = End::Whole,
        "error" => heard.end = End::Error,
        _ => {}
    }
}

fn responses(event: &Value, heard: &mut Heard) {
    match event["type"].as_str().unwrap_or_default() {
        "response.output_text.delta" => heard.say(&event["delta"]),
        "response.output_item.done" => heard.calls += u32::from(event["item"]["type"] == "function_call"),
        "response.completed" => heard.end = End::Whole,
        "response.failed" | "error" => heard.end = End::Error,
        _ => {}
    }
}

fn native(event: &Value, heard: &mut Heard) {
    match event["type"].as_str().unwrap_or_default() {
        "text.delta" => heard.say(&event["text"]),
        "turn.completed" => heard.end = End::Whole,
        "turn.failed" => heard.end = End::Error,
        _ => {}
    }
}
