//! One event of a Responses stream: its members, read in place and in one pass.

use super::response::{Item, Response};
use crate::json::{Cursor, JsonError, JsonStr, Kind};
use crate::wire_error::WireError;

/// What an event has, whatever it is.
#[derive(Debug, Default)]
pub(super) struct Event<'a> {
    pub(super) kind: Option<JsonStr<'a>>,
    pub(super) response: Option<Response<'a>>,
    pub(super) item: Option<Item<'a>>,
    /// What is new.
    pub(super) delta: Option<JsonStr<'a>>,
    /// All that was said, at the end of it: text, refusal, arguments, input.
    pub(super) whole: Option<JsonStr<'a>>,
    /// Which item it is about.
    pub(super) output_index: u64,
    /// Which part of the item.
    pub(super) part_index: u64,
    error: Option<&'a str>,
}

impl<'a> Event<'a> {
    /// Reads the data of a frame.
    pub(super) fn read(data: &'a [u8]) -> Result<Self, JsonError> {
        let mut cursor = Cursor::new(data)?;
        if cursor.kind()? != Kind::Object {
            return Err(JsonError::Syntax { at: cursor.position() });
        }
        let mut event = Self::default();
        cursor.object(|cursor, key| event.member(cursor, &key.decode()))?;
        cursor.end()?;
        Ok(event)
    }

    fn member(&mut self, cursor: &mut Cursor<'a>, key: &str) -> Result<(), JsonError> {
        match key {
            "type" => self.kind = cursor.text()?,
            "response" => self.response = Some(Response::read(cursor)?),
            "item" => self.item = Some(Item::read(cursor)?),
            "delta" => self.delta = cursor.text()?,
            "text" | "refusal" | "arguments" | "input" => self.whole = cursor.text()?,
            "output_index" => self.output_index = cursor.count()?,
            "content_index" | "summary_index" => self.part_index = cursor.count()?,
            "error" => self.error = Some(cursor.value()?),
            _ => cursor.skip()?,
        }
        Ok(())
    }

    /// The error that it is: nested, or its own members.
    pub(super) fn failure(&self, data: &'a [u8]) -> WireError {
        let nested = self.stray_error();
        let own = || {
            std::str::from_utf8(data)
                .ok()
                .and_then(|data| WireError::read(data).ok()?)
        };
        let mut error = nested.or_else(own).unwrap_or_default();
        // the event's own type, no word of the provider
        error.kind = error.kind.filter(|kind| kind != "error");
        error
    }

    /// An error in an event that is not known to be one.
    pub(super) fn stray_error(&self) -> Option<WireError> {
        self.error.and_then(|error| WireError::read(error).ok().flatten())
    }
}
