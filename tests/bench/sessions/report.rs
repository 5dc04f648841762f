//! What was measured, beside what it should be at most.

use std::fmt;
use std::time::Duration;

use understudy_tests::bench::{median, micros};

/// Targets that are known to be missed: they are shown, and do not fail the bench.
const MISSED: [&str; 0] = [];

const KIB: f64 = 1_024.0;
const GIB: f64 = KIB * KIB * KIB;

/// Everything that was measured.
#[derive(Default)]
pub struct Report {
    figures: Vec<Figure>,
    lost: u64,
}

struct Figure {
    what: &'static str,
    values: Vec<f64>,
    unit: &'static str,
    most: Option<f64>,
}

impl Figure {
    fn is_missed(&self) -> bool {
        self.most.is_some_and(|most| median(self.values.iter().copied()) > most)
    }

    fn is_known(&self) -> bool {
        MISSED.contains(&self.what)
    }
}

impl Report {
    /// A figure; the one in the middle stands of several with one name.
    fn add(&mut self, what: &'static str, value: f64, unit: &'static str, most: Option<f64>) {
        eprintln!("{what}: {value:.2} {unit}");
        match self.figures.iter_mut().find(|figure| figure.what == what) {
            Some(figure) => figure.values.push(value),
            None => self.figures.push(Figure {
                what,
                values: vec![value],
                unit,
                most,
            }),
        }
    }

    /// Resident memory before so many sessions came, while they idled in it, and when they had gone.
    pub fn memory(&mut self, sessions: u64, [before, full, after]: [u64; 3]) {
        let each = |bytes: u64| bytes.saturating_sub(before) as f64 / sessions as f64 / KIB;
        self.add("a session that idles in memory", each(full), "KiB", Some(4.0));
        self.add("a session that has left it", each(after), "KiB", Some(1.0));
        self.add("memory before they came", before as f64 / KIB / KIB, "MiB", None);
        self.add(
            "memory when all had left, against before",
            after as f64 / before as f64,
            "x",
            None,
        );
    }

    /// CPU time of the gateway for a turn.
    pub fn cpu(&mut self, what: &'static str, turns: u64, cpu: Duration) -> f64 {
        let each = micros(cpu) / turns.max(1) as f64;
        self.add(what, each, "us of CPU", None);
        each
    }

    /// CPU time of a turn where all are known, against where few are.
    pub fn ratio(&mut self, ratio: f64) {
        self.add("a turn where all are known, against few", ratio, "x", Some(1.1));
    }

    /// The most memory that was ever used.
    pub fn peak(&mut self, bytes: u64) {
        self.add("memory at most", bytes as f64 / GIB, "GiB", Some(4.0));
    }

    /// The file that so many sessions are in.
    pub fn file(&mut self, sessions: u64, bytes: u64) {
        self.add(
            "file, for each session",
            bytes as f64 / sessions as f64 / KIB,
            "KiB",
            None,
        );
    }

    /// How long something took that has a bound where there is one.
    pub fn took(&mut self, what: &'static str, took: Duration, most: Option<Duration>) {
        self.add(what, took.as_secs_f64(), "s", most.map(|most| most.as_secs_f64()));
    }

    /// Sessions that were not answered as they should have been.
    pub fn lost(&mut self, lost: u64) {
        self.lost += lost;
    }

    /// Whether nothing was lost and every target is met but those that are known to be missed.
    pub fn is_fine(&self) -> bool {
        self.lost == 0
            && !self
                .figures
                .iter()
                .any(|figure| figure.is_missed() && !figure.is_known())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for figure in &self.figures {
            let value = median(figure.values.iter().copied());
            write!(f, "{:44}{value:10.2} {}", figure.what, figure.unit)?;
            match figure.most {
                None => writeln!(f)?,
                Some(most) => {
                    let said = match (figure.is_missed(), figure.is_known()) {
                        (false, _) => "met",
                        (true, true) => "missed, as is known",
                        (true, false) => "MISSED",
                    };
                    writeln!(f, ", at most {most}: {said}")?;
                }
            }
        }
        let missed = self.figures.iter().filter(|figure| figure.is_missed()).count();
        write!(f, "{} lost, {missed} targets missed", self.lost)
    }
}
