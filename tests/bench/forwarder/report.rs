//! Medians, for people and for programs.

use std::fmt;

use serde_json::{Value, json};
use understudy_tests::bench::load::{Load, Sample};
use understudy_tests::bench::target::Target;
use understudy_tests::bench::{median, micros};

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

/// What a row comes to. Ratio and added time are taken round by round, against the first target under the same load.
struct Figures {
    cpu: f64,
    ratio: f64,
    p50: f64,
    p99: f64,
    added: f64,
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
            let figures = row.figures(&rows[0]);
            json!({
                "load": row.load.name,
                "target": row.target,
                "cpu_us": figures.cpu,
                "cpu_ratio": figures.ratio,
                "p50_us": figures.p50,
                "p99_us": figures.p99,
                "added_p50_us": figures.added,
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
                "  {:32}{:>15}{:>8}{:>10}{:>10}{:>14}{:>14}",
                "",
                format!("CPU µs/{per}"),
                "ratio",
                "p50 µs",
                "p99 µs",
                "added p50 µs",
                "requests/s"
            )?;
            for row in rows {
                let Figures {
                    cpu,
                    ratio,
                    p50,
                    p99,
                    added,
                    rate,
                } = row.figures(&rows[0]);
                let name = row.target;
                writeln!(
                    f,
                    "  {name:32}{cpu:15.1}{ratio:8.2}{p50:10.0}{p99:10.0}{added:14.0}{rate:14.0}"
                )?;
            }
        }
        Ok(())
    }
}

impl Row {
    fn figures(&self, yardstick: &Self) -> Figures {
        let rounds = || self.samples.iter().zip(&yardstick.samples);
        Figures {
            cpu: median(self.samples.iter().map(|sample| micros(sample.cpu))),
            ratio: median(rounds().map(|(own, other)| own.cpu.div_duration_f64(other.cpu))),
            p50: median(self.samples.iter().map(|sample| micros(sample.p50))),
            p99: median(self.samples.iter().map(|sample| micros(sample.p99))),
            added: median(rounds().map(|(own, other)| micros(own.p50) - micros(other.p50))),
            rate: median(self.samples.iter().map(|sample| sample.rate)),
        }
    }
}
