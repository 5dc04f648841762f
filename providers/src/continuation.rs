//! Going on within a turn: what a model is told of what was said in it already, and what of a continuation is new.
//!
//! Behind the conversation stand the rounds of calls and results, and the text of an answer that broke off. In the client's own
//! format they are put there and everything else in the body keeps its bytes.

use bytes::Bytes;
use serde_json::json;
use understudy_messages::conversation::{Conversation, Message, Part, Speaker};
use understudy_messages::request::Endpoint;
use understudy_messages::session::Continuation;
use understudy_messages::settings::Api;
use understudy_messages::tools::ToolRound;

use crate::json::{Cursor, JsonError, Kind};
use crate::splice::{Edit, splice};
use crate::wire::{self, Target, Unsupported};

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

/// What a model is told of an answer that broke off: the text so far, and, without prefill, that it is to go on with it. Nothing
/// where there is no text.
///
/// No model is told the white space at the text's end: some refuse it. [`overlap`] takes that into account.
fn told(continuation: &Continuation) -> Vec<(Speaker, &str)> {
    let text = continuation.text.trim_end();
    let mut told = Vec::new();
    if !text.is_empty() {
        told.push((Speaker::Assistant, text));
        told.extend((!continuation.prefill).then_some((Speaker::User, GO_ON)));
    }
    told
}

/// What stands behind the conversation in this turn, to be written in any format.
pub(crate) fn behind(rounds: &[ToolRound], continuation: Option<&Continuation>) -> Vec<Message> {
    let told = continuation.into_iter().flat_map(told);
    let told = told.map(|(speaker, text)| Message {
        speaker,
        parts: vec![Part::Text(text.to_owned())],
    });
    rounds.iter().flat_map(ToolRound::messages).chain(told).collect()
}

/// The client's body with the same behind its conversation, in its own format. `None` for a body that is no conversation.
///
/// # Errors
/// [`Unsupported`] where the format has no words for it.
pub(crate) fn extended(
    endpoint: Endpoint,
    body: &Bytes,
    rounds: &[ToolRound],
    continuation: Option<&Continuation>,
) -> Result<Option<Bytes>, Unsupported> {
    let mut items = written(endpoint, rounds)?.into_iter().collect::<Vec<_>>();
    for (speaker, text) in continuation.into_iter().flat_map(told) {
        let role = if speaker == Speaker::User { "user" } else { "assistant" };
        items.push(json!({ "role": role, "content": text }).to_string());
    }
    match items.is_empty() {
        true => Ok(Some(body.clone())),
        false => Ok(append(endpoint, body, &items.join(",")).ok().flatten()),
    }
}

/// The rounds as items of a conversation, between commas.
fn written(endpoint: Endpoint, rounds: &[ToolRound]) -> Result<Option<String>, Unsupported> {
    let alone = Conversation {
        messages: rounds.iter().flat_map(ToolRound::messages).collect(),
        ..Conversation::default()
    };
    if alone.messages.is_empty() {
        return Ok(None);
    }
    let target = Target {
        model: "",
        ask_usage: false,
    };
    let body = wire::write(endpoint.api(), &alone, &target)?.body;
    let found = conversation(endpoint, &body).ok().flatten();
    let items = found.and_then(|(_, list, _)| list.strip_prefix('[')?.strip_suffix(']'));
    Ok(items.filter(|items| !items.is_empty()).map(str::to_owned))
}

/// The member of the conversation: its kind, its text and where that begins.
fn conversation(endpoint: Endpoint, body: &[u8]) -> Result<Option<(Kind, &str, usize)>, JsonError> {
    match endpoint {
        Endpoint::Chat | Endpoint::Messages | Endpoint::CountTokens => member(body, "messages"),
        Endpoint::Responses | Endpoint::Native => member(body, "input"),
        Endpoint::Embeddings => Ok(None),
    }
}

/// Appends messages to the conversation; one that is a single text becomes a message first.
fn append(endpoint: Endpoint, body: &Bytes, told: &str) -> Result<Option<Bytes>, JsonError> {
    let Some((kind, value, start)) = conversation(endpoint, body)? else {
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
