//! The store of sessions: how many turns share a sync of the disk, and what a turn costs when a great many are known.
//!
//!     cargo bench -p understudy-tests --bench store
//!
//! `UNDERSTUDY_KNOWN`: how many sessions are many (100,000 unless said otherwise).

use std::time::Duration;

use futures::future::join_all;
use tokio::runtime::Builder;
use understudy_messages::clock::Clock;
use understudy_tests::bench::sessions::Sessions;
use understudy_tests::bench::{cpu, is_asked_for, machine, median, micros};

/// How often each figure is taken.
const RUNS: usize = 5;

/// Turns a second of so many sessions at once.
async fn rate(store: &Sessions, sessions: u64, turns: u64) -> f64 {
    let clock = Clock::real();
    let began = clock.now();
    let speak = async |session| {
        for _ in 0..turns {
            store.turn(session).await;
        }
    };
    join_all((0..sessions).map(speak)).await;
    (sessions * turns) as f64 / clock.now().duration_since(began).as_secs_f64()
}

/// CPU of one turn of a session chosen among `known`, in microseconds.
async fn cost(store: &Sessions, known: u64) -> f64 {
    const TURNS: u64 = 4_096;
    let began = cpu();
    for _ in 0..TURNS / 64 {
        let first = fastrand::u64(..known);
        // 64 that are none of each other
        let speak = |place| store.turn((first + place * (known / 64)) % known);
        join_all((0..64).map(speak)).await;
    }
    micros(cpu() - began) / TURNS as f64
}

async fn fill(store: &Sessions, from: u64, to: u64) {
    let mut next = from;
    while next < to {
        let group = next..(next + 512).min(to);
        next = group.end;
        join_all(group.map(|session| store.turn(session))).await;
    }
}

async fn grouped() {
    for (name, interval) in [("turn", None), ("interval", Some(Duration::from_secs(1)))] {
        let mut rates = [Vec::new(), Vec::new()];
        for run in 0..RUNS {
            let store = Sessions::on_disk(&format!("{name}-{run}"), interval);
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
    let store = Sessions::on_disk("known", Some(Duration::from_secs(1)));
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
    if !is_asked_for() {
        return;
    }
    println!("{}", machine::describe());
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        grouped().await;
        known().await;
    });
}
