//! Medians, for people and for programs.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use understudy_tests::bench::load::{Load, Sample};
use understudy_tests::bench::target::Target;
use understudy_tests::bench::{median, micros};

use crate::stage::{DIRECT, FAILS_OVER, FORWARDER, GATEWAY};

/// Everything that was measured, in the order in which it first was.
#[derive(Default)]
pub struct Report {
    rows: Vec<Row>,
}

/// One target under one load: a sample of each round.
struct Row {
    load: &'static Load,
    target: &'static str,
    samples: Vec<Sample>,
}

/// What a row comes to. Ratios and added time are taken round by round, against the forwarder under the same load.
struct Figures {
    cpu: f64,
    ratio: f64,
    p50: f64,
    p99: f64,
    added: f64,
    /// What comes on top of the upstream's own time, against what the forwarder adds to it.
    added_p50: f64,
    added_p99: f64,
    rate: f64,
}

impl Report {
    /// Adds what one target did under one load in one round.
    pub fn add(&mut self, load: &'static Load, target: &Target<'_>, sample: Sample) {
        let same = |row: &&mut Row| row.load.name == load.name && row.target == target.name;
        match self.rows.iter_mut().find(same) {
            Some(row) => row.samples.push(sample),
            None => self.rows.push(Row {
                load,
                target: target.name,
                samples: vec![sample],
            }),
        }
    }

    /// One line for programs: times in microseconds.
    pub fn json(&self) -> Value {
        let row = |rows: &[Row], row: &Row| {
            let figures = row.figures(rows);
            json!({
                "load": row.load.name,
                "target": row.target,
                "cpu_us": figures.cpu,
                "cpu_ratio": figures.ratio,
                "p50_us": figures.p50,
                "p99_us": figures.p99,
                "added_p50_us": figures.added,
                "added_p50_ratio": figures.added_p50,
                "added_p99_ratio": figures.added_p99,
                "requests_per_second": figures.rate,
            })
        };
        self.by_load()
            .flat_map(|rows| rows.iter().map(|one| row(rows, one)))
            .collect()
    }

    fn by_load(&self) -> impl Iterator<Item = &[Row]> {
        self.rows.chunk_by(|one, next| one.load.name == next.load.name)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rows in self.by_load() {
            let load = rows[0].load;
            let per = if load.stream { "event" } else { "request" };
            writeln!(f, "\n{}", load.name)?;
            writeln!(
                f,
                "  {:34}{:>15}{:>8}{:>10}{:>10}{:>14}{:>11}{:>11}{:>12}",
                "",
                format!("CPU µs/{per}"),
                "ratio",
                "p50 µs",
                "p99 µs",
                "added p50 µs",
                "added p50",
                "added p99",
                "requests/s"
            )?;
            for row in rows {
                let Figures {
                    cpu,
                    ratio,
                    p50,
                    p99,
                    added,
                    added_p50,
                    added_p99,
                    rate,
                } = row.figures(rows);
                let name = row.target;
                writeln!(
                    f,
                    "  {name:34}{cpu:15.1}{ratio:8.2}{p50:10.0}{p99:10.0}{added:14.0}{added_p50:9.2} ×{added_p99:9.2} ×{rate:12.0}"
                )?;
            }
            let beyond = beyond_the_failed_attempt(rows);
            writeln!(
                f,
                "  failing over, p99 less the failed attempt: {beyond:.2} × p99 of a plain pass"
            )?;
        }
        Ok(())
    }
}

/// What a turn that fails over takes at p99 without the attempt that fails, against a plain pass. The attempt is taken to
/// last as long as half of all direct answers do at most: the upstream refuses as quickly as it answers.
fn beyond_the_failed_attempt(rows: &[Row]) -> f64 {
    let [direct, plain, failing] = [DIRECT, GATEWAY, FAILS_OVER].map(|name| &of(rows, name).samples);
    let rounds = direct.iter().zip(plain).zip(failing);
    let ratios = rounds.map(|((direct, plain), failing)| (failing.p99 - direct.p50).div_duration_f64(plain.p99));
    median(ratios)
}

fn of<'a>(rows: &'a [Row], target: &str) -> &'a Row {
    let found = rows.iter().find(|row| row.target == target);
    found.expect("every target is under every load")
}

impl Row {
    fn figures(&self, rows: &[Self]) -> Figures {
        let [yardstick, direct] = [FORWARDER, DIRECT].map(|name| &of(rows, name).samples);
        let rounds = || self.samples.iter().zip(yardstick);
        let added = |time: fn(&Sample) -> Duration| {
            let own = |sample, direct| micros(time(sample)) - micros(time(direct));
            let rounds = rounds().zip(direct);
            median(rounds.map(|((one, other), direct)| own(one, direct) / own(other, direct)))
        };
        Figures {
            added_p50: added(|sample| sample.p50),
            added_p99: added(|sample| sample.p99),
            cpu: median(self.samples.iter().map(|sample| micros(sample.cpu))),
            ratio: median(rounds().map(|(own, other)| own.cpu.div_duration_f64(other.cpu))),
            p50: median(self.samples.iter().map(|sample| micros(sample.p50))),
            p99: median(self.samples.iter().map(|sample| micros(sample.p99))),
            added: median(rounds().map(|(own, other)| micros(own.p50) - micros(other.p50))),
            rate: median(self.samples.iter().map(|sample| sample.rate)),
        }
    }
}
