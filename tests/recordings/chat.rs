//! Chat completions, as they are read without a detour over pieces.

use understudy_messages::settings::Api;
use understudy_providers::openai::chat::answer;

use crate::cuts::{beginnings, cuts};
use crate::normalized::{compare, normalized};
use crate::recording::Recording;

use replay::Replay;

mod replay;

/// Checks one recording; the difference if there is one.
pub(crate) fn check(recording: &Recording, seed: u64) -> Result<(), String> {
    let body = recording.response.bytes();
    if !recording.response.is_stream() {
        return whole(recording, &body, seed);
    }
    for (way, reads) in cuts(&body, seed) {
        let replay = Replay::of(&reads, recording.response.then).and_then(|replay| {
            replay.check_bytes(&body)?;
            compare(Api::OpenaiChat, &recording.normalized, &replay.normalized())
        });
        replay.map_err(|difference| format!("{way}: {difference}"))?;
    }
    Ok(())
}

fn whole(recording: &Recording, body: &[u8], seed: u64) -> Result<(), String> {
    let answer = answer::read(body).map_err(|error| error.to_string())?;
    let end = if answer.error.is_some() { "error" } else { "complete" };
    compare(Api::OpenaiChat, &recording.normalized, &normalized(&answer, end))?;
    for cut in beginnings(body, seed) {
        if answer::read(cut).is_ok() {
            return Err(format!("cut after {} bytes it still counts as an answer", cut.len()));
        }
    }
    Ok(())
}
