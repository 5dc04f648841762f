//! What the rounds at one gateway come to.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::census::Remains;
use super::play::Measured;
use super::scenario::Scenario;
use super::tally::{Latencies, NoHistogram, Tally};

/// Percentiles that are told, each with its name.
const PERCENTILES: [(&str, f64); 6] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p95", 95.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("max", 100.0),
];
/// A driver whose thread is busier than this may be what is measured.
const BUSY: f64 = 0.85;
/// One that wakes later than this once in a hundred times was not let.
const LATE_MS: f64 = 10.0;

/// Milliseconds by name of the percentile; empty where there is nothing.
pub(crate) type Quantiles = BTreeMap<&'static str, f64>;

/// All of one gateway's rounds together.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) name: &'static str,
    pub(crate) url: String,
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) turns: u64,
    pub(crate) whole: u64,
    pub(crate) failed_over: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) lost: BTreeMap<&'static str, u64>,
    pub(crate) not_begun: u64,
    /// Turns whose clients went away.
    pub(crate) left: u64,
    /// Refusals (429, 503), those after which a client came back included.
    pub(crate) refused: u64,
    pub(crate) refused_without_retry_after: u64,
    /// How long it took to be refused.
    pub(crate) refused_ms: Quantiles,
    /// Whole answers in a second.
    pub(crate) goodput: f64,
    /// The goodput of each step of the arrivals.
    pub(crate) steps: Vec<f64>,
    pub(crate) turn_ms: Quantiles,
    pub(crate) first_ms: Quantiles,
    /// What a failover adds to the first word.
    pub(crate) failover_ms: Quantiles,
    pub(crate) late_ms: Quantiles,
    pub(crate) cpu_ms_per_turn: Option<f64>,
    pub(crate) rss_bytes: Option<u64>,
    /// Memory at the end over that when it was warm, of the worst round.
    pub(crate) rss_growth: Option<f64>,
    /// How much more than before the load was held after it.
    pub(crate) remains: Option<Remains>,
    pub(crate) reloads: Option<ReloadFigures>,
    pub(crate) driver: DriverFigures,
}

/// How reloads went.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ReloadFigures {
    pub(crate) applied: u64,
    pub(crate) refused: u64,
    pub(crate) longest_ms: f64,
    pub(crate) why: Vec<String>,
}

/// What the driver itself took.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DriverFigures {
    /// Of its one thread.
    pub(crate) cpu_share: f64,
    pub(crate) cpu_us_per_turn: f64,
    pub(crate) lag_ms: Quantiles,
    pub(crate) limit: Limit,
}

/// Whether the driver, and not the gateway, may be what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    /// It kept up.
    None,
    /// Its thread was busy all the time.
    Thread,
    /// It had time, and was not woken: others kept the cores.
    Machine,
}

impl Figures {
    /// # Errors
    /// There is no memory for histograms.
    pub(crate) fn of(measured: &Measured, scenario: &Scenario) -> Result<Self, NoHistogram> {
        let rounds = &measured.rounds;
        let sum = |count: fn(&Tally) -> u64| rounds.iter().map(count).sum::<u64>();
        let seconds: f64 = rounds.iter().map(|tally| tally.took.as_secs_f64()).sum();
        let (begun, whole) = (sum(|tally| tally.begun), sum(|tally| tally.whole));
        let first = merged(rounds, |tally| &tally.first)?;
        let usual = first.percentile(50.0).unwrap_or_default();
        Ok(Self {
            name: measured.name,
            url: measured.url.clone(),
            rounds: rounds.len(),
            seconds,
            turns: begun,
            whole,
            failed_over: sum(|tally| tally.failed_over),
            errors: added(rounds.iter().map(|tally| &tally.errors)),
            lost: added(rounds.iter().map(|tally| &tally.lost)),
            not_begun: sum(|tally| tally.not_begun),
            left: sum(|tally| tally.left),
            refused: sum(|tally| tally.refused),
            refused_without_retry_after: sum(|tally| tally.without_advice),
            refused_ms: quantiles(&merged(rounds, |tally| &tally.refusal)?, Duration::ZERO),
            goodput: part(whole, seconds),
            steps: steps(rounds, scenario),
            turn_ms: quantiles(&merged(rounds, |tally| &tally.turn)?, Duration::ZERO),
            first_ms: quantiles(&first, Duration::ZERO),
            failover_ms: quantiles(&merged(rounds, |tally| &tally.first_failed_over)?, usual),
            late_ms: quantiles(&merged(rounds, |tally| &tally.late)?, Duration::ZERO),
            cpu_ms_per_turn: cpu(rounds).map(|cpu| millis(cpu) / begun.max(1) as f64),
            rss_bytes: rounds.iter().filter_map(|tally| tally.rss).max(),
            rss_growth: scenario.expect.max_rss_growth.and_then(|expected| {
                let growths = rounds.iter().map(|tally| tally.points.rss_growth(expected.from));
                growths.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
            }),
            remains: measured.left.clone(),
            reloads: measured.reloads.as_ref().map(|reloads| ReloadFigures {
                applied: reloads.applied,
                refused: reloads.refused,
                longest_ms: millis(reloads.longest),
                why: reloads.why.clone(),
            }),
            driver: DriverFigures::of(rounds, begun, seconds)?,
        })
    }

