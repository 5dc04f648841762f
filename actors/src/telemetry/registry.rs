//! Reloads.

use std::time::Duration;

use understudy_messages::registry::{ReloadOutcome, Trigger};

use super::{RELOAD_DURATION, RELOAD_SUCCEEDED, RELOADS, Series, Telemetry};

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
}

impl Telemetry {
    /// A reload has ended.
    pub fn reloaded(&self, trigger: Trigger, outcome: ReloadOutcome, took: Duration) {
        let label = ("outcome", outcome.as_label());
        let by_trigger = [("trigger", trigger.as_label()), label];
        self.series.counter(&RELOADS, &by_trigger).increment(1);
        self.series.histogram(&RELOAD_DURATION, &[label]).record(took);
        let succeeded = matches!(outcome, ReloadOutcome::Applied | ReloadOutcome::Unchanged);
        self.series
            .gauge(&RELOAD_SUCCEEDED, &[])
            .set(f64::from(u8::from(succeeded)));
    }
}
