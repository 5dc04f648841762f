//! A Responses request taken apart.
//!
//! `instructions` become the first message. What the model said in a row, reasoning, text and calls, is one message; so are
//! the results of tools in a row. Ids of items, their status and their annotations mean nothing elsewhere and are left.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use understudy_messages::conversation::{
    Conversation, Message, OutputFormat, Part, ReasoningWish, Speaker, Tool, ToolChoice,
};

use crate::json::Cursor;
use crate::request_error::RequestError;

mod items;

/// Takes a request apart.
///
/// # Errors
/// [`RequestError`]: not JSON, a member of the wrong type, or one that asks for what only a Responses provider has.
pub(crate) fn read(body: &[u8]) -> Result<Conversation, RequestError> {
    let mut cursor = Cursor::new(body)?;
    cursor.skip()?;
    cursor.end()?;
    let members: BTreeMap<Cow<'_, str>, &RawValue> =
        serde_json::from_slice(body).map_err(|_| RequestError::NotAnObject)?;
    let mut conversation = Conversation::default();
    if let Some(instructions) = members.get("instructions") {
        instruct(&mut conversation, instructions)?;
    }
    for (key, value) in &members {
        if value.get() != "null" {
            member(&mut conversation, key, value)?;
        }
    }
    Ok(conversation)
}

/// Reads a member's value.
fn typed<'a, T: Deserialize<'a>>(
    value: &'a RawValue,
    key: &'static str,
    expected: &'static str,
) -> Result<T, RequestError> {
    serde_json::from_str(value.get()).map_err(|_| RequestError::WrongType { key, expected })
}

fn instruct(conversation: &mut Conversation, value: &RawValue) -> Result<(), RequestError> {
    let text: Option<String> = typed(value, "instructions", "a string")?;
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        conversation.messages.push(Message {
            speaker: Speaker::System,
            parts: vec![Part::Text(text)],
        });
    }
    Ok(())
}

fn member(conversation: &mut Conversation, key: &str, value: &RawValue) -> Result<(), RequestError> {
    let sampling = &mut conversation.sampling;
    match key {
        // the gateway's own, or without a meaning for whoever answers
        "model" | "instructions" | "store" | "fallbacks" | "metadata" | "stream_options" => {}
        "input" => items::read(value, &mut conversation.messages)?,
        "stream" => conversation.stream = typed(value, "stream", "true or false")?,
        "tools" => conversation.tools = tools(value)?,
        "tool_choice" => conversation.tool_choice = Some(tool_choice(value)?),
        "parallel_tool_calls" => {
            conversation.parallel_tool_calls = Some(typed(value, "parallel_tool_calls", "true or false")?);
        }
        "max_output_tokens" => sampling.max_tokens = Some(typed(value, "max_output_tokens", "a whole number")?),
        "temperature" => sampling.temperature = Some(typed(value, "temperature", "a number")?),
        "top_p" => sampling.top_p = Some(typed(value, "top_p", "a number")?),
        "top_logprobs" => {
            let count: u64 = typed(value, "top_logprobs", "a whole number")?;
            sampling.top_logprobs = Some(count).filter(|count| *count > 0);
            sampling.logprobs |= count > 0;
        }
        "include" => include(conversation, value)?,
        "text" => text(conversation, value)?,
        "reasoning" => conversation.reasoning = reasoning(value)?,
        "user" | "safety_identifier" => conversation.user = Some(typed(value, "user", "a string")?),
        "background" if value.get() == "false" => {}
        "truncation" if value.get() == "\"disabled\"" => {}
        "background" => return Err(RequestError::Untranslatable { key: "background" }),
        "conversation" => return Err(RequestError::Untranslatable { key: "conversation" }),
        "prompt" => return Err(RequestError::Untranslatable { key: "prompt" }),
        "previous_response_id" => {
            let key = "previous_response_id";
            return Err(RequestError::Untranslatable { key });
        }
        other => conversation.unread.push(other.to_owned()),
    }
    Ok(())
}

