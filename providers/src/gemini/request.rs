//! Gemini requests.
//!
//! System and developer messages that lead are the `systemInstruction`; later ones are said by the user, where they stand.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use understudy_messages::conversation::{Conversation, OutputFormat, Tool, ToolChoice};
use understudy_messages::settings::Api;

use self::contents::Content;
use crate::wire::{Target, Unsupported, Written};

mod contents;
mod media;
#[cfg(test)]
mod tests;
mod thinking;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    #[serde(skip_serializing_if = "GenerationConfig::is_empty")]
    generation_config: GenerationConfig<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Function<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Function<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<&'a RawValue>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<Value>,
}

impl GenerationConfig<'_> {
    fn is_empty(&self) -> bool {
        serde_json::to_value(self).is_ok_and(|value| value == json!({}))
    }
}

/// Puts a request together.
pub(crate) fn write(conversation: &Conversation, target: &Target<'_>) -> Result<Written, Unsupported> {
    let mut dropped = conversation.unread.clone();
    let mut drop_if = |gone: bool, name: &str| dropped.extend(gone.then(|| name.to_owned()));
    drop_if(conversation.user.is_some(), "user");
    drop_if(
        conversation.tools.iter().any(|tool| tool.strict == Some(true)),
        "tools.strict",
    );
    drop_if(conversation.parallel_tool_calls == Some(false), "parallel_tool_calls");
    let (system_instruction, contents) = contents::write(&conversation.messages, target.model)?;
    let functions: Vec<_> = conversation.tools.iter().map(function).collect();
    let has_tools = !functions.is_empty();
    let body = Body {
        contents,
        system_instruction,
        tools: has_tools
            .then_some(Tools {
                function_declarations: functions,
            })
            .into_iter()
            .collect(),
        tool_config: conversation.tool_choice.as_ref().filter(|_| has_tools).map(tool_config),
        generation_config: generation(conversation, target.model, &mut dropped)?,
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
        api: Api::Gemini,
    }
}

fn function(tool: &Tool) -> Function<'_> {
    Function {
        name: &tool.name,
        description: tool.description.as_deref(),
        parameters_json_schema: tool.parameters.as_deref().and_then(raw),
    }
}

/// JSON as it was written.
fn raw(json: &str) -> Option<&RawValue> {
    serde_json::from_str(json).ok()
}

fn tool_config(choice: &ToolChoice) -> Value {
    let config = match choice {
        ToolChoice::Auto => json!({"mode": "AUTO"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Named(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
    };
    json!({"functionCallingConfig": config})
}

fn generation<'a>(
    conversation: &'a Conversation,
    model: &str,
    dropped: &mut Vec<String>,
) -> Result<GenerationConfig<'a>, Unsupported> {
    let sampling = &conversation.sampling;
    if sampling.logprobs || sampling.top_logprobs.is_some() {
        return Err(unsupported("logprobs"));
    }
    // seeds are numbers of 32 bits there
    let seed = sampling.seed.and_then(|seed| i32::try_from(seed).ok());
    if seed.is_none() && sampling.seed.is_some() {
        dropped.push("seed".to_owned());
    }
    let (response_mime_type, response_json_schema) = match &conversation.output {
        OutputFormat::Text => (None, None),
        OutputFormat::JsonObject => (Some("application/json"), None),
        OutputFormat::JsonSchema { schema, .. } => (Some("application/json"), raw(schema)),
    };
    Ok(GenerationConfig {
        max_output_tokens: sampling.max_tokens,
        temperature: sampling.temperature,
        top_p: sampling.top_p,
        top_k: sampling.top_k,
        stop_sequences: &sampling.stop,
        seed,
        candidate_count: sampling.choices,
        presence_penalty: sampling.presence_penalty,
        frequency_penalty: sampling.frequency_penalty,
        response_mime_type,
        response_json_schema,
        thinking_config: conversation
            .reasoning
            .as_ref()
            .and_then(|wish| thinking::config(wish, model)),
    })
}
