//! A Messages request taken apart.

use understudy_messages::conversation::{
    Conversation, Message, OutputFormat, ReasoningWish, Sampling, Speaker, Tool, ToolChoice,
};

use self::blocks::blocks;
use self::unread::Unread;
use crate::json::members::{Members, string, wrong};
use crate::request_error::RequestError;

mod blocks;
mod unread;

/// Takes a request apart, on its way to a provider of another wire format.
///
/// Results of tools become a message of [`Speaker::Tool`], before what else the user says with them. What only Anthropic
/// knows is left out by name, unless leaving it out would make it another request.
///
/// # Errors
/// [`RequestError`], the client's fault in every case.
pub(crate) fn read(body: &[u8]) -> Result<Conversation, RequestError> {
    let mut body = Members::of_body(body)?;
    let mut unread = Unread::default();
    for ours in ["model", "fallbacks"] {
        body.raw(ours);
    }
    for key in ["mcp_servers", "container"] {
        if body.raw(key).is_some_and(|value| value != "[]") {
            return Err(RequestError::Untranslatable { key });
        }
    }
    let (tool_choice, parallel_tool_calls) = tool_choice(&mut body)?.unzip();
    let (effort, output) = output(&mut body, &mut unread)?;
    let conversation = Conversation {
        messages: messages(&mut body, &mut unread)?,
        tools: tools(&mut body, &mut unread)?,
        tool_choice,
        parallel_tool_calls: parallel_tool_calls.flatten(),
        sampling: sampling(&mut body)?,
        output,
        reasoning: reasoning(&mut body, effort)?,
        stream: body.flag("stream")?.unwrap_or(false),
        user: user(&mut body, &mut unread)?,
        unread: Vec::new(),
    };
    unread.left(body);
    Ok(Conversation {
        unread: unread.names(),
        ..conversation
    })
}

fn messages(body: &mut Members<'_>, unread: &mut Unread) -> Result<Vec<Message>, RequestError> {
    let mut messages = Vec::new();
    if let Some(system) = body.raw("system") {
        let parts = blocks(system, "system", unread)?;
        messages.push(Message {
            speaker: Speaker::System,
            parts,
        });
    }
    let listed = body.list("messages")?;
    for message in listed.ok_or(RequestError::Missing { key: "messages" })? {
        let mut message = Members::of(message, "messages")?;
        let speaker = match &*message.required("role")? {
            "user" => Speaker::User,
            "assistant" => Speaker::Assistant,
            "system" => Speaker::System,
            _ => return Err(wrong("role", "`user` or `assistant`")),
        };
        let content = message.raw("content").ok_or(RequestError::Missing { key: "content" })?;
        let parts = blocks(content, "content", unread)?;
        blocks::say(&mut messages, speaker, parts);
        unread.left(message);
    }
    Ok(messages)
}

fn tools(body: &mut Members<'_>, unread: &mut Unread) -> Result<Vec<Tool>, RequestError> {
    let mut tools = Vec::new();
    for tool in body.list("tools")?.unwrap_or_default() {
        let mut tool = Members::of(tool, "tools")?;
        if tool.string("type")?.is_some_and(|kind| kind != "custom") {
            return Err(RequestError::Untranslatable { key: "tools" });
        }
        tools.push(Tool {
            name: tool.required("name")?,
            description: tool.string("description")?,
            parameters: tool.raw("input_schema").map(str::to_owned),
            strict: tool.flag("strict")?,
        });
        unread.left(tool);
    }
    Ok(tools)
}

/// The choice, and whether several tools may be called at once.
fn tool_choice(body: &mut Members<'_>) -> Result<Option<(ToolChoice, Option<bool>)>, RequestError> {
    let Some(mut choice) = body.object("tool_choice")? else {
        return Ok(None);
    };
    let parallel = choice.flag("disable_parallel_tool_use")?.map(|disabled| !disabled);
    let choice = match &*choice.required("type")? {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Named(choice.required("name")?),
        _ => return Err(wrong("tool_choice", "of type `auto`, `any`, `tool` or `none`")),
    };
    Ok(Some((choice, parallel)))
}

fn sampling(body: &mut Members<'_>) -> Result<Sampling, RequestError> {
    let stop = body.list("stop_sequences")?.unwrap_or_default();
    let stop: Result<_, _> = stop.into_iter().map(|stop| string(stop, "stop_sequences")).collect();
    Ok(Sampling {
        max_tokens: body.count("max_tokens")?,
        temperature: body.number("temperature")?,
        top_p: body.number("top_p")?,
        top_k: body.count("top_k")?,
        stop: stop?,
        ..Sampling::default()
    })
}

/// The effort, and the shape that the text must have: either where it stands today or where the beta had it.
fn output(body: &mut Members<'_>, unread: &mut Unread) -> Result<(Option<String>, OutputFormat), RequestError> {
    let mut config = body.object("output_config")?;
    let (mut effort, mut format) = (None, body.object("output_format")?);
    if let Some(config) = &mut config {
        effort = config.string("effort")?;
        format = config.object("format")?.or(format);
    }
    if let Some(config) = config {
        unread.left(config);
    }
    let Some(mut format) = format else {
        return Ok((effort, OutputFormat::Text));
    };
    if format.required("type")? != "json_schema" {
        return Err(wrong("format", "of type `json_schema`"));
    }
    let schema = format.raw("schema").ok_or(RequestError::Missing { key: "schema" })?;
    let format = OutputFormat::JsonSchema {
        name: "answer".to_owned(),
        schema: schema.to_owned(),
        strict: None,
    };
    Ok((effort, format))
}

/// Wanted thinking is readable unless the client says that it may be left out.
fn reasoning(body: &mut Members<'_>, effort: Option<String>) -> Result<Option<ReasoningWish>, RequestError> {
    let effort = effort.map(|effort| if effort == "max" { "xhigh".to_owned() } else { effort });
    let Some(mut thinking) = body.object("thinking")? else {
        return Ok(effort.map(|effort| ReasoningWish {
            effort: Some(effort),
            ..ReasoningWish::default()
        }));
    };
    let display = thinking.string("display")?;
    let shown = |by_default: bool| display.as_deref().map_or(by_default, |display| display == "summarized");
    let (budget, shown) = match &*thinking.required("type")? {
        "disabled" => (Some(0), false),
        "enabled" => (thinking.count("budget_tokens")?, shown(true)),
        "adaptive" => (None, shown(false)),
        _ => return Err(wrong("thinking", "of type `enabled`, `disabled` or `adaptive`")),
    };
    Ok(Some(ReasoningWish {
        effort: effort.filter(|_| budget != Some(0)),
        budget,
        summary: shown.then(|| "auto".to_owned()),
    }))
}

fn user(body: &mut Members<'_>, unread: &mut Unread) -> Result<Option<String>, RequestError> {
    let Some(mut metadata) = body.object("metadata")? else {
        return Ok(None);
    };
    let user = metadata.string("user_id")?;
    unread.left(metadata);
    Ok(user)
}
