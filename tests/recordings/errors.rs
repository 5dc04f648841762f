//! Responses and streams that are no answers: why, by the same path that the gateway takes.

use std::time::SystemTime;

use understudy_messages::failure::Reason;
use understudy_providers::classify::{Signal, classify};

use crate::answers::read_whole;
use crate::cuts::cuts;
use crate::recording::Recording;
use crate::replay::Replay;

/// Checks one recording; the difference if there is one.
pub(crate) fn check(recording: &Recording, seed: u64) -> Result<(), String> {
    let response = &recording.response;
    let body = response.bytes();
    if response.status >= 300 {
        return judge(recording, Some(classified(recording, &body)));
    }
    if !response.is_stream() {
        return judge(recording, whole(recording, &body));
    }
    for (way, reads) in cuts(&body, seed) {
        let replay = Replay::of(recording.api, &reads, response.then)?;
        let judged = judge(recording, replay.reason(provider(recording)));
        judged.map_err(|difference| format!("{way}: {difference}"))?;
    }
    Ok(())
}

/// What classification calls the provider; its host tells what it is.
fn provider(recording: &Recording) -> &str {
    recording.request.host.as_deref().unwrap_or_default()
}

/// Whether the reason is the one of the file. A file without one leaves it open, but is no answer either.
fn judge(recording: &Recording, found: Option<Reason>) -> Result<(), String> {
    match (recording.reason, found) {
        (_, None) => Err("it counts as an answer".to_owned()),
        (Some(expected), Some(found)) if expected != found => Err(format!("{found} instead of {expected}")),
        (_, Some(_)) => Ok(()),
    }
}

fn classified(recording: &Recording, body: &[u8]) -> Reason {
    let signal = Signal {
        provider: provider(recording),
        status: Some(recording.response.status),
        headers: &|name| recording.response.header(name),
        body,
        secrets: &[],
        now: SystemTime::UNIX_EPOCH,
    };
    classify(&signal).reason
}

/// Why a body with a success status is no answer; nothing when it is one.
fn whole(recording: &Recording, body: &[u8]) -> Option<Reason> {
    match read_whole(recording.api, body) {
        Err(error) => Some(error.observed().reason),
        Ok((whole, _)) if whole.error.is_some() => Some(classified(recording, body)),
        Ok((whole, _)) => whole.is_empty().then_some(Reason::EmptyResponse),
    }
}
