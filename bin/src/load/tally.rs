//! What is counted in one round. Bounded, however many turns there are.

use std::collections::BTreeMap;
use std::time::Duration;

use super::process::Usage;
use super::receipt::{Ending, Receipt, Refusals};

mod latencies;
mod points;
#[cfg(test)]
mod tests;

pub(crate) use latencies::{Latencies, NoHistogram};
pub(crate) use points::{Point, Points};

/// The most statuses that are told apart.
const MOST_KINDS: usize = 32;

/// One round at one gateway.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) begun: u64,
    pub(crate) whole: u64,
    /// Whole answers after more than one attempt.
    pub(crate) failed_over: u64,
    /// Turns that ended with a proper error, by status; those in a stream as `in_stream`.
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) lost: BTreeMap<&'static str, u64>,
    pub(crate) not_begun: u64,
    /// Turns whose clients went away, as the scenario wants.
    pub(crate) left: u64,
    /// Refusals (429, 503), also those after which a client came back.
    pub(crate) refused: u64,
    /// Those that did not say when to come back.
    pub(crate) without_advice: u64,
    /// How long it took to be refused; of a turn that was refused again and again the longest.
    pub(crate) refusal: Latencies,
    /// From when a turn was due to the last byte of its whole answer.
    pub(crate) turn: Latencies,
    /// To its first word, at the first attempt.
    pub(crate) first: Latencies,
    /// To its first word, after more than one.
    pub(crate) first_failed_over: Latencies,
    /// How late turns were begun: they waited for their session, for a connection, or for the driver.
    pub(crate) late: Latencies,
    /// How late the driver woke: its own delay.
    pub(crate) lag: Latencies,
    /// Whole answers in each step of the arrivals.
    pub(crate) steps: Vec<u64>,
    pub(crate) points: Points,
    /// From the beginning to the last answer.
    pub(crate) took: Duration,
    /// CPU time of the driver's own thread.
    pub(crate) driver_cpu: Duration,
    /// CPU time of the gateway, where it is known.
    pub(crate) cpu: Option<Duration>,
    /// The most memory that it held, where that is known.
    pub(crate) rss: Option<u64>,
    warm_up: Duration,
}

impl Tally {
    /// An empty one; turns that are due before `warm_up` are counted and not measured.
    ///
    /// # Errors
    /// There is no memory for its histograms.
    pub(crate) fn new(steps: usize, warm_up: Duration) -> Result<Self, NoHistogram> {
        Ok(Self {
            begun: 0,
            whole: 0,
            failed_over: 0,
            errors: BTreeMap::new(),
            lost: BTreeMap::new(),
            not_begun: 0,
            left: 0,
            refused: 0,
            without_advice: 0,
            refusal: Latencies::new()?,
            turn: Latencies::new()?,
            first: Latencies::new()?,
            first_failed_over: Latencies::new()?,
            late: Latencies::new()?,
            lag: Latencies::new()?,
            steps: vec![0; steps],
            points: Points::new()?,
            took: Duration::ZERO,
            driver_cpu: Duration::ZERO,
            cpu: None,
            rss: None,
            warm_up,
        })
    }

    /// A turn is begun, so late.
    pub(crate) fn begin(&mut self, late: Duration) {
        self.begun += 1;
        self.late.add(late);
        self.points.begin();
    }

    /// A turn has ended, in this step of the arrivals where any is going on.
    pub(crate) fn end(&mut self, receipt: &Receipt, step: Option<usize>) {
        self.refusals(&receipt.refusals);
        match receipt.ending {
            Ending::Whole => {
                self.whole += 1;
                self.failed_over += u64::from(receipt.attempts > 1);
                if let Some(count) = step.and_then(|step| self.steps.get_mut(step)) {
                    *count += 1;
                }
                self.measure(receipt);
            }
            Ending::Refused(status) => self.error(status.to_string()),
            Ending::Error => self.error("in_stream".to_owned()),
            Ending::Left => self.left += 1,
            Ending::Lost(loss) => *self.lost.entry(loss.as_label()).or_default() += 1,
        }
        self.points.end(receipt);
    }

    fn refusals(&mut self, told: &Refusals) {
        self.refused += u64::from(told.count);
        self.without_advice += u64::from(told.without_advice);
        if told.count > 0 {
            self.refusal.add(told.longest);
        }
    }

    fn measure(&mut self, receipt: &Receipt) {
        if receipt.slow || receipt.turn.due < self.warm_up {
            return;
        }
        self.turn.add(receipt.took);
        if let Some(first) = receipt.first {
            match receipt.attempts > 1 {
                true => self.first_failed_over.add(first),
                false => self.first.add(first),
            }
        }
    }

    fn error(&mut self, kind: String) {
        let known = self.errors.len() < MOST_KINDS || self.errors.contains_key(&kind);
        *self
            .errors
            .entry(if known { kind } else { "other".to_owned() })
            .or_default() += 1;
    }

    /// What the gateway has used of memory by now, and of CPU time since `before`.
    pub(crate) fn used(&mut self, now: Option<Usage>, before: Option<Usage>) {
        self.rss = self.rss.max(now.map(|now| now.rss));
        self.cpu = now.zip(before).map(|(now, before)| now.cpu.saturating_sub(before.cpu));
    }

    /// Turns that have ended, however.
    pub(crate) fn ended(&self) -> u64 {
        self.whole + self.left + self.errors_in_all() + self.lost_in_all()
    }

    /// Turns that ended with a proper error.
    pub(crate) fn errors_in_all(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Turns that were lost.
    pub(crate) fn lost_in_all(&self) -> u64 {
        self.lost.values().sum()
    }
}
