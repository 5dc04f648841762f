//! Going on with an answer that broke off: what the next model is told, and what of its continuation is new.
//!
//! The text so far is put behind the conversation in the client's own format, and everything else in the body keeps its
//! bytes; so it goes up like any other request, as it is or translated.

use bytes::Bytes;
use serde_json::json;
use understudy_messages::request::Endpoint;
use understudy_messages::session::Continuation;
use understudy_messages::settings::Api;

use crate::json::{Cursor, JsonError, Kind};
use crate::splice::{Edit, splice};

pub(crate) mod overlap;
#[cfg(test)]
mod tests;

/// What a model is told that takes no prefill. What it answers is joined to the text as it stands, so all that counts is
/// that it says nothing else.
const GO_ON: &str = "Your last message was cut off by a technical fault. Go on with it from exactly the place where it \
    ends, even in the middle of a word or a line. What you write is appended to it as it stands: repeat none of it, and \
    write no introduction, apology or comment.";

/// Whether a model that speaks `api` usually goes on from an assistant message that stands last, where the client's
/// request is `body`: prefill and thinking exclude each other.
pub fn takes_prefill(api: Api, endpoint: Endpoint, body: &[u8]) -> bool {
    match api {
        Api::AnthropicMessages => !wants_thinking(endpoint, body).unwrap_or(false),
        Api::Gemini => true,
        Api::OpenaiChat | Api::OpenaiResponses => false,
    }
}

/// The client's body with the text so far behind its conversation. `None` for a body that is no conversation.
///
/// No model is told the white space at the text's end: some refuse it. [`overlap`] takes that into account.
pub(crate) fn extended(endpoint: Endpoint, body: &Bytes, continuation: &Continuation) -> Option<Bytes> {
    let text = continuation.text.trim_end();
    if text.is_empty() {
        return Some(body.clone());
    }
    let mut told = json!({ "role": "assistant", "content": text }).to_string();
    if !continuation.prefill {
        told = format!("{told},{}", json!({ "role": "user", "content": GO_ON }));
    }
    append(endpoint, body, &told).ok().flatten()
}

/// Appends messages to the conversation; one that is a single text becomes a message first.
fn append(endpoint: Endpoint, body: &Bytes, told: &str) -> Result<Option<Bytes>, JsonError> {
    let key = match endpoint {
        Endpoint::Chat | Endpoint::Messages | Endpoint::CountTokens => "messages",
        Endpoint::Responses | Endpoint::Native => "input",
        Endpoint::Embeddings => return Ok(None),
    };
    let Some((kind, value, start)) = member(body, key)? else {
        return Ok(None);
    };
    let end = start + value.len();
    let (span, text) = match kind {
        Kind::Array => {
            let empty = value[1..value.len() - 1].trim().is_empty();
            let comma = if empty { "" } else { "," };
            (end - 1..end - 1, format!("{comma}{told}"))
        }
        Kind::String => (
            start..end,
            format!("[{{\"role\":\"user\",\"content\":{value}}},{told}]"),
        ),
        Kind::Object | Kind::Number | Kind::Bool | Kind::Null => return Ok(None),
    };
    let text = text.as_bytes();
    Ok(Some(splice(body, &[Edit { span, text }])))
}

/// The last member of this name: its kind, its text and where that begins.
fn member<'a>(body: &'a [u8], name: &str) -> Result<Option<(Kind, &'a str, usize)>, JsonError> {
    let (mut cursor, mut found) = (Cursor::new(body)?, None);
    cursor.object(|cursor, key| {
        let kind = cursor.kind()?;
        let value = cursor.value()?;
        if key.decode() == name {
            found = Some((kind, value, cursor.span(value).start));
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(found)
}

/// Whether the client asks for thinking in so many words.
fn wants_thinking(endpoint: Endpoint, body: &[u8]) -> Result<bool, JsonError> {
    let says = |name: &str, off: &[&str]| {
        let found = member(body, name)?;
        Ok::<_, JsonError>(
            found.is_some_and(|(kind, value, _)| kind != Kind::Null && !off.iter().any(|word| value.contains(word))),
        )
    };
    match endpoint {
        Endpoint::Messages | Endpoint::CountTokens => says("thinking", &["\"disabled\""]),
        Endpoint::Chat => Ok(says("reasoning_effort", &["\"none\""])? || says("reasoning", &["\"none\"", "false"])?),
        Endpoint::Responses | Endpoint::Native => says("reasoning", &["\"none\""]),
        Endpoint::Embeddings => Ok(false),
    }
}
