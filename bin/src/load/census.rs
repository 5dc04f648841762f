//! What a gateway holds that it has to let go of again once nobody asks it.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use understudy_actors::telemetry::{ACTORS, SESSIONS, TASKS, TURNS_IN_FLIGHT};
use understudy_messages::clock::Clock;

use super::meter::Meter;
use super::scenario::Left;
use crate::scrape::Scrape;

/// The time between two looks; a scrape is work, too.
const PERIOD: Duration = Duration::from_secs(1);

/// A kind of what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    OpenFiles,
    Threads,
    Actors,
    Tasks,
    Turns,
    Sessions,
}

/// How much it holds of each kind, where that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census([Option<u64>; Holding::ALL.len()]);

/// How much more than before it holds, by kind.
pub(crate) type Remains = BTreeMap<&'static str, u64>;

/// What is expected cannot be known.
#[derive(Debug, thiserror::Error)]
#[error("`expect.{what}` cannot be looked at: name the gateway's {source_of_it}, or expect something else")]
pub(crate) struct OutOfSight {
    pub(crate) what: &'static str,
    pub(crate) source_of_it: &'static str,
}

/// What has to be named so that a process can be looked at.
pub(crate) const PROCESS: &str = "process with --pid, on a Linux machine that it shares with the driver";

impl Holding {
    pub(crate) const ALL: [Self; 6] = [
        Self::OpenFiles,
        Self::Threads,
        Self::Actors,
        Self::Tasks,
        Self::Turns,
        Self::Sessions,
    ];

    /// Its place in a scenario, below `expect`.
    pub(crate) const fn as_label(self) -> &'static str {
        match self {
            Self::OpenFiles => "max_left.open_files",
            Self::Threads => "max_left.threads",
            Self::Actors => "max_left.actors",
            Self::Tasks => "max_left.tasks",
            Self::Turns => "max_left.turns",
            Self::Sessions => "max_left.sessions",
        }
    }

    const fn source(self) -> &'static str {
        match self {
            Self::OpenFiles | Self::Threads => PROCESS,
            Self::Actors | Self::Tasks | Self::Turns | Self::Sessions => "scrape with --metrics",
        }
    }
}

impl Census {
    /// What a process holds.
    pub(crate) fn of_process(pid: u32) -> Self {
        let entries = |of: &str| {
            let entries = fs::read_dir(format!("/proc/{pid}/{of}")).ok()?;
            Some(entries.count() as u64)
        };
        let mut census = Self::default();
        census.set(Holding::OpenFiles, entries("fd"));
        census.set(Holding::Threads, entries("task"));
        census
    }

    /// Takes in what a scrape tells.
    pub(crate) fn add(&mut self, scrape: &Scrape) {
        let count = |name, labels: &[(&str, &str)]| scrape.has(name, labels).then(|| scrape.count(name, labels));
        self.set(Holding::Actors, count(ACTORS.name, &[]));
        self.set(Holding::Tasks, count(TASKS.name, &[]));
        self.set(Holding::Turns, count(TURNS_IN_FLIGHT.name, &[]));
        let sessions = |state| count(SESSIONS.name, &[("state", state)]);
        let in_memory = sessions("active").zip(sessions("idle"));
        self.set(Holding::Sessions, in_memory.map(|(active, idle)| active + idle));
    }

    fn set(&mut self, holding: Holding, count: Option<u64>) {
        self.0[holding as usize] = count;
    }

    fn of(&self, holding: Holding) -> Option<u64> {
        self.0[holding as usize]
    }

    /// Whether all is known that is expected.
    ///
    /// # Errors
    /// Something is not.
    pub(crate) fn shows(&self, expected: &Left) -> Result<(), OutOfSight> {
        let hidden = |(holding, _): &(Holding, u32)| self.of(*holding).is_none();
        match expected.limits().find(hidden) {
            None => Ok(()),
            Some((holding, _)) => Err(OutOfSight {
                what: holding.as_label(),
                source_of_it: holding.source(),
            }),
        }
    }

