//! Handles of a candidate's health: states, rests, probes, and what was passed over.

use std::time::Duration;

use metrics::{Counter, Gauge};
use understudy_messages::clock::Instant;
use understudy_messages::events::{ProbeResult, TerminalKind};
use understudy_messages::failure::Reason;
use understudy_messages::ids::{ModelRef, Name};

use super::{
    CANDIDATE_STATE, COOLDOWN_REMAINING, COOLDOWNS, PROBES, RETRY_AFTER, SKIPPED, Series, TERMINAL, Telemetry,
    UNCLASSIFIED,
};
use crate::provider::ledger::{CandidateState, CandidateView, Ledgers};

/// The label of a failure that had more than one cause.
const MIXED: &str = "mixed";

/// The handles of one candidate's health.
pub(super) struct HealthMetrics {
    states: [Gauge; CandidateState::ALL.len()],
    remaining: Gauge,
    cooldowns: [Counter; Reason::ALL.len()],
    skipped: [Counter; Reason::ALL.len()],
    probes: [Counter; ProbeResult::ALL.len()],
}

impl HealthMetrics {
    pub(super) fn new(series: &Series, provider: &str, model: &str) -> Self {
        let (provider, model) = (("provider", provider), ("model", model));
        let by_reason = |metric| {
            Reason::ALL.map(|reason| series.touched(metric, &[provider, model, ("reason", reason.as_label())]))
        };
        let metrics = Self {
            states: CandidateState::ALL
                .map(|state| series.gauge(&CANDIDATE_STATE, &[provider, model, ("state", state.as_label())])),
            remaining: series.gauge(&COOLDOWN_REMAINING, &[provider, model]),
            cooldowns: by_reason(&COOLDOWNS),
            skipped: by_reason(&SKIPPED),
            probes: ProbeResult::ALL
                .map(|result| series.touched(&PROBES, &[provider, model, ("result", result.as_label())])),
        };
        metrics.show(CandidateState::Available, Duration::ZERO);
        metrics
    }

    /// It is no candidate any more: it is in no state.
    pub(super) fn hide(&self) {
        self.states.iter().for_each(|gauge| gauge.set(0.0));
        self.remaining.set(0.0);
    }

    fn show(&self, state: CandidateState, remaining: Duration) {
        for (gauge, shown) in self.states.iter().zip(CandidateState::ALL) {
            gauge.set(if shown == state { 1.0 } else { 0.0 });
        }
        self.remaining.set(remaining.as_secs_f64());
    }
}

impl Telemetry {
    /// Shows how the candidates are; to be called before each scrape.
    pub fn show_health(&self, ledgers: &Ledgers, now: Instant) {
        let candidates = self.candidates();
        for ledger in ledgers.iter() {
            let listed = candidates
                .listed()
                .filter(|(model, _)| model.provider == *ledger.provider());
            for (model, metrics) in listed {
                let CandidateView { state, remaining, .. } = ledger.candidate(&model.model, now);
                metrics.health.show(state, remaining);
            }
        }
    }

    /// A rest began.
    pub fn cooldown(&self, model: &ModelRef, reason: Reason) {
        if let Some(metrics) = self.candidates().get(model) {
            metrics.health.cooldowns[reason as usize].increment(1);
        }
    }

    /// A probe came back.
    pub fn probe(&self, model: &ModelRef, result: ProbeResult) {
        if let Some(metrics) = self.candidates().get(model) {
            metrics.health.probes[result as usize].increment(1);
        }
    }

    /// A candidate was passed over.
    pub fn skipped(&self, model: &ModelRef, reason: Reason) {
        if let Some(metrics) = self.candidates().get(model) {
            metrics.health.skipped[reason as usize].increment(1);
        }
    }

    /// A provider asked for a wait.
    pub fn retry_after(&self, provider: &Name, wait: Duration) {
        self.series
            .histogram(&RETRY_AFTER, &[("provider", provider)])
            .record(wait);
    }

    /// A failure that no table knew.
    pub fn unclassified(&self, provider: &Name) {
        self.series
            .counter(&UNCLASSIFIED, &[("provider", provider)])
            .increment(1);
    }

    /// A turn ended without a byte of an answer.
    pub fn terminal(&self, kind: TerminalKind, reason: Option<Reason>) {
        let labels = [
            ("kind", kind.as_label()),
            ("reason", reason.map_or(MIXED, Reason::as_label)),
        ];
        self.series.counter(&TERMINAL, &labels).increment(1);
    }
}

/// Touches the series that belong to no single candidate.
pub(super) fn touch(series: &Series, providers: &[&Name]) {
    for provider in providers {
        let _in_the_scrape = series.touched(&UNCLASSIFIED, &[("provider", provider)]);
        let _in_the_scrape = series.histogram(&RETRY_AFTER, &[("provider", provider)]);
    }
    for kind in TerminalKind::ALL {
        for reason in Reason::ALL.map(Reason::as_label).into_iter().chain([MIXED]) {
            let _in_the_scrape = series.touched(&TERMINAL, &[("kind", kind.as_label()), ("reason", reason)]);
        }
    }
}
