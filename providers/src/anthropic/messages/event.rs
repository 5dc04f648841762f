//! The data of one frame, or a whole answer: read in one pass, whatever order its members have.

use understudy_messages::answer::Finish;

use super::block::Block;
use super::usage::Report;
use crate::json::{Cursor, JsonError, JsonStr, Kind};
use crate::sse::Frame;
use crate::wire_error::WireError;

/// What an event may have, whatever it is. Nothing is allocated for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event<'a> {
    pub(super) kind: Option<JsonStr<'a>>,
    pub(super) index: u64,
    /// The message of `message_start`.
    pub(super) message: Message<'a>,
    /// The block of `content_block_start`.
    pub(super) block: Block<'a>,
    /// The delta of `content_block_delta` and `message_delta`.
    pub(super) delta: Block<'a>,
    pub(super) usage: Report,
    error: Option<&'a str>,
}

/// What an answer says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Message<'a> {
    pub(super) kind: Option<JsonStr<'a>>,
    pub(super) id: Option<JsonStr<'a>>,
    pub(super) model: Option<JsonStr<'a>>,
    /// Its blocks, as they are written.
    pub(super) content: Option<&'a str>,
    pub(super) stop_reason: Option<JsonStr<'a>>,
    pub(super) stop_sequence: Option<JsonStr<'a>>,
    pub(super) usage: Report,
    error: Option<&'a str>,
}

impl<'a> Event<'a> {
    /// Reads the data of a frame.
    pub(super) fn read(data: &'a [u8]) -> Result<Self, JsonError> {
        let mut cursor = object(data)?;
        let mut event = Self::default();
        cursor.object(|cursor, key| {
            match &*key.decode() {
                "type" => event.kind = cursor.text()?,
                "index" => event.index = cursor.count()?,
                "message" => event.message = Message::members(cursor)?,
                "content_block" => event.block = Block::read(cursor)?,
                "delta" => event.delta = Block::read(cursor)?,
                "usage" => event.usage = Report::read(cursor)?,
                "error" => event.error = Some(cursor.value()?),
                _ => cursor.skip()?,
            }
            Ok::<_, JsonError>(())
        })?;
        cursor.end()?;
        Ok(event)
    }

    /// The provider's error, if it tells of one.
    pub(super) fn error(&self) -> Option<WireError> {
        error(self.error)
    }
}

impl<'a> Message<'a> {
    /// Reads a whole answer.
    pub(super) fn read(body: &'a [u8]) -> Result<Self, JsonError> {
        let mut cursor = object(body)?;
        let message = Self::members(&mut cursor)?;
        cursor.end()?;
        Ok(message)
    }

    fn members(cursor: &mut Cursor<'a>) -> Result<Self, JsonError> {
        let mut message = Self::default();
        cursor.object(|cursor, key| {
            match &*key.decode() {
                "type" => message.kind = cursor.text()?,
                "id" => message.id = cursor.text()?,
                "model" => message.model = cursor.text()?,
                "content" if cursor.kind()? == Kind::Array => message.content = Some(cursor.value()?),
                "stop_reason" => message.stop_reason = cursor.text()?,
                "stop_sequence" => message.stop_sequence = cursor.text()?,
                "usage" => message.usage = Report::read(cursor)?,
                "error" => message.error = Some(cursor.value()?),
                _ => cursor.skip()?,
            }
            Ok::<_, JsonError>(())
        })?;
        Ok(message)
    }

    /// The provider's error, if it tells of one.
    pub(super) fn error(&self) -> Option<WireError> {
        error(self.error)
    }
}

/// The data of a frame as far as there is any.
pub(super) fn data(frame: &Frame) -> &[u8] {
    frame.data.as_deref().unwrap_or_default().trim_ascii()
}

/// Why an answer ended; `None` for no word.
pub(super) fn finish(reason: Option<JsonStr<'_>>) -> Option<Finish> {
    match &*reason?.decode() {
        "end_turn" | "stop_sequence" => Some(Finish::Stop),
        "max_tokens" | "model_context_window_exceeded" => Some(Finish::Length),
        "tool_use" => Some(Finish::ToolCalls),
        "refusal" => Some(Finish::ContentFilter),
        "" => None,
        _ => Some(Finish::Other),
    }
}

/// The stop sequence that an answer met, where it ended for one.
pub(super) fn stop_sequence(reason: Option<JsonStr<'_>>, sequence: Option<JsonStr<'_>>) -> Option<String> {
    let met = reason.is_some_and(|reason| reason.decode() == "stop_sequence");
    sequence.filter(|_| met).map(|sequence| sequence.decode().into_owned())
}

fn object(json: &[u8]) -> Result<Cursor<'_>, JsonError> {
    let mut cursor = Cursor::new(json)?;
    match cursor.kind()? {
        Kind::Object => Ok(cursor),
        Kind::Array | Kind::String | Kind::Number | Kind::Bool | Kind::Null => {
            Err(JsonError::Syntax { at: cursor.position() })
        }
    }
}

fn error(value: Option<&str>) -> Option<WireError> {
    value.and_then(|value| WireError::read(value).ok().flatten())
}
