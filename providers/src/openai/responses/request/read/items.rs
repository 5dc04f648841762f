//! The items of a conversation.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use understudy_messages::conversation::{
    Media, MediaKind, MediaSource, Message, Part, Reasoning, Seal, Speaker, ToolCall, ToolResult,
};
use understudy_messages::settings::Api;

use super::typed;
use crate::openai::responses::seal;
use crate::request_error::RequestError;

const EXPECTED: &str = "a string or a list of items";

/// Adds the messages of an input.
pub(super) fn read(value: &RawValue, messages: &mut Vec<Message>) -> Result<(), RequestError> {
    if let Ok(text) = serde_json::from_str::<String>(value.get()) {
        messages.push(Message {
            speaker: Speaker::User,
            parts: vec![Part::Text(text)],
        });
        return Ok(());
    }
    let items: Vec<&RawValue> = typed(value, "input", EXPECTED)?;
    for item in items {
        self::item(&typed(item, "input", EXPECTED)?, messages)?;
    }
    // what sealed a call stands before it
    for message in messages {
        tie_seals(&mut message.parts);
    }
    Ok(())
}

#[derive(Deserialize)]
struct WireItem<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(borrow)]
    role: Option<Cow<'a, str>>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    call_id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
    #[serde(default)]
    summary: Vec<WireText>,
    encrypted_content: Option<String>,
    /// A word of our own transcripts.
    #[serde(default)]
    is_error: bool,
}

#[derive(Deserialize)]
struct WireText {
    #[serde(default)]
    text: String,
}

fn item(item: &WireItem<'_>, messages: &mut Vec<Message>) -> Result<(), RequestError> {
    match (item.kind.as_deref(), item.role.as_deref()) {
        (Some("message") | None, Some(role)) => {
            let speaker = speaker(role)?;
            let parts = item.content.map_or(Ok(Vec::new()), |content| parts(content, "input"))?;
            if speaker == Speaker::Assistant {
                say(messages, speaker, parts);
            } else {
                messages.push(Message { speaker, parts });
            }
        }
        (Some("reasoning"), _) => say(messages, Speaker::Assistant, vec![Part::Reasoning(reasoning(item)?)]),
        (Some("function_call"), _) => {
            let call = ToolCall {
                id: item.call_id.clone().unwrap_or_default(),
                name: item.name.clone().unwrap_or_default(),
                arguments: item.arguments.clone().unwrap_or_default(),
                seal: None,
            };
            say(messages, Speaker::Assistant, vec![Part::ToolCall(call)]);
        }
        (Some("function_call_output"), _) => {
            let result = ToolResult {
                id: item.call_id.clone().unwrap_or_default(),
                name: None,
                parts: item.output.map_or(Ok(Vec::new()), |output| parts(output, "output"))?,
                is_error: item.is_error,
            };
            say(messages, Speaker::Tool, vec![Part::ToolResult(result)]);
        }
        _ => return Err(RequestError::Untranslatable { key: "input" }),
    }
    Ok(())
}

/// Adds parts to the newest message, if it is this speaker's, else as a message of their own.
fn say(messages: &mut Vec<Message>, speaker: Speaker, parts: Vec<Part>) {
    match messages.last_mut() {
        Some(message) if message.speaker == speaker => message.parts.extend(parts),
        Some(_) | None => messages.push(Message { speaker, parts }),
    }
}

fn speaker(role: &str) -> Result<Speaker, RequestError> {
    match role {
        "system" => Ok(Speaker::System),
        "developer" => Ok(Speaker::Developer),
        "user" => Ok(Speaker::User),
        "assistant" => Ok(Speaker::Assistant),
        _ => Err(RequestError::WrongType {
            key: "role",
            expected: "`system`, `developer`, `user` or `assistant`",
        }),
    }
}

