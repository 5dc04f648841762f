//! The messages of a chat request.
//!
//! A tool's message carries text only: media that a tool returned follow in a user message. Reasoning goes back to no one
//! but a chat provider that sealed it.

use std::mem::take;

use serde::Serialize;
use serde_json::{Value, json};
use understudy_messages::conversation::{
    Media, MediaKind, MediaSource, Message, Part, Reasoning, Seal, Speaker, ToolCall, ToolResult,
};
use understudy_messages::settings::Api;

use super::unsupported;
use crate::wire::Unsupported;

/// One message.
#[derive(Default, Serialize)]
pub(super) struct ChatMessage<'a> {
    role: &'static str,
    content: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<Value>,
}

/// Puts the messages together; what of them had no place is added to `dropped`.
pub(super) fn write<'a>(
    messages: &'a [Message],
    dropped: &mut Vec<String>,
) -> Result<Vec<ChatMessage<'a>>, Unsupported> {
    let mut written = Vec::with_capacity(messages.len());
    let mut shown = Vec::new();
    for message in messages {
        if message.speaker != Speaker::Tool {
            show(&mut shown, &mut written);
        }
        let (results, said): (Vec<&Part>, Vec<&Part>) = message.parts.iter().partition(|part| is_result(part));
        for result in &results {
            if let Part::ToolResult(result) = result {
                written.push(tool(result, &mut shown, dropped)?);
            }
        }
        if !results.is_empty() && said.is_empty() {
            continue;
        }
        match message.speaker {
            Speaker::Assistant => written.extend(assistant(&said)?),
            Speaker::User | Speaker::Tool => {
                show(&mut shown, &mut written);
                written.push(plain("user", content(&said, true)?));
            }
            Speaker::System | Speaker::Developer => written.push(plain("system", content(&said, false)?)),
        }
    }
    show(&mut shown, &mut written);
    Ok(written)
}

fn is_result(part: &Part) -> bool {
    matches!(part, Part::ToolResult(_))
}

fn plain(role: &'static str, content: Value) -> ChatMessage<'static> {
    ChatMessage {
        role,
        content: Some(content),
        ..ChatMessage::default()
    }
}

/// Adds a user message with the media that tools returned, once all of their messages stand.
fn show(shown: &mut Vec<Value>, written: &mut Vec<ChatMessage<'_>>) {
    if !shown.is_empty() {
        written.push(plain("user", take(shown).into()));
    }
}

fn tool<'a>(
    result: &'a ToolResult,
    shown: &mut Vec<Value>,
    dropped: &mut Vec<String>,
) -> Result<ChatMessage<'a>, Unsupported> {
    const IS_ERROR: &str = "is_error";
    let (media, texts): (Vec<&Part>, Vec<&Part>) = result.parts.iter().partition(|part| matches!(part, Part::Media(_)));
    for part in media {
        shown.extend(self::part(part, true)?);
    }
    if result.is_error && !dropped.iter().any(|name| name == IS_ERROR) {
        dropped.push(IS_ERROR.to_owned());
    }
    Ok(ChatMessage {
        tool_call_id: Some(&result.id),
        ..plain("tool", content(&texts, false)?)
    })
}

/// What the model said; nothing where all of it was reasoning that stays behind.
fn assistant<'a>(said: &[&Part]) -> Result<Option<ChatMessage<'a>>, Unsupported> {
    let mut message = ChatMessage {
        role: "assistant",
        ..ChatMessage::default()
    };
    let mut spoken = Vec::new();
    for part in said {
        match part {
            Part::ToolCall(call) => message.tool_calls.push(tool_call(call)),
            Part::Reasoning(reasoning) => message.reasoning_details.extend(detail(reasoning)),
            Part::Text(_) | Part::Refusal(_) | Part::Media(_) | Part::ToolResult(_) => spoken.push(*part),
        }
    }
    if !spoken.is_empty() {
        message.content = Some(content(&spoken, false)?);
    }
    let says_something = message.content.is_some() || !message.tool_calls.is_empty();
    Ok(says_something.then_some(message))
}

