//! Recorded requests carried over into every provider's format, and read back from it.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::Value;
use understudy_messages::conversation::{
    Conversation, Media, MediaSource, OutputFormat, Part, Speaker, Tool, ToolChoice,
};
use understudy_messages::settings::Api;
use understudy_providers::wire::{self, RequestError, Target};

use crate::answers::endpoint;
use crate::recording::Recording;

/// Carries one recorded request over into every format; the difference if there is one.
pub(crate) fn check(recording: &Recording) -> Result<(), String> {
    if recording.api == Api::Gemini || !recording.request.body.is_object() {
        return Ok(());
    }
    let client = endpoint(recording.api);
    let body = Bytes::from(recording.request.body.to_string());
    let facts = wire::scan(client, &body).map_err(|error| format!("scan: {error}"))?;
    let said = match wire::read(client, &body) {
        Ok(said) => said,
        Err(RequestError::Untranslatable { .. }) => return Ok(()),
        Err(error) => return Err(format!("read: {error}")),
    };
    for api in Api::ALL {
        let carried = carry(&said, api, wire::obstacle(client, &facts, api).is_some());
        carried.map_err(|difference| format!("to {}: {difference}", api.as_label()))?;
    }
    Ok(())
}

fn carry(said: &Conversation, api: Api, obstacle: bool) -> Result<(), String> {
    let target = Target {
        model: "the-model",
        ask_usage: false,
    };
    let written = match wire::write(api, said, &target) {
        Ok(written) => written,
        Err(unsupported) if unsupported.what.is_empty() => return Err("refused without a name".to_owned()),
        Err(_) => return Ok(()),
    };
    if obstacle {
        return Err("written, though the table says that it cannot be".to_owned());
    }
    let json: Value = serde_json::from_slice(&written.body).map_err(|error| error.to_string())?;
    if api == Api::Gemini {
        return json["contents"]
            .is_array()
            .then_some(())
            .ok_or_else(|| "no contents".to_owned());
    }
    if json["model"] != "the-model" {
        return Err(format!("the model is {}", json["model"]));
    }
    let facts = wire::scan(endpoint(api), &written.body).map_err(|error| format!("scanned back: {error}"))?;
    let read = wire::read(endpoint(api), &written.body).map_err(|error| format!("read back: {error}"))?;
    if facts.stream != said.stream || read.stream != said.stream {
        return Err("streaming or not".to_owned());
    }
    compare(said, &read, &written.dropped)
}

/// Whether both say the same, but for what was named as dropped.
fn compare(said: &Conversation, read: &Conversation, dropped: &[String]) -> Result<(), String> {
    let (spoken, heard) = (turns(said), turns(read));
    if spoken.is_empty() {
        // where nobody but the operator speaks, it may have to be as the user
        let all = heard.into_iter().map(|(_, text)| text).collect::<String>() + &instructions(read);
        equal("what is said", &instructions(said), &all)?;
    } else {
        equal("instructions", &instructions(said), &instructions(read))?;
        equal("turns", &spoken, &heard)?;
    }
    equal("tools", &tools(said), &tools(read))?;
    let choice = |it: &Conversation| it.tool_choice.clone().filter(|choice| *choice != ToolChoice::Auto);
    equal("tool_choice", &choice(said), &choice(read))?;
    let dropped: BTreeSet<&str> = dropped.iter().map(String::as_str).collect();
    let kept = |names: &[&str]| !names.iter().any(|name| dropped.contains(name));
    let (a, b) = (&said.sampling, &read.sampling);
    let limits = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    if a.max_tokens.is_some() && kept(&limits) {
        equal("max_tokens", &a.max_tokens, &b.max_tokens)?;
    }
    if kept(&["temperature"]) {
        let drawn = |temperature: Option<f64>| temperature.filter(|it| *it != 1.0);
        equal("temperature", &drawn(a.temperature), &drawn(b.temperature))?;
    }
    if kept(&["top_p"]) {
        equal("top_p", &a.top_p, &b.top_p)?;
    }
    if kept(&["top_k"]) {
        equal("top_k", &a.top_k, &b.top_k)?;
    }
    if kept(&["stop", "stop_sequences"]) {
        equal("stop", &a.stop, &b.stop)?;
    }
    if kept(&["seed"]) {
        equal("seed", &a.seed, &b.seed)?;
    }
    if kept(&["presence_penalty"]) {
        equal("presence_penalty", &a.presence_penalty, &b.presence_penalty)?;
    }
    if kept(&["frequency_penalty"]) {
        equal("frequency_penalty", &a.frequency_penalty, &b.frequency_penalty)?;
    }
    equal("output", &output(said), &output(read))
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, read: &T) -> Result<(), String> {
    if expected == read {
        Ok(())
    } else {
        Err(format!("{what}: {read:?} instead of {expected:?}"))
    }
}

