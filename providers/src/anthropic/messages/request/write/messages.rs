//! Messages as Anthropic wants them.
//!
//! The system and developer messages that lead become `system`; later ones are the user's text, in their place. Results of
//! tools come first in the message right after the calls. Text that is empty or white space alone is refused by Anthropic and
//! left out, and so are messages that say nothing then. Thoughts go along only with Anthropic's own seal. An answer
//! that is begun loses the white space at its end. A conversation may begin with the model: Anthropic takes that.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use understudy_messages::conversation::{
    Media, MediaKind, MediaSource, Message, Part, Reasoning, Speaker, ToolCall, ToolResult,
};
use understudy_messages::settings::Api;

use super::super::super::arguments::to_input;
use super::{Dropped, unsupported};
use crate::wire::Unsupported;

/// One message.
#[derive(Serialize)]
pub(super) struct Turn<'a> {
    role: &'static str,
    pub(super) content: Vec<Block<'a>>,
}

impl Turn<'_> {
    pub(super) fn is_the_models(&self) -> bool {
        self.role == ASSISTANT
    }

    pub(super) fn calls_tools(&self) -> bool {
        self.content.iter().any(|block| matches!(block, Block::ToolUse { .. }))
    }
}

const USER: &str = "user";
const ASSISTANT: &str = "assistant";

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: &'a str,
        input: Box<RawValue>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

impl Block<'_> {
    pub(super) fn is_thought(&self) -> bool {
        matches!(self, Self::Thinking { .. } | Self::RedactedThinking { .. })
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Text { media_type: &'a str, data: String },
    Url { url: &'a str },
    File { file_id: &'a str },
}

/// The blocks of `system`, and the messages.
pub(super) fn write<'a>(
    messages: &'a [Message],
    dropped: &mut Dropped,
) -> Result<(Vec<Block<'a>>, Vec<Turn<'a>>), Unsupported> {
    let leads = |message: &&Message| matches!(message.speaker, Speaker::System | Speaker::Developer);
    let mut leading = messages.iter().take_while(leads).count();
    if leading == messages.len() {
        // there must be a message: the last of them is the user's
        leading = leading.saturating_sub(1);
    }
    let (leading, rest) = messages.split_at(leading);
    let mut system = Vec::new();
    for message in leading {
        system.extend(blocks(&message.parts, dropped)?);
    }
    if system.iter().any(|block| !matches!(block, Block::Text { .. })) {
        return Err(unsupported("system"));
    }
    let mut draft = Draft::default();
    for message in rest {
        let blocks = blocks(&message.parts, dropped)?;
        match message.speaker {
            Speaker::System | Speaker::Developer | Speaker::User | Speaker::Tool => draft.user(blocks),
            Speaker::Assistant => draft.assistant(blocks)?,
        }
    }
    Ok((system, draft.finish()))
}

/// The messages so far.
#[derive(Default)]
struct Draft<'a> {
    turns: Vec<Turn<'a>>,
    /// Where what was said after the model's newest message begins.
    since: usize,
    /// Whether the message there is one of results.
    has_results: bool,
}

impl<'a> Draft<'a> {
    fn user(&mut self, blocks: Vec<Block<'a>>) {
        let is_result = |block: &Block<'_>| matches!(block, Block::ToolResult { .. });
        let (results, content): (Vec<_>, Vec<_>) = blocks.into_iter().partition(is_result);
        if !results.is_empty() {
            if !std::mem::replace(&mut self.has_results, true) {
                let turn = Turn {
                    role: USER,
                    content: Vec::new(),
                };
                self.turns.insert(self.since, turn);
            }
            if let Some(turn) = self.turns.get_mut(self.since) {
                turn.content.extend(results);
            }
        }
        if !content.is_empty() {
            self.turns.push(Turn { role: USER, content });
        }
    }

    fn assistant(&mut self, content: Vec<Block<'a>>) -> Result<(), Unsupported> {
        if content.is_empty() {
            return Ok(());
        }
        if content
            .iter()
            .any(|block| matches!(block, Block::Image { .. } | Block::Document { .. }))
        {
            return Err(unsupported("media of the assistant"));
        }
        self.turns.push(Turn {
            role: ASSISTANT,
            content,
        });
        (self.since, self.has_results) = (self.turns.len(), false);
        Ok(())
    }

    fn finish(mut self) -> Vec<Turn<'a>> {
        if let Some(turn) = self.turns.last_mut()
            && turn.is_the_models()
            && let Some(Block::Text { text }) = turn.content.last_mut()
        {
            *text = text.trim_end();
        }
        self.turns
    }
}

