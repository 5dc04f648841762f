//! A chat request put together, in the words that most compatible servers take.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use understudy_messages::conversation::{Conversation, OutputFormat, ReasoningWish, Tool, ToolChoice};
use understudy_messages::settings::Api;

use self::message::ChatMessage;
use crate::wire::{Target, Unsupported, Written};

mod message;
#[cfg(test)]
mod tests;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<ChatMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ChatTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Format<'a>>,
    #[serde(flatten)]
    options: Map<String, Value>,
}

#[derive(Serialize)]
struct ChatTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    json_schema: Option<Schema<'a>>,
}

#[derive(Serialize)]
struct Schema<'a> {
    name: &'a str,
    schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

/// Puts a request together.
pub(crate) fn write(conversation: &Conversation, target: &Target<'_>) -> Result<Written, Unsupported> {
    if conversation.sampling.logprobs || conversation.sampling.top_logprobs.is_some() {
        return Err(unsupported("logprobs"));
    }
    let mut dropped = conversation.unread.clone();
    let messages = message::write(&conversation.messages, &mut dropped)?;
    let body = Body {
        model: target.model,
        messages,
        tools: conversation.tools.iter().map(tool).collect(),
        response_format: format(&conversation.output),
        options: options(conversation, target, &mut dropped),
    };
    let body = serde_json::to_vec(&body).map_err(|_| unsupported("request"))?;
    Ok(Written {
        body: body.into(),
        dropped,
    })
}

fn unsupported(what: &str) -> Unsupported {
    Unsupported {
        what: what.to_owned(),
        api: Api::OpenaiChat,
    }
}

fn tool(tool: &Tool) -> ChatTool<'_> {
    ChatTool {
        kind: "function",
        function: Function {
            name: &tool.name,
            description: tool.description.as_deref(),
            parameters: tool.parameters.as_deref().and_then(raw),
            strict: tool.strict,
        },
    }
}

/// JSON as it was written.
fn raw(json: &str) -> Option<&RawValue> {
    serde_json::from_str(json).ok()
}

fn format(output: &OutputFormat) -> Option<Format<'_>> {
    let (kind, json_schema) = match output {
        OutputFormat::Text => return None,
        OutputFormat::JsonObject => ("json_object", None),
        OutputFormat::JsonSchema { name, schema, strict } => {
            let name = if name.is_empty() { "answer" } else { name };
            let schema = raw(schema);
            let strict = *strict;
            ("json_schema", Some(Schema { name, schema, strict }))
        }
    };
    Some(Format { kind, json_schema })
}

/// The members that stand only where something was asked for.
fn options(conversation: &Conversation, target: &Target<'_>, dropped: &mut Vec<String>) -> Map<String, Value> {
    let sampling = &conversation.sampling;
    let mut options = Map::new();
    let mut set = |key: &str, value: Option<Value>| options.extend(value.map(|value| (key.to_owned(), value)));
    set(limit_member(target.model), sampling.max_tokens.map(Value::from));
    set("temperature", sampling.temperature.map(Value::from));
    set("top_p", sampling.top_p.map(Value::from));
    set("seed", sampling.seed.map(Value::from));
    set("n", sampling.choices.map(Value::from));
    set("presence_penalty", sampling.presence_penalty.map(Value::from));
    set("frequency_penalty", sampling.frequency_penalty.map(Value::from));
    set("stop", Some(json!(sampling.stop)).filter(|_| !sampling.stop.is_empty()));
    set("user", conversation.user.as_deref().map(Value::from));
    if conversation.stream {
        set("stream", Some(json!(true)));
        set("stream_options", Some(json!({"include_usage": true})));
    }
    // without tools servers refuse both
    if !conversation.tools.is_empty() {
        set("tool_choice", conversation.tool_choice.as_ref().map(tool_choice));
        set("parallel_tool_calls", conversation.parallel_tool_calls.map(Value::from));
    }
    if let Some(wish) = &conversation.reasoning {
        set("reasoning_effort", effort(wish).map(Value::from));
        dropped.extend(wish.summary.is_some().then(|| "reasoning.summary".to_owned()));
    }
    dropped.extend(sampling.top_k.is_some().then(|| "top_k".to_owned()));
    options
}

/// The member that limits the answer: OpenAI's newer models take `max_completion_tokens` only, and all of its models
/// take it; of the compatible servers most take `max_tokens` only, and all take that.
fn limit_member(model: &str) -> &'static str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let numbered = name
        .strip_prefix('o')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let is_openai =
        numbered || name.starts_with("chatgpt-") || name.starts_with("gpt-") && !name.starts_with("gpt-oss");
    if is_openai {
        "max_completion_tokens"
    } else {
        "max_tokens"
    }
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Named(name) => json!({"type": "function", "function": {"name": name}}),
    }
}

/// The effort that was asked for, or that a budget of tokens comes to.
fn effort(wish: &ReasoningWish) -> Option<&str> {
    let of_budget = |budget| match budget {
        0 => "none",
        1..=2_048 => "low",
        2_049..=8_192 => "medium",
        8_193.. => "high",
    };
    wish.effort.as_deref().or(wish.budget.map(of_budget))
}
