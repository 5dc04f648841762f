//! What had to hold, and whether it did.

use std::time::Duration;

use serde::Serialize;

use super::figures::{Figures, Quantiles, millis};
use super::report::ratios::Ratios;
use super::scenario::{Expect, Left};

/// One thing that had to hold.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    /// Its key in the scenario.
    pub(crate) name: &'static str,
    pub(crate) limit: f64,
    /// What came of it; unknown where nothing was measured, which does not hold.
    pub(crate) value: Option<f64>,
    pub(crate) holds: bool,
}

/// What is looked at: its key, its limit where one is set, and what came of it.
type Looked = (&'static str, Option<f64>, Option<f64>);

/// Judges the first gateway; ratios are of it and the other one.
pub(crate) fn judge(expect: &Expect, of: &Figures, ratios: Option<&Ratios>) -> Vec<Outcome> {
    let most = [
        counts(expect, of),
        times(expect, of),
        sizes(expect, of),
        compared(expect, ratios),
    ];
    let most = most.into_iter().flatten();
    let least = least(expect, of).into_iter();
    most.filter_map(|it| outcome(it, |value, limit| value <= limit))
        .chain(least.filter_map(|it| outcome(it, |value, limit| value >= limit)))
        .collect()
}

fn counts(expect: &Expect, of: &Figures) -> Vec<Looked> {
    vec![
        ("max_lost", count(expect.max_lost), float(of.lost_in_all())),
        ("max_errors", count(expect.max_errors), float(of.errors_in_all())),
        ("max_not_begun", count(expect.max_not_begun), float(of.not_begun)),
        (
            "max_without_retry_after",
            count(expect.max_without_retry_after),
            float(of.refused_without_retry_after),
        ),
    ]
}

fn times(expect: &Expect, of: &Figures) -> Vec<Looked> {
    let time = |limit: Option<Duration>| limit.map(millis);
    let p99 = |of: &Quantiles| of.get("p99").copied();
    vec![
        ("max_p50", time(expect.max_p50), of.turn_ms.get("p50").copied()),
        ("max_p99", time(expect.max_p99), p99(&of.turn_ms)),
        ("max_first_p99", time(expect.max_first_p99), p99(&of.first_ms)),
        ("max_failover_p99", time(expect.max_failover_p99), p99(&of.failover_ms)),
        ("max_refused_p99", time(expect.max_refused_p99), p99(&of.refused_ms)),
    ]
}

/// Memory, and what is left when the load is over.
fn sizes(expect: &Expect, of: &Figures) -> Vec<Looked> {
    let growth = expect.max_rss_growth.as_ref().map(|growth| growth.ratio);
    let mut looked = vec![
        (
            "max_rss",
            expect.max_rss.map(|limit| limit as f64),
            of.rss_bytes.and_then(float),
        ),
        ("max_rss_growth", growth, of.rss_growth),
    ];
    looked.extend(expect.max_left.iter().flat_map(Left::limits).map(|(holding, limit)| {
        let (name, remains) = (holding.as_label(), of.remains.as_ref());
        let value = remains.and_then(|it| it.get(name)).map(|left| *left as f64);
        (name, Some(f64::from(limit)), value)
    }));
    looked
}

fn compared(expect: &Expect, ratios: Option<&Ratios>) -> Vec<Looked> {
    vec![
        (
            "max_p50_ratio",
            expect.max_p50_ratio,
            ratios.and_then(|ratios| ratios.p50),
        ),
        (
            "max_p99_ratio",
            expect.max_p99_ratio,
            ratios.and_then(|ratios| ratios.p99),
        ),
        (
            "max_cpu_ratio",
            expect.max_cpu_ratio,
            ratios.and_then(|ratios| ratios.cpu),
        ),
    ]
}

fn least(expect: &Expect, of: &Figures) -> Vec<Looked> {
    let reloads = of.reloads.as_ref().map_or(0, |reloads| reloads.applied);
    vec![
        ("min_whole", count(expect.min_whole), float(of.whole)),
        ("min_failed_over", count(expect.min_failed_over), float(of.failed_over)),
        ("min_reloads", count(expect.min_reloads), float(reloads)),
        ("min_refused", count(expect.min_refused), float(of.refused)),
        ("min_goodput", expect.min_goodput, Some(of.goodput)),
        ("min_goodput_ratio", expect.min_goodput_ratio, of.goodput_ratio()),
    ]
}

fn count(limit: Option<u32>) -> Option<f64> {
    limit.map(f64::from)
}

fn float(count: u64) -> Option<f64> {
    Some(count as f64)
}

fn outcome((name, limit, value): Looked, holds: fn(f64, f64) -> bool) -> Option<Outcome> {
    let limit = limit?;
    Some(Outcome {
        name,
        limit,
        value,
        holds: value.is_some_and(|value| holds(value, limit)),
    })
}
