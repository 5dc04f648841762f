//! What a configuration would load, without a gateway.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use serde_json::Value;
use understudy_actors::inventory::{Anew, Loader};
use understudy_actors::state::State;
use understudy_actors::supervision::{Supervision, Tasks};
use understudy_actors::telemetry::Telemetry;
use understudy_messages::clock::Clock;
use understudy_messages::settings::Settings;
use understudy_plugins::hosts::Hosts;

use super::super::admin::{Admin, Unreachable};
use crate::config::{ServerConfig, report};
use crate::plugins::loader;

/// Which configuration is read where no gateway is asked.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct ConfigFile {
    /// The configuration file.
    #[arg(long = "config", default_value = "understudy.yaml", env = "UNDERSTUDY_CONFIG")]
    pub(in crate::cli) file: PathBuf,
}

impl ConfigFile {
    /// What the file says.
    pub(in crate::cli) fn settings(&self, hosts: &Hosts) -> anyhow::Result<Arc<Settings>> {
        Ok(Arc::new(self.whole(hosts)?.settings))
    }

    /// The same, with what is said of the process.
    pub(in crate::cli) fn whole(&self, hosts: &Hosts) -> anyhow::Result<ServerConfig> {
        let name = self.file.display().to_string();
        let config = ServerConfig::load_hosting(&self.file, hosts);
        config.map_err(|error| anyhow::anyhow!("{}", report::for_people(&name, &error).trim_end().to_owned()))
    }

    /// What a gateway with this configuration would find and load: no plugin's code runs.
    pub(in crate::cli) async fn look(&self, hosts: &Hosts) -> anyhow::Result<Value> {
        let (settings, loader) = (self.settings(hosts)?, loader_of(hosts)?);
        let planned = tokio::task::spawn_blocking(move || loader.plan(settings, None, Anew::default()));
        Ok(serde_json::to_value(planned.await?.report())?)
    }

    /// What becomes of the plugins when they are loaded: here, and they end at once.
    pub(in crate::cli) async fn load(&self, hosts: &Hosts) -> anyhow::Result<Value> {
        let (settings, loader) = (self.settings(hosts)?, loader_of(hosts)?);
        let inventory = loader.inspect(&settings).await;
        let report = serde_json::to_value(inventory.report());
        inventory.stop().await;
        loader.supervision.tasks.stop().await;
        Ok(report?)
    }
}

fn loader_of(hosts: &Hosts) -> anyhow::Result<Loader> {
    let supervision = Supervision {
        tasks: Tasks::new(),
        clock: Clock::real(),
        telemetry: Telemetry::new()?,
    };
    Ok(loader(hosts, &supervision, State::in_memory()?))
}

/// The plugins of a running gateway; where none answers, those that the configuration names.
pub(in crate::cli) struct Seen {
    pub(in crate::cli) report: Value,
    /// The configuration that they are from; `None`: a gateway tells.
    pub(in crate::cli) cold: Option<PathBuf>,
    /// Whether they were loaded here.
    pub(in crate::cli) loaded: bool,
}

impl Seen {
    /// No plugin's code runs here.
    pub(in crate::cli) async fn look(admin: &Admin, config: &ConfigFile, hosts: &Hosts) -> anyhow::Result<Self> {
        Self::ask(admin, config, async || config.look(hosts).await, false).await
    }

    /// Where no gateway answers they register here, and none of their services starts.
    pub(super) async fn load(admin: &Admin, config: &ConfigFile, hosts: &Hosts) -> anyhow::Result<Self> {
        Self::ask(admin, config, async || config.load(hosts).await, true).await
    }

    async fn ask(
        admin: &Admin,
        config: &ConfigFile,
        here: impl AsyncFnOnce() -> anyhow::Result<Value>,
        loaded: bool,
    ) -> anyhow::Result<Self> {
        match admin.get("/admin/v1/plugins").await {
            Ok(report) => Ok(Self {
                report,
                cold: None,
                loaded: false,
            }),
            Err(error) if error.is::<Unreachable>() && config.file.exists() => Ok(Self {
                report: here().await.context(error)?,
                cold: Some(config.file.clone()),
                loaded,
            }),
            Err(error) => Err(error),
        }
    }

    /// What people are told first where no gateway was asked.
    pub(in crate::cli) fn caution(&self) -> Option<String> {
        let file = self.cold.as_ref()?.display();
        Some(match self.loaded {
            true => format!("This is what {file} loads here. It tells nothing about a running gateway:"),
            false => format!("No gateway answers. This is what {file} would load:"),
        })
    }

    /// The contract's word for where it is from.
    pub(in crate::cli) fn source(&self) -> &'static str {
        match self.cold {
            Some(_) => "configuration",
            None => "gateway",
        }
    }
}
