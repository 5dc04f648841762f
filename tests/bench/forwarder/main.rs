//! What the gateway costs against a bare forwarder of the same stack: CPU per request and added latency, healthy, with a
//! canon and failing over, all in one run.
//!
//!     cargo bench -p understudy-tests --bench forwarder
//!
//! This process is the client. It starts itself twice more, as upstream and as forwarder, and the gateway as everybody
//! runs it. What is measured has one core for itself, client and upstream share another. Every answer is compared with
//! what the upstream sends, byte by byte; a wrong one ends the bench. Only ratios within one run mean anything.

mod forwarder;
mod report;
mod stage;

use std::time::Duration;

use understudy_tests::bench::load::LOADS;
use understudy_tests::bench::process::{self, Pinning};
use understudy_tests::bench::{is_asked_for, machine, upstream};

use self::report::Report;
use self::stage::Stage;

/// How often everything is measured; the figures are medians.
const ROUNDS: usize = 5;
/// How long one target is under one load, once warm.
const PHASE: Duration = Duration::from_millis(1_800);
/// How long before that: connections are opened, breakers find out.
const WARM_UP: Duration = Duration::from_millis(200);

fn main() {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some(upstream::ROLE), _) => upstream::serve(),
        (Some(forwarder::ROLE), Some(upstream)) => forwarder::serve(upstream),
        _ if is_asked_for() => measure(),
        _ => {}
    }
}

fn measure() {
    let gateway = process::build_gateway();
    println!("{}", machine::describe());
    let pinning = Pinning::of_this_machine();
    println!("{pinning}");
    let stage = Stage::set(&gateway, pinning);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let report = runtime.expect("a runtime").block_on(play(&stage));
    println!("{report}");
    println!("{}", report.json());
}

/// Every load on every target, again and again: what disturbs one disturbs its neighbours too.
async fn play(stage: &Stage) -> Report {
    let mut report = Report::default();
    for round in 1..=ROUNDS {
        eprintln!("round {round} of {ROUNDS}");
        for load in &LOADS {
            for target in stage.targets() {
                let sample = load.run(&target, WARM_UP, PHASE).await;
                report.add(load, &target, sample);
            }
        }
    }
    report
}
