//! The members of a chat request that matter, each read once.

use std::ops::Range;

use bytes::Bytes;

use understudy_messages::ids::Name;
use understudy_messages::request::{Demand, Demands, Messages, RequestFacts};

use super::stream_options::StreamOptions;
use super::{RequestError, messages};
use crate::json::{Cursor, JsonError, JsonStr, Kind};

/// A request being read: every member that matters, once.
#[derive(Default)]
pub(super) struct Draft<'a> {
    model: Option<(JsonStr<'a>, Range<usize>)>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    n: Option<u64>,
    tools: Option<bool>,
    functions: Option<bool>,
    response_format: Option<bool>,
    logprobs: Option<bool>,
    stop: Option<bool>,
    fallbacks: Option<(Option<Vec<String>>, Range<usize>)>,
    messages: Option<Messages>,
    demands: Demands,
}

impl<'a> Draft<'a> {
    pub(super) fn member(&mut self, cursor: &mut Cursor<'a>, key: JsonStr<'a>) -> Result<(), RequestError> {
        match &*key.decode() {
            "model" => once(&mut self.model, model(cursor)?, "model"),
            "messages" => {
                let messages = messages::read(cursor, &mut self.demands)?;
                once(&mut self.messages, messages, "messages")
            }
            "stream" => once(&mut self.stream, flag(cursor, "stream")?, "stream"),
            "stream_options" => once(&mut self.stream_options, StreamOptions::read(cursor)?, "stream_options"),
            "n" => once(&mut self.n, cursor.count()?, "n"),
            "tools" => once(&mut self.tools, tools(cursor, &mut self.demands)?, "tools"),
            "functions" => once(&mut self.functions, is_given(cursor)?, "functions"),
            "response_format" => {
                let given = response_format(cursor, &mut self.demands)?;
                once(&mut self.response_format, given, "response_format")
            }
            "logprobs" => once(&mut self.logprobs, is_given(cursor)?, "logprobs"),
            "stop" => once(&mut self.stop, is_given(cursor)?, "stop"),
            "fallbacks" => {
                let names = fallbacks(cursor)?;
                let member = cursor.span(key.raw()).start - 1..cursor.position();
                once(&mut self.fallbacks, (names, member), "fallbacks")
            }
            "modalities" => Ok(modalities(cursor, &mut self.demands)?),
            "web_search_options" => {
                if !matches!(cursor.value()?, "null" | "false") {
                    self.demands.insert(Demand::HostedTool);
                }
                Ok(())
            }
            _ => Ok(cursor.skip()?),
        }
    }

    /// What was read of a body whose brace stands at `brace`.
    pub(super) fn finish(mut self, body: &Bytes, brace: usize) -> Result<RequestFacts, RequestError> {
        let (model, span) = self.model.ok_or(RequestError::Missing { key: "model" })?;
        let messages = self.messages.ok_or(RequestError::Missing { key: "messages" })?;
        let (fallbacks, member) = self.fallbacks.unzip();
        let stream = self.stream.unwrap_or(false);
        let options = self.stream_options.unwrap_or_else(|| StreamOptions::absent(brace));
        let choices = self.n.unwrap_or(1).max(1);
        let has_logprobs = self.logprobs.unwrap_or(false);
        if choices > 1 {
            self.demands.insert(Demand::Choices);
        }
        if has_logprobs {
            self.demands.insert(Demand::Logprobs);
        }
        Ok(RequestFacts {
            model: Name::from(&*model.decode()),
            model_span: span,
            stream,
            include_usage: options.include_usage,
            usage_edit: options.usage_edit.filter(|_| stream),
            choices,
            has_tools: self.tools.unwrap_or(false) || self.functions.unwrap_or(false),
            has_response_format: self.response_format.unwrap_or(false),
            has_logprobs,
            has_stop: self.stop.unwrap_or(false),
            demands: self.demands,
            fallbacks: fallbacks.flatten(),
            fallbacks_span: member.map(|member| with_comma(body, member)),
            messages,
            responses: None,
        })
    }
}

/// Fills a slot that must still be empty.
pub(crate) fn once<T>(slot: &mut Option<T>, value: T, key: &'static str) -> Result<(), RequestError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(RequestError::Duplicate { key }),
    }
}

