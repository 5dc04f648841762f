//! Pieces of tool calls.

use crate::json::{Cursor, JsonError, JsonStr, Kind};

/// What one delta tells of a tool call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ToolCallPiece<'a> {
    pub(crate) index: Option<u64>,
    pub(crate) id: Option<JsonStr<'a>>,
    pub(crate) name: Option<JsonStr<'a>>,
    pub(crate) arguments: Option<Arguments<'a>>,
}

/// Arguments of a tool call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arguments<'a> {
    /// A piece of JSON inside a string, as the format has it.
    Text(JsonStr<'a>),
    /// JSON itself, as some providers send it.
    Json(&'a str),
}

/// Reads one element of `tool_calls`.
pub(crate) fn piece<'a>(cursor: &mut Cursor<'a>, sink: &mut impl FnMut(ToolCallPiece<'a>)) -> Result<(), JsonError> {
    let mut piece = ToolCallPiece::default();
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "index" if cursor.kind()? == Kind::Number => piece.index = Some(cursor.count()?),
            "id" => piece.id = cursor.text()?.filter(|id| !id.is_empty()),
            "function" => piece = function(cursor, piece)?,
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    tell(piece, sink);
    Ok(())
}

/// Reads `function_call`, which tools were before they had ids.
pub(super) fn old_style<'a>(
    cursor: &mut Cursor<'a>,
    sink: &mut impl FnMut(ToolCallPiece<'a>),
) -> Result<(), JsonError> {
    let piece = function(cursor, ToolCallPiece::default())?;
    tell(piece, sink);
    Ok(())
}

fn function<'a>(cursor: &mut Cursor<'a>, mut piece: ToolCallPiece<'a>) -> Result<ToolCallPiece<'a>, JsonError> {
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "name" => piece.name = cursor.text()?.filter(|name| !name.is_empty()),
            "arguments" => {
                piece.arguments = match cursor.kind()? {
                    Kind::String => cursor.text()?.map(Arguments::Text),
                    Kind::Object | Kind::Array => Some(Arguments::Json(cursor.value()?)),
                    Kind::Number | Kind::Bool | Kind::Null => {
                        cursor.skip()?;
                        None
                    }
                }
            }
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(piece)
}

/// Tells the sink of a tool call, unless nothing is known of it.
fn tell<'a>(piece: ToolCallPiece<'a>, sink: &mut impl FnMut(ToolCallPiece<'a>)) {
    if piece.id.is_some() || piece.name.is_some() || piece.arguments.is_some() {
        sink(piece);
    }
}
