//! How far a run is, on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::load::Glance;
use crate::load::scenario::Scenario;

const BAR: &str = "{prefix} [{bar:24}] {msg}";

/// A bar on standard error; where that is no terminal, nothing.
pub(super) struct Progress {
    bar: ProgressBar,
    length: Option<Duration>,
    turns: Option<u64>,
}

impl Progress {
    pub(super) fn new(quiet: bool, scenario: &Scenario) -> Self {
        // hidden by itself where there is no terminal
        let bar = if quiet {
            ProgressBar::hidden()
        } else {
            ProgressBar::new(1000)
        };
        let style = ProgressStyle::with_template(BAR).map(|style| style.progress_chars("━━─"));
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self {
            bar,
            length: scenario.length(),
            turns: scenario
                .turns
                .map(|turns| u64::from(turns) * u64::from(scenario.sessions)),
        }
    }

    pub(super) fn show(&self, glance: &Glance<'_>) {
        if self.bar.is_hidden() {
            return;
        }
        let tally = glance.tally;
        let ended = tally.ended();
        let by_time = self.length.map(|length| glance.at.div_duration_f64(length));
        let by_turns = self.turns.map(|turns| ended as f64 / turns as f64);
        let part = by_time.unwrap_or_default().max(by_turns.unwrap_or_default());
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a number from 0 to 1000"
        )]
        let part = (part.clamp(0.0, 1.0) * 1000.0) as u64;
        let percentile = |percent| tally.turn.percentile(percent).unwrap_or_default();
        self.bar
            .set_prefix(format!("{} {}/{}", glance.side, glance.round, glance.rounds));
        self.bar.set_message(format!(
            "{} whole ({:.0}/s), {} errors, {} lost, {} running, p50 {:.1?}, p99 {:.1?}",
            tally.whole,
            tally.whole as f64 / glance.at.as_secs_f64().max(0.1),
            tally.errors_in_all(),
            tally.lost_in_all(),
            tally.begun - ended,
            percentile(50.0),
            percentile(99.0),
        ));
        self.bar.set_position(part);
    }

    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
