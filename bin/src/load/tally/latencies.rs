//! Latencies, kept so that every percentile is known to three digits.

use std::time::Duration;

use hdrhistogram::{CreationError, Histogram};

/// There is no histogram to be had.
#[derive(Debug, thiserror::Error)]
#[error("latencies cannot be kept")]
pub(crate) struct NoHistogram(#[from] CreationError);

/// The longest latency that is told apart.
const LONGEST: Duration = Duration::from_secs(2 * 3_600);

/// How long something took, many times: counts by microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn new() -> Result<Self, NoHistogram> {
        Ok(Self(Histogram::new_with_bounds(1, micros(LONGEST), 3)?))
    }

    pub(crate) fn add(&mut self, latency: Duration) {
        self.0.saturating_record(micros(latency));
    }

    /// Takes in all of another's.
    pub(crate) fn merge(&mut self, other: &Self) {
        // fails only where the bounds differ
        let _same_bounds = self.0.add(&other.0);
    }

    pub(crate) fn clear(&mut self) {
        self.0.reset();
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// What this part of them took at most, of a hundred; `None` when there are none.
    pub(crate) fn percentile(&self, percent: f64) -> Option<Duration> {
        let there = !self.0.is_empty();
        there.then(|| Duration::from_micros(self.0.value_at_percentile(percent)))
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
