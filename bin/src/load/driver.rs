//! Asks as the agenda says, on one thread, and counts what comes back.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;
use understudy_messages::clock::{Clock, Instant};

use super::agenda::{Agenda, Turn};
use super::client::Client;
use super::connection::Connection;
use super::meter::Meter;
use super::process::{Usage, cpu_of_this_thread};
use super::receipt::Receipt;
use super::scenario::Scenario;
use super::tag::Tag;
use super::tally::{NoHistogram, Tally};

/// A connection that nobody used for so long is not trusted: the other side may be closing it.
const IDLE: Duration = Duration::from_secs(30);
/// Turns that still wait so long after the end are not begun any more.
const GRACE: Duration = Duration::from_secs(2);
/// How often the driver looks whether it wakes in time.
const BEAT: Duration = Duration::from_millis(50);

/// What one round needs.
pub(crate) struct Driver<'a> {
    pub(crate) clock: &'a Clock,
    pub(crate) scenario: &'a Scenario,
    pub(crate) client: Client<'a>,
    pub(crate) meter: &'a Meter,
    pub(crate) stop: &'a CancellationToken,
    pub(crate) seed: u64,
}

impl Driver<'_> {
    /// Plays the round. `watch` sees the counts about twenty times a second.
    ///
    /// # Errors
    /// There is no memory for the counts.
    pub(crate) async fn run(&self, mut watch: impl FnMut(&Tally)) -> Result<Tally, NoHistogram> {
        let before = self.meter.read().await;
        let mut round = Round::new(self)?;
        let mut running = FuturesUnordered::new();
        loop {
            // not where it waits: answers alone may keep it busy
            if round.beats() {
                watch(&round.tally);
            }
            while running.len() < round.most
                && let Some((turn, tag, connection)) = round.next()
            {
                running.push(self.client.turn(turn, tag, round.start, connection));
            }
            let Some(wake) = round.wakes(running.len()) else {
                break;
            };
            tokio::select! {
                biased;
                Some((receipt, connection)) = running.next(), if !running.is_empty() => round.ended(&receipt, connection),
                () = self.clock.sleep_until(round.start + wake) => round.woke(wake),
            }
        }
        Ok(round.finish(self.meter.read().await, before))
    }
}

/// A round while it is played.
struct Round<'a> {
    driver: &'a Driver<'a>,
    start: Instant,
    cpu: Option<Duration>,
    agenda: Agenda,
    tally: Tally,
    random: fastrand::Rng,
    /// Connections that nobody uses, and when they were last used; the last one first.
    idle: Vec<(Connection, Instant)>,
    /// The most turns at one time.
    most: usize,
    /// When the steps of the arrivals end.
    ends: Vec<Duration>,
    beat: Duration,
    closed: bool,
}

impl<'a> Round<'a> {
    fn new(driver: &'a Driver<'a>) -> Result<Self, NoHistogram> {
        let scenario = driver.scenario;
        let steps = scenario.arrivals.iter().flat_map(|arrivals| &arrivals.steps);
        let ends: Vec<Duration> = steps
            .scan(Duration::ZERO, |end, step| {
                *end += step.lasts;
                Some(*end)
            })
            .collect();
        let mut tally = Tally::new(ends.len(), scenario.warm_up)?;
        tally.points.start(driver.meter.glance());
        Ok(Self {
            driver,
            agenda: Agenda::new(scenario, driver.seed),
            tally,
            random: fastrand::Rng::with_seed(driver.seed),
            idle: Vec::new(),
            most: scenario.connections as usize,
            ends,
            beat: BEAT,
            closed: false,
            cpu: cpu_of_this_thread(),
            start: driver.clock.now(),
        })
    }

    fn now(&self) -> Duration {
        self.driver.clock.now().saturating_duration_since(self.start)
    }

    /// A turn that is to be begun now, with its tag and a connection, if one is free.
    fn next(&mut self) -> Option<(Turn, Tag, Option<Connection>)> {
        let now = self.now();
        let turn = self.agenda.take(now)?;
        self.tally.begin(now.saturating_sub(turn.due));
        let tag = Tag {
            session: turn.session,
            turn: turn.turn,
            nonce: self.random.u32(..),
        };
        Some((turn, tag, self.connection()))
    }

    fn connection(&mut self) -> Option<Connection> {
        let now = self.driver.clock.now();
        let (connection, used) = self.idle.pop()?;
        if now.saturating_duration_since(used) < IDLE {
            return Some(connection);
        }
        // the others were used before it
        self.idle.clear();
        None
    }

    /// When to go on at the latest; `None`: nothing is left to do.
    fn wakes(&mut self, running: usize) -> Option<Duration> {
        let due = self.agenda.next_due();
        if running == 0 && due.is_none() {
            return None;
        }
        let due = due.filter(|_| running < self.most);
        Some(due.map_or(self.beat, |due| due.min(self.beat)))
    }

    fn ended(&mut self, receipt: &Receipt, connection: Option<Connection>) {
        let now = self.now();
        self.agenda.ended(receipt.turn, now);
        let step = self.ends.iter().position(|end| now < *end);
        self.tally.end(receipt, step);
        let used = self.driver.clock.now();
        self.idle.extend(connection.map(|connection| (connection, used)));
    }

    fn woke(&mut self, wake: Duration) {
        let late = self.now().saturating_sub(wake);
        self.tally.lag.add(late);
    }

    /// Looks after everything but turns, where it is time to; whether it was.
    fn beats(&mut self) -> bool {
        let now = self.now();
        if now < self.beat {
            return false;
        }
        self.tally.lag.add(now - self.beat);
        self.beat = now + BEAT;
        let length = self.driver.scenario.length();
        let over = length.is_some_and(|length| now >= length + GRACE);
        if !self.closed && (over || self.driver.stop.is_cancelled()) {
            self.agenda.close();
            self.closed = true;
        }
        if now >= self.tally.points.due() {
            let usage = self.driver.meter.glance();
            self.tally.points.close(now, usage);
            self.tally.rss = self.tally.rss.max(usage.map(|usage| usage.rss));
        }
        true
    }

    fn finish(mut self, after: Option<Usage>, before: Option<Usage>) -> Tally {
        let cpu = cpu_of_this_thread().zip(self.cpu);
        self.tally.driver_cpu = cpu.map(|(now, before)| now.saturating_sub(before)).unwrap_or_default();
        self.tally.took = self.now();
        self.tally.points.close(self.tally.took, self.driver.meter.glance());
        self.tally.not_begun = self.agenda.not_begun();
        self.tally.used(after, before);
        self.tally
    }
}

#[cfg(test)]
mod tests;
