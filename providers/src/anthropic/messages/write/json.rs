//! The JSON of answers and of the events of a stream.

use serde::Serialize;
use serde_json::value::RawValue;
use understudy_messages::answer::Usage;

use super::super::usage::Told;

/// An event of a stream.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    MessageStart { message: Message<'a> },
    ContentBlockStart { index: u64, content_block: Block<'a> },
    ContentBlockDelta { index: u64, delta: Delta<'a> },
    ContentBlockStop { index: u64 },
    MessageDelta { delta: Ending<'a>, usage: Told },
    MessageStop,
    Ping,
}

impl<'a> Event<'a> {
    /// More of a block.
    pub(super) fn delta(index: u64, delta: Delta<'a>) -> Self {
        Self::ContentBlockDelta { index, delta }
    }

    /// Adds it as a frame.
    pub(super) fn write(&self, frames: &mut Vec<u8>) {
        frames.extend_from_slice(b"event: ");
        frames.extend_from_slice(self.name().as_bytes());
        frames.extend_from_slice(b"\ndata: ");
        frames.extend(serde_json::to_vec(self).unwrap_or_default());
        frames.extend_from_slice(b"\n\n");
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
            Self::Ping => "ping",
        }
    }
}

/// A message: whole, or at its beginning.
#[derive(Serialize)]
pub(super) struct Message<'a> {
    pub(super) id: &'a str,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) role: &'static str,
    pub(super) model: &'a str,
    pub(super) content: Vec<Block<'a>>,
    #[serde(flatten)]
    pub(super) ending: Ending<'a>,
    pub(super) usage: Told,
}

impl Default for Message<'_> {
    fn default() -> Self {
        Self {
            id: "",
            kind: "message",
            role: "assistant",
            model: "",
            content: Vec::new(),
            ending: Ending::default(),
            usage: Usage::default().into(),
        }
    }
}

impl Message<'_> {
    /// It as the body of an answer.
    pub(super) fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Why a message ended.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Ending<'a> {
    pub(super) stop_reason: Option<&'static str>,
    pub(super) stop_sequence: Option<&'a str>,
}

/// A block of content.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Input<'a>,
    },
}

/// The input of a tool: nothing yet, or JSON as it was written.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Input<'a> {
    None {},
    Json(&'a RawValue),
}

impl<'a> Block<'a> {
    /// A thought.
    pub(super) const fn thinking(thinking: &'a str, signature: &'a str) -> Self {
        Self::Thinking { thinking, signature }
    }

    /// A call whose input is still to come.
    pub(super) const fn call(id: &'a str, name: &'a str) -> Self {
        let input = Input::None {};
        Self::ToolUse { id, name, input }
    }
}

/// More of a block.
#[derive(Serialize)]
#[serde(tag = "type")]
pub(super) enum Delta<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}