fn include(conversation: &mut Conversation, value: &RawValue) -> Result<(), RequestError> {
    let wanted: Vec<Cow<'_, str>> = typed(value, "include", "a list of strings")?;
    for wanted in wanted {
        match &*wanted {
            // what seals reasoning is always handed on
            "reasoning.encrypted_content" => {}
            "message.output_text.logprobs" => conversation.sampling.logprobs = true,
            _ if conversation.unread.iter().any(|known| known == "include") => {}
            _ => conversation.unread.push("include".to_owned()),
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct WireTool<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(default)]
    name: String,
    description: Option<String>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    strict: Option<bool>,
}

fn tools(value: &RawValue) -> Result<Vec<Tool>, RequestError> {
    let tools: Vec<&RawValue> = typed(value, "tools", "a list of objects")?;
    let tool = |value: &&RawValue| {
        let tool: WireTool<'_> = typed(value, "tools", "a list of objects")?;
        if tool.kind.as_deref() != Some("function") {
            return Err(RequestError::Untranslatable { key: "tools" });
        }
        Ok(Tool {
            name: tool.name,
            description: tool.description,
            parameters: tool.parameters.map(|schema| schema.get().to_owned()),
            strict: tool.strict,
        })
    };
    tools.iter().map(tool).collect()
}

#[derive(Deserialize)]
struct WireChoice<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    name: Option<String>,
}

fn tool_choice(value: &RawValue) -> Result<ToolChoice, RequestError> {
    const EXPECTED: &str = "`auto`, `none`, `required` or a function";
    let word = serde_json::from_str::<Cow<'_, str>>(value.get());
    match word.as_deref() {
        Ok("auto") => return Ok(ToolChoice::Auto),
        Ok("none") => return Ok(ToolChoice::None),
        Ok("required") => return Ok(ToolChoice::Required),
        Ok(_) | Err(_) => {}
    }
    let choice: WireChoice<'_> = typed(value, "tool_choice", EXPECTED)?;
    match (&*choice.kind, choice.name) {
        ("function", Some(name)) => Ok(ToolChoice::Named(name)),
        _ => Err(RequestError::Untranslatable { key: "tool_choice" }),
    }
}

#[derive(Deserialize)]
struct WireText<'a> {
    #[serde(borrow)]
    format: Option<WireFormat<'a>>,
    #[serde(borrow)]
    verbosity: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireFormat<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default)]
    name: String,
    #[serde(borrow)]
    description: Option<&'a RawValue>,
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
    strict: Option<bool>,
}

fn text(conversation: &mut Conversation, value: &RawValue) -> Result<(), RequestError> {
    let text: WireText<'_> = typed(value, "text", "an object")?;
    if text.verbosity.is_some() {
        conversation.unread.push("text.verbosity".to_owned());
    }
    let Some(format) = text.format else { return Ok(()) };
    if format.description.is_some() {
        conversation.unread.push("text.format.description".to_owned());
    }
    conversation.output = match &*format.kind {
        "text" => OutputFormat::Text,
        "json_object" => OutputFormat::JsonObject,
        "json_schema" => OutputFormat::JsonSchema {
            name: format.name,
            schema: format.schema.map_or("{}", RawValue::get).to_owned(),
            strict: format.strict,
        },
        _ => return Err(RequestError::Untranslatable { key: "text.format" }),
    };
    Ok(())
}

#[derive(Deserialize)]
struct WireReasoning {
    effort: Option<String>,
    summary: Option<String>,
    generate_summary: Option<String>,
}

fn reasoning(value: &RawValue) -> Result<Option<ReasoningWish>, RequestError> {
    let wish: WireReasoning = typed(value, "reasoning", "an object")?;
    let wish = ReasoningWish {
        effort: wish.effort,
        budget: None,
        summary: wish.summary.or(wish.generate_summary),
    };
    Ok(Some(wish).filter(|wish| *wish != ReasoningWish::default()))
}
