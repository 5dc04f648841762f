//! The store of sessions: how many turns share a sync of the disk, and what a turn costs when a great many are known.
//!
//! `UNDERSTUDY_KNOWN`: how many sessions are many (100,000 unless said otherwise).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;
use understudy_actors::session::store::{Header, SessionChange, SessionStore, StateSessions, StateSessionsOptions};
use understudy_actors::state::State;
use understudy_actors::tap::EventTap;
use understudy_actors::telemetry::Telemetry;
use understudy_messages::clock::Clock;
use understudy_messages::ids::SessionKey;
use understudy_tests::bench::{median, micros};

/// What one turn adds: a question and an answer, 2 KiB together.
const SAID: [usize; 2] = [256, 1_792];
/// How often each figure is taken.
const RUNS: usize = 5;
/// A year: nothing expires.
const LONG: Duration = Duration::from_secs(365 * 24 * 3_600);

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("understudy-bench-store-{}-{name}", std::process::id()));
        let _old = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn store(&self, interval: Option<Duration>) -> (State, Arc<StateSessions>) {
        let clock = Clock::real();
        let state = State::open(&self.0, &clock).expect("state");
        let options = StateSessionsOptions {
            state: state.clone(),
            clock,
            telemetry: Telemetry::new().expect("a recorder"),
            tap: EventTap::default(),
            interval,
            ttl: LONG,
            disk: u64::MAX,
            most: usize::MAX,
        };
        let store = StateSessions::open(options, []).expect("a store");
        (state, Arc::new(store))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn key(number: u64) -> SessionKey {
    SessionKey::Keyed {
        owner: None,
        // neighbours in time are none in the tables
        key: format!("s-{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into(),
    }
}

/// The next turn of a session: what it was is read, as after passivation.
async fn turn(store: &StateSessions, number: u64) {
    let key = key(number);
    let before = store.load(&key).await.expect("sound");
    let before = before.map_or_else(|| Header::new(Clock::real().wall()), |stored| stored.header);
    let header = Header {
        revision: before.revision + 1,
        turns: before.turns + 1,
        next: before.next + 1,
        updated: Clock::real().wall(),
        ..before.clone()
    };
    let change = SessionChange {
        base: before.revision,
        header,
        said: SAID.map(|length| "x".repeat(length).into()).to_vec(),
        forgets: 0..0,
    };
    store.commit(&key, change).await.expect("kept");
}

/// Turns a second of so many sessions at once.
async fn rate(store: &Arc<StateSessions>, sessions: u64, turns: u64) -> f64 {
    let clock = Clock::real();
    let began = clock.now();
    let speak = async |session| {
        for _ in 0..turns {
            turn(store, session).await;
        }
    };
    join_all((0..sessions).map(speak)).await;
    (sessions * turns) as f64 / clock.now().duration_since(began).as_secs_f64()
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

/// CPU of one turn of a session chosen among `known`, in microseconds.
async fn cost(store: &Arc<StateSessions>, known: u64) -> f64 {
    const TURNS: u64 = 4_096;
    let began = cpu();
    for _ in 0..TURNS / 64 {
        let first = fastrand::u64(..known);
        // 64 that are none of each other
        let speak = |place| turn(store, (first + place * (known / 64)) % known);
        join_all((0..64).map(speak)).await;
    }
    micros(cpu() - began) / TURNS as f64
}

async fn fill(store: &Arc<StateSessions>, from: u64, to: u64) {
    let mut next = from;
    while next < to {
        let group = next..(next + 512).min(to);
        next = group.end;
        join_all(group.map(|session| turn(store, session))).await;
    }
}

async fn grouped() {
    for (name, interval) in [("turn", None), ("interval", Some(Duration::from_secs(1)))] {
        let mut rates = [Vec::new(), Vec::new()];
        for run in 0..RUNS {
            let place = Place::new(&format!("{name}-{run}"));
            let (_state, store) = place.store(interval);
            rates[0].push(rate(&store, 1, 100).await);
            rates[1].push(rate(&store, 64, 50).await);
        }
        let [one, many] = rates.map(|rates| median(rates.into_iter()));
        println!(
            "durability {name}: 1 session {one:.0} turns/s, 64 sessions {many:.0} turns/s: {:.1} x",
            many / one
        );
    }
}

async fn known() {
    let many = std::env::var("UNDERSTUDY_KNOWN").map_or(100_000, |many| many.parse().expect("a number"));
    let place = Place::new("known");
    let (_state, store) = place.store(Some(Duration::from_secs(1)));
    fill(&store, 0, 1_000).await;
    let mut few = Vec::new();
    for _ in 0..RUNS {
        few.push(cost(&store, 1_000).await);
    }
    fill(&store, 1_000, many).await;
    let mut costs = Vec::new();
    for _ in 0..RUNS {
        costs.push(cost(&store, many).await);
    }
    let [few, costs] = [few, costs].map(|costs| median(costs.into_iter()));
    println!(
        "a load and a commit: {few:.1} us of CPU at 1,000 known, {costs:.1} at {many}: {:.2} x",
        costs / few
    );
}

fn main() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        grouped().await;
        known().await;
    });
}
