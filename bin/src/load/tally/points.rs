//! How things went over time: one point a second, or one for several where it takes long.

use std::time::Duration;

use super::latencies::{Latencies, NoHistogram};
use crate::load::process::Usage;
use crate::load::receipt::{Ending, Receipt};

/// The most points; beyond, two become one.
const MOST: usize = 600;
const SECOND: Duration = Duration::from_secs(1);

/// A stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    /// When it began.
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
    pub(crate) begun: u64,
    pub(crate) whole: u64,
    pub(crate) errors: u64,
    pub(crate) lost: u64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// CPU time of the gateway, where it is known.
    pub(crate) cpu: Option<Duration>,
    /// Memory of the gateway at its end, where it is known.
    pub(crate) rss: Option<u64>,
}

/// The points of a round.
#[derive(Clone, Debug)]
pub(crate) struct Points {
    list: Vec<Point>,
    open: Point,
    took: Latencies,
    interval: Duration,
    usage: Option<Usage>,
}

impl Points {
    pub(super) fn new() -> Result<Self, NoHistogram> {
        Ok(Self {
            list: Vec::new(),
            open: Point::default(),
            took: Latencies::new()?,
            interval: SECOND,
            usage: None,
        })
    }

    /// When the point that is open is due to be closed.
    pub(crate) fn due(&self) -> Duration {
        self.open.at + self.interval
    }

    pub(super) fn begin(&mut self) {
        self.open.begun += 1;
    }

    pub(super) fn end(&mut self, receipt: &Receipt) {
        match receipt.ending {
            Ending::Whole => {
                self.open.whole += 1;
                if !receipt.slow {
                    self.took.add(receipt.took);
                }
            }
            Ending::Refused(_) | Ending::Error => self.open.errors += 1,
            Ending::Left => {}
            Ending::Lost(_) => self.open.lost += 1,
        }
    }

    /// What the gateway had used before the first point.
    pub(crate) fn start(&mut self, usage: Option<Usage>) {
        self.usage = usage;
    }

    /// Ends the open point and begins another.
    pub(crate) fn close(&mut self, now: Duration, usage: Option<Usage>) {
        self.open.lasts = now.saturating_sub(self.open.at);
        self.open.p50 = self.took.percentile(50.0).unwrap_or_default();
        self.open.p99 = self.took.percentile(99.0).unwrap_or_default();
        self.open.rss = usage.map(|usage| usage.rss);
        self.open.cpu = usage
            .zip(self.usage)
            .map(|(now, before)| now.cpu.saturating_sub(before.cpu));
        self.usage = usage;
        self.took.clear();
        let next = Point {
            at: now,
            ..Point::default()
        };
        self.list.push(std::mem::replace(&mut self.open, next));
        if self.list.len() >= MOST {
            let pairs = self.list.chunks(2).map(joined);
            self.list = pairs.collect();
            self.interval *= 2;
        }
    }

    /// Memory at the end over that at `from`, each the median of a tenth of the time between; `None` where it is not known.
    pub(crate) fn rss_growth(&self, from: Duration) -> Option<f64> {
        let end = self.list.last().map(|point| point.at + point.lasts)?;
        let tenth = end.checked_sub(from)? / 10;
        let median = |within: &dyn Fn(&Point) -> bool| {
            let known = self.list.iter().filter(|point| within(point));
            let mut known: Vec<u64> = known.filter_map(|point| point.rss).collect();
            known.sort_unstable();
            known.get(known.len() / 2).map(|rss| *rss as f64)
        };
        let warm = median(&|point| point.at + point.lasts >= from && point.at <= from + tenth)?;
        let last = median(&|point| point.at + point.lasts + tenth >= end)?;
        (warm > 0.0).then(|| last / warm)
    }

    pub(crate) fn list(&self) -> &[Point] {
        &self.list
    }
}

/// One point for two; of latencies the longer ones.
fn joined(pair: &[Point]) -> Point {
    let add = |one: Point, next: &Point| Point {
        at: one.at,
        lasts: one.lasts + next.lasts,
        begun: one.begun + next.begun,
        whole: one.whole + next.whole,
        errors: one.errors + next.errors,
        lost: one.lost + next.lost,
        p50: one.p50.max(next.p50),
        p99: one.p99.max(next.p99),
        cpu: one.cpu.zip(next.cpu).map(|(one, next)| one + next),
        rss: next.rss,
    };
    match pair {
        [first, rest @ ..] => rest.iter().fold(*first, add),
        [] => Point::default(),
    }
}