/// All that the operator says.
fn instructions(conversation: &Conversation) -> String {
    let operators = conversation
        .messages
        .iter()
        .filter(|message| is_operator(message.speaker));
    let parts = operators.flat_map(|message| &message.parts);
    let texts = parts.filter_map(|part| match part {
        Part::Text(text) => Some(text.trim()),
        _ => None,
    });
    words(&texts.collect::<Vec<_>>().join(" "))
}

fn is_operator(speaker: Speaker) -> bool {
    matches!(speaker, Speaker::System | Speaker::Developer)
}

/// What everybody else says, in order; what one says in a row counts as one. Reasoning is not carried over.
fn turns(conversation: &Conversation) -> Vec<(&'static str, String)> {
    let mut turns: Vec<(&'static str, String)> = Vec::new();
    let others = conversation
        .messages
        .iter()
        .filter(|message| !is_operator(message.speaker));
    for message in others {
        for part in &message.parts {
            let (who, what) = match part {
                Part::Text(text) | Part::Refusal(text) if message.speaker == Speaker::Assistant => {
                    ("model", text.clone())
                }
                Part::Text(text) | Part::Refusal(text) => ("user", text.clone()),
                Part::Media(found) => ("media", media(found)),
                Part::Reasoning(_) => continue,
                Part::ToolCall(call) => ("call", format!("{} {} {}", call.id, call.name, json(&call.arguments))),
                Part::ToolResult(result) => ("result", format!("{} {}", result.id, texts(&result.parts))),
            };
            let what = words(&what);
            match turns.last_mut() {
                Some((last, all)) if *last == who => {
                    all.push(' ');
                    all.push_str(&what);
                }
                _ if what.is_empty() => {}
                _ => turns.push((who, what)),
            }
        }
    }
    turns.into_iter().map(|(who, what)| (who, words(&what))).collect()
}

fn texts(parts: &[Part]) -> String {
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Media(found) => media(found),
        _ => String::new(),
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// A medium; text is text, whatever is written in it.
fn media(media: &Media) -> String {
    match &media.source {
        MediaSource::Inline { media_type, data } => {
            let kind = media_type.strip_prefix("text/").map_or(&**media_type, |_| "text");
            format!("{:?} {kind} {data}", media.kind)
        }
        source => format!("{:?} {source:?}", media.kind),
    }
}

/// Text without regard to white space.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn json(text: &str) -> String {
    let empty = if text.is_empty() { "{}" } else { text };
    serde_json::from_str::<Value>(empty).map_or_else(|_| text.to_owned(), |json| json.to_string())
}

fn tools(conversation: &Conversation) -> Vec<String> {
    let tool = |tool: &Tool| {
        let about = tool.description.as_deref().unwrap_or_default();
        let schema = tool
            .parameters
            .as_deref()
            .unwrap_or(r#"{"type":"object","properties":{}}"#);
        format!("{} {about} {}", tool.name, json(schema))
    };
    conversation.tools.iter().map(tool).collect()
}

fn output(conversation: &Conversation) -> String {
    match &conversation.output {
        OutputFormat::Text => String::new(),
        OutputFormat::JsonObject => "object".to_owned(),
        OutputFormat::JsonSchema { schema, .. } => json(schema),
    }
}
