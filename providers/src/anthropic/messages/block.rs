//! A block of content in an answer, or a delta of one: its members read in place.

use understudy_messages::answer::Piece;
use understudy_messages::conversation::Seal;
use understudy_messages::settings::Api;

use crate::json::{Cursor, JsonError, JsonStr, Kind};

/// What a block or a delta may have, whatever it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block<'a> {
    kind: Option<JsonStr<'a>>,
    pub(super) text: Option<JsonStr<'a>>,
    pub(super) thinking: Option<JsonStr<'a>>,
    pub(super) signature: Option<JsonStr<'a>>,
    pub(super) data: Option<JsonStr<'a>>,
    pub(super) id: Option<JsonStr<'a>>,
    pub(super) name: Option<JsonStr<'a>>,
    /// The input of a tool as it is written.
    pub(super) input: Option<&'a str>,
    pub(super) partial_json: Option<JsonStr<'a>>,
    pub(super) stop_reason: Option<JsonStr<'a>>,
    pub(super) stop_sequence: Option<JsonStr<'a>>,
}

/// What a block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Text,
    Thinking,
    RedactedThinking,
    ToolUse,
    /// What the provider itself did: a tool that it ran, or what came of it.
    Hosted,
    /// Nothing that is known here.
    Other,
}

impl<'a> Block<'a> {
    /// Reads an object; anything else is stepped over.
    pub(super) fn read(cursor: &mut Cursor<'a>) -> Result<Self, JsonError> {
        let mut block = Self::default();
        cursor.object(|cursor, key| {
            match &*key.decode() {
                "type" => block.kind = cursor.text()?,
                "text" => block.text = filled(cursor)?,
                "thinking" => block.thinking = filled(cursor)?,
                "signature" => block.signature = filled(cursor)?,
                "data" => block.data = filled(cursor)?,
                "id" => block.id = filled(cursor)?,
                "name" => block.name = filled(cursor)?,
                "input" if cursor.kind()? != Kind::Null => block.input = Some(cursor.value()?),
                "partial_json" => block.partial_json = filled(cursor)?,
                "stop_reason" => block.stop_reason = filled(cursor)?,
                "stop_sequence" => block.stop_sequence = filled(cursor)?,
                _ => cursor.skip()?,
            }
            Ok::<_, JsonError>(())
        })?;
        Ok(block)
    }

    /// What it says, by its type.
    pub(super) fn kind(&self) -> BlockKind {
        let kind = self.kind.unwrap_or(JsonStr::EMPTY).decode();
        match &*kind {
            "text" => BlockKind::Text,
            "thinking" => BlockKind::Thinking,
            "redacted_thinking" => BlockKind::RedactedThinking,
            "tool_use" => BlockKind::ToolUse,
            kind if kind.ends_with("_tool_use") || kind.ends_with("_tool_result") => BlockKind::Hosted,
            "container_upload" => BlockKind::Hosted,
            _ => BlockKind::Other,
        }
    }
}

/// What seals the reasoning before it, or with `whole` is all of it.
pub(super) fn sealed(whole: bool, data: String) -> Piece {
    let seal = Seal {
        maker: Api::AnthropicMessages,
        whole,
        data,
    };
    Piece::Sealed { choice: 0, seal }
}

/// The text that a string stands for.
pub(super) fn owned(text: JsonStr<'_>) -> String {
    text.decode().into_owned()
}

/// A string that is not empty.
fn filled<'a>(cursor: &mut Cursor<'a>) -> Result<Option<JsonStr<'a>>, JsonError> {
    Ok(cursor.text()?.filter(|text| !text.is_empty()))
}
