//! What plugins cost: a quiet one in every request of a whole gateway, one call on each host, and a guard over a long
//! conversation, all in one run.
//!
//!     cargo bench -p understudy-tests --bench hooks
//!
//! This process calls handlers, and it is the client of the gateways. It starts itself as everybody else: as upstream, as
//! gateways with and without plugins, as a plugin that is a child, and as the service behind a webhook. What the gateways cost
//! is measured on a core of their own; the calls are made one after the other, with all threads of this process on one core.
//! Every answer is looked at; a wrong one ends the bench. Only ratios within one run mean anything.

mod calls;
mod child;
mod endpoint;
mod gateway;
mod plugins;
mod report;

use std::time::Duration;

use understudy_tests::bench::load::MANY;
use understudy_tests::bench::process::{Core, Pinning, Program};
use understudy_tests::bench::{is_asked_for, machine, upstream};

use self::calls::Bed;
use self::gateway::{PLUGINS, gateways};
use self::report::Report;

/// How often everything is measured; the figures are medians.
const ROUNDS: usize = 5;
/// How long one gateway is under load, once warm.
const PHASE: Duration = Duration::from_millis(1_800);
/// How long before that.
const WARM_UP: Duration = Duration::from_millis(200);

fn main() {
    understudy::install_tls();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [upstream::ROLE, ..] => upstream::serve(),
        [gateway::ROLE, origin, plugin, ..] => gateway::serve(origin, plugin),
        [child::ROLE, ..] => child::answer(),
        [endpoint::ROLE, ..] => endpoint::serve(),
        _ if is_asked_for() => measure(),
        _ => {}
    }
}

fn measure() {
    println!("{}", machine::describe());
    let pinning = Pinning::of_this_machine();
    println!("{pinning}");
    let this = std::env::current_exe().expect("an executable");
    let start = |core, arguments: &[&str]| Program::start(pinning, core, &this, arguments);
    let upstream = start(Core::Other, &[upstream::ROLE]);
    let origin = format!("http://{}", upstream.address);
    let gateways = gateways(|plugin| start(Core::Measured, &[gateway::ROLE, &origin, plugin]));
    let endpoint = start(Core::Measured, &[endpoint::ROLE]);
    let report = actix::System::with_tokio_rt(understudy::shared_runtime).block_on(async {
        let bed = Bed::make(endpoint.address).await;
        let mut report = Report::default();
        for round in 1..=ROUNDS {
            eprintln!("round {round} of {ROUNDS}");
            for (plugin, gateway) in PLUGINS.iter().zip(&gateways) {
                let sample = MANY.run(&gateway::target(plugin.about, gateway), WARM_UP, PHASE).await;
                report.add_request(plugin.about, sample);
            }
            for row in bed.rows() {
                report.add_call(row, row.sample().await);
            }
        }
        bed.stop().await;
        report
    });
    println!("{report}");
    println!("{}", report.json());
}
