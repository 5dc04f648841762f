//! A chat request taken apart.

use understudy_messages::conversation::{Conversation, OutputFormat, ReasoningWish, Sampling};

use self::message::History;
use super::RequestError;
use crate::json::members::{Members, list, string};

mod message;
#[cfg(test)]
mod tests;
mod tools;

/// The most members that are named as having no place.
const MAX_UNREAD: usize = 32;

/// Takes a request apart.
pub(crate) fn read(body: &[u8]) -> Result<Conversation, RequestError> {
    let mut request = Members::of_body(body)?;
    for routed in ["model", "fallbacks"] {
        request.raw(routed);
    }
    let mut history = History::default();
    let messages = request.list("messages")?;
    for message in messages.ok_or(RequestError::Missing { key: "messages" })? {
        history.add(message)?;
    }
    let (messages, mut unread) = history.finish();
    let mut conversation = Conversation {
        messages,
        sampling: sampling(&mut request)?,
        output: output(&mut request)?,
        reasoning: reasoning(&mut request, &mut unread)?,
        parallel_tool_calls: request.flag("parallel_tool_calls")?,
        stream: request.flag("stream")?.unwrap_or(false),
        user: user(&mut request)?,
        ..Conversation::default()
    };
    tools::read(&mut request, &mut conversation, &mut unread)?;
    if let Some(mut options) = request.object("stream_options")? {
        options.raw("include_usage"); // the answer's writer has it from the facts
        note(&mut unread, options, "stream_options.");
    }
    if request.list("modalities")?.is_some_and(|all| all != ["\"text\""]) {
        unread.push("modalities".to_owned());
    }
    note(&mut unread, request, "");
    unread.truncate(MAX_UNREAD);
    conversation.unread = unread;
    Ok(conversation)
}

/// Notes the members that nobody read, each once.
fn note(unread: &mut Vec<String>, left: Members<'_>, prefix: &str) {
    for name in left.left() {
        let name = format!("{prefix}{name}");
        if unread.len() < MAX_UNREAD && !unread.contains(&name) {
            unread.push(name);
        }
    }
}

fn sampling(request: &mut Members<'_>) -> Result<Sampling, RequestError> {
    let older = request.count("max_tokens")?;
    let stop = match request.raw("stop") {
        None => Vec::new(),
        Some(one) if one.starts_with('"') => vec![string(one, "stop")?],
        Some(some) => {
            let some = list(some, "stop")?.into_iter();
            some.map(|one| string(one, "stop")).collect::<Result<_, _>>()?
        }
    };
    Ok(Sampling {
        max_tokens: request.count("max_completion_tokens")?.or(older),
        temperature: request.number("temperature")?,
        top_p: request.number("top_p")?,
        top_k: request.count("top_k")?,
        stop,
        seed: request.integer("seed")?,
        choices: request.count("n")?,
        presence_penalty: request.number("presence_penalty")?,
        frequency_penalty: request.number("frequency_penalty")?,
        logprobs: request.flag("logprobs")?.unwrap_or(false),
        top_logprobs: request.count("top_logprobs")?,
    })
}

fn output(request: &mut Members<'_>) -> Result<OutputFormat, RequestError> {
    const KEY: &str = "response_format";
    let Some(mut format) = request.object(KEY)? else {
        return Ok(OutputFormat::Text);
    };
    match format.required("type")?.as_str() {
        "text" => Ok(OutputFormat::Text),
        "json_object" => Ok(OutputFormat::JsonObject),
        "json_schema" => {
            let missing = RequestError::Missing { key: "json_schema" };
            let mut schema = format.object("json_schema")?.ok_or(missing)?;
            Ok(OutputFormat::JsonSchema {
                name: schema.string("name")?.unwrap_or_default(),
                schema: schema.raw("schema").unwrap_or("{}").to_owned(),
                strict: schema.flag("strict")?,
            })
        }
        _ => Err(RequestError::Untranslatable { key: KEY }),
    }
}

/// `reasoning_effort`, or the object that some routers take in its place.
fn reasoning(request: &mut Members<'_>, unread: &mut Vec<String>) -> Result<Option<ReasoningWish>, RequestError> {
    let mut wish = ReasoningWish {
        effort: request.string("reasoning_effort")?,
        ..ReasoningWish::default()
    };
    if let Some(mut object) = request.object("reasoning")? {
        wish.effort = object.string("effort")?.or(wish.effort);
        wish.budget = object.count("max_tokens")?;
        wish.summary = object.string("summary")?;
        if object.flag("enabled")? == Some(false) {
            wish.effort = Some("none".to_owned());
        }
        note(unread, object, "reasoning.");
    }
    Ok(Some(wish).filter(|wish| *wish != ReasoningWish::default()))
}

fn user(request: &mut Members<'_>) -> Result<Option<String>, RequestError> {
    let user = request.string("user")?;
    Ok(user.or(request.string("safety_identifier")?))
}
