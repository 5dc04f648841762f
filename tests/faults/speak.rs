//! Neutral words in the wire formats of providers.

use serde_json::{Value, json};
use understudy_messages::settings::Api;

use crate::scenario::{Act, After, Instead, Refusal, words};

mod chat;
mod gemini;
mod messages;
mod responses;

/// How many words are in a frame.
pub const WORDS: usize = 3;
/// The tokens of every prompt.
pub const INPUT: u64 = 7;

/// A response as it goes over the wire.
#[derive(Clone, Debug)]
pub struct Spoken {
    /// The status; `None` when nothing comes at all.
    pub status: Option<u16>,
    pub headers: Vec<(&'static str, String)>,
    /// The body's parts and how long each waits.
    pub parts: Vec<(u64, String)>,
    pub then: Then,
}

/// What follows the last part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    Close,
    Reset,
    Hang,
}

/// An answer in parts, as a provider speaks it.
struct Frames {
    /// Before the first words.
    before: Vec<String>,
    /// One for each few words.
    text: Vec<String>,
    /// Why it ended, and the report of tokens.
    finish: Vec<String>,
    /// The word that nothing more comes.
    closing: Vec<String>,
    /// The beginning of a tool call.
    call: Vec<String>,
    /// An error in the place of all that.
    error: String,
    /// Something that cannot be read.
    malformed: String,
}

/// What a provider of this format does.
pub fn speak(act: &Act, api: Api, stream: bool) -> Spoken {
    if let Some(instead) = act.instead {
        let then = match instead {
            Instead::Reset => Then::Reset,
            Instead::Silence => Then::Hang,
        };
        return Spoken {
            status: None,
            headers: Vec::new(),
            parts: Vec::new(),
            then,
        };
    }
    if let Some(refusal) = act.refuses {
        return refuse(refusal, act.retry_after, api);
    }
    let range = act.says.expect("an act that says something");
    let said: Vec<String> = words(range).chunks(WORDS).map(|words| words.concat()).collect();
    if stream {
        streamed(act, api, &said)
    } else {
        whole(act, api, &said)
    }
}

fn streamed(act: &Act, api: Api, said: &[String]) -> Spoken {
    let whole = !matches!(act.then, After::Close | After::Reset | After::Hang | After::Error);
    let filtered = act.then == After::Filter;
    let frames = match api {
        Api::OpenaiChat => chat::frames(said, filtered),
        Api::OpenaiResponses => responses::frames(said, filtered),
        Api::AnthropicMessages => messages::frames(said, filtered),
        Api::Gemini => gemini::frames(said, filtered),
    };
    let mut parts: Vec<(u64, String)> = frames.before.into_iter().map(|frame| (0, frame)).collect();
    let first = parts.len();
    parts.extend(frames.text.into_iter().map(|frame| (0, frame)));
    if let Some(part) = parts.get_mut(first) {
        part.0 = act.first_ms;
    }
    if act.malformed {
        parts.insert(first + 1, (0, frames.malformed));
    }
    if act.calls {
        parts.extend(frames.call.into_iter().map(|frame| (0, frame)));
    }
    if whole {
        parts.extend(frames.finish.into_iter().map(|frame| (0, frame)));
    }
    if matches!(act.then, After::End | After::Filter) {
        parts.extend(frames.closing.into_iter().map(|frame| (0, frame)));
    }
    if act.then == After::Error {
        parts.push((0, frames.error));
    }
    Spoken {
        status: Some(200),
        headers: vec![("content-type", "text/event-stream".to_owned())],
        parts,
        then: then(act.then),
    }
}

fn whole(act: &Act, api: Api, said: &[String]) -> Spoken {
    let (text, output) = (said.concat(), said.len() as u64);
    let mut body = match api {
        Api::OpenaiChat => chat::whole(&text, output),
        Api::OpenaiResponses => responses::whole(&text, output),
        Api::AnthropicMessages => messages::whole(&text, output),
        Api::Gemini => gemini::whole(&text, output),
    }
    .to_string();
    match act.then {
        After::End | After::NoClosingWord | After::Filter => {}
        After::Error => body = error(Refusal::Overloaded, api).1.to_string(),
        After::Close | After::Reset | After::Hang => body.truncate(body.len() / 2),
    }
    Spoken {
        status: Some(200),
        headers: vec![("content-type", "application/json".to_owned())],
        parts: vec![(act.first_ms, body)],
        then: then(act.then),
    }
}

fn then(after: After) -> Then {
    match after {
        After::End | After::NoClosingWord | After::Close | After::Error | After::Filter => Then::Close,
        After::Reset => Then::Reset,
        After::Hang => Then::Hang,
    }
}

fn refuse(refusal: Refusal, retry_after: Option<u64>, api: Api) -> Spoken {
    let (status, body) = error(refusal, api);
    let mut headers = vec![("content-type", "application/json".to_owned())];
    headers.extend(retry_after.map(|seconds| ("retry-after", seconds.to_string())));
    Spoken {
        status: Some(status),
        headers,
        parts: vec![(0, body.to_string())],
        then: Then::Close,
    }
}

/// Status and body of an error, each provider in its own words.
fn error(refusal: Refusal, api: Api) -> (u16, Value) {
    let (status, openai, anthropic, google) = match refusal {
        Refusal::RateLimit => (429, "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"),
        Refusal::ServerError => (500, "server_error", "api_error", "INTERNAL"),
        Refusal::Overloaded => (503, "server_is_overloaded", "overloaded_error", "UNAVAILABLE"),
        Refusal::ContextLength => (
            400,
            "context_length_exceeded",
            "invalid_request_error",
            "INVALID_ARGUMENT",
        ),
        Refusal::ContentFilter => (400, "content_filter", "invalid_request_error", "INVALID_ARGUMENT"),
        Refusal::Prefill => (400, "invalid_value", "invalid_request_error", "INVALID_ARGUMENT"),
    };
    let message = match refusal {
        Refusal::ContextLength => "prompt is too long: 300000 tokens > 200000 maximum",
        Refusal::ContentFilter => "Output blocked by content filtering policy",
        Refusal::Prefill => {
            "This model does not support assistant message prefill. The conversation must end with a user message."
        }
        Refusal::Overloaded => "The model is overloaded. Please try again later.",
        Refusal::RateLimit | Refusal::ServerError => "simulated",
    };
    match api {
        Api::OpenaiChat | Api::OpenaiResponses => (
            status,
            json!({"error": {"message": message, "type": openai, "code": openai, "param": null}}),
        ),
        Api::AnthropicMessages => {
            let status = if status == 503 { 529 } else { status };
            (
                status,
                json!({"type": "error", "error": {"type": anthropic, "message": message}}),
            )
        }
        Api::Gemini => (
            status,
            json!({"error": {"code": status, "message": message, "status": google}}),
        ),
    }
}

/// A frame with a name.
fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

/// A frame without a name.
fn data(data: &Value) -> String {
    format!("data: {data}\n\n")
}