fn tool_call(call: &ToolCall) -> Value {
    let arguments = if call.arguments.is_empty() {
        "{}"
    } else {
        &call.arguments
    };
    let mut value = json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": arguments},
    });
    if let Some(seal) = call.seal.as_ref().filter(|seal| is_own(seal)) {
        value["extra_content"] = json!({"google": {"thought_signature": seal.data}});
    }
    value
}

fn is_own(seal: &Seal) -> bool {
    seal.maker == Api::OpenaiChat
}

fn detail(reasoning: &Reasoning) -> Option<Value> {
    let seal = reasoning.seal.as_ref().filter(|seal| is_own(seal))?;
    Some(match seal.whole {
        true => json!({"type": "reasoning.encrypted", "data": seal.data}),
        false => json!({"type": "reasoning.text", "text": reasoning.text, "signature": seal.data}),
    })
}

/// One text as itself, anything else as a list of parts.
fn content(parts: &[&Part], media: bool) -> Result<Value, Unsupported> {
    if parts.is_empty() {
        return Ok(json!(""));
    }
    if let [Part::Text(text)] = parts {
        return Ok(json!(text));
    }
    let mut written = Vec::with_capacity(parts.len());
    for part in parts {
        written.extend(self::part(part, media)?);
    }
    Ok(written.into())
}

fn part(part: &Part, media: bool) -> Result<Option<Value>, Unsupported> {
    Ok(match part {
        Part::Text(text) => Some(json!({"type": "text", "text": text})),
        Part::Refusal(refusal) => Some(json!({"type": "refusal", "refusal": refusal})),
        Part::Media(shown) if media => Some(self::media(shown)?),
        Part::Media(_) => return Err(unsupported("media in a message that is not the user's")),
        // these are not said but members of their own, or left behind
        Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    })
}

fn media(media: &Media) -> Result<Value, Unsupported> {
    match (media.kind, &media.source) {
        (MediaKind::Image, MediaSource::Inline { media_type, data }) => Ok(image(
            &format!("data:{media_type};base64,{data}"),
            media.detail.as_deref(),
        )),
        (MediaKind::Image, MediaSource::Url(url)) => Ok(image(url, media.detail.as_deref())),
        (MediaKind::Audio, MediaSource::Inline { media_type, data }) => {
            let format = match media_type.as_str() {
                "audio/wav" | "audio/x-wav" => "wav",
                "audio/mpeg" | "audio/mp3" => "mp3",
                _ => return Err(unsupported(media_type)),
            };
            Ok(json!({"type": "input_audio", "input_audio": {"data": data, "format": format}}))
        }
        (MediaKind::Document, MediaSource::Inline { media_type, data }) => {
            let name = media.name.as_deref().unwrap_or("document.pdf");
            let data = format!("data:{media_type};base64,{data}");
            Ok(json!({"type": "file", "file": {"filename": name, "file_data": data}}))
        }
        (MediaKind::Document, MediaSource::File { api, id }) if is_openai(*api) => {
            Ok(json!({"type": "file", "file": {"file_id": id}}))
        }
        (MediaKind::Image | MediaKind::Audio | MediaKind::Document, MediaSource::File { .. }) => {
            Err(unsupported("a file of another provider"))
        }
        (MediaKind::Audio, MediaSource::Url(_)) => Err(unsupported("a sound at an address")),
        (MediaKind::Document, MediaSource::Url(_)) => Err(unsupported("a document at an address")),
    }
}

/// Both of OpenAI's APIs know the same files.
fn is_openai(api: Api) -> bool {
    matches!(api, Api::OpenaiChat | Api::OpenaiResponses)
}

fn image(url: &str, detail: Option<&str>) -> Value {
    let mut value = json!({"type": "image_url", "image_url": {"url": url}});
    if let Some(detail) = detail {
        value["image_url"]["detail"] = json!(detail);
    }
    value
}
