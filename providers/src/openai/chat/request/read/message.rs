//! The messages of a chat request.

use understudy_messages::conversation::{
    Media, MediaKind, MediaSource, Message, Part, Reasoning, Seal, Speaker, ToolCall, ToolResult,
};
use understudy_messages::settings::Api;

use super::{RequestError, note};
use crate::json::members::{Members, list, string, wrong};

/// The conversation so far.
#[derive(Default)]
pub(super) struct History {
    messages: Vec<Message>,
    unread: Vec<String>,
    /// Calls of the old style, which has no ids: results belong to the latest.
    old_calls: usize,
}

impl History {
    /// The messages, and the members of them that nobody read.
    pub(super) fn finish(self) -> (Vec<Message>, Vec<String>) {
        (self.messages, self.unread)
    }

    /// Reads the next message.
    pub(super) fn add(&mut self, message: &str) -> Result<(), RequestError> {
        let mut message = Members::of(message, "messages")?;
        let role = message.required("role")?;
        let speaker = match role.as_str() {
            "system" => Speaker::System,
            "developer" => Speaker::Developer,
            "user" => Speaker::User,
            "assistant" => Speaker::Assistant,
            "tool" | "function" => Speaker::Tool,
            _ => return Err(wrong("role", "system, developer, user, assistant, tool or function")),
        };
        let mut parts = match speaker {
            Speaker::Assistant => reasoning(&mut message)?,
            _ => Vec::new(),
        };
        if let Some(content) = message.raw("content") {
            self.content(content, &mut parts)?;
        }
        match speaker {
            Speaker::Assistant => self.said(&mut message, &mut parts)?,
            Speaker::Tool => parts = vec![self.result(&mut message, parts, role == "function")?],
            Speaker::System | Speaker::Developer | Speaker::User => {}
        }
        note(&mut self.unread, message, "messages.");
        self.messages.push(Message { speaker, parts });
        Ok(())
    }

    /// Content is a text or a list of parts.
    fn content(&mut self, content: &str, parts: &mut Vec<Part>) -> Result<(), RequestError> {
        if content.starts_with('"') {
            say(parts, Part::Text, Some(string(content, "content")?));
            return Ok(());
        }
        for part in list(content, "content")? {
            let mut part = Members::of(part, "content")?;
            match part.required("type")?.as_str() {
                "text" => say(parts, Part::Text, part.string("text")?),
                "refusal" => say(parts, Part::Refusal, part.string("refusal")?),
                "image_url" => parts.push(image(&mut part)?),
                "input_audio" => parts.push(audio(&mut part)?),
                "file" => parts.push(file(&mut part)?),
                _ => return Err(RequestError::Untranslatable { key: "content" }),
            }
            note(&mut self.unread, part, "messages.content.");
        }
        Ok(())
    }

    /// What else the model said: a refusal, calls.
    fn said(&mut self, message: &mut Members<'_>, parts: &mut Vec<Part>) -> Result<(), RequestError> {
        say(parts, Part::Refusal, message.string("refusal")?);
        for call in message.list("tool_calls")?.unwrap_or_default() {
            let mut call = Members::of(call, "tool_calls")?;
            if call.string("type")?.is_some_and(|kind| kind != "function") {
                return Err(RequestError::Untranslatable { key: "tool_calls" });
            }
            let id = call.required("id")?;
            parts.push(Part::ToolCall(self.call(id, &mut call)?));
        }
        if let Some(function) = message.object("function_call")? {
            self.old_calls += 1;
            let id = self.old_id();
            parts.push(Part::ToolCall(called(id, function)?));
        }
        Ok(())
    }

    fn call(&mut self, id: String, call: &mut Members<'_>) -> Result<ToolCall, RequestError> {
        let missing = RequestError::Missing { key: "function" };
        let function = call.object("function")?.ok_or(missing)?;
        let seal = match call.object("extra_content")? {
            Some(mut extra) => match extra.object("google")? {
                Some(mut google) => google.string("thought_signature")?,
                None => None,
            },
            None => None,
        };
        call.raw("index"); // left there by clients that put streams together
        Ok(ToolCall {
            seal: seal.map(|data| Seal::from_format(Api::Gemini, false, &data)),
            ..called(id, function)?
        })
    }

    fn result(&self, message: &mut Members<'_>, parts: Vec<Part>, old: bool) -> Result<Part, RequestError> {
        let id = match old {
            true => self.old_id(),
            false => message.required("tool_call_id")?,
        };
        let name = message.string("name")?;
        Ok(Part::ToolResult(ToolResult {
            id,
            name,
            parts,
            is_error: false,
        }))
    }

