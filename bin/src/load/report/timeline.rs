//! How things went over time, one round after the other.

use std::time::Duration;

use serde::Serialize;

use super::text::in_mib;
use crate::load::figures::millis;
use crate::load::play::Measured;
use crate::load::tally::Point;

/// Of one gateway: lists of the same length, by point.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Timeline {
    pub(super) gateway: &'static str,
    /// Seconds since the first round began, rounds of the other gateway left out.
    pub(super) at: Vec<f64>,
    /// Each in a second.
    pub(super) begun: Vec<f64>,
    pub(super) whole: Vec<f64>,
    pub(super) errors: Vec<f64>,
    pub(super) lost: Vec<f64>,
    pub(super) p50_ms: Vec<f64>,
    pub(super) p99_ms: Vec<f64>,
    /// Cores that were busy; empty where unknown.
    pub(super) cpu: Vec<f64>,
    /// Memory in MiB; empty where unknown.
    pub(super) rss_mib: Vec<f64>,
}

impl Timeline {
    pub(super) fn of(measured: &Measured) -> Self {
        let mut line = Self {
            gateway: measured.name,
            ..Self::default()
        };
        let mut before = Duration::ZERO;
        for tally in &measured.rounds {
            let points = tally.points.list().iter();
            // the last one is often too short to tell a rate
            for point in points.filter(|point| point.lasts >= Duration::from_millis(200)) {
                line.add(before, point);
            }
            before += tally.took;
        }
        line
    }

    fn add(&mut self, before: Duration, point: &Point) {
        let seconds = point.lasts.as_secs_f64();
        let rate = |count: u64| count as f64 / seconds;
        self.at.push((before + point.at).as_secs_f64());
        self.begun.push(rate(point.begun));
        self.whole.push(rate(point.whole));
        self.errors.push(rate(point.errors));
        self.lost.push(rate(point.lost));
        self.p50_ms.push(millis(point.p50));
        self.p99_ms.push(millis(point.p99));
        self.cpu.extend(point.cpu.map(|cpu| cpu.as_secs_f64() / seconds));
        self.rss_mib.extend(point.rss.map(in_mib));
    }
}
