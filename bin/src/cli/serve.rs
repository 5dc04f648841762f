//! `understudy serve`: run the gateway until it is told to stop.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use understudy_messages::clock::Clock;
use understudy_plugins::hosts::Hosts;
use understudy_providers::sim::{SimOptions, Simulator};

use super::signals::{Asked, Signals};
use super::{Exit, log, output, sim};
use crate::config::{ConfigError, ServerConfig, report};
use crate::{App, AppOptions};

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
}

/// A configuration, where it came from, and the simulator that it may need.
struct Source {
    config: ServerConfig,
    origin: String,
    simulator: Option<Simulator>,
}

pub(super) async fn run(args: Args, json: bool, hosts: &Hosts) -> anyhow::Result<Exit> {
    let source = match find(args.config.as_deref()).await {
        Ok(source) => source,
        Err(error) => return refuse(error, json),
    };
    log::start(source.config.log);
    let mut signals = Signals::new()?;
    let app = App::start_hosting(source.config, AppOptions::default(), hosts).await?;
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

async fn find(named: Option<&Path>) -> anyhow::Result<Source> {
    let default = Path::new(DEFAULT_FILE);
    let file = named.or_else(|| default.exists().then_some(default));
    if let Some(file) = file {
        let origin = file.display().to_string();
        let config = ServerConfig::load(file).map_err(|error| Invalid {
            origin: origin.clone(),
            error,
        })?;
        return Ok(Source {
            config,
            origin,
            simulator: None,
        });
    }
    let origin = "environment".to_owned();
    let from_environment = ServerConfig::from_environment(&|name| std::env::var(name).ok());
    match from_environment.map_err(|error| Invalid {
        origin: origin.clone(),
        error,
    })? {
        Some(config) => Ok(Source {
            config,
            origin,
            simulator: None,
        }),
        None => with_simulator().await,
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

async fn with_simulator() -> anyhow::Result<Source> {
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
    Ok(Source {
        config: ServerConfig::parse(&text, &|_| None)?,
        origin: "the built-in simulator (no configuration, no provider's key in the environment)".to_owned(),
        simulator: Some(simulator),
    })
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
