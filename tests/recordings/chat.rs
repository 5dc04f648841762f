//! Chat completions: the request scanned, the answer read whole and in every kind of cut.

use serde_json::{Value, json};
use understudy_providers::openai::chat::answer;
use understudy_providers::openai::chat::request;

use crate::normalized::{compare, normalized};
use crate::recording::Recording;
use crate::replay::Replay;

const ROUNDS: u64 = 8;

/// Checks one recording; the difference if there is one.
pub(crate) fn check(recording: &Recording, seed: u64) -> Result<(), String> {
    reads_the_request(&recording.request.body)?;
    let body = recording.response.bytes();
    if !recording.response.is_stream() {
        return whole(recording, &body, seed);
    }
    for (way, reads) in cuts(&body, seed) {
        let replay = Replay::of(&reads, recording.response.then).and_then(|replay| {
            replay.check_bytes(&body)?;
            compare(&recording.normalized, &replay.normalized())
        });
        replay.map_err(|difference| format!("{way}: {difference}"))?;
    }
    Ok(())
}

/// The body in every kind of cut.
pub(crate) fn cuts(body: &[u8], seed: u64) -> Vec<(String, Vec<&[u8]>)> {
    let mut cuts = vec![("whole".to_owned(), vec![body])];
    cuts.push(("byte by byte".to_owned(), body.chunks(1).collect()));
    for round in 0..ROUNDS {
        let mut random = fastrand::Rng::with_seed(seed.wrapping_add(round));
        cuts.push((format!("random cuts, round {round}"), cut(body, &mut random)));
    }
    cuts
}

fn reads_the_request(body: &Value) -> Result<(), String> {
    if !body.is_object() {
        return Ok(());
    }
    let facts = request::scan(&body.to_string().into()).map_err(|error| error.to_string())?;
    let read = json!([&*facts.model, facts.stream, facts.messages.count]);
    let count = body["messages"].as_array().map_or(0, Vec::len);
    let expected = json!([body["model"], body["stream"].as_bool().unwrap_or(false), count]);
    if read == expected {
        Ok(())
    } else {
        Err(format!("request: {read} instead of {expected}"))
    }
}

fn whole(recording: &Recording, body: &[u8], seed: u64) -> Result<(), String> {
    let answer = answer::read(body).map_err(|error| error.to_string())?;
    let end = if answer.error.is_some() { "error" } else { "complete" };
    compare(&recording.normalized, &normalized(&answer, end))?;
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..ROUNDS * ROUNDS {
        let len = random.usize(..body.trim_ascii_end().len());
        if answer::read(&body[..len]).is_ok() {
            return Err(format!("cut after {len} bytes it still counts as an answer"));
        }
    }
    Ok(())
}

/// Pieces of up to 40 bytes, now and then far larger.
fn cut<'a>(mut body: &'a [u8], random: &mut fastrand::Rng) -> Vec<&'a [u8]> {
    let mut reads = Vec::new();
    while !body.is_empty() {
        let most = if random.u8(..8) == 0 { 4000 } else { 40 };
        let (read, rest) = body.split_at(random.usize(1..=most).min(body.len()));
        reads.push(read);
        body = rest;
    }
    reads
}
