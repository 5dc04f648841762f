//! Exchanges that ended as answers: the request scanned, the answer read in every kind of cut.

use serde_json::{Value, json};
use understudy_messages::answer::Piece;
use understudy_messages::request::Endpoint;
use understudy_messages::settings::Api;
use understudy_providers::wire::{self, Answer, Whole};

use crate::cuts::{beginnings, cuts};
use crate::normalized::{compare, normalized};
use crate::recording::Recording;
use crate::replay::Replay;

/// Checks one recording; the difference if there is one.
pub(crate) fn check(recording: &Recording, seed: u64) -> Result<(), String> {
    let body = recording.response.bytes();
    if !recording.response.is_stream() {
        return whole(recording, &body, seed);
    }
    for (way, reads) in cuts(&body, seed) {
        let replay = Replay::of(recording.api, &reads, recording.response.then);
        let same = replay.and_then(|replay| compare(recording.api, &recording.normalized, &replay.normalized()));
        same.map_err(|difference| format!("{way}: {difference}"))?;
    }
    Ok(())
}

/// Whether the scan of a request finds in it what it says.
pub(crate) fn reads_the_request(recording: &Recording) -> Result<(), String> {
    let body = &recording.request.body;
    let (endpoint, conversation) = match recording.api {
        Api::OpenaiChat => (Endpoint::Chat, "messages"),
        Api::OpenaiResponses => (Endpoint::Responses, "input"),
        Api::AnthropicMessages => (Endpoint::Messages, "messages"),
        Api::Gemini => return Ok(()), // nobody asks us in its format
    };
    if !body.is_object() {
        return Ok(());
    }
    let facts = wire::scan(endpoint, &body.to_string().into()).map_err(|error| error.to_string())?;
    let read = json!([&*facts.model, facts.stream, facts.messages.count]);
    let count = match &body[conversation] {
        Value::Array(messages) => messages.len(),
        Value::String(_) => 1,
        _ => 0,
    };
    let expected = json!([body["model"], body["stream"].as_bool().unwrap_or(false), count]);
    if read == expected {
        Ok(())
    } else {
        Err(format!("request: {read} instead of {expected}"))
    }
}

/// Reads a whole body; what it means, and what it says.
pub(crate) fn read_whole(api: Api, body: &[u8]) -> Result<(Whole, Vec<Piece>), wire::AnswerError> {
    let mut pieces = Vec::new();
    let whole = wire::read_whole(endpoint(api), api, body, Some(&mut pieces))?;
    Ok((whole, pieces))
}

/// Where a client asks who speaks the format; Gemini's is spoken by none, so any will do.
pub(crate) fn endpoint(api: Api) -> Endpoint {
    match api {
        Api::OpenaiChat | Api::Gemini => Endpoint::Chat,
        Api::OpenaiResponses => Endpoint::Responses,
        Api::AnthropicMessages => Endpoint::Messages,
    }
}

fn whole(recording: &Recording, body: &[u8], seed: u64) -> Result<(), String> {
    let (whole, pieces) = read_whole(recording.api, body).map_err(|error| error.to_string())?;
    let mut answer = Answer::default();
    pieces.iter().for_each(|piece| answer.add(piece));
    let told = (answer.finish, answer.usage, !answer.tool_calls.is_empty());
    if told != (whole.finish, whole.usage, whole.calls_tools) {
        return Err(format!("the pieces say {told:?}, the whole is {whole:?}"));
    }
    answer.error.clone_from(&whole.error);
    let end = if whole.error.is_some() { "error" } else { "complete" };
    compare(recording.api, &recording.normalized, &normalized(&answer, end))?;
    for cut in beginnings(body, seed) {
        if read_whole(recording.api, cut).is_ok() {
            return Err(format!("cut after {} bytes it still counts as an answer", cut.len()));
        }
    }
    Ok(())
}
