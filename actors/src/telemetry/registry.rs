//! Generations, who holds them and who waits for them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use metrics::{Counter, Histogram};
use understudy_messages::clock::Instant;
use understudy_messages::registry::{AdmitError, GenerationState, ReloadOutcome, Trigger};

use super::{
    ADMISSION_WAIT, ADMISSIONS, DRAIN_BUDGET, DRAIN_REMAINING, GENERATIONS, LEASES, RELOAD_DURATION, RELOAD_SUCCEEDED,
    RELOADED_AT, RELOADS, Series, Telemetry,
};
use crate::registry::Published;

/// The states in which somebody may hold a generation.
const HELD: [GenerationState; 3] = [
    GenerationState::Serving,
    GenerationState::Draining,
    GenerationState::Retiring,
];

/// The handles of the gate.
#[derive(Clone)]
pub struct AdmissionMetrics {
    admitted: Counter,
    held: Counter,
    refused: Counter,
    wait: Histogram,
}

impl AdmissionMetrics {
    fn new(series: &Series) -> Self {
        let count = |result| series.touched(&ADMISSIONS, &[("result", result)]);
        Self {
            admitted: count("admitted"),
            held: count("held"),
            refused: count("refused"),
            wait: series.histogram(&ADMISSION_WAIT, &[]),
        }
    }

    /// A turn passed, at once or at last.
    pub(crate) fn admitted(&self) {
        self.admitted.increment(1);
    }

    /// A turn found the gate closed and waits.
    pub(crate) fn held(&self) {
        self.held.increment(1);
    }

    /// A turn has waited, and this came of it. One whose own time was over by then was not refused.
    pub(crate) fn answered<T>(&self, answer: &Result<T, AdmitError>, waited: Option<Duration>, is_late: bool) {
        match answer {
            Ok(_) => self.admitted(),
            Err(_own_deadline) if is_late => {}
            Err(_refused) => self.refused.increment(1),
        }
        if let Some(waited) = waited {
            self.wait.record(waited);
        }
    }
}

impl std::fmt::Debug for AdmissionMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdmissionMetrics")
    }
}

/// All that reloads can produce is in the scrape from the start.
pub(super) fn touch(series: &Series) {
    for outcome in ReloadOutcome::ALL {
        let outcome = ("outcome", outcome.as_label());
        for trigger in Trigger::ALL {
            let _in_the_scrape = series.touched(&RELOADS, &[("trigger", trigger.as_label()), outcome]);
        }
        let _in_the_scrape = series.histogram(&RELOAD_DURATION, &[outcome]);
    }
    series.gauge(&RELOAD_SUCCEEDED, &[]).set(1.0);
    series.gauge(&RELOADED_AT, &[]).set(0.0);
    let _in_the_scrape = AdmissionMetrics::new(series);
}

impl Telemetry {
    /// The handles of the gate.
    pub fn admissions(&self) -> AdmissionMetrics {
        AdmissionMetrics::new(&self.series)
    }

    /// Shows which generations there are, who holds them and how long a reload still waits; to be called before each scrape.
    pub fn show_generations(&self, published: &Published, now: Instant) {
        let generations = published.generations(now);
        for state in GenerationState::ALL {
            let preparing = state == GenerationState::Preparing && published.is_preparing();
            let there = generations.iter().filter(|it| it.state == state).count();
            self.show(
                &GENERATIONS,
                &[("state", state.as_label())],
                there + usize::from(preparing),
            );
        }
        for role in HELD {
            // one that failed serves all the same
            let of = |state| state == role || role == GenerationState::Serving && state == GenerationState::Failed;
            let held = || generations.iter().filter(|it| of(it.state));
            for (kind, count) in [
                ("turn", held().map(|it| it.turns).sum::<u64>()),
                ("call", held().map(|it| it.calls).sum()),
            ] {
                let labels = [("generation", role.as_label()), ("kind", kind)];
                self.show(&LEASES, &labels, usize::try_from(count).unwrap_or(usize::MAX));
            }
        }
        let reload = published.reload(now);
        let waits = reload.and_then(|it| Some((Duration::from_millis(it.deadline_in_ms?), it.budget?)));
        let (remaining, budget) = waits.unwrap_or_default();
        self.series.gauge(&DRAIN_REMAINING, &[]).set(remaining.as_secs_f64());
        self.series.gauge(&DRAIN_BUDGET, &[]).set(budget.as_secs_f64());
    }

    fn show(&self, metric: &super::Metric, labels: &[(&'static str, &str)], count: usize) {
        #[expect(clippy::cast_precision_loss, reason = "a count stays far below 2^52")]
        self.series.gauge(metric, labels).set(count as f64);
    }

    /// The first generation has been published, as every later one is.
    pub(crate) fn started(&self) {
        let labels = [
            ("trigger", Trigger::Startup.as_label()),
            ("outcome", ReloadOutcome::Applied.as_label()),
        ];
        self.series.counter(&RELOADS, &labels).increment(1);
    }

    /// A reload has ended, at this time of day.
    pub fn reloaded(&self, trigger: Trigger, outcome: ReloadOutcome, took: Duration, at: SystemTime) {
        let label = ("outcome", outcome.as_label());
        let by_trigger = [("trigger", trigger.as_label()), label];
        self.series.counter(&RELOADS, &by_trigger).increment(1);
        self.series.histogram(&RELOAD_DURATION, &[label]).record(took);
        let Some(succeeded) = succeeded(outcome) else { return };
        self.series
            .gauge(&RELOAD_SUCCEEDED, &[])
            .set(f64::from(u8::from(succeeded)));
        if succeeded {
            let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
            self.series.gauge(&RELOADED_AT, &[]).set(at.as_secs_f64());
        }
    }
}

/// Whether all is as it was asked for; not known of one that will be tried again.
const fn succeeded(outcome: ReloadOutcome) -> Option<bool> {
    match outcome {
        ReloadOutcome::Applied | ReloadOutcome::Unchanged => Some(true),
        ReloadOutcome::Deferred => None,
        ReloadOutcome::Degraded
        | ReloadOutcome::Rejected
        | ReloadOutcome::DrainTimeout
        | ReloadOutcome::RolledBack
        | ReloadOutcome::Restored
        | ReloadOutcome::Cancelled
        | ReloadOutcome::Failed => Some(false),
    }
}
