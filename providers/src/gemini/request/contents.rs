//! The conversation in Gemini's words: contents of parts, said by `user` or `model`.
//!
//! A signature stands on the part that came of the thoughts it proves: the text or the call behind them. The thoughts
//! themselves do not go back. Results name the function that was called; those of one round are one content, with the media
//! that tools returned behind them.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use understudy_messages::conversation::{Message, Part, Seal, Speaker, ToolCall, ToolResult};
use understudy_messages::settings::Api;

use super::{media, raw, thinking, unsupported};
use crate::wire::Unsupported;

/// Stands for the signature of a call that some other model made: Gemini's own word for it, without which models from the
/// third generation on refuse the call.
const FOREIGN_CALL: &str = "skip_thought_signature_validator";

/// What one speaker says.
#[derive(Serialize)]
pub(super) struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Spoken<'a>>,
}

/// A part of it.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spoken<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<Response<'a>>,
    #[serde(flatten)]
    media: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    name: &'a str,
    args: &'a RawValue,
}

#[derive(Serialize)]
struct Response<'a> {
    id: &'a str,
    name: &'a str,
    response: Value,
}

/// The instruction and the contents.
pub(super) fn write<'a>(
    messages: &'a [Message],
    model: &str,
) -> Result<(Option<Content<'a>>, Vec<Content<'a>>), Unsupported> {
    let is_system = |message: &Message| matches!(message.speaker, Speaker::System | Speaker::Developer);
    let leading = messages.iter().take_while(|message| is_system(message)).count();
    let (system, spoken) = messages.split_at(leading);
    let mut instruction = Vec::new();
    for message in system {
        instruction.extend(heard(&message.parts)?);
    }
    let mut contents = Vec::new();
    for (place, round) in rounds(spoken) {
        let mut parts = Vec::new();
        for message in round {
            match message.speaker {
                Speaker::Assistant => parts.extend(said(&message.parts, model)?),
                _ => parts.extend(results(&message.parts, &spoken[..place])?),
            }
        }
        for message in round.iter().filter(|message| message.speaker != Speaker::Assistant) {
            parts.extend(heard(&message.parts)?);
        }
        let is_model = round
            .first()
            .is_some_and(|message| message.speaker == Speaker::Assistant);
        let role = Some(if is_model { "model" } else { "user" });
        contents.extend((!parts.is_empty()).then_some(Content { role, parts }));
    }
    Ok(match (contents.is_empty(), instruction) {
        (_, none) if none.is_empty() => (None, contents),
        // an instruction with nothing to answer is itself what is asked
        (true, parts) => (
            None,
            vec![Content {
                role: Some("user"),
                parts,
            }],
        ),
        (false, parts) => (Some(Content { role: None, parts }), contents),
    })
}

/// The messages with the place of each: those of tools in a row together, any other for itself.
fn rounds(messages: &[Message]) -> impl Iterator<Item = (usize, &[Message])> {
    let both_tools = |one: &Message, next: &Message| one.speaker == Speaker::Tool && next.speaker == Speaker::Tool;
    messages.chunk_by(both_tools).scan(0, |place, round| {
        let start = *place;
        *place += round.len();
        Some((start, round))
    })
}

/// What the model said.
fn said<'a>(parts: &'a [Part], model: &str) -> Result<Vec<Spoken<'a>>, Unsupported> {
    let mut spoken = Vec::new();
    let mut signature = None;
    let mut unsigned = !thinking::is_older(model);
    for part in parts {
        let mut part = match part {
            Part::Reasoning(reasoning) => {
                signature = reasoning.seal.as_ref().and_then(own).or(signature);
                continue;
            }
            Part::ToolCall(call) => {
                let mut spoken = called(call)?;
                let foreign = std::mem::take(&mut unsigned).then_some(FOREIGN_CALL);
                let own = call.seal.as_ref().and_then(own).or(signature.take());
                spoken.thought_signature = own.or(foreign);
                spoken
            }
            Part::Text(_) | Part::Refusal(_) | Part::Media(_) | Part::ToolResult(_) => match plain(part)? {
                Some(spoken) => spoken,
                None => continue,
            },
        };
        part.thought_signature = part.thought_signature.or(signature.take());
        spoken.push(part);
    }
    // the thoughts at the end came to nothing that is kept
    spoken.extend(signature.map(|signature| Spoken {
        text: Some(""),
        thought_signature: Some(signature),
        ..Spoken::default()
    }));
    Ok(spoken)
}

fn own(seal: &Seal) -> Option<&str> {
    (seal.maker == Api::Gemini).then_some(&seal.data)
}

fn called(call: &ToolCall) -> Result<Spoken<'_>, Unsupported> {
    let arguments = match call.arguments.trim() {
        "" => "{}",
        arguments => arguments,
    };
    let args = raw(arguments).filter(|args| args.get().starts_with('{'));
    Ok(Spoken {
        function_call: Some(Call {
            id: &call.id,
            name: &call.name,
            args: args.ok_or_else(|| unsupported("a tool call whose arguments are no JSON object"))?,
        }),
        ..Spoken::default()
    })
}

/// The results among the parts of a message, for calls among those before it.
fn results<'a>(parts: &'a [Part], before: &'a [Message]) -> Result<Vec<Spoken<'a>>, Unsupported> {
    let results = parts.iter().filter_map(|part| match part {
        Part::ToolResult(result) => Some(result),
        _ => None,
    });
    results.map(|result| responded(result, before)).collect()
}

fn responded<'a>(result: &'a ToolResult, before: &'a [Message]) -> Result<Spoken<'a>, Unsupported> {
    let name = called_by(&result.id, before).or(result.name.as_deref());
    Ok(Spoken {
        function_response: Some(Response {
            id: &result.id,
            name: name.ok_or_else(|| unsupported("a tool result without its call"))?,
            response: response(result),
        }),
        ..Spoken::default()
    })
}

/// The name of the function that the latest call with this id called.
fn called_by<'a>(id: &str, before: &'a [Message]) -> Option<&'a str> {
    let parts = before.iter().rev().flat_map(|message| message.parts.iter().rev());
    let mut calls = parts.filter_map(|part| match part {
        Part::ToolCall(call) if call.id == id => Some(call.name.as_str()),
        _ => None,
    });
    calls.next()
}

/// A response is an object: that which the tool gave, or its text in one.
fn response(result: &ToolResult) -> Value {
    let texts = result.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join("\n");
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) if !result.is_error => object.into(),
        _ if result.is_error => json!({"error": text}),
        _ => json!({"result": text}),
    }
}

/// What is said to the model, results aside but with the media in them.
fn heard(parts: &[Part]) -> Result<Vec<Spoken<'_>>, Unsupported> {
    let mut spoken = Vec::new();
    for part in parts {
        match part {
            Part::ToolResult(result) => {
                for part in &result.parts {
                    if let Part::Media(_) = part {
                        spoken.extend(plain(part)?);
                    }
                }
            }
            part => spoken.extend(plain(part)?),
        }
    }
    Ok(spoken)
}

fn plain(part: &Part) -> Result<Option<Spoken<'_>>, Unsupported> {
    Ok(match part {
        Part::Text(text) | Part::Refusal(text) => (!text.is_empty()).then_some(Spoken {
            text: Some(text),
            ..Spoken::default()
        }),
        Part::Media(shown) => Some(Spoken {
            media: Some(media::part(shown)?),
            ..Spoken::default()
        }),
        Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    })
}
