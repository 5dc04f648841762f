//! Answers that are one JSON body.

use serde_json::Value;

use super::{End, Heard};
use crate::load::scenario::Format;

/// Reads a body.
pub(super) fn read(format: Format, answer: &Value, heard: &mut Heard) {
    let ended = match format {
        Format::Chat => chat(&answer["choices"][0], heard),
        Format::Messages => messages(answer, heard),
        Format::Responses => responses(answer, heard),
        Format::Native => {
            heard.say(&answer["text"]);
            answer["turn"].is_string()
        }
    };
    heard.end = match ended {
        _ if answer["error"].is_object() => End::Error,
        true => End::Whole,
        false => End::None,
    };
}

fn chat(choice: &Value, heard: &mut Heard) -> bool {
    heard.say(&choice["message"]["content"]);
    heard.calls += count(&choice["message"]["tool_calls"], |_| true);
    choice["finish_reason"].is_string()
}

fn messages(answer: &Value, heard: &mut Heard) -> bool {
    let content = &answer["content"];
    content
        .as_array()
        .into_iter()
        .flatten()
        .for_each(|block| heard.say(&block["text"]));
    heard.calls += count(content, |block| block["type"] == "tool_use");
    answer["stop_reason"].is_string()
}

fn responses(answer: &Value, heard: &mut Heard) -> bool {
    let items = || answer["output"].as_array().into_iter().flatten();
    let parts = items().filter_map(|item| item["content"].as_array()).flatten();
    parts.for_each(|part| heard.say(&part["text"]));
    heard.calls += count(&answer["output"], |item| item["type"] == "function_call");
    answer["status"] == "completed"
}

fn count(list: &Value, wanted: impl Fn(&Value) -> bool) -> u32 {
    let count = list
        .as_array()
        .into_iter()
        .flatten()
        .filter(|item| wanted(item))
        .count();
    u32::try_from(count).unwrap_or(u32::MAX)
}