/// The model's name and where its string stands.
pub(crate) fn model<'a>(cursor: &mut Cursor<'a>) -> Result<(JsonStr<'a>, Range<usize>), RequestError> {
    cursor.kind()?;
    let start = cursor.position();
    match cursor.text()? {
        Some(name) if name.is_empty() => Err(RequestError::Empty { key: "model" }),
        Some(name) => Ok((name, start..cursor.position())),
        None => Err(RequestError::WrongType {
            key: "model",
            expected: "a string",
        }),
    }
}

pub(crate) fn flag(cursor: &mut Cursor<'_>, key: &'static str) -> Result<bool, RequestError> {
    match cursor.value()? {
        "true" => Ok(true),
        "false" | "null" => Ok(false),
        _ => Err(RequestError::WrongType {
            key,
            expected: "true or false",
        }),
    }
}

/// Whether a member asks for anything.
pub(crate) fn is_given(cursor: &mut Cursor<'_>) -> Result<bool, RequestError> {
    Ok(!matches!(cursor.value()?, "null" | "false" | "[]" | "{}"))
}

/// Whether there are tools; those that are no functions are demands.
fn tools(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<bool, RequestError> {
    if cursor.kind()? != Kind::Array {
        return is_given(cursor);
    }
    let mut any = false;
    cursor.array(|cursor| {
        any = true;
        cursor.object(|cursor, key| {
            let kind = match &*key.decode() {
                "type" => cursor.text()?,
                _ => return cursor.skip(),
            };
            match kind.map(JsonStr::decode).as_deref() {
                Some("function") | None => {}
                Some("custom") => demands.insert(Demand::CustomTool),
                Some(_) => demands.insert(Demand::HostedTool),
            }
            Ok(())
        })
    })?;
    Ok(any)
}

/// Whether there is a `response_format`; JSON in it is a demand.
fn response_format(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<bool, RequestError> {
    let value = cursor.value()?; // read a second time below: short but for schemas
    let mut format = Cursor::over(value);
    format.object(|cursor, key| {
        let kind = match &*key.decode() {
            "type" => cursor.text()?,
            _ => return cursor.skip(),
        };
        match kind.map(JsonStr::decode).as_deref() {
            Some("json_schema") => demands.insert(Demand::JsonSchema),
            Some("json_object") => demands.insert(Demand::JsonObject),
            Some(_) | None => {}
        }
        Ok::<_, JsonError>(())
    })?;
    Ok(!matches!(value, "null" | "false" | "[]" | "{}"))
}

/// Whether the answer is to be heard is a demand.
fn modalities(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<(), JsonError> {
    cursor.array(|cursor| {
        if cursor.text()?.is_some_and(|name| name.decode() == "audio") {
            demands.insert(Demand::AudioOut);
        }
        Ok(())
    })
}

/// Far more candidates than any turn has time for.
const MAX_FALLBACKS: usize = 32;

/// The names in `fallbacks`; null is as good as nothing.
pub(crate) fn fallbacks(cursor: &mut Cursor<'_>) -> Result<Option<Vec<String>>, RequestError> {
    const WRONG: RequestError = RequestError::WrongType {
        key: "fallbacks",
        expected: "a list of at most 32 model names",
    };
    match cursor.kind()? {
        Kind::Array => {}
        Kind::Null => return Ok(cursor.skip().map(|_| None)?),
        Kind::Object | Kind::String | Kind::Number | Kind::Bool => return Err(WRONG),
    }
    let mut names = Vec::new();
    cursor.array(|cursor| {
        if names.len() == MAX_FALLBACKS {
            return Err(WRONG);
        }
        names.push(cursor.text()?.ok_or(WRONG)?.decode().into_owned());
        Ok::<_, RequestError>(())
    })?;
    Ok(Some(names))
}

/// A member's span and that of the comma that would be left over without it.
pub(crate) fn with_comma(body: &[u8], member: Range<usize>) -> Range<usize> {
    let before = body[..member.start].trim_ascii_end();
    let after = body[member.end..].trim_ascii_start();
    if after.first() == Some(&b',') {
        member.start..body.len() - after.len() + 1
    } else if before.last() == Some(&b',') {
        before.len() - 1..member.end
    } else {
        member
    }
}
