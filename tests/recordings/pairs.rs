//! Answers carried over into every format that a client may speak, and read back from it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use understudy_messages::answer::{Finish, Piece, Usage};
use understudy_messages::conversation::Seal;
use understudy_messages::ids::{ModelRef, SessionKey, TurnId};
use understudy_messages::request::Endpoint;
use understudy_messages::settings::Api;
use understudy_messages::terminal::TurnFailure;
use understudy_messages::turn::TurnRequest;
use understudy_providers::stream::StreamFailure;
use understudy_providers::wire::{self, Answer, Style, Writer};
use understudy_tests::protocol::{self, Ending};

use crate::answers::read_whole;
use crate::cuts::cuts;
use crate::recording::{Recording, Then};
use crate::replay::Replay;

/// The formats that clients speak.
pub(crate) const CLIENTS: [Endpoint; 3] = [Endpoint::Chat, Endpoint::Responses, Endpoint::Messages];

/// Carries one recorded answer over into every format; the difference if there is one.
pub(crate) fn check(recording: &Recording, seed: u64) -> Result<(), String> {
    let body = recording.response.bytes();
    let (batches, ending) = if recording.response.is_stream() {
        let replay = Replay::of(recording.api, &[&body], recording.response.then)?;
        let ending = if replay.is_answer() {
            Ending::Whole
        } else {
            Ending::Error
        };
        (replay.batches, ending)
    } else {
        let (_, pieces) = read_whole(recording.api, &body).map_err(|error| error.to_string())?;
        let batches = pieces.into_iter().map(|piece| vec![piece]).collect();
        (batches, Ending::Whole)
    };
    for client in CLIENTS {
        if !carries(client, &batches) {
            continue;
        }
        let carried = streamed(client, &batches, ending, seed).and_then(|()| whole(client, &batches.concat()));
        carried.map_err(|difference| format!("to {}: {difference}", client.api().as_label()))?;
    }
    Ok(())
}

/// Only chat knows several choices.
fn carries(client: Endpoint, batches: &[Vec<Piece>]) -> bool {
    client == Endpoint::Chat || batches.concat().iter().all(|piece| choice(piece).unwrap_or(0) == 0)
}

fn streamed(client: Endpoint, batches: &[Vec<Piece>], ending: Ending, seed: u64) -> Result<(), String> {
    let mut writer = Writer::new(style(client, true)?);
    let mut written: Vec<u8> = Vec::new();
    for batch in batches {
        written.extend_from_slice(&writer.pieces(batch.clone()));
    }
    written.extend_from_slice(&match ending {
        Ending::Whole => writer.end(None),
        Ending::Error => writer.fail(&TurnFailure::ours(502, "upstream_error", "It broke.")),
    });
    protocol::check(client, &written, ending).map_err(|wrong| format!("protocol: {wrong}"))?;
    for (way, reads) in cuts(&written, seed).into_iter().take(3) {
        let replay = Replay::of(client.api(), &reads, Then::Close).map_err(|error| format!("{way}: {error}"))?;
        if ending == Ending::Error {
            let told = replay.failure == Some(StreamFailure::Answered);
            return told
                .then_some(())
                .ok_or_else(|| format!("{way}: no error is read back"));
        }
        if replay.failure == Some(StreamFailure::Empty) && says_nothing(batches) {
            return Ok(());
        }
        if !replay.is_answer() {
            return Err(format!("{way}: no whole answer is read back: {:?}", replay.failure));
        }
        same(client, &batches.concat(), &replay.pieces).map_err(|difference| format!("{way}: {difference}"))?;
    }
    Ok(())
}

fn whole(client: Endpoint, pieces: &[Piece]) -> Result<(), String> {
    let mut writer = Writer::new(style(client, false)?);
    let body = writer.whole(pieces.to_vec());
    let (_, read) = read_whole(client.api(), &body).map_err(|error| format!("in one: {error}"))?;
    same(client, pieces, &read).map_err(|difference| format!("in one: {difference}"))
}

fn says_nothing(batches: &[Vec<Piece>]) -> bool {
    let mut answer = Answer::default();
    batches.iter().flatten().for_each(|piece| answer.add(piece));
    answer.is_empty()
}

/// What is written with, for a request of this kind.
pub(crate) fn style(client: Endpoint, stream: bool) -> Result<Style, String> {
    let message = json!([{ "role": "user", "content": "hi" }]);
    let body = match client {
        Endpoint::Responses => json!({ "model": "m", "stream": stream, "input": message }),
        Endpoint::Messages => json!({ "model": "m", "stream": stream, "max_tokens": 99, "messages": message }),
        _ if stream => {
            json!({ "model": "m", "stream": true, "stream_options": { "include_usage": true }, "messages": message })
        }
        _ => json!({ "model": "m", "messages": message }),
    };
    let body = Bytes::from(body.to_string());
    let request = TurnRequest {
        id: TurnId::new(),
        request_id: "r".into(),
        session: SessionKey::Ephemeral,
        agent: None,
        endpoint: client,
        facts: wire::scan(client, &body).map_err(|error| error.to_string())?,
        body,
        headers: Vec::new(),
    };
    Ok(Style {
        request: Arc::new(request),
        served_by: ModelRef::new("p", "m"),
        created: 1_700_000_000,
    })
}

