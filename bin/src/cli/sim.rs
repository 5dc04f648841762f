//! `understudy sim`: simulated upstreams that misbehave by script.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use serde_json::json;
use understudy_messages::clock::Clock;
use understudy_providers::sim::script::Plan;
use understudy_providers::sim::{SimOptions, Simulator};

use super::signals::stop_asked;
use super::{Exit, output};

/// The model that the built-in plan answers as.
pub(super) const DEFAULT_MODEL: &str = "rehearsal";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:4250")]
    listen: SocketAddr,
    /// The behaviour script: a JSON or YAML map from `provider/model` (and `default`) to what that upstream does. Without
    /// one every model answers.
    #[arg(long)]
    script: Option<PathBuf>,
    /// The folder that a call's `recording` is read from.
    #[arg(long)]
    recordings: Option<PathBuf>,
}

pub(super) async fn run(args: Args, json: bool) -> anyhow::Result<Exit> {
    let plan = match &args.script {
        Some(file) => {
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            serde_saphyr::from_str(&text).with_context(|| format!("{} is not a behaviour script", file.display()))?
        }
        None => default_plan()?,
    };
    let options = SimOptions {
        bind: args.listen,
        clock: Clock::real(),
        recordings: args.recordings,
        ..SimOptions::default()
    };
    let simulator = Simulator::start(plan, options)
        .await
        .context("the simulator did not start")?;
    let base = simulator.base_url("PROVIDER");
    match json {
        true => output::say_json(&json!({ "base_url": base })),
        false => output::say(&format!("simulated upstreams at {base} (any PROVIDER)\nCtrl-C ends it")),
    }
    stop_asked().await?;
    report(&simulator, json);
    let broken = !simulator.violations().is_empty();
    simulator.stop().await;
    Ok(if broken { Exit::Finding } else { Exit::Fine })
}

/// What came in, by target.
fn report(simulator: &Simulator, json: bool) {
    let calls: Vec<(String, u64)> = simulator.journal().read(|entries| {
        let tallies = entries.tallies().iter();
        tallies
            .map(|(target, tally)| (target.to_string(), tally.calls))
            .collect()
    });
    let violations = simulator.violations().len();
    if json {
        let calls: serde_json::Map<_, _> = calls
            .into_iter()
            .map(|(target, calls)| (target, calls.into()))
            .collect();
        return output::say_json(&json!({ "calls": calls, "violations": violations }));
    }
    for (target, calls) in calls {
        output::say(&format!("{calls:>8}  {target}"));
    }
    if violations > 0 {
        output::say(&format!("{violations} requests came after the end of their script"));
    }
}

/// Every model answers, and says what it was asked.
pub(super) fn default_plan() -> anyhow::Result<Plan> {
    let plan = json!({
        "default": { "calls": [{ "answer": {
            "text": "This is {model} of the built-in simulator. You said: {last}",
            "chunks": 8,
            "every_ms": 20,
        }}]}
    });
    serde_json::from_value(plan).context("the built-in plan is not sound")
}