    fn old_id(&self) -> String {
        format!("call_{}", self.old_calls)
    }
}

fn called(id: String, mut function: Members<'_>) -> Result<ToolCall, RequestError> {
    let arguments = function.raw("arguments").unwrap_or("\"\"");
    Ok(ToolCall {
        id,
        name: function.required("name")?,
        // some clients give the arguments themselves instead of their text
        arguments: match arguments.starts_with('"') {
            true => string(arguments, "arguments")?,
            false => arguments.to_owned(),
        },
        seal: None,
    })
}

/// Adds a text, unless there is none.
fn say(parts: &mut Vec<Part>, part: fn(String) -> Part, text: Option<String>) {
    parts.extend(text.filter(|text| !text.is_empty()).map(part));
}

/// What the model thought: in blocks that may be sealed, or as one text.
fn reasoning(message: &mut Members<'_>) -> Result<Vec<Part>, RequestError> {
    let older = message.string("reasoning")?;
    let text = message.string("reasoning_content")?.or(older).unwrap_or_default();
    let mut blocks: Vec<Reasoning> = Vec::new();
    let mut open = None::<String>;
    for detail in message.list("reasoning_details")?.unwrap_or_default() {
        let mut detail = Members::of(detail, "reasoning_details")?;
        let said = detail.string("text")?.or(detail.string("summary")?).unwrap_or_default();
        let signature = detail.string("signature")?;
        let whole = signature.is_none();
        match signature.or(detail.string("data")?) {
            None => open.get_or_insert_default().push_str(&said),
            Some(data) => {
                let before = open.take();
                // a seal without a text of its own is that of the text before it
                let (alone, sealed) = match said.is_empty() {
                    true => (None, before.unwrap_or_default()),
                    false => (before, said),
                };
                blocks.extend(alone.map(unsealed));
                blocks.push(Reasoning {
                    text: sealed,
                    seal: Some(Seal::from_format(Api::OpenaiChat, whole, &data)),
                });
            }
        }
    }
    blocks.extend(open.map(unsealed));
    if blocks.iter().all(|block| block.text.is_empty()) && !text.is_empty() {
        match blocks.first_mut() {
            Some(first) => first.text = text,
            None => blocks.push(unsealed(text)),
        }
    }
    Ok(blocks.into_iter().map(Part::Reasoning).collect())
}

fn unsealed(text: String) -> Reasoning {
    Reasoning { text, seal: None }
}

fn image(part: &mut Members<'_>) -> Result<Part, RequestError> {
    let missing = RequestError::Missing { key: "image_url" };
    let image = part.raw("image_url").ok_or(missing)?;
    let (url, detail) = match image.starts_with('"') {
        true => (string(image, "image_url")?, None),
        false => {
            let mut image = Members::of(image, "image_url")?;
            (image.required("url")?, image.string("detail")?)
        }
    };
    Ok(Part::Media(Media {
        kind: MediaKind::Image,
        source: inline(&url).unwrap_or(MediaSource::Url(url)),
        name: None,
        detail,
    }))
}

fn audio(part: &mut Members<'_>) -> Result<Part, RequestError> {
    let missing = RequestError::Missing { key: "input_audio" };
    let mut audio = part.object("input_audio")?.ok_or(missing)?;
    let format = match audio.required("format")?.as_str() {
        "mp3" => "mpeg".to_owned(),
        format => format.to_owned(),
    };
    Ok(Part::Media(Media {
        kind: MediaKind::Audio,
        source: MediaSource::Inline {
            media_type: format!("audio/{format}"),
            data: audio.required("data")?,
        },
        name: None,
        detail: None,
    }))
}

fn file(part: &mut Members<'_>) -> Result<Part, RequestError> {
    let missing = RequestError::Missing { key: "file" };
    let mut file = part.object("file")?.ok_or(missing)?;
    let source = match (file.string("file_data")?, file.string("file_id")?) {
        (Some(data), _) => inline(&data).unwrap_or(MediaSource::Inline {
            media_type: "application/pdf".to_owned(),
            data,
        }),
        (None, Some(id)) => MediaSource::File {
            api: Api::OpenaiChat,
            id,
        },
        (None, None) => return Err(RequestError::Missing { key: "file_data" }),
    };
    Ok(Part::Media(Media {
        kind: MediaKind::Document,
        source,
        name: file.string("filename")?,
        detail: None,
    }))
}

/// What a `data:` URL in base64 carries.
fn inline(url: &str) -> Option<MediaSource> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let media_type = head.strip_suffix(";base64")?.split(';').next()?;
    Some(MediaSource::Inline {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
    })
}
