//! `understudy serve`: run the gateway until it is told to stop.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use understudy_actors::state::State;
use understudy_messages::clock::Clock;
use understudy_plugins::hosts::Hosts;
use understudy_providers::sim::{SimOptions, Simulator};

use super::signals::{Asked, Signals};
use super::state::StateDir;
use super::{Exit, log, output, sim};
use crate::config::compiled::Compiled;
use crate::config::{ConfigError, LogSettings, ServerConfig, report};
use crate::configuration::beginning::{Beginning, NoBeginning};
use crate::{App, AppOptions, open_files};

/// The file that is read when none is named.
const DEFAULT_FILE: &str = "understudy.yaml";
/// How long a shutdown waits for the turns in flight.
const DRAIN: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration; default: `understudy.yaml` here, else the providers' environment variables, else the built-in
    /// simulator.
    #[arg(long, env = "UNDERSTUDY_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    state: StateDir,
}

/// A configuration, where it came from, and the simulator that it may need.
struct Source {
    beginning: Beginning,
    origin: String,
    simulator: Option<Simulator>,
}

pub(super) async fn run(args: Args, json: bool, hosts: &Hosts) -> anyhow::Result<Exit> {
    let options = AppOptions::default();
    let source = match find(&args, &options.clock, hosts).await {
        Ok(source) => source,
        Err(error) => return refuse(error, json),
    };
    say_where(&source.beginning.state);
    open_files::make_room(source.beginning.config.settings.limits.in_flight);
    let mut signals = Signals::new()?;
    let app = App::begin(source.beginning, options, hosts).await?;
    announce(&app, &source.origin, json);
    while let Asked::Reload = signals.next().await {
        tracing::info!("SIGHUP: reading the configuration again");
        app.reload();
    }
    let exit = tokio::select! {
        () = app.stop(DRAIN) => Exit::Fine,
        () = signals.stop() => Exit::Finding,
    };
    if let Some(simulator) = source.simulator {
        simulator.stop().await;
    }
    Ok(exit)
}

async fn find(args: &Args, clock: &Clock, hosts: &Hosts) -> anyhow::Result<Source> {
    let default = Path::new(DEFAULT_FILE);
    let file = args.config.as_deref().or_else(|| default.exists().then_some(default));
    if let Some(file) = file {
        return Ok(Source {
            beginning: from_file(file, &args.state, clock, hosts)?,
            origin: file.display().to_string(),
            simulator: None,
        });
    }
    let origin = "environment".to_owned();
    let from_environment = ServerConfig::from_environment(&|name| std::env::var(name).ok());
    let from_environment = from_environment.map_err(|error| Invalid {
        origin: origin.clone(),
        error,
    })?;
    let (config, origin, simulator) = match from_environment {
        Some(config) => (config, origin, None),
        None => with_simulator().await?,
    };
    log::start(config.log);
    let state = args.state.open(&config, clock)?;
    let fault = None;
    Ok(Source {
        beginning: Beginning { config, state, fault },
        origin,
        simulator,
    })
}

/// A file, or what was published from it: where that lies is a word of the file, unless it cannot be read.
fn from_file(file: &Path, dir: &StateDir, clock: &Clock, hosts: &Hosts) -> anyhow::Result<Beginning> {
    let compiled = Compiled::of(hosts);
    let invalid = |error| Invalid {
        origin: file.display().to_string(),
        error,
    };
    let state = match ServerConfig::load_knowing(file, &compiled) {
        Ok(config) => {
            log::start(config.log);
            dir.open(&config, clock)?
        }
        Err(error) => {
            let kept = dir.of_a_broken_file(file).filter(|dir| dir.exists());
            let Some(kept) = kept else {
                return Err(invalid(error).into());
            };
            log::start(LogSettings::default());
            State::open(&kept, clock)?
        }
    };
    Beginning::from_file(file, state, &compiled).map_err(|error| match error {
        NoBeginning::Config(error) => invalid(error).into(),
        NoBeginning::State(error) => error.into(),
    })
}

fn say_where(state: &State) {
    let Some(dir) = state.dir() else {
        tracing::warn!("state lies in memory: revisions and guards are forgotten when this process ends");
        return;
    };
    tracing::info!(dir = %dir.folder().display(), "state");
    if let Some(before) = dir.dead() {
        tracing::warn!(%before, "the last owner of the state did not end in order: going on from what it had written");
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}", report::for_people(origin, error).trim_end())]
struct Invalid {
    origin: String,
    error: ConfigError,
}

fn refuse(error: anyhow::Error, json: bool) -> anyhow::Result<Exit> {
    let invalid = error.downcast::<Invalid>()?;
    match json {
        true => output::say_json(&report::as_json(&invalid.origin, Err(&invalid.error))),
        false => output::complain(&anyhow::anyhow!(invalid), false),
    }
    Ok(Exit::Unusable)
}

async fn with_simulator() -> anyhow::Result<(ServerConfig, String, Option<Simulator>)> {
    let plan = sim::default_plan()?;
    let options = SimOptions {
        clock: Clock::real(),
        ..SimOptions::default()
    };
    let simulator = Simulator::start(plan, options)
        .await
        .context("the built-in simulator did not start")?;
    let text = format!(
        "providers: {{ sim: {{ api: openai-chat, base_url: \"{}\", models: [{model}] }} }}\n\
         models: {{ {model}: {{ chain: [sim/{model}] }} }}\n",
        simulator.base_url("sim"),
        model = sim::DEFAULT_MODEL,
    );
    let origin = "the built-in simulator (no configuration, no provider's key in the environment)";
    Ok((
        ServerConfig::parse(&text, &|_| None)?,
        origin.to_owned(),
        Some(simulator),
    ))
}

fn announce(app: &App, origin: &str, json: bool) {
    let (api, admin) = (app.api(), app.admin());
    match json {
        true => output::say_json(&json!({
            "api": format!("http://{api}/v1"),
            "admin": format!("http://{admin}"),
            "configuration": origin,
        })),
        false => output::say(&format!(
            "understudy serves\n  API    http://{api}/v1\n  admin  http://{admin}\n  from   {origin}"
        )),
    }
}
