//! One reader of chat answers, for a whole answer and for a chunk of one: they differ in `message` and `delta`.
//!
//! Lenient by design: a member of an unexpected type is stepped over. Only what is not JSON is an error.

use understudy_messages::answer::{Finish, Usage};

use crate::json::{Cursor, JsonError, JsonStr, Kind};
use crate::wire_error::WireError;

/// A fact in an answer.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// A choice is spoken of, and perhaps why it ended.
    Choice { choice: u64, finish: Option<Finish> },
    /// A piece of text; [`JsonStr::EMPTY`] for something that is not text: encrypted reasoning, another medium.
    Text { choice: u64, part: Part, text: JsonStr<'a> },
    /// A tool call or a piece of one.
    ToolCall { choice: u64, piece: ToolCallPiece<'a> },
    /// A report of tokens.
    Usage(Usage),
    /// The provider failed.
    Error(WireError),
}

/// Which part of an answer a text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Reasoning,
    Content,
    Refusal,
}

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

/// Reads one JSON object and tells `sink` what is in it; whether it had a member `choices` at all.
///
/// On an error forget what the sink was told.
pub(crate) fn walk<'a>(json: &'a [u8], sink: &mut impl FnMut(Event<'a>)) -> Result<bool, JsonError> {
    let mut cursor = Cursor::new(json)?;
    if cursor.kind()? != Kind::Object {
        return Err(JsonError::Syntax { at: cursor.position() });
    }
    let (mut choices, mut failed, mut is_error) = (false, false, false);
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "choices" => {
                choices = true;
                cursor.array(|cursor| choice(cursor, sink))?;
            }
            "usage" => usage(cursor, sink)?,
            "x_groq" => cursor.object(|cursor, key| match &*key.decode() {
                "usage" => usage(cursor, sink),
                _ => cursor.skip(),
            })?,
            "error" => failed |= error(cursor, sink)?,
            "object" => is_error = cursor.text()?.is_some_and(|object| object.decode() == "error"),
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    cursor.end()?;
    if is_error && !failed {
        error(&mut Cursor::new(json)?, sink)?;
    }
    Ok(choices)
}

fn choice<'a>(cursor: &mut Cursor<'a>, sink: &mut impl FnMut(Event<'a>)) -> Result<(), JsonError> {
    let (mut choice, mut said, mut ended) = (0, None, None);
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "index" => choice = cursor.count()?,
            "delta" | "message" => said = Some(cursor.value()?).filter(|said| said.len() > 2).or(said),
            "finish_reason" => ended = cursor.text()?,
            "usage" => usage(cursor, sink)?,
            "error" => {
                error(cursor, sink)?;
            }
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    let finish = match ended.filter(|reason| !reason.is_empty()).map(finish) {
        Some(None) => {
            sink(Event::Error(WireError::default()));
            None
        }
        Some(finish) => finish,
        None => None,
    };
    sink(Event::Choice { choice, finish });
    said.map_or(Ok(()), |said| message(said, choice, sink))
}

/// The finish reason; `None` for the word that some providers end a failed answer with.
fn finish(reason: JsonStr<'_>) -> Option<Finish> {
    Some(match &*reason.decode() {
        "stop" => Finish::Stop,
        "length" | "max_tokens" | "model_length" => Finish::Length,
        "tool_calls" | "function_call" => Finish::ToolCalls,
        "content_filter" => Finish::ContentFilter,
        "error" => return None,
        _ => Finish::Other,
    })
}