    /// Turns that were lost.
    pub(crate) fn lost_in_all(&self) -> u64 {
        self.lost.values().sum()
    }

    /// Turns that ended with a proper error.
    pub(crate) fn errors_in_all(&self) -> u64 {
        self.errors.values().sum()
    }

    /// The goodput of the last step, as a part of the best one's.
    pub(crate) fn goodput_ratio(&self) -> Option<f64> {
        let best = self.steps.iter().copied().fold(0.0, f64::max);
        let last = self.steps.last()?;
        (best > 0.0).then(|| last / best)
    }
}

impl DriverFigures {
    fn of(rounds: &[Tally], begun: u64, seconds: f64) -> Result<Self, NoHistogram> {
        let cpu: Duration = rounds.iter().map(|tally| tally.driver_cpu).sum();
        let lag_ms = quantiles(&merged(rounds, |tally| &tally.lag)?, Duration::ZERO);
        let cpu_share = cpu.as_secs_f64() / seconds.max(f64::MIN_POSITIVE);
        Ok(Self {
            cpu_share,
            cpu_us_per_turn: millis(cpu) * 1000.0 / begun.max(1) as f64,
            limit: if cpu_share > BUSY {
                Limit::Thread
            } else if lag_ms.get("p99").is_some_and(|lag| *lag > LATE_MS) {
                Limit::Machine
            } else {
                Limit::None
            },
            lag_ms,
        })
    }
}

/// CPU time of all rounds, where it is known of each.
fn cpu(rounds: &[Tally]) -> Option<Duration> {
    rounds.iter().map(|tally| tally.cpu).sum()
}

fn merged(rounds: &[Tally], of: fn(&Tally) -> &Latencies) -> Result<Latencies, NoHistogram> {
    let mut all = Latencies::new()?;
    rounds.iter().for_each(|tally| all.merge(of(tally)));
    Ok(all)
}

fn added<'a, K: Clone + Ord + 'a>(counts: impl Iterator<Item = &'a BTreeMap<K, u64>>) -> BTreeMap<K, u64> {
    let mut all = BTreeMap::new();
    for (kind, count) in counts.flatten() {
        *all.entry(kind.clone()).or_default() += count;
    }
    all
}

fn steps(rounds: &[Tally], scenario: &Scenario) -> Vec<f64> {
    let steps = scenario.arrivals.iter().flat_map(|arrivals| &arrivals.steps);
    let goodput = |(place, step): (usize, &super::scenario::Step)| {
        let whole: u64 = rounds.iter().filter_map(|tally| tally.steps.get(place)).sum();
        part(whole, step.lasts.as_secs_f64() * rounds.len() as f64)
    };
    steps.enumerate().map(goodput).collect()
}

fn quantiles(latencies: &Latencies, less: Duration) -> Quantiles {
    let of = |(name, percent): (&'static str, f64)| {
        let latency = latencies.percentile(percent)?;
        Some((name, millis(latency.saturating_sub(less))))
    };
    PERCENTILES.into_iter().filter_map(of).collect()
}

fn part(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