    /// How much more it is than `before`, where both are known.
    fn beyond(&self, before: &Self) -> Remains {
        let more = |holding: Holding| {
            let more = self.of(holding)?.saturating_sub(before.of(holding)?);
            Some((holding.as_label(), more))
        };
        Holding::ALL.into_iter().filter_map(more).collect()
    }
}

/// Waits until the gateway holds no more beyond `before` than is expected, for as long as it may take and until `stop`; what that
/// is then.
pub(crate) async fn at_rest(
    expected: &Left,
    meter: &Meter,
    clock: &Clock,
    before: &Census,
    stop: &CancellationToken,
) -> Remains {
    let until = clock.now() + expected.within;
    loop {
        let left = meter.census().await.beyond(before);
        let within = |(holding, limit): (Holding, u32)| {
            let left = left.get(holding.as_label());
            left.is_some_and(|left| *left <= u64::from(limit))
        };
        if expected.limits().all(within) || clock.now() >= until || stop.is_cancelled() {
            return left;
        }
        tokio::select! {
            () = clock.sleep(PERIOD) => {}
            () = stop.cancelled() => return left,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRAPE: &str = "understudy_actors{actor=\"registry\"} 1\nunderstudy_actors{actor=\"provider\"} 2\n\
                          understudy_sessions{state=\"active\"} 1\nunderstudy_sessions{state=\"idle\"} 4\n\
                          understudy_sessions{state=\"passivated\"} 90\n";

    #[test]
    fn a_census_knows_what_process_and_scrape_tell_and_nothing_else() {
        let mut census = Census::of_process(std::process::id());
        assert!(census.of(Holding::OpenFiles) > Some(2) && census.of(Holding::Threads) > Some(0));
        census.add(&Scrape::parse(SCRAPE));
        let known = [Holding::Actors, Holding::Sessions, Holding::Tasks].map(|holding| census.of(holding));
        assert_eq!(known, [Some(3), Some(5), None]);
        assert_eq!(Census::of_process(u32::MAX), Census::default());
    }

    #[test]
    fn what_cannot_be_looked_at_is_named_with_what_would_show_it() {
        let mut census = Census::default();
        census.add(&Scrape::parse(SCRAPE));
        let expected = |actors, threads| Left {
            actors,
            threads,
            ..Left::default()
        };
        assert!(census.shows(&expected(Some(0), None)).is_ok());
        let error = census.shows(&expected(Some(0), Some(0))).expect_err("is not told");
        assert_eq!(error.what, "max_left.threads");
        assert!(error.to_string().contains("--pid"), "{error}");
    }

    #[tokio::test]
    async fn what_is_not_let_go_of_in_time_is_left() {
        let (clock, meter) = (Clock::movable(), Meter::of_process(std::process::id()));
        let stop = CancellationToken::new();
        let expected = Left {
            threads: Some(0),
            ..Left::default()
        };
        let mut before = Census::default();
        before.set(Holding::Threads, Some(0));
        clock.hold();
        let waits = at_rest(&expected, &meter, &clock, &before, &stop);
        let (left, ()) = tokio::join!(waits, async { clock.advance(expected.within) });
        assert!(left["max_left.threads"] > 0, "this test has a thread");
        let now = meter.census().await;
        // threads of other tests come and go
        let expected = Left {
            threads: Some(1000),
            ..expected
        };
        // nobody waits for what holds: the clock stands still
        at_rest(&expected, &meter, &clock, &now, &stop).await;
    }
    #[tokio::test]
    async fn nobody_waits_for_rest_any_longer_once_a_run_is_stopped() {
        let (clock, meter) = (Clock::movable(), Meter::of_process(std::process::id()));
        let stop = CancellationToken::new();
        let expected = Left {
            threads: Some(0),
            ..Left::default()
        };
        let mut before = Census::default();
        before.set(Holding::Threads, Some(0));
        clock.hold();
        let waits = at_rest(&expected, &meter, &clock, &before, &stop);
        // the clock stands still, so that nothing else ends it
        let (left, ()) = tokio::join!(waits, async { stop.cancel() });
        assert!(left["max_left.threads"] > 0, "this test has a thread");
    }
}
