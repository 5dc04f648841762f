//! `timing`: how long things took, on the clock that gateway, upstreams and clients share.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::{Complaints, within};
use crate::seen::Seen;

pub(super) fn check(rules: &BTreeMap<String, Value>, seen: &Seen, complaints: &mut Complaints) {
    for (key, rule) in rules {
        let check = format!("timing.{key}");
        let outcome = match &**key {
            "min_gaps_ms" => min_gaps(rule, seen),
            "min_total_ms" => bound(rule).map(|least| {
                let total = total(seen);
                (total >= Duration::from_millis(least), format!("{total:?}"))
            }),
            "median_max_ms" => at_most(rule, quantile("", 0.5, seen)),
            key => match key.strip_suffix("_max_ms") {
                Some(key) => at_most(
                    rule,
                    match key.strip_suffix("_p99") {
                        Some(prefix) => quantile(prefix, 0.99, seen),
                        None => seen.replies.get(key).map(|reply| reply.took()),
                    },
                ),
                None => Err("a key that no checker knows".to_owned()),
            },
        };
        match outcome {
            Ok((holds, seen)) => complaints.unless(holds, check, rule, &seen),
            Err(error) => complaints.add(check, rule, &error),
        }
    }
}

/// Whether it holds, and what was seen; an error when it cannot be told.
type Outcome = Result<(bool, String), String>;

fn bound(rule: &Value) -> Result<u64, String> {
    rule.as_u64().ok_or_else(|| "not a number of milliseconds".to_owned())
}

fn at_most(rule: &Value, took: Option<Duration>) -> Outcome {
    let most = bound(rule)?;
    let took = took.ok_or("no such request")?;
    Ok((within(took, most), format!("{took:?}")))
}

/// The time that so many of the requests whose ids begin with `prefix` did not exceed.
fn quantile(prefix: &str, share: f64, seen: &Seen) -> Option<Duration> {
    let of_prefix = seen.replies.iter().filter(|(id, _)| id.starts_with(prefix));
    let mut times: Vec<_> = of_prefix.map(|(_, reply)| reply.took()).collect();
    times.sort();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a few hundred"
    )]
    let rank = (times.len() as f64 * share).ceil() as usize;
    times.get(rank.checked_sub(1)?).copied()
}

/// From the first request to the last end.
fn total(seen: &Seen) -> Duration {
    let first = seen.replies.values().map(|reply| reply.sent).min().unwrap_or_default();
    let last = seen.replies.values().map(|reply| reply.ended).max().unwrap_or_default();
    last.saturating_sub(first)
}

/// Between the starts of a target's calls.
fn min_gaps(rule: &Value, seen: &Seen) -> Outcome {
    let rules: BTreeMap<String, Vec<u64>> = Deserialize::deserialize(rule).map_err(|error| format!("{error}"))?;
    let mut told = Vec::new();
    let mut holds = true;
    for (target, least) in rules {
        let starts: Vec<_> = seen.calls_of(&target).map(|call| call.started).collect();
        let gaps: Vec<_> = starts.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
        let mut pairs = least.iter().map(|ms| Duration::from_millis(*ms)).zip(&gaps);
        holds &= gaps.len() >= least.len() && pairs.all(|(least, gap)| *gap >= least);
        told.push(format!("{target}: {gaps:?}"));
    }
    Ok((holds, told.join(", ")))
}
