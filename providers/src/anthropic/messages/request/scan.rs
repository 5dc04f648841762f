//! A Messages request read once: what the gateway decides on, and where it stands. No tree is built.

use std::ops::Range;

use bytes::Bytes;
use understudy_messages::ids::Name;
use understudy_messages::request::{Demand, Demands, Messages, RequestFacts};

use super::messages;
use crate::json::{Cursor, JsonStr, Kind};
use crate::openai::chat::request::scan::{fallbacks, flag, is_given, model, once, with_comma};
use crate::request_error::RequestError;

/// Reads a request as far as routing depends on it. Linear in its length; allocates for the model's and the fallbacks' names
/// only. `messages.leading_system_end` is where the value of `system` ends.
///
/// # Errors
/// [`RequestError`], the client's fault in every case.
pub(crate) fn scan(body: &Bytes) -> Result<RequestFacts, RequestError> {
    let mut cursor = Cursor::new(body)?;
    if cursor.kind()? != Kind::Object {
        return Err(RequestError::NotAnObject);
    }
    let mut draft = Draft::default();
    cursor.object(|cursor, key| draft.member(cursor, key))?;
    cursor.end()?;
    draft.finish(body)
}

/// A request being read: every member that matters, once.
#[derive(Default)]
struct Draft<'a> {
    model: Option<(JsonStr<'a>, Range<usize>)>,
    stream: Option<bool>,
    tools: Option<bool>,
    stop: Option<bool>,
    output_format: Option<bool>,
    output_config: Option<bool>,
    fallbacks: Option<(Option<Vec<String>>, Range<usize>)>,
    /// The bytes of text in `system`, and where its value ends.
    system: Option<(usize, usize)>,
    messages: Option<Messages>,
    demands: Demands,
}

impl<'a> Draft<'a> {
    fn member(&mut self, cursor: &mut Cursor<'a>, key: JsonStr<'a>) -> Result<(), RequestError> {
        let demands = &mut self.demands;
        match &*key.decode() {
            "model" => once(&mut self.model, model(cursor)?, "model"),
            "messages" => once(&mut self.messages, messages::read(cursor, demands)?, "messages"),
            "system" => {
                let text_bytes = messages::content(cursor, demands)?;
                once(&mut self.system, (text_bytes, cursor.position()), "system")
            }
            "stream" => once(&mut self.stream, flag(cursor, "stream")?, "stream"),
            "tools" => once(&mut self.tools, tools(cursor, demands)?, "tools"),
            "stop_sequences" => once(&mut self.stop, is_given(cursor)?, "stop_sequences"),
            "output_format" => once(&mut self.output_format, format(cursor, demands)?, "output_format"),
            "output_config" => once(&mut self.output_config, config(cursor, demands)?, "output_config"),
            "mcp_servers" | "container" => {
                if is_given(cursor)? {
                    demands.insert(Demand::HostedTool);
                }
                Ok(())
            }
            "fallbacks" => {
                let names = fallbacks(cursor)?;
                let member = cursor.span(key.raw()).start - 1..cursor.position();
                once(&mut self.fallbacks, (names, member), "fallbacks")
            }
            _ => Ok(cursor.skip()?),
        }
    }

    fn finish(self, body: &Bytes) -> Result<RequestFacts, RequestError> {
        let (model, span) = self.model.ok_or(RequestError::Missing { key: "model" })?;
        let mut messages = self.messages.ok_or(RequestError::Missing { key: "messages" })?;
        let (fallbacks, member) = self.fallbacks.unzip();
        let (system_bytes, system_end) = self.system.unzip();
        messages.text_bytes += system_bytes.unwrap_or(0);
        messages.leading_system_end = system_end;
        Ok(RequestFacts {
            responses: None,
            model: Name::from(&*model.decode()),
            model_span: span,
            stream: self.stream.unwrap_or(false),
            include_usage: true,
            usage_edit: None,
            choices: 1,
            has_tools: self.tools.unwrap_or(false),
            has_response_format: self.output_format.unwrap_or(false) || self.output_config.unwrap_or(false),
            has_logprobs: false,
            has_stop: self.stop.unwrap_or(false),
            fallbacks: fallbacks.flatten(),
            fallbacks_span: member.map(|member| with_comma(body, member)),
            demands: self.demands,
            messages,
        })
    }
}

/// Whether there are any tools. One with a type of its own is the provider's: it runs it, or has trained for it.
fn tools(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<bool, RequestError> {
    if cursor.kind()? != Kind::Array {
        return is_given(cursor);
    }
    let mut any = false;
    cursor.array(|cursor| {
        any = true;
        let mut kind = None;
        cursor.object(|cursor, key| match &*key.decode() {
            "type" => once(&mut kind, cursor.text()?, "type"),
            _ => Ok(cursor.skip()?),
        })?;
        if kind.flatten().is_some_and(|kind| kind.decode() != "custom") {
            demands.insert(Demand::HostedTool);
        }
        Ok::<_, RequestError>(())
    })?;
    Ok(any)
}

/// Whether the text must have a shape; JSON by a schema is the only one that there is.
fn format(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<bool, RequestError> {
    let given = is_given(cursor)?;
    if given {
        demands.insert(Demand::JsonSchema);
    }
    Ok(given)
}

fn config(cursor: &mut Cursor<'_>, demands: &mut Demands) -> Result<bool, RequestError> {
    let mut given = None;
    cursor.object(|cursor, key| match &*key.decode() {
        "format" => once(&mut given, format(cursor, demands)?, "format"),
        _ => Ok(cursor.skip()?),
    })?;
    Ok(given.unwrap_or(false))
}