fn blocks<'a>(parts: &'a [Part], dropped: &mut Dropped) -> Result<Vec<Block<'a>>, Unsupported> {
    let mut blocks = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Text(text) | Part::Refusal(text) => {
                blocks.extend((!text.trim().is_empty()).then_some(Block::Text { text }));
            }
            Part::Media(media) => blocks.push(medium(media, dropped)?),
            Part::Reasoning(thought) => blocks.extend(reasoning(thought)),
            Part::ToolCall(call) => blocks.push(tool_use(call)),
            Part::ToolResult(result) => blocks.push(tool_result(result, dropped)?),
        }
    }
    Ok(blocks)
}

fn reasoning(thought: &Reasoning) -> Option<Block<'_>> {
    let seal = thought
        .seal
        .as_ref()
        .filter(|seal| seal.maker == Api::AnthropicMessages)?;
    Some(match seal.whole {
        true => Block::RedactedThinking { data: &seal.data },
        false => Block::Thinking {
            thinking: &thought.text,
            signature: &seal.data,
        },
    })
}

fn tool_use(call: &ToolCall) -> Block<'_> {
    Block::ToolUse {
        id: id(&call.id),
        name: &call.name,
        input: to_input(&call.arguments),
    }
}

fn tool_result<'a>(result: &'a ToolResult, dropped: &mut Dropped) -> Result<Block<'a>, Unsupported> {
    let content = blocks(&result.parts, dropped)?;
    let plain = |block: &Block<'_>| matches!(block, Block::Text { .. } | Block::Image { .. } | Block::Document { .. });
    if !content.iter().all(plain) {
        return Err(unsupported("a tool call inside of a tool's result"));
    }
    Ok(Block::ToolResult {
        tool_use_id: id(&result.id),
        content,
        is_error: result.is_error,
    })
}

/// The id of a call, of letters, digits, `_` and `-` alone: any other byte becomes `-` and its two hexadecimal digits.
fn id(id: &str) -> Cow<'_, str> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if id.is_empty() {
        return Cow::Borrowed("call");
    }
    if id.bytes().all(fits) {
        return Cow::Borrowed(id);
    }
    let spelled = |byte: u8| match fits(byte) {
        true => char::from(byte).to_string(),
        false => format!("-{byte:02x}"),
    };
    Cow::Owned(id.bytes().map(spelled).collect())
}

fn medium<'a>(media: &'a Media, dropped: &mut Dropped) -> Result<Block<'a>, Unsupported> {
    if media.detail.as_deref().is_some_and(|detail| detail != "auto") {
        dropped.note("detail");
    }
    let source = match &media.source {
        MediaSource::Url(url) => Source::Url { url },
        MediaSource::File {
            api: Api::AnthropicMessages,
            id,
        } => Source::File { file_id: id },
        MediaSource::File { .. } => return Err(unsupported("a file of another provider")),
        MediaSource::Inline { media_type, data } => inline(media.kind, media_type, data)?,
    };
    match media.kind {
        MediaKind::Image => Ok(Block::Image { source }),
        MediaKind::Document => Ok(Block::Document {
            source,
            title: media.name.as_deref(),
        }),
        MediaKind::Audio => Err(unsupported("input_audio")),
    }
}

/// A document is a PDF or plain text.
fn inline<'a>(kind: MediaKind, media_type: &'a str, data: &'a str) -> Result<Source<'a>, Unsupported> {
    if kind != MediaKind::Document || media_type == "application/pdf" {
        return Ok(Source::Base64 { media_type, data });
    }
    let text = STANDARD.decode(data).ok().and_then(|text| String::from_utf8(text).ok());
    match text.filter(|_| media_type.starts_with("text/")) {
        Some(data) => Ok(Source::Text {
            media_type: "text/plain",
            data,
        }),
        None => Err(unsupported("a document that is neither a PDF nor text")),
    }
}
