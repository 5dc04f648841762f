//! `metrics`, `metrics_shape`: what Prometheus saw.

use std::collections::BTreeMap;

use serde::Deserialize;
use understudy_actors::telemetry;

use super::Complaints;
use crate::plugins::OBSERVER;
use crate::seen::{Page, Seen};

/// What a metric is for, whatever a product calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Requests,
    Attempts,
    Failovers,
    Streams,
    Tokens,
    InFlight,
    SessionsLive,
    Reloads,
    RegistryGeneration,
    HookFailures,
    StreamParseFaults,
}

impl Role {
    /// The metric and the labels that the role implies.
    const fn metric(self) -> (telemetry::Metric, &'static [(&'static str, &'static str)]) {
        match self {
            Self::Requests => (telemetry::TURNS, &[]),
            Self::Attempts => (telemetry::ATTEMPTS_TOTAL, &[]),
            Self::Failovers => (telemetry::FAILOVER, &[("decision", "fallback_model")]),
            Self::Streams => (telemetry::STREAMS, &[]),
            Self::Tokens => (telemetry::TOKENS_TOTAL, &[]),
            Self::InFlight => (telemetry::TURNS_IN_FLIGHT, &[]),
            Self::RegistryGeneration => (telemetry::GENERATION, &[]),
            Self::StreamParseFaults => (telemetry::PARSE_FAULTS, &[]),
            Self::HookFailures => (telemetry::HOOK_CALLS, &[]),
            Self::Reloads => (telemetry::RELOADS, &[]),
            Self::SessionsLive => (telemetry::SESSIONS, &[]),
        }
    }
}

/// How much a metric grew over the case, or what it is at its end.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MetricRule {
    pub(crate) role: Role,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    delta: Option<f64>,
    value: Option<f64>,
}

impl MetricRule {
    /// The labels to look for; a target is a provider and a model.
    fn labels(&self) -> Vec<(&str, &str)> {
        let mut labels = Vec::new();
        for (name, value) in &self.labels {
            match (&**name, value.split_once('/')) {
                ("target", Some((provider, model))) => labels.extend([("provider", provider), ("model", model)]),
                ("kind", _) if self.role == Role::HookFailures => labels.push(("outcome", value)),
                ("result", _) if self.role == Role::Reloads => labels.push(("outcome", outcome(value))),
                (name, _) => labels.push((name, value)),
            }
        }
        labels
    }

    /// The labels of every series that belongs to it. Whoever names no kind of a hook's failure means all of them; a session
    /// lives while it is in memory.
    fn series<'a>(&'a self, implied: &[(&'a str, &'a str)]) -> Vec<Vec<(&'a str, &'a str)>> {
        let labels = [&self.labels()[..], implied].concat();
        let with = |name, values: &[&'a str]| {
            let each = values.iter().map(|value| [&labels[..], &[(name, *value)]].concat());
            each.collect()
        };
        match self.role {
            Role::HookFailures if !self.labels.contains_key("kind") => {
                with("outcome", &["error", "timeout", "refused"])
            }
            Role::SessionsLive => with("state", &["active", "idle"]),
            _ => vec![labels],
        }
    }
}

/// How a reload ended, in the product's word.
fn outcome(result: &str) -> &str {
    match result {
        "ok" => "applied",
        other => other,
    }
}

/// What the metrics may not become.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MetricsShape {
    series_growth_max: Option<usize>,
    /// Texts, separated by `|`.
    label_values_never_match: Option<String>,
}

pub(super) fn check(rules: &[MetricRule], seen: &Seen, complaints: &mut Complaints) {
    for rule in rules {
        let (metric, implied) = rule.role.metric();
        let series = rule.series(implied);
        if !series.iter().any(|labels| seen.after.scrape.has(metric.name, labels)) {
            complaints.add("metrics", rule, &"no such series");
        }
        let sum = |page: &Page| {
            series
                .iter()
                .map(|labels| page.scrape.sum(metric.name, labels))
                .sum::<f64>()
        };
        let [before, after] = [&seen.before, &seen.after].map(sum);
        let unlike = |expected: Option<f64>, seen: f64| expected.is_some_and(|expected| (expected - seen).abs() > 0.5);
        complaints.unless(!unlike(rule.delta, after - before), "metrics", rule, &(after - before));
        complaints.unless(!unlike(rule.value, after), "metrics", rule, &after);
    }
}

pub(super) fn shape(shape: &MetricsShape, seen: &Seen, complaints: &mut Complaints) {
    if let Some(most) = shape.series_growth_max {
        let growth = series(&seen.after).saturating_sub(series(&seen.before));
        complaints.unless(growth <= most, "metrics_shape.series_growth_max", &most, &growth);
    }
    let never = shape
        .label_values_never_match
        .iter()
        .flat_map(|pattern| pattern.split('|'));
    for text in never {
        let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        complaints.unless(
            is_plain,
            "metrics_shape.label_values_never_match",
            &"plain texts",
            &text,
        );
        let found = seen
            .after
            .text
            .lines()
            .find(|line| !line.starts_with('#') && line.contains(text));
        complaints.unless(found.is_none(), "metrics_shape.label_values_never_match", &text, &found);
    }
}

/// The number of series, without those of the plugin that every case has beside its own.
fn series(page: &Page) -> usize {
    let observers = format!("plugin=\"{OBSERVER}\"");
    let of_observer = page.text.lines().filter(|line| line.contains(&observers)).count();
    page.scrape.series().saturating_sub(of_observer)
}
