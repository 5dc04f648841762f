//! A Responses request put together.
//!
//! System and developer messages stay where they are, with their role. The provider is to keep nothing (`store: false`): the
//! gateway has the conversation. Where reasoning is wanted its ciphertext is asked for, so that it can be handed back.
//!
//! Not to be expressed: stop sequences, more than one choice, probabilities of tokens, sound. Left out by name: seed,
//! penalties, top-k, that a tool failed, and a wish for no reasoning at all.

use serde::Serialize;
use serde_json::value::RawValue;
use understudy_messages::conversation::{
    Conversation, OutputFormat, Part, ReasoningWish, Sampling, Seal, Tool, ToolChoice,
};
use understudy_messages::settings::Api;

use self::items::{Items, WireItem};
use crate::wire::{Target, Unsupported, Written};

mod items;

/// Puts a request together.
///
/// # Errors
/// [`Unsupported`] for what would change the answer if it were left out.
pub(crate) fn write(conversation: &Conversation, target: &Target<'_>) -> Result<Written, Unsupported> {
    let mut dropped = conversation.unread.clone();
    check(&conversation.sampling, &mut dropped)?;
    let mut items = Items::default();
    for message in &conversation.messages {
        items.message(message)?;
    }
    if items.drops_errors {
        dropped.push("is_error".to_owned());
    }
    let reasoning = conversation
        .reasoning
        .as_ref()
        .and_then(|wish| reasoning(wish, &mut dropped));
    let thinks = reasoning.as_ref().is_some_and(|wish| wish.effort != Some("none"));
    let tools: Vec<WireTool<'_>> = conversation.tools.iter().map(tool).collect::<Result<_, _>>()?;
    let body = Body {
        model: target.model,
        input: items.items,
        tools,
        tool_choice: conversation.tool_choice.as_ref().map(tool_choice),
        parallel_tool_calls: conversation.parallel_tool_calls,
        max_output_tokens: conversation.sampling.max_tokens,
        temperature: conversation.sampling.temperature,
        top_p: conversation.sampling.top_p,
        text: text(&conversation.output)?,
        reasoning,
        include: (thinks || has_own_seal(conversation)).then_some(["reasoning.encrypted_content"]),
        user: conversation.user.as_deref(),
        store: false,
        stream: conversation.stream,
    };
    let body = serde_json::to_vec(&body).map_err(|_| unsupported("a number that is none"))?;
    Ok(Written {
        body: body.into(),
        dropped,
    })
}

fn unsupported(what: &str) -> Unsupported {
    Unsupported {
        what: what.to_owned(),
        api: Api::OpenaiResponses,
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: Vec<WireItem<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<WireChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<WireText<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<WireReasoning<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    store: bool,
    stream: bool,
}

/// Refuses what cannot be expressed, and names what is left out.
fn check(sampling: &Sampling, dropped: &mut Vec<String>) -> Result<(), Unsupported> {
    for (what, is_asked) in [
        ("stop", !sampling.stop.is_empty()),
        ("n", sampling.choices.is_some_and(|choices| choices > 1)),
        ("logprobs", sampling.logprobs),
    ] {
        if is_asked {
            return Err(unsupported(what));
        }
    }
    for (what, is_given) in [
        ("seed", sampling.seed.is_some()),
        ("presence_penalty", sampling.presence_penalty.is_some()),
        ("frequency_penalty", sampling.frequency_penalty.is_some()),
        ("top_k", sampling.top_k.is_some()),
    ] {
        if is_given {
            dropped.push(what.to_owned());
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct WireReasoning<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a str>,
}

/// The wish in Responses' words. A budget becomes the effort that usually takes about as much. That there be none at all is
/// left out by name: not every model has a word for it.
fn reasoning<'a>(wish: &'a ReasoningWish, dropped: &mut Vec<String>) -> Option<WireReasoning<'a>> {
    let by_budget = match wish.budget {
        Some(0) if wish.effort.is_none() => {
            dropped.push("reasoning".to_owned());
            None
        }
        Some(1..=2048) => Some("low"),
        Some(2049..=8192) => Some("medium"),
        Some(8193..) => Some("high"),
        Some(0) | None => None,
    };
    let wish = WireReasoning {
        effort: wish.effort.as_deref().or(by_budget),
        summary: wish.summary.as_deref(),
    };
    (wish.effort.is_some() || wish.summary.is_some()).then_some(wish)
}

fn has_own_seal(conversation: &Conversation) -> bool {
    let own = |seal: &Seal| seal.maker == Api::OpenaiResponses;
    let mut parts = conversation.messages.iter().flat_map(|message| &message.parts);
    parts.any(|part| matches!(part, Part::Reasoning(reasoning) if reasoning.seal.as_ref().is_some_and(own)))
}

#[derive(Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parameters: Option<&'a RawValue>,
    strict: bool,
}

/// Here a tool is strict unless it says that it is not; everywhere else it is the other way round.
fn tool(tool: &Tool) -> Result<WireTool<'_>, Unsupported> {
    let schema = tool.parameters.as_deref().map(raw).transpose();
    Ok(WireTool {
        kind: "function",
        name: &tool.name,
        description: tool.description.as_deref(),
        parameters: schema.map_err(|()| unsupported("a tool's schema that is no JSON"))?,
        strict: tool.strict.unwrap_or(false),
    })
}

fn raw(json: &str) -> Result<&RawValue, ()> {
    serde_json::from_str(json).map_err(|_| ())
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireChoice<'a> {
    Word(&'static str),
    Named {
        #[serde(rename = "type")]
        kind: &'static str,
        name: &'a str,
    },
}

fn tool_choice(choice: &ToolChoice) -> WireChoice<'_> {
    match choice {
        ToolChoice::Auto => WireChoice::Word("auto"),
        ToolChoice::None => WireChoice::Word("none"),
        ToolChoice::Required => WireChoice::Word("required"),
        ToolChoice::Named(name) => WireChoice::Named { kind: "function", name },
    }
}

#[derive(Serialize)]
struct WireText<'a> {
    format: WireFormat<'a>,
}

#[derive(Serialize)]
struct WireFormat<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

fn text(output: &OutputFormat) -> Result<Option<WireText<'_>>, Unsupported> {
    let format = match output {
        OutputFormat::Text => return Ok(None),
        OutputFormat::JsonObject => WireFormat {
            kind: "json_object",
            name: None,
            schema: None,
            strict: None,
        },
        OutputFormat::JsonSchema { name, schema, strict } => WireFormat {
            kind: "json_schema",
            name: Some(if name.is_empty() { "answer" } else { name }),
            schema: Some(raw(schema).map_err(|()| unsupported("a schema that is no JSON"))?),
            strict: *strict,
        },
    };
    Ok(Some(WireText { format }))
}