fn message<'a>(said: &'a str, choice: u64, sink: &mut impl FnMut(Event<'a>)) -> Result<(), JsonError> {
    let mut reasoned = false;
    Cursor::over(said).object(|cursor, key| {
        match &*key.decode() {
            "content" => content(cursor, choice, sink)?,
            "refusal" => {
                say(cursor, choice, Part::Refusal, sink)?;
            }
            // some servers send both, with the same text
            "reasoning_content" | "reasoning" if reasoned => cursor.skip()?,
            "reasoning_content" | "reasoning" => reasoned = say(cursor, choice, Part::Reasoning, sink)?,
            "reasoning_details" => show(cursor, choice, Part::Reasoning, sink)?,
            "audio" | "images" => show(cursor, choice, Part::Content, sink)?,
            "tool_calls" => cursor.array(|cursor| tool_call(cursor, choice, sink))?,
            "function_call" => {
                let piece = function(cursor, ToolCallPiece::default())?;
                tell(piece, choice, sink);
            }
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })
}

/// Content is a string, or a list of parts that are text or reasoning.
fn content<'a>(cursor: &mut Cursor<'a>, choice: u64, sink: &mut impl FnMut(Event<'a>)) -> Result<(), JsonError> {
    if cursor.kind()? != Kind::Array {
        return say(cursor, choice, Part::Content, sink).map(|_| ());
    }
    cursor.array(|cursor| {
        cursor.object(|cursor, key| match &*key.decode() {
            "text" => say(cursor, choice, Part::Content, sink).map(|_| ()),
            "thinking" => cursor.array(|cursor| thought(cursor, choice, sink)),
            _ => cursor.skip(),
        })
    })
}

fn thought<'a>(cursor: &mut Cursor<'a>, choice: u64, sink: &mut impl FnMut(Event<'a>)) -> Result<(), JsonError> {
    cursor.object(|cursor, key| match &*key.decode() {
        "text" => say(cursor, choice, Part::Reasoning, sink).map(|_| ()),
        _ => cursor.skip(),
    })
}

/// Tells the sink of a text; whether there was any.
fn say<'a>(
    cursor: &mut Cursor<'a>,
    choice: u64,
    part: Part,
    sink: &mut impl FnMut(Event<'a>),
) -> Result<bool, JsonError> {
    let text = cursor.text()?.filter(|text| !text.is_empty());
    if let Some(text) = text {
        sink(Event::Text { choice, part, text });
    }
    Ok(text.is_some())
}

/// Tells the sink of something that is not text, unless it is null or empty.
fn show<'a>(
    cursor: &mut Cursor<'a>,
    choice: u64,
    part: Part,
    sink: &mut impl FnMut(Event<'a>),
) -> Result<(), JsonError> {
    if !matches!(cursor.value()?, "null" | "[]" | "{}") {
        sink(Event::Text { choice, part, text: JsonStr::EMPTY });
    }
    Ok(())
}

fn tool_call<'a>(cursor: &mut Cursor<'a>, choice: u64, sink: &mut impl FnMut(Event<'a>)) -> Result<(), JsonError> {
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
    tell(piece, choice, sink);
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
fn tell<'a>(piece: ToolCallPiece<'a>, choice: u64, sink: &mut impl FnMut(Event<'a>)) {
    if piece.id.is_some() || piece.name.is_some() || piece.arguments.is_some() {
        sink(Event::ToolCall { choice, piece });
    }
}

/// Tells the sink of an error; whether there was one.
fn error<'a>(cursor: &mut Cursor<'a>, sink: &mut impl FnMut(Event<'a>)) -> Result<bool, JsonError> {
    let error = WireError::read(cursor.value()?)?;
    let failed = error.is_some();
    if let Some(error) = error {
        sink(Event::Error(error));
    }
    Ok(failed)
}

fn usage<'a>(cursor: &mut Cursor<'a>, sink: &mut impl FnMut(Event<'a>)) -> Result<(), JsonError> {
    let mut usage = Usage::default();
    let mut any = false;
    cursor.object(|cursor, key| {
        any = true;
        match &*key.decode() {
            "prompt_tokens" => usage.input = cursor.count()?,
            "completion_tokens" => usage.output = cursor.count()?,
            "prompt_cache_hit_tokens" => usage.cache_read = usage.cache_read.max(cursor.count()?),
            "prompt_tokens_details" | "completion_tokens_details" => details(cursor, &mut usage)?,
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    if any {
        sink(Event::Usage(usage));
    }
    Ok(())
}

fn details(cursor: &mut Cursor<'_>, usage: &mut Usage) -> Result<(), JsonError> {
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "cached_tokens" => usage.cache_read = usage.cache_read.max(cursor.count()?),
            "cache_write_tokens" => usage.cache_write = cursor.count()?,
            "reasoning_tokens" => usage.reasoning = cursor.count()?,
            _ => cursor.skip()?,
        }
        Ok(())
    })
}
