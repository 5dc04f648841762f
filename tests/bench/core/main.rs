//! The decisions and readers that every turn goes through, each alone: admission, hooks, the failover decision, server-sent
//! events, the scan of a request, the store of sessions.
//!
//!     cargo bench -p understudy-tests --bench core [-- part of a name]
//!
//! criterion measures, tells what has changed since the last run, and keeps its figures below `target/tmp/criterion`; at the end
//! comes a table of those of this run, each against the first of its group. The parts share no clock with a gateway at work:
//! what they are of a request is told by the benches `hooks` and `forwarder`. Without `--bench`, as `cargo test` starts it,
//! everything is done once and nothing is measured.

mod admission;
mod failover;
mod hooks;
mod scan;
mod sse;
mod store;
mod table;

use std::path::Path;
use std::time::Duration;

use criterion::Criterion;
use understudy_messages::clock::Clock;
use understudy_tests::bench::{is_asked_for, machine};

/// Where criterion keeps what it measured.
const KEPT: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/criterion");

fn main() {
    if is_asked_for() {
        println!("{}", machine::describe());
    }
    let began = Clock::real().wall();
    let mut criterion = Criterion::default()
        .without_plots()
        .sample_size(50)
        .nresamples(10_000)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .output_directory(Path::new(KEPT))
        .configure_from_args();
    admission::bench(&mut criterion);
    hooks::bench(&mut criterion);
    failover::bench(&mut criterion);
    sse::bench(&mut criterion);
    scan::bench(&mut criterion);
    store::bench(&mut criterion);
    criterion.final_summary();
    table::print(Path::new(KEPT), began);
}
