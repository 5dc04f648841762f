//! What a simulated upstream needs to know of a request's body.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The facts of one request; all absent when the body is not such JSON.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Asked<'a> {
    pub(crate) model: Option<String>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

#[derive(Deserialize)]
struct Message {
    role: String,
    #[serde(default)]
    content: Value,
}

impl<'a> Asked<'a> {
    /// Reads the body of a request.
    pub(crate) fn read(body: &'a [u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// Whether the answer is to be streamed.
    pub(crate) fn stream(&self) -> bool {
        self.stream == Some(true)
    }

    /// Whether a streamed answer is to end with its usage.
    pub(crate) fn include_usage(&self) -> bool {
        let options = self.stream_options.as_ref();
        options.and_then(|it| it.include_usage) == Some(true)
    }

    /// The text of the newest user message; empty when there is none.
    pub(crate) fn last_user_text(&self) -> String {
        let messages: Vec<Message> = self
            .messages
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default();
        let newest = messages.into_iter().rev().find(|it| it.role == "user");
        match newest.map(|message| message.content) {
            Some(Value::String(text)) => text,
            Some(Value::Array(parts)) => parts.iter().filter_map(|it| it["text"].as_str()).collect(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_user_text_is_found_in_strings_and_parts() {
        let body = br#"{"model":"m","stream":true,"messages":[
            {"role":"user","content":"old"},{"role":"assistant","content":"x"},
            {"role":"user","content":[{"type":"text","text":"n"},{"type":"image"},{"type":"text","text":"ew"}]},
            {"role":"tool","content":"y"}]}"#;
        let asked = Asked::read(body);
        assert_eq!(asked.last_user_text(), "new");
        assert!(asked.stream() && !asked.include_usage());
    }

    #[test]
    fn a_body_that_is_not_json_asks_nothing() {
        let asked = Asked::read(b"\xff{");
        assert_eq!(asked.model, None);
        assert_eq!(asked.last_user_text(), "");
    }
}
