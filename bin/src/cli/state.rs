//! Where state lies, for those who serve and those who look.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use understudy_actors::state::records::recorded;
use understudy_actors::state::{Inspected, State, StateError, inspect};
use understudy_messages::clock::Clock;
use understudy_plugins::hosts::Hosts;

use crate::config::state::{dir_of, usual_dir};
use crate::config::{ServerConfig, Store};

/// The folder that is named on the command line.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct StateDir {
    /// The folder for what outlives the process; default: `state` of the configuration, else `$STATE_DIRECTORY`, else
    /// `understudy` in `$XDG_STATE_HOME` or `~/.local/state`.
    #[arg(long = "state", value_name = "DIR", env = "UNDERSTUDY_STATE")]
    named: Option<PathBuf>,
}

/// There is no usual place.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no place for state: neither $STATE_DIRECTORY nor $HOME is set: name a folder with --state, or set `state.store: memory`"
)]
struct Nowhere;

impl StateDir {
    /// The folder of a configuration; `None`: memory.
    fn of(&self, config: &ServerConfig) -> anyhow::Result<Option<PathBuf>> {
        if let Some(named) = &self.named {
            return Ok(Some(named.clone()));
        }
        match (config.state.store, &config.state.dir) {
            (Store::Memory, _) => Ok(None),
            (Store::File, Some(dir)) => Ok(Some(dir.clone())),
            (Store::File, None) => Ok(Some(usual().ok_or(Nowhere)?)),
        }
    }

    /// The folder of a configuration that cannot be used: what it says of state counts, where that much can be read.
    pub(super) fn of_a_broken_file(&self, file: &Path) -> Option<PathBuf> {
        let told = || dir_of(&ServerConfig::text_of(file).ok()?, file);
        self.named.clone().or_else(told).or_else(usual)
    }

    /// Takes it.
    pub(super) fn open(&self, config: &ServerConfig, clock: &Clock) -> anyhow::Result<State> {
        let opened: Result<State, StateError> = match self.of(config)? {
            Some(dir) => State::open(&dir, clock),
            None => State::in_memory(),
        };
        Ok(opened?)
    }

    /// Looks at it without taking it: where it is, and what is found; `None` for memory.
    pub(super) fn inspect(&self, file: &Path, hosts: &Hosts) -> anyhow::Result<Option<(PathBuf, Inspected)>> {
        let dir = match ServerConfig::load_hosting(file, hosts) {
            Ok(config) => self.of(&config)?,
            Err(_told_elsewhere) => self.of_a_broken_file(file),
        };
        Ok(dir.map(|dir| {
            let found = inspect(&dir);
            (dir, found)
        }))
    }

    /// What served last, as plugins are reported: their digests. `None` where nothing is written down, or somebody holds it.
    pub(super) fn recorded(&self, file: &Path, hosts: &Hosts) -> Option<Value> {
        let dir = self.of(&ServerConfig::load_hosting(file, hosts).ok()?).ok()??;
        let plugins = recorded(&dir).ok()?.into_iter().map(|(id, captured)| {
            json!({ "id": id, "digest": captured.digest, "generation": captured.generation, "at": captured.at,
                "status": "recorded", "enabled": true })
        });
        Some(json!({ "plugins": plugins.collect::<Vec<_>>() }))
    }
}

fn usual() -> Option<PathBuf> {
    usual_dir(&|name| std::env::var(name).ok())
}
