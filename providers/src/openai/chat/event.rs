//! One reader of chat answers, for a whole answer and for a chunk of one: they differ in `message` and `delta`.
//!
//! Lenient by design: a member of an unexpected type is stepped over. Only what is not JSON is an error.

use understudy_messages::answer::{Finish, Usage};

use self::tool_call::ToolCallPiece;
use self::usage::usage;
use crate::json::{Cursor, JsonError, JsonStr, Kind};
use crate::wire_error::WireError;

pub(crate) mod tool_call;
mod usage;

/// A fact in an answer.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// A choice is spoken of, and perhaps why it ended.
    Choice { choice: u64, finish: Option<Finish> },
    /// A piece of text; [`JsonStr::EMPTY`] for something that is not text: another medium.
    Text { choice: u64, part: Part, text: JsonStr<'a> },
    /// Reasoning as some routers give it beside or instead of its text: a list of details, as it is written.
    Details { choice: u64, details: &'a str },
    /// A tool call or a piece of one, even one that says nothing.
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

/// Where a choice has what is said: some providers use the other's name, and where both are there the right one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// A whole answer.
    Message,
    /// A chunk of one.
    Delta,
}

/// Reads one JSON object and tells `sink` what is in it; whether it had a member `choices` at all.
///
/// On an error forget what the sink was told.
pub(crate) fn walk<'a>(json: &'a [u8], said: Said, sink: &mut impl FnMut(Event<'a>)) -> Result<bool, JsonError> {
    let mut cursor = Cursor::new(json)?;
    if cursor.kind()? != Kind::Object {
        return Err(JsonError::Syntax { at: cursor.position() });
    }
    let (mut choices, mut failed, mut is_error) = (false, false, false);
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "choices" => {
                choices = true;
                cursor.array(|cursor| choice(cursor, said, sink))?;
            }
            "usage" => usage(cursor, sink)?,
            "error" => failed |= error(cursor, sink)?,
            "x_groq" => x_groq(cursor, sink)?,
            "object" => is_error = cursor.text()?.is_some_and(|name| name.decode() == "error"),
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

fn x_groq<'a>(cursor: &mut Cursor<'a>, sink: &mut impl FnMut(Event<'a>)) -> Result<(), JsonError> {
    cursor.object(|cursor, key| match &*key.decode() {
        "usage" => usage(cursor, sink),
        "error" => error(cursor, sink).map(|_| ()),
        _ => cursor.skip(),
    })
}

fn choice<'a>(cursor: &mut Cursor<'a>, right: Said, sink: &mut impl FnMut(Event<'a>)) -> Result<(), JsonError> {
    let (mut choice, mut said, mut other, mut ended) = (0, None, None, None);
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "index" => choice = cursor.count()?,
            key @ ("delta" | "message") if cursor.kind()? == Kind::Object => {
                let is_right = (key == "delta") == (right == Said::Delta);
                *if is_right { &mut said } else { &mut other } = Some(cursor.position());
                cursor.skip()?;
            }
            "finish_reason" => ended = cursor.text()?,
            "usage" => usage(cursor, sink)?,
            "error" => {
                error(cursor, sink)?;
            }
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    let ended = ended.map(JsonStr::decode);
    if ended.as_deref() == Some("error") {
        sink(Event::Error(WireError::default()));
    }
    let finish = ended.as_deref().and_then(finish);
    sink(Event::Choice { choice, finish });
    said.or(other)
        .map_or(Ok(()), |said| message(cursor.back_at(said), choice, sink))
}

/// The finish reason; `None` for no word, and for the one with which some providers end a failed answer.
fn finish(reason: &str) -> Option<Finish> {
    match reason {
        "stop" => Some(Finish::Stop),
        "length" | "max_tokens" | "model_length" => Some(Finish::Length),
        "tool_calls" | "function_call" => Some(Finish::ToolCalls),
        "content_filter" => Some(Finish::ContentFilter),
        "" | "error" => None,
        _ => Some(Finish::Other),
    }
}

fn message<'a>(mut said: Cursor<'a>, choice: u64, sink: &mut impl FnMut(Event<'a>)) -> Result<(), JsonError> {
    let mut reasoned = false;
    said.object(|cursor, key| {
        match &*key.decode() {
            "content" => content(cursor, choice, sink)?,
            "refusal" => {
                say(cursor, choice, Part::Refusal, sink)?;
            }
            // some servers send both, with the same text
            "reasoning_content" | "reasoning" if reasoned => cursor.skip()?,
            "reasoning_content" | "reasoning" => reasoned = say(cursor, choice, Part::Reasoning, sink)?,
            "reasoning_details" => details(cursor, choice, sink)?,
            "audio" | "images" => show(cursor, choice, sink)?,
            "tool_calls" => cursor.array(|cursor| tool_call::piece(cursor, choice, sink))?,
            "function_call" => tool_call::old_style(cursor, choice, sink)?,
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

/// Tells the sink of a medium that is not text, unless it is null or empty.
fn show<'a>(cursor: &mut Cursor<'a>, choice: u64, sink: &mut impl FnMut(Event<'a>)) -> Result<(), JsonError> {
    if is_something(cursor.value()?) {
        sink(Event::Text {
            choice,
            part: Part::Content,
            text: JsonStr::EMPTY,
        });
    }
    Ok(())
}

fn details<'a>(cursor: &mut Cursor<'a>, choice: u64, sink: &mut impl FnMut(Event<'a>)) -> Result<(), JsonError> {
    let details = cursor.value()?;
    if is_something(details) {
        sink(Event::Details { choice, details });
    }
    Ok(())
}

fn is_something(value: &str) -> bool {
    !matches!(value, "null" | "[]" | "{}")
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
