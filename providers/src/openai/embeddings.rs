//! Embeddings: the request and the answer pass as they are.

use std::ops::Range;

use bytes::Bytes;
use understudy_messages::answer::Usage;
use understudy_messages::ids::Name;
use understudy_messages::request::{Demands, Messages, RequestFacts};

use super::chat::request::scan::{fallbacks, model, once, with_comma};
use crate::answer::{AnswerError, Whole};
use crate::json::{Cursor, JsonError, JsonStr, Kind};
use crate::request_error::RequestError;
use crate::wire_error::WireError;

#[cfg(test)]
mod tests;

/// What one token weighs in bytes of text, where the input is tokens: at least as much as any tokenizer packs into one.
const BYTES_PER_TOKEN: usize = 8;

#[derive(Default)]
struct Draft<'a> {
    model: Option<(JsonStr<'a>, Range<usize>)>,
    input: Option<usize>,
    fallbacks: Option<(Option<Vec<String>>, Range<usize>)>,
}

/// Reads a request for embeddings. Its `text_bytes` are those of the longest input: each is embedded for itself.
pub(crate) fn scan(body: &Bytes) -> Result<RequestFacts, RequestError> {
    let mut cursor = Cursor::new(body)?;
    if cursor.kind()? != Kind::Object {
        return Err(RequestError::NotAnObject);
    }
    let mut draft = Draft::default();
    cursor.object(|cursor, key| match &*key.decode() {
        "model" => once(&mut draft.model, model(cursor)?, "model"),
        "input" => once(&mut draft.input, input(cursor)?, "input"),
        "fallbacks" => {
            let names = fallbacks(cursor)?;
            let member = cursor.span(key.raw()).start - 1..cursor.position();
            once(&mut draft.fallbacks, (names, member), "fallbacks")
        }
        _ => Ok(cursor.skip()?),
    })?;
    cursor.end()?;
    let (model, model_span) = draft.model.ok_or(RequestError::Missing { key: "model" })?;
    let text_bytes = draft.input.ok_or(RequestError::Missing { key: "input" })?;
    let (fallbacks, member) = draft.fallbacks.unzip();
    Ok(RequestFacts {
        model: Name::from(&*model.decode()),
        model_span,
        stream: false,
        responses: None,
        include_usage: false,
        usage_edit: None,
        choices: 1,
        has_tools: false,
        has_response_format: false,
        has_logprobs: false,
        has_stop: false,
        fallbacks: fallbacks.flatten(),
        fallbacks_span: member.map(|member| with_comma(body, member)),
        demands: Demands::default(),
        messages: Messages {
            text_bytes,
            ..Messages::default()
        },
    })
}

/// The bytes of the longest input: a text, a list of texts, tokens, or a list of lists of tokens.
fn input(cursor: &mut Cursor<'_>) -> Result<usize, RequestError> {
    const WRONG: RequestError = RequestError::WrongType {
        key: "input",
        expected: "a text, tokens, or a list of either",
    };
    match cursor.kind()? {
        Kind::String => return Ok(cursor.text()?.map_or(0, JsonStr::len)),
        Kind::Array => {}
        Kind::Object | Kind::Number | Kind::Bool | Kind::Null => return Err(WRONG),
    }
    let (mut longest, mut tokens, mut any) = (0, 0, false);
    cursor.array(|cursor| {
        any = true;
        match cursor.kind()? {
            Kind::String => longest = longest.max(cursor.text()?.map_or(0, JsonStr::len)),
            Kind::Number => {
                cursor.skip()?;
                tokens += 1;
            }
            Kind::Array => {
                let mut inner = 0;
                cursor.array(|cursor| {
                    inner += 1;
                    cursor.skip()
                })?;
                longest = longest.max(inner * BYTES_PER_TOKEN);
            }
            Kind::Object | Kind::Bool | Kind::Null => return Err(WRONG),
        }
        Ok::<_, RequestError>(())
    })?;
    match any {
        true => Ok(longest.max(tokens * BYTES_PER_TOKEN)),
        false => Err(RequestError::Empty { key: "input" }),
    }
}

/// Reads the vectors that came, as far as there are any.
pub(crate) fn read(body: &[u8]) -> Result<Whole, AnswerError> {
    if body.trim_ascii().is_empty() {
        return Err(AnswerError::NoBody);
    }
    let (mut answer, mut is_one) = (Whole::default(), false);
    vectors(body, &mut answer, &mut is_one).map_err(|error| match error {
        JsonError::Truncated { .. } => AnswerError::Truncated,
        JsonError::Syntax { at } | JsonError::TooDeep { at } => AnswerError::NotJson { at },
    })?;
    if is_one || answer.error.is_some() {
        Ok(answer)
    } else {
        Err(AnswerError::NotAnAnswer)
    }
}

fn vectors(body: &[u8], answer: &mut Whole, is_one: &mut bool) -> Result<(), JsonError> {
    let mut cursor = Cursor::new(body)?;
    if cursor.kind()? != Kind::Object {
        return Err(JsonError::Syntax { at: cursor.position() });
    }
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "data" => {
                *is_one = true;
                cursor.array(|cursor| {
                    answer.says_something = true;
                    cursor.skip()
                })?;
            }
            "usage" => answer.usage = Some(usage(cursor)?),
            "error" => answer.error = WireError::read(cursor.value()?)?,
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    cursor.end()
}

fn usage(cursor: &mut Cursor<'_>) -> Result<Usage, JsonError> {
    let mut usage = Usage::default();
    cursor.object(|cursor, key| {
        match &*key.decode() {
            "prompt_tokens" => usage.input = cursor.count()?,
            _ => cursor.skip()?,
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(usage)
}
