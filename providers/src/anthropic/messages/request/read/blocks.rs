//! Blocks of content as parts of a message.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use understudy_messages::conversation::{
    Media, MediaKind, MediaSource, Message, Part, Reasoning, Seal, Speaker, ToolCall, ToolResult,
};
use understudy_messages::settings::Api;

use super::super::super::arguments::from_input;
use super::unread::Unread;
use crate::json::members::{Members, list, string, wrong};
use crate::request_error::RequestError;

/// What a content says, which `key` names: a string, or a list of blocks.
pub(super) fn blocks(value: &str, key: &'static str, unread: &mut Unread) -> Result<Vec<Part>, RequestError> {
    let mut parts = Vec::new();
    read(value, key, unread, &mut parts, true)?;
    Ok(parts)
}

/// Adds what one message says: results of tools first, as tools say them.
pub(super) fn say(messages: &mut Vec<Message>, speaker: Speaker, parts: Vec<Part>) {
    let is_result = |part: &Part| matches!(part, Part::ToolResult(_));
    let (results, rest): (Vec<Part>, Vec<Part>) = parts.into_iter().partition(is_result);
    let only_results = !results.is_empty() && rest.is_empty();
    if !results.is_empty() {
        messages.push(Message {
            speaker: Speaker::Tool,
            parts: results,
        });
    }
    if !only_results {
        messages.push(Message { speaker, parts: rest });
    }
}

/// Reads a content; `outer` unless it stands inside a block: there no block has a content of its own.
fn read(
    value: &str,
    key: &'static str,
    unread: &mut Unread,
    parts: &mut Vec<Part>,
    outer: bool,
) -> Result<(), RequestError> {
    if value.starts_with('"') {
        parts.push(Part::Text(string(value, key)?));
        return Ok(());
    }
    for element in list(value, key)? {
        let mut block = Members::of(element, key)?;
        let kind = block.required("type")?;
        match &*kind {
            "text" => parts.push(Part::Text(block.required("text")?)),
            "image" => medium(MediaKind::Image, &mut block, unread, parts)?,
            "document" => medium(MediaKind::Document, &mut block, unread, parts)?,
            "thinking" | "redacted_thinking" => parts.push(Part::Reasoning(reasoning(&kind, &mut block)?)),
            "tool_use" => {
                let call = call(&mut block, parts)?;
                parts.push(Part::ToolCall(call));
            }
            "tool_result" if outer => parts.push(Part::ToolResult(result(&mut block, unread)?)),
            "search_result" if outer => found(&mut block, unread, parts)?,
            // what the provider ran itself is told again by the text that follows
            hosted if hosted.ends_with("_tool_use") || hosted.ends_with("_tool_result") || hosted == "fallback" => {
                unread.note(hosted);
                continue;
            }
            _ => return Err(RequestError::Untranslatable { key: "content" }),
        }
        unread.left(block);
    }
    Ok(())
}

/// A thought. A seal behind the name of another API is that API's.
fn reasoning(kind: &str, block: &mut Members<'_>) -> Result<Reasoning, RequestError> {
    let (text, seal) = match kind {
        "redacted_thinking" => (None, block.string("data")?),
        _ => (block.string("thinking")?, block.string("signature")?),
    };
    let seal = seal.filter(|seal| !seal.is_empty()).map(|data| {
        let mut seal = Seal::from_format(Api::AnthropicMessages, kind == "redacted_thinking", &data);
        seal.whole |= seal.maker == Api::OpenaiResponses;
        seal
    });
    Ok(Reasoning {
        text: text.unwrap_or_default(),
        seal,
    })
}

/// A call. What Gemini wants back with it travels as a thought of its own right before it.
fn call(block: &mut Members<'_>, parts: &mut Vec<Part>) -> Result<ToolCall, RequestError> {
    let is_gemini = |seal: &Seal| seal.maker == Api::Gemini;
    let seal = match parts.pop() {
        Some(Part::Reasoning(thought)) if thought.text.is_empty() && thought.seal.as_ref().is_some_and(is_gemini) => {
            thought.seal
        }
        before => {
            parts.extend(before);
            None
        }
    };
    block.raw("caller");
    let input = block.raw("input").unwrap_or("{}");
    Members::of(input, "input")?;
    Ok(ToolCall {
        id: block.required("id")?,
        name: block.required("name")?,
        arguments: from_input(input),
        seal,
    })
}

fn result(block: &mut Members<'_>, unread: &mut Unread) -> Result<ToolResult, RequestError> {
    let mut parts = Vec::new();
    if let Some(content) = block.raw("content") {
        read(content, "content", unread, &mut parts, false)?;
    }
    Ok(ToolResult {
        id: block.required("tool_use_id")?,
        name: None,
        parts,
        is_error: block.flag("is_error")?.unwrap_or(false),
    })
}

/// Something that was found: where, then what.
fn found(block: &mut Members<'_>, unread: &mut Unread, parts: &mut Vec<Part>) -> Result<(), RequestError> {
    let (title, source) = (block.required("title")?, block.required("source")?);
    parts.push(Part::Text(format!("{title}\n{source}")));
    match block.raw("content") {
        Some(content) => read(content, "content", unread, parts, false),
        None => Ok(()),
    }
}

fn medium(
    kind: MediaKind,
    block: &mut Members<'_>,
    unread: &mut Unread,
    parts: &mut Vec<Part>,
) -> Result<(), RequestError> {
    let name = block.string("title")?;
    let source = block.object("source")?;
    let mut source = source.ok_or(RequestError::Missing { key: "source" })?;
    let source = match &*source.required("type")? {
        "base64" => MediaSource::Inline {
            media_type: source.required("media_type")?,
            data: source.required("data")?,
        },
        "text" => MediaSource::Inline {
            media_type: source.required("media_type")?,
            data: STANDARD.encode(source.required("data")?),
        },
        "url" => MediaSource::Url(source.required("url")?),
        "file" => MediaSource::File {
            api: Api::AnthropicMessages,
            id: source.required("file_id")?,
        },
        "content" => {
            parts.extend(name.map(Part::Text));
            let content = source.raw("content").ok_or(RequestError::Missing { key: "content" })?;
            return read(content, "content", unread, parts, false);
        }
        _ => return Err(wrong("source", "of type `base64`, `text`, `content`, `url` or `file`")),
    };
    parts.push(Part::Media(Media {
        kind,
        source,
        name,
        detail: None,
    }));
    Ok(())
}
