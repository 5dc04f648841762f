//! Medians, for people and for programs.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};
use understudy_tests::bench::load::Sample;
use understudy_tests::bench::{median, micros};

use crate::calls::{Cost, Row};

const REQUESTS: &str = "a whole request, 64 connections, 0.7 KB";

/// Everything that was measured, in the order in which it first was.
#[derive(Default)]
pub struct Report {
    lines: Vec<Line>,
}

/// One thing that was measured: a cost of each round.
struct Line {
    group: &'static str,
    name: String,
    costs: Vec<Cost>,
}

/// What a line comes to. Ratios of CPU are taken round by round.
struct Figures {
    time: f64,
    cpu: f64,
    /// Against the first of its group.
    ratio: f64,
    /// Against a whole request of a gateway without plugins.
    requests: f64,
}

impl Report {
    /// Adds what a gateway did in one round.
    pub fn add_request(&mut self, name: &str, sample: Sample) {
        let cost = Cost {
            time: sample.p50,
            cpu: sample.cpu,
        };
        self.add(REQUESTS, name, cost);
    }

    /// Adds what calls came to in one round.
    pub fn add_call(&mut self, row: &Row, cost: Cost) {
        self.add(row.group, &row.name, cost);
    }

    fn add(&mut self, group: &'static str, name: &str, cost: Cost) {
        let same = |line: &&mut Line| line.group == group && line.name == name;
        match self.lines.iter_mut().find(same) {
            Some(line) => line.costs.push(cost),
            None => self.lines.push(Line {
                group,
                name: name.to_owned(),
                costs: vec![cost],
            }),
        }
    }

    fn groups(&self) -> impl Iterator<Item = &[Line]> {
        self.lines.chunk_by(|one, next| one.group == next.group)
    }

    /// One line for programs: times in microseconds.
    pub fn json(&self) -> Value {
        let request = &self.lines[0];
        let line = |group: &[Line], line: &Line| {
            let figures = line.figures(&group[0], request);
            json!({
                "group": line.group,
                "name": line.name,
                "time_us": figures.time,
                "cpu_us": figures.cpu,
                "ratio": figures.ratio,
                "requests": figures.requests,
            })
        };
        let lines = self
            .groups()
            .flat_map(|group| group.iter().map(move |one| line(group, one)));
        lines.collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for group in self.groups() {
            writeln!(
                f,
                "\n{:42}{:>10}{:>10}{:>9}{:>15}",
                group[0].group, "time µs", "CPU µs", "ratio", "% of a request"
            )?;
            for line in group {
                let figures = line.figures(&group[0], &self.lines[0]);
                let name = &line.name;
                let Figures { time, cpu, ratio, .. } = figures;
                let percent = figures.requests * 100.0;
                writeln!(f, "  {name:40}{time:10.1}{cpu:10.1}{ratio:9.2}{percent:15.1}")?;
            }
        }
        writeln!(
            f,
            "\ntime: half of the requests took at most as long; a call took so long on average. CPU: of the gateway, a child's or \
             a service's apart.\nratio: of CPU, to the first of the group. % of a request: of CPU, to a whole request without plugins."
        )
    }
}

impl Line {
    fn figures(&self, first: &Self, request: &Self) -> Figures {
        let to = |other: &Self| {
            let rounds = self.costs.iter().zip(&other.costs);
            median(rounds.map(|(own, other)| own.cpu.div_duration_f64(other.cpu)))
        };
        let of = |what: fn(&Cost) -> Duration| median(self.costs.iter().map(|cost| micros(what(cost))));
        Figures {
            time: of(|cost| cost.time),
            cpu: of(|cost| cost.cpu),
            ratio: to(first),
            requests: to(request),
        }
    }
}
