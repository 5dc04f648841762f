//! What a simulated upstream needs to know of a request, in whichever wire format it came.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use understudy_messages::settings::Api;

/// The facts of one request; all absent when the body is not such JSON.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    /// The wire format, which the path tells.
    pub(crate) api: Api,
    pub(crate) model: Option<String>,
    stream: bool,
    include_usage: bool,
    /// What was said so far: a list, or the newest text alone.
    said: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct Body<'a> {
    model: Option<String>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    contents: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
}

impl<'a> Asked<'a> {
    /// Reads a request: its path with the query, and its body.
    pub(crate) fn read(path: &str, body: &'a [u8]) -> Self {
        let body: Body<'a> = serde_json::from_slice(body).unwrap_or_default();
        let (path, _query) = path.split_once('?').unwrap_or((path, ""));
        let api = api(path);
        let named = gemini_model(path);
        Self {
            api,
            stream: body.stream == Some(true) || path.ends_with(":streamGenerateContent"),
            include_usage: body.stream_options.and_then(|it| it.include_usage) == Some(true),
            model: body.model.or_else(|| named.map(str::to_owned)),
            said: body.messages.or(body.input).or(body.contents),
        }
    }

    /// Whether the answer is to be streamed.
    pub(crate) fn stream(&self) -> bool {
        self.stream
    }

    /// Whether a streamed chat answer is to end with its usage.
    pub(crate) fn include_usage(&self) -> bool {
        self.include_usage
    }

    /// The text of the newest user message; empty when there is none.
    pub(crate) fn last_user_text(&self) -> String {
        match self.said.and_then(|raw| serde_json::from_str(raw.get()).ok()) {
            Some(Value::String(text)) => text,
            Some(Value::Array(messages)) => {
                let newest = messages.iter().rev().find(|it| it["role"] == "user");
                newest.map(text_of).unwrap_or_default()
            }
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => String::new(),
        }
    }
}

/// The text of a message: `content`, or Gemini's `parts`.
fn text_of(message: &Value) -> String {
    match message.get("content").or_else(|| message.get("parts")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|it| it["text"].as_str()).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => String::new(),
    }
}

fn api(path: &str) -> Api {
    match path {
        path if path.ends_with("/messages") => Api::AnthropicMessages,
        path if path.ends_with("/responses") => Api::OpenaiResponses,
        path if gemini_model(path).is_some() => Api::Gemini,
        _ => Api::OpenaiChat,
    }
}

/// The model that a path names, which is Gemini's way: `…/models/{model}:{method}`.
fn gemini_model(path: &str) -> Option<&str> {
    let (_, named) = path.split_once("/models/")?;
    let (model, _method) = named.split_once(':')?;
    Some(model)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: &str = "/a/v1/chat/completions";

    #[test]
    fn the_newest_user_text_is_found_in_strings_and_parts() {
        let body = br#"{"model":"m","stream":true,"messages":[
            {"role":"user","content":"old"},{"role":"assistant","content":"x"},
            {"role":"user","content":[{"type":"text","text":"n"},{"type":"image"},{"type":"text","text":"ew"}]},
            {"role":"tool","content":"y"}]}"#;
        let asked = Asked::read(CHAT, body);
        assert_eq!(asked.last_user_text(), "new");
        assert!(asked.stream() && !asked.include_usage());
    }

    #[test]
    fn a_body_that_is_not_json_asks_nothing() {
        let asked = Asked::read(CHAT, b"\xff{");
        assert_eq!(asked.model, None);
        assert_eq!(asked.last_user_text(), "");
    }

    #[test]
    fn every_wire_format_is_known_by_its_path() {
        for (path, body, api, model) in [
            (
                CHAT,
                r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#,
                Api::OpenaiChat,
                "m",
            ),
            (
                "/a/v1/messages",
                r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#,
                Api::AnthropicMessages,
                "m",
            ),
            (
                "/a/v1/responses",
                r#"{"model":"m","input":"hi"}"#,
                Api::OpenaiResponses,
                "m",
            ),
            (
                "/a/v1/responses",
                r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]}"#,
                Api::OpenaiResponses,
                "m",
            ),
            (
                "/a/v1/models/m1:generateContent",
                r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#,
                Api::Gemini,
                "m1",
            ),
        ] {
            let asked = Asked::read(path, body.as_bytes());
            assert_eq!((asked.api, asked.model.as_deref()), (api, Some(model)));
            assert_eq!(asked.last_user_text(), "hi", "{path}");
            assert!(!asked.stream());
        }
        let streams = Asked::read("/a/v1/models/m1:streamGenerateContent?alt=sse", b"{}");
        assert!(streams.stream());
        assert_eq!(streams.api, Api::Gemini);
    }
}
