//! What the built-in canon did.

use understudy_plugins::canon::decide::Cause;
use understudy_plugins::canon::observer::{CanonObserver, Evaluation};

use super::{CANON_BYTES, CANON_EVALUATIONS, CANON_INJECTIONS, Telemetry};

impl CanonObserver for Telemetry {
    fn evaluated(&self, result: Evaluation) {
        let labels = [("result", result.as_label())];
        self.series.counter(&CANON_EVALUATIONS, &labels).increment(1);
    }

    fn injected(&self, cause: Cause, bytes: usize) {
        let labels = [("reason", cause.as_label())];
        self.series.counter(&CANON_INJECTIONS, &labels).increment(1);
        self.series.counter(&CANON_BYTES, &labels).increment(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use understudy_plugins::canon::decide::Reason;

    use super::*;

    #[test]
    fn injections_and_their_bytes_are_counted_by_reason() {
        let telemetry = Telemetry::new().expect("a recorder");
        telemetry.evaluated(Evaluation::Injected);
        for bytes in [100, 20] {
            telemetry.injected(Cause::Due(Reason::ModelSwitch), bytes);
        }
        telemetry.injected(Cause::Repeat, 7);
        let scrape = telemetry.render();
        for line in [
            "understudy_canon_evaluations_total{result=\"injected\"} 1",
            "understudy_canon_injections_total{reason=\"model_switch\"} 2",
            "understudy_canon_injected_bytes_total{reason=\"model_switch\"} 120",
            "understudy_canon_injected_bytes_total{reason=\"repeat\"} 7",
        ] {
            assert!(scrape.contains(line), "{line}\n{scrape}");
        }
    }
}
