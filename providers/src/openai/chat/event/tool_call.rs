//! Pieces of tool calls.

use std::ops::Range;

use super::Event;
use crate::json::{Cursor, JsonError, JsonStr, Kind};

/// What one delta tells of a tool call.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolCallPiece<'a> {
    pub(crate) index: Option<u64>,
    pub(crate) id: Option<JsonStr<'a>>,
    pub(crate) name: Option<JsonStr<'a>>,
    pub(crate) arguments: Option<Arguments<'a>>,
    /// Whether it is a call of something that is no function.
    pub(crate) custom: bool,
    /// What its maker wants back with it.
    pub(crate) signature: Option<JsonStr<'a>>,
    /// Where the index belongs when there is none.
    pub(crate) gap: Option<Gap>,
}

impl ToolCallPiece<'_> {
    /// Whether anything is known of the call by it.
    pub(crate) fn says_something(&self) -> bool {
        self.id.is_some() || self.name.is_some() || self.arguments.is_some() || self.custom
    }
}

/// Arguments of a tool call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arguments<'a> {
    /// A piece of JSON inside a string, as the format has it.
    Text(JsonStr<'a>),
    /// JSON itself, as some providers send it.
    Json(&'a str),
}

/// Where an index is missing, in bytes of the JSON that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The value in its place that is no number; or nothing, behind the piece's brace.
    pub(crate) span: Range<usize>,
    /// What has to stand before the number there, and after it.
    pub(crate) around: (&'static str, &'static str),
}

impl Gap {
    fn value(span: Range<usize>) -> Self {
        Self { span, around: ("", "") }
    }

    fn member(brace: usize, alone: bool) -> Self {
        Self {
            span: brace + 1..brace + 1,
            around: ("\"index\":", if alone { "" } else { "," }),
        }
    }
}

/// Reads one element of `tool_calls`.
pub(super) fn piece<'a>(
    cursor: &mut Cursor<'a>,
    choice: u64,
    sink: &mut impl FnMut(Event<'a>),
) -> Result<(), JsonError> {
    if cursor.kind()? != Kind::Object {
        return cursor.skip();
    }
    let brace = cursor.position();
    let mut piece = ToolCallPiece::default();
    let mut alone = true;
    cursor.object(|cursor, key| {
        alone = false;
        match &*key.decode() {
            "index" if cursor.kind()? == Kind::Number => piece.index = Some(cursor.count()?),
            "index" => {
                let start = cursor.position();
                cursor.skip()?;
                piece.gap = Some(Gap::value(start..cursor.position()));
            }
            "id" => piece.id = cursor.text()?.filter(|id| !id.is_empty()),
            "function" => function(cursor, &mut piece)?,
            "custom" => piece.custom = cursor.value()? != "null",
            "extra_content" => extra(cursor, &mut piece)?,
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    piece.gap = match piece.index {
        Some(_) => None,
        None => piece.gap.or(Some(Gap::member(brace, alone))),
    };
    sink(Event::ToolCall { choice, piece });
    Ok(())
}

/// Reads `function_call`, which tools were before they had ids.
pub(super) fn old_style<'a>(
    cursor: &mut Cursor<'a>,
    choice: u64,
    sink: &mut impl FnMut(Event<'a>),
) -> Result<(), JsonError> {
    let mut piece = ToolCallPiece::default();
    function(cursor, &mut piece)?;
    sink(Event::ToolCall { choice, piece });
    Ok(())
}

fn function<'a>(cursor: &mut Cursor<'a>, piece: &mut ToolCallPiece<'a>) -> Result<(), JsonError> {
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "name" => piece.name = cursor.text()?.filter(|name| !name.is_empty()),
            "arguments" => {
                piece.arguments = match cursor.kind()? {
                    Kind::String => cursor.text()?.map(Arguments::Text),
                    Kind::Object | Kind::Array | Kind::Number | Kind::Bool => Some(Arguments::Json(cursor.value()?)),
                    Kind::Null => {
                        cursor.skip()?;
                        None
                    }
                }
            }
            _ => cursor.skip()?,
        }
        Ok(())
    })
}

/// Where Gemini's compatible API puts its thought signature.
fn extra<'a>(cursor: &mut Cursor<'a>, piece: &mut ToolCallPiece<'a>) -> Result<(), JsonError> {
    cursor.object(|cursor, key| match &*key.decode() {
        "google" => cursor.object(|cursor, key| {
            match &*key.decode() {
                "thought_signature" => piece.signature = cursor.text()?.filter(|text| !text.is_empty()),
                _ => cursor.skip()?,
            }
            Ok(())
        }),
        _ => cursor.skip(),
    })
}