fn reasoning(item: &WireItem<'_>) -> Result<Reasoning, RequestError> {
    let full: Option<Vec<WireText>> = match item.content {
        Some(content) => typed(content, "content", "a list of parts")?,
        None => None,
    };
    let texts = full.filter(|texts| !texts.is_empty());
    let texts = texts.as_deref().unwrap_or(&item.summary);
    let texts: Vec<&str> = texts.iter().map(|part| &*part.text).collect();
    let text = texts.join("\n\n");
    let sealed = item.encrypted_content.as_deref().filter(|data| !data.is_empty());
    let seal = sealed.map(|data| {
        let (maker, data) = seal::read(data);
        Seal {
            maker,
            whole: maker == Api::OpenaiResponses || text.is_empty(),
            data: data.to_owned(),
        }
    });
    Ok(Reasoning { text, seal })
}

/// Gemini seals calls, and Responses have no place for that in a call: there it is an item of reasoning before it.
fn tie_seals(parts: &mut Vec<Part>) {
    let mut tied: Vec<Part> = Vec::with_capacity(parts.len());
    for mut part in parts.drain(..) {
        if let Part::ToolCall(call) = &mut part
            && let Some(Part::Reasoning(Reasoning { text, seal: Some(seal) })) = tied.last()
            && text.is_empty()
            && seal.maker == Api::Gemini
        {
            call.seal = Some(Seal {
                whole: false,
                ..seal.clone()
            });
            tied.pop();
        }
        tied.push(part);
    }
    *parts = tied;
}

#[derive(Deserialize)]
struct WirePart<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    refusal: String,
    image_url: Option<String>,
    detail: Option<String>,
    file_id: Option<String>,
    file_url: Option<String>,
    file_data: Option<String>,
    filename: Option<String>,
    input_audio: Option<WireAudio>,
}

#[derive(Deserialize)]
struct WireAudio {
    data: String,
    format: String,
}

/// A content: a string, or a list of parts.
fn parts(value: &RawValue, key: &'static str) -> Result<Vec<Part>, RequestError> {
    if let Ok(text) = serde_json::from_str::<String>(value.get()) {
        return Ok(vec![Part::Text(text)]);
    }
    let parts: Option<Vec<WirePart<'_>>> = typed(value, key, "a string or a list of parts")?;
    parts.unwrap_or_default().into_iter().map(part).collect()
}

fn part(part: WirePart<'_>) -> Result<Part, RequestError> {
    match &*part.kind {
        "input_text" | "output_text" | "text" => Ok(Part::Text(part.text)),
        "refusal" => Ok(Part::Refusal(part.refusal)),
        "input_image" | "input_file" | "input_audio" => media(part).map(Part::Media),
        _ => Err(RequestError::Untranslatable { key: "content" }),
    }
}

fn media(part: WirePart<'_>) -> Result<Media, RequestError> {
    let kind = match &*part.kind {
        "input_image" => MediaKind::Image,
        "input_audio" => MediaKind::Audio,
        _ => MediaKind::Document,
    };
    let api = Api::OpenaiResponses;
    let source = match (part.file_id, part.image_url.or(part.file_url), part.file_data) {
        (Some(id), _, _) => Some(MediaSource::File { api, id }),
        (None, Some(url), _) => Some(inline(&url).unwrap_or(MediaSource::Url(url))),
        (None, None, Some(data)) => Some(inline(&data).unwrap_or(MediaSource::Inline {
            media_type: "application/pdf".to_owned(),
            data,
        })),
        (None, None, None) => part.input_audio.map(|audio| MediaSource::Inline {
            media_type: format!("audio/{}", audio.format),
            data: audio.data,
        }),
    };
    Ok(Media {
        kind,
        source: source.ok_or(RequestError::Missing { key: "content" })?,
        name: part.filename,
        detail: part.detail,
    })
}

/// What is in a `data:` URL, if it is in base64.
fn inline(url: &str) -> Option<MediaSource> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    Some(MediaSource::Inline {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
    })
}
