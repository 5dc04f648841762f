//! `understudy load`: many sessions against a gateway, every answer checked, and what it takes.

mod progress;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use self::progress::Progress;
use super::signals::stop_asked;
use super::{Exit, output};
use crate::config::{ConfigError, ServerConfig, quantity, report as problems};
use crate::load::report::Report;
use crate::load::scenario::{self, Check, Scenario};
use crate::load::{Address, Core, Other, Stage, make_room, move_to, play};

/// What is played when no scenario is named.
const USUAL: &str = include_str!("load/usual.yaml");

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What is played, a YAML file (`examples/load/` has some); without one a short run against the built-in simulator.
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Play it in this time (5m): everything in it that has its moment comes sooner or later by as much.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    lasts: Option<Duration>,
    /// Write the report as a page with plots.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// A gateway that runs already, as its clients name it: http://127.0.0.1:4242/v1. Without it one is started.
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// The target's process, where it is on this machine: its CPU and memory are measured.
    #[arg(long, requires = "target")]
    pid: Option<u32>,
    /// A scrape of the target: what it holds, and, where no process is named, `process_cpu_seconds_total` and
    /// `process_resident_memory_bytes`.
    #[arg(long, requires = "target", value_name = "URL")]
    metrics: Option<String>,
    /// Another gateway: both take turns, round by round, and ratios are told.
    #[arg(long, value_name = "URL")]
    compare: Option<String>,
    /// The other gateway's process.
    #[arg(long, requires = "compare")]
    compare_pid: Option<u32>,
    /// The client key of gateways that run already.
    #[arg(long, env = "UNDERSTUDY_LOAD_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Where the simulator listens: gateways that run already ask http://ADDRESS/<provider>/v1.
    #[arg(long, value_name = "ADDRESS")]
    sim: Option<SocketAddr>,
    /// Give the gateway that is started a core for itself, and driver and simulator another: figures of CPU then do not mix.
    #[arg(long)]
    pin: bool,
    /// Print the JSON Schema of scenarios, and play nothing.
    #[arg(long, exclusive = true)]
    schema: bool,
}

pub(super) async fn run(args: Args, json: bool) -> anyhow::Result<Exit> {
    if args.schema {
        output::say_json(&scenario::schema());
        return Ok(Exit::Fine);
    }
    let (name, read) = read(args.scenario.as_deref());
    let scenario = match read {
        Ok(scenario) => scenario,
        Err(error) => return Ok(refuse(&name, &error, json)),
    };
    let scenario = match args.lasts {
        Some(time) => scenario.lasting(time).context("--lasts")?,
        None => scenario,
    };
    let stage = set(scenario, &args).await?;
    let report = perform(&stage, name, json).await;
    stage.strike().await;
    let report = report?;
    if let Some(file) = &args.html {
        std::fs::write(file, report.page()).with_context(|| format!("cannot write {}", file.display()))?;
    }
    match json {
        true => output::say_json(&serde_json::to_value(&report)?),
        false => output::say(&report.text()),
    }
    Ok(if report.holds() { Exit::Fine } else { Exit::Finding })
}

async fn perform(stage: &Stage, name: String, json: bool) -> anyhow::Result<Report> {
    let stop = CancellationToken::new();
    let progress = Progress::new(json, &stage.scenario);
    let playing = pin!(play(stage, &stop, |glance| progress.show(&glance)));
    let measured = until_asked(playing, &stop).await;
    progress.end();
    Ok(Report::new(name, &stage.scenario, &measured?, stop.is_cancelled())?)
}

fn read(file: Option<&Path>) -> (String, Result<Scenario, ConfigError>) {
    let env = |name: &str| std::env::var(name).ok();
    match file {
        None => ("usual".to_owned(), scenario::parse(USUAL, &env)),
        Some(file) => {
            let text = ServerConfig::text_of(file).map_err(ConfigError::Unreadable);
            (
                file.display().to_string(),
                text.and_then(|text| scenario::parse(&text, &env)),
            )
        }
    }
}

fn refuse(name: &str, error: &ConfigError, json: bool) -> Exit {
    match json {
        true => output::say_json(&problems::as_json(name, Err(error))),
        false => output::complain(
            &anyhow::anyhow!("{}", problems::for_people(name, error).trim_end()),
            false,
        ),
    }
    Exit::Unusable
}

async fn set(scenario: Scenario, args: &Args) -> anyhow::Result<Stage> {
    anyhow::ensure!(
        args.target.is_none() || args.sim.is_some() || scenario.client.check == Check::Ended,
        "answers of --target can be checked only when its upstreams are the simulator: give --sim ADDRESS, or write \
         `client: {{ check: ended }}` in the scenario"
    );
    anyhow::ensure!(
        args.compare.is_none() || args.sim.is_some() || scenario.client.check == Check::Ended,
        "give --sim ADDRESS, so that the gateway of --compare can ask the same upstreams"
    );
    anyhow::ensure!(
        args.target.is_none() || scenario.reloads.is_none(),
        "only a gateway that is started is reloaded: remove `reloads` from the scenario, or --target"
    );
    make_room(scenario.connections)?;
    let other = |url: &Option<String>, pid, metrics: &Option<String>| -> anyhow::Result<Option<Other>> {
        let Some(url) = url else {
            return Ok(None);
        };
        Ok(Some(Other {
            address: Address::read(url, args.key.clone())?,
            pid,
            metrics: metrics.clone(),
        }))
    };
    let target = other(&args.target, args.pid, &args.metrics)?;
    let compared = other(&args.compare, args.compare_pid, &None)?;
    let program = std::env::current_exe().context("this program cannot be found")?;
    let pinned = |core| move_to(core).context("--pin: the cores 0 and 1 cannot be used");
    if args.pin {
        // who is started stays where it was started
        pinned(Core::Measured)?;
    }
    let stage = Stage::set(scenario, target, compared, args.sim, program).await?;
    if args.pin {
        pinned(Core::Other)?;
    }
    Ok(stage)
}

/// Waits for the end. Whoever asks for a stop gets what was measured until then.
async fn until_asked<T>(mut playing: impl Future<Output = T> + Unpin, stop: &CancellationToken) -> T {
    tokio::select! {
        done = &mut playing => return done,
        _asked = stop_asked() => stop.cancel(),
    }
    playing.await
}
