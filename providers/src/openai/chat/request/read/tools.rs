//! The tools of a chat request, in the present form and in the one before.

use understudy_messages::conversation::{Conversation, Tool, ToolChoice};

use super::{RequestError, note};
use crate::json::members::{Members, string, wrong};

/// Reads the tools and which of them are to be called.
pub(super) fn read(
    request: &mut Members<'_>,
    conversation: &mut Conversation,
    unread: &mut Vec<String>,
) -> Result<(), RequestError> {
    for tool in request.list("tools")?.unwrap_or_default() {
        let mut tool = Members::of(tool, "tools")?;
        if tool.string("type")?.is_some_and(|kind| kind != "function") {
            return Err(RequestError::Untranslatable { key: "tools" });
        }
        let missing = RequestError::Missing { key: "function" };
        let described = tool.object("function")?.ok_or(missing)?;
        conversation.tools.push(function(described, unread)?);
        note(unread, tool, "tools.");
    }
    for described in request.list("functions")?.unwrap_or_default() {
        let described = Members::of(described, "functions")?;
        conversation.tools.push(function(described, unread)?);
    }
    let older = request.raw("function_call").map(|it| choice(it, "function_call"));
    let choice = request.raw("tool_choice").map(|it| choice(it, "tool_choice"));
    conversation.tool_choice = choice.or(older).transpose()?;
    Ok(())
}

fn function(mut described: Members<'_>, unread: &mut Vec<String>) -> Result<Tool, RequestError> {
    let tool = Tool {
        name: described.required("name")?,
        description: described.string("description")?,
        parameters: described.raw("parameters").map(str::to_owned),
        strict: described.flag("strict")?,
    };
    note(unread, described, "tools.");
    Ok(tool)
}

/// A word, `{"type":"function","function":{"name":…}}`, or `{"name":…}` as it was before.
fn choice(value: &str, key: &'static str) -> Result<ToolChoice, RequestError> {
    let wrong = wrong(key, "none, auto, required or the name of a function");
    if value.starts_with('"') {
        return match string(value, key)?.as_str() {
            "none" => Ok(ToolChoice::None),
            "auto" => Ok(ToolChoice::Auto),
            "required" | "any" => Ok(ToolChoice::Required),
            _ => Err(wrong),
        };
    }
    let mut object = Members::of(value, key)?;
    if object.string("type")?.is_some_and(|kind| kind != "function") {
        return Err(RequestError::Untranslatable { key });
    }
    let mut named = object.object("function")?.unwrap_or(object);
    named.string("name")?.map(ToolChoice::Named).ok_or(wrong)
}
