//! How the answer is drawn.

use serde::Serialize;
use understudy_messages::conversation::Sampling;

use super::{Dropped, unsupported};
use crate::wire::Unsupported;

/// What of it Anthropic takes.
#[derive(Serialize)]
pub(super) struct Drawn<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop_sequences: Vec<&'a str>,
}

/// What is left out is named, unless it would have changed nothing.
pub(super) fn write<'a>(
    sampling: &'a Sampling,
    may_draw: bool,
    dropped: &mut Dropped,
) -> Result<Drawn<'a>, Unsupported> {
    if sampling.choices.is_some_and(|choices| choices > 1) {
        return Err(unsupported("n"));
    }
    if sampling.logprobs || sampling.top_logprobs.is_some() {
        return Err(unsupported("logprobs"));
    }
    let penalty = |penalty: Option<f64>| penalty.is_some_and(|penalty| penalty != 0.0);
    for (name, given) in [
        ("seed", sampling.seed.is_some()),
        ("presence_penalty", penalty(sampling.presence_penalty)),
        ("frequency_penalty", penalty(sampling.frequency_penalty)),
    ] {
        if given {
            dropped.note(name);
        }
    }
    // Anthropic refuses a stop sequence of white space alone
    let is_sequence = |stop: &&str| !stop.trim().is_empty();
    let stop_sequences: Vec<&str> = sampling.stop.iter().map(String::as_str).filter(is_sequence).collect();
    if stop_sequences.len() < sampling.stop.len() {
        dropped.note("stop");
    }
    let (temperature, top_p) = temperature(sampling, may_draw, dropped);
    if sampling.top_k.is_some() && !may_draw {
        dropped.note("top_k");
    }
    Ok(Drawn {
        temperature,
        top_p,
        top_k: sampling.top_k.filter(|_| may_draw),
        stop_sequences,
    })
}

fn temperature(sampling: &Sampling, may_draw: bool, dropped: &mut Dropped) -> (Option<f64>, Option<f64>) {
    let temperature = sampling.temperature.map(|temperature| temperature.clamp(0.0, 1.0));
    let top_p = sampling.top_p.filter(|top_p| top_p.is_finite());
    if temperature != sampling.temperature {
        dropped.note("temperature");
    }
    let changes = |drawn: Option<f64>| drawn.is_some_and(|drawn| drawn != 1.0);
    if !may_draw {
        for (name, drawn) in [("temperature", temperature), ("top_p", top_p)] {
            if changes(drawn) {
                dropped.note(name);
            }
        }
        return (None, None);
    }
    match (changes(temperature), changes(top_p)) {
        (false, true) => (None, top_p),
        (true, true) => {
            dropped.note("top_p");
            (temperature, None)
        }
        (_, false) => (temperature, top_p.filter(|_| temperature.is_none())),
    }
}
