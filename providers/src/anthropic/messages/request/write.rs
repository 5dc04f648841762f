//! A Messages request put together.
//!
//! What Anthropic wants otherwise than others:
//! * `max_tokens` must be there: [`MAX_TOKENS`] where the client set no limit, more where the model thinks.
//! * Temperatures end at 1: higher ones become 1. Only one of `temperature` and `top_p` may be there, the temperature stays;
//!   where the model thinks, and for models that draw as they like, neither may be.
//! * JSON is written by a schema or not at all.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use understudy_messages::conversation::{Conversation, OutputFormat, Tool, ToolChoice};
use understudy_messages::settings::Api;

use self::messages::Block;
use self::sampling::Drawn;
use self::thinking::{Plan, Thinking};
use crate::wire::{Target, Unsupported, Written};

mod messages;
mod sampling;
mod thinking;

/// The most tokens of an answer whose client set no limit: what every model since Claude 3.5 can give.
const MAX_TOKENS: u64 = 8192;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<messages::Turn<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolForm<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(flatten)]
    drawn: Drawn<'a>,
    #[serde(skip_serializing_if = "Output::is_empty")]
    output_config: Output<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
}

#[derive(Serialize)]
struct ToolForm<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: Box<RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Serialize)]
struct Choice<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Serialize)]
struct Output<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Format<'a>>,
}

impl Output<'_> {
    fn is_empty(&self) -> bool {
        self.effort.is_none() && self.format.is_none()
    }
}

#[derive(Serialize)]
struct Format<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: &'a RawValue,
}

#[derive(Serialize)]
struct Metadata<'a> {
    user_id: &'a str,
}

/// Puts a request together.
///
/// # Errors
/// [`Unsupported`] where leaving something out would make it another request.
pub(crate) fn write(conversation: &Conversation, target: &Target<'_>) -> Result<Written, Unsupported> {
    let mut dropped = Dropped(conversation.unread.clone());
    let format = format(conversation)?;
    let (system, messages) = messages::write(&conversation.messages, &mut dropped)?;
    let plan = Plan::of(conversation, target.model, &messages, &mut dropped);
    let drawn = sampling::write(&conversation.sampling, plan.may_draw, &mut dropped)?;
    let body = Body {
        model: target.model,
        max_tokens: plan.max_tokens,
        system,
        messages,
        tools: conversation.tools.iter().map(tool).collect::<Result<_, _>>()?,
        tool_choice: tool_choice(conversation),
        thinking: plan.thinking,
        drawn,
        output_config: Output {
            effort: plan.effort,
            format,
        },
        metadata: conversation.user.as_deref().map(|user_id| Metadata { user_id }),
        stream: conversation.stream,
    };
    let body = serde_json::to_vec(&body).map_err(|_| unsupported("this request"))?;
    Ok(Written {
        body: Bytes::from(body),
        dropped: dropped.0,
    })
}

/// Names of what was left out, each once.
struct Dropped(Vec<String>);

impl Dropped {
    fn note(&mut self, name: &str) {
        if self.0.iter().all(|noted| noted != name) {
            self.0.push(name.to_owned());
        }
    }
}

fn unsupported(what: &str) -> Unsupported {
    Unsupported {
        what: what.to_owned(),
        api: Api::AnthropicMessages,
    }
}

fn format(conversation: &Conversation) -> Result<Option<Format<'_>>, Unsupported> {
    match &conversation.output {
        OutputFormat::Text => Ok(None),
        OutputFormat::JsonObject => Err(unsupported("response_format")),
        OutputFormat::JsonSchema { schema, .. } => Ok(Some(Format {
            kind: "json_schema",
            schema: serde_json::from_str(schema).map_err(|_| unsupported("response_format"))?,
        })),
    }
}

/// A tool. Its schema must be that of an object and say so.
fn tool(tool: &Tool) -> Result<ToolForm<'_>, Unsupported> {
    let schema = tool.parameters.as_deref().unwrap_or("{}").trim();
    let members: std::collections::BTreeMap<String, &RawValue> =
        serde_json::from_str(schema).map_err(|_| unsupported("tools"))?;
    let schema = match (members.contains_key("type"), members.is_empty()) {
        (true, _) => schema.to_owned(),
        (false, true) => r#"{"type":"object","properties":{}}"#.to_owned(),
        (false, false) => format!(r#"{{"type":"object",{}"#, schema.trim_start_matches('{')),
    };
    Ok(ToolForm {
        name: &tool.name,
        description: tool.description.as_deref(),
        input_schema: RawValue::from_string(schema).map_err(|_| unsupported("tools"))?,
        strict: tool.strict.filter(|strict| *strict),
    })
}

/// The choice; without tools there is none.
fn tool_choice(conversation: &Conversation) -> Option<Choice<'_>> {
    let parallel = conversation.parallel_tool_calls;
    let default = parallel.map(|_| &ToolChoice::Auto);
    let choice = conversation.tool_choice.as_ref().or(default);
    let (kind, name) = match choice.filter(|_| !conversation.tools.is_empty())? {
        ToolChoice::Auto => ("auto", None),
        ToolChoice::None => ("none", None),
        ToolChoice::Required => ("any", None),
        ToolChoice::Named(name) => ("tool", Some(name.as_str())),
    };
    Some(Choice {
        kind,
        name,
        disable_parallel_tool_use: parallel.filter(|_| kind != "none").map(|parallel| !parallel),
    })
}