/// Whether two answers say the same, as far as the client's format has words for it.
fn same(client: Endpoint, original: &[Piece], carried: &[Piece]) -> Result<(), String> {
    let (mut expected, mut read) = (Answer::default(), Answer::default());
    original.iter().for_each(|piece| expected.add(piece));
    carried.iter().for_each(|piece| read.add(piece));
    let refused = !expected.refusal.is_empty();
    if client == Endpoint::Messages {
        // Anthropic's format has no place for a refusal but the text and the reason why it ended
        if !expected.refusal.is_empty() && expected.finish == Some(Finish::Stop) {
            expected.finish = Some(Finish::ContentFilter);
        }
        for answer in [&mut expected, &mut read] {
            answer.text = std::mem::take(&mut answer.refusal) + &answer.text;
        }
    }
    equal("text", &expected.text, &read.text)?;
    equal("refusal", &expected.refusal, &read.refusal)?;
    equal("reasoning", &expected.reasoning, &read.reasoning)?;
    equal("seals", &seals(original, client.api()), &seals(carried, client.api()))?;
    equal("tool calls", &calls(&expected), &calls(&read))?;
    finish(client, &expected, refused, &read)?;
    usage(client, expected.usage, read.usage)?;
    let choices = |pieces: &[Piece]| {
        let mut choices: Vec<(u32, String)> = Vec::new();
        for piece in pieces {
            if let Piece::Text { choice, text } = piece {
                match choices.iter_mut().find(|(known, _)| known == choice) {
                    Some((_, all)) => all.push_str(text),
                    None => choices.push((*choice, text.clone())),
                }
            }
        }
        choices.sort();
        choices
    };
    match client {
        Endpoint::Chat => equal("texts by choice", &choices(original), &choices(carried)),
        _ => Ok(()),
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, read: &T) -> Result<(), String> {
    if expected == read {
        Ok(())
    } else {
        Err(format!("{what}: {read:?} instead of {expected:?}"))
    }
}

/// Id, name and arguments; a call without arguments has an empty object of them.
fn calls(answer: &Answer) -> Vec<(String, String, String)> {
    let calls = answer.tool_calls.iter();
    let call = calls.map(|call| {
        let arguments = match &*call.arguments {
            "" | "null" => "{}",
            arguments => arguments,
        };
        let arguments = serde_json::from_str::<serde_json::Value>(arguments)
            .map_or_else(|_| arguments.to_owned(), |arguments| arguments.to_string());
        (call.id.clone(), call.name.clone(), arguments)
    });
    call.collect()
}

/// The seals in an answer, those of tool calls included, as `api` writes them: foreign ones carry their maker's name.
fn seals(pieces: &[Piece], api: Api) -> Vec<String> {
    let written = |seal: &Seal| match seal.maker == api {
        true => seal.data.clone(),
        false => format!("{}:{}", seal.maker.as_label(), seal.data),
    };
    let sealed = pieces.iter().filter_map(|piece| match piece {
        Piece::Sealed { seal, .. } => Some(written(seal)),
        // Google has a place of its own for these in chat
        Piece::ToolCall { seal: Some(seal), .. } if api == Api::OpenaiChat && seal.maker == Api::Gemini => {
            Some(seal.data.clone())
        }
        Piece::ToolCall { seal: Some(seal), .. } => Some(written(seal)),
        _ => None,
    });
    sealed.collect()
}

/// Responses say no more than that an answer was completed, Anthropic has no word for the unknown, and an answer that was
/// whole without a reason is given one.
fn finish(client: Endpoint, expected: &Answer, refused: bool, read: &Answer) -> Result<(), String> {
    let calls = !expected.tool_calls.is_empty();
    let natural = if calls { Finish::ToolCalls } else { Finish::Stop };
    let told = match (client, expected.finish) {
        // an Anthropic client knows a refusal by why it ended
        (Endpoint::Messages, Some(Finish::Stop)) if refused => Finish::ContentFilter,
        (_, None) => natural,
        (Endpoint::Responses, Some(Finish::Stop | Finish::ToolCalls)) => natural,
        (Endpoint::Responses | Endpoint::Messages | Endpoint::Chat, Some(Finish::Other)) => return Ok(()),
        (_, Some(finish)) => finish,
    };
    equal("finish", &Some(told), &read.finish)
}

/// Anthropic's answers always count, Responses' too.
fn usage(client: Endpoint, expected: Option<Usage>, read: Option<Usage>) -> Result<(), String> {
    let read = read.filter(|usage| expected.is_some() || *usage != Usage::default());
    let keep = |usage: Usage| Usage {
        // chat and Responses do not tell what went into a cache, Anthropic not what was thought
        cache_write: if client == Endpoint::Messages {
            usage.cache_write
        } else {
            0
        },
        reasoning: if client == Endpoint::Messages {
            0
        } else {
            usage.reasoning
        },
        ..usage
    };
    equal("usage", &expected.map(keep), &read.map(keep))
}

fn choice(piece: &Piece) -> Option<u32> {
    match piece {
        Piece::Text { choice, .. }
        | Piece::Refusal { choice, .. }
        | Piece::Reasoning { choice, .. }
        | Piece::Sealed { choice, .. }
        | Piece::ToolCall { choice, .. }
        | Piece::Finish { choice, .. } => Some(*choice),
        Piece::Begin { .. } | Piece::Usage(_) | Piece::Ping => None,
    }
}
