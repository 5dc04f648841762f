//! Where state lies, for those who serve and those who look.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;
use serde_json::{Value, json};
use understudy_actors::session::store::{SESSION_TABLES, check};
use understudy_actors::state::records::recorded;
use understudy_actors::state::{Inspected, State, StateError, backup, check as check_file, inspect};
use understudy_messages::clock::Clock;
use understudy_plugins::hosts::Hosts;

use super::admin::Admin;
use super::plugins::ConfigFile;
use super::{Exit, output};
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

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Copy everything that outlives the process as it is at one moment, while the gateway goes on.
    Backup {
        /// Where to. A file that is there stays, unless --force is said.
        #[arg(value_name = "FILE")]
        to: PathBuf,
        /// Replace what is there.
        #[arg(long)]
        force: bool,
        /// Copy from the state directory itself: no gateway may have it.
        #[arg(long)]
        offline: bool,
        #[command(flatten)]
        config: ConfigFile,
        #[command(flatten)]
        state: StateDir,
        #[command(flatten)]
        admin: Admin,
    },
    /// Look at a copy, or at the file of a state directory that nobody has, and leave it as it is.
    Check {
        /// The file.
        file: PathBuf,
    },
}

pub(super) async fn run(command: Command, json: bool, hosts: &Hosts) -> anyhow::Result<Exit> {
    match command {
        Command::Check { file } => looked_at(&file, json),
        Command::Backup {
            to: file,
            force,
            offline,
            config,
            state,
            admin,
        } => {
            let there = file.exists() && !force;
            anyhow::ensure!(!there, "{} is there: name another file, or say --force", file.display());
            match offline {
                true => {
                    let state = state.open(&config.whole(hosts)?, &Clock::real())?;
                    let copied = backup(&state, &file, &SESSION_TABLES);
                    state.close();
                    copied?;
                }
                false => fetch(&admin, &file).await?,
            }
            looked_at(&file, json)
        }
    }
}

/// Has a running gateway make a copy.
async fn fetch(admin: &Admin, file: &Path) -> anyhow::Result<()> {
    let part = file.with_extension("part");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let unwritable = || format!("{} cannot be written", part.display());
    let mut to = options.open(&part).with_context(unwritable)?;
    let fetched = admin.fetch("/admin/v1/state/backup", &mut to).await;
    let whole = match fetched {
        Ok(Ok(_bytes)) => to
            .sync_all()
            .and_then(|()| fs::rename(&part, file))
            .with_context(unwritable),
        Ok(Err((status, body))) => {
            let said: Value = serde_json::from_slice(&body).unwrap_or_default();
            let why = said["error"]["message"].as_str().unwrap_or("no copy was made");
            Err(anyhow::anyhow!("the gateway answered {status}: {why}"))
        }
        Err(error) => Err(error),
    };
    if whole.is_err() {
        let _gone = fs::remove_file(&part);
    }
    whole
}

/// Says what is in a file.
fn looked_at(file: &Path, json: bool) -> anyhow::Result<Exit> {
    anyhow::ensure!(file.exists(), "{} does not exist", file.display());
    let Some(found) = check_file(file, check)? else {
        let text = "it was not closed in order, is cut short, or somebody has it: no whole copy is like this, and of a gateway's own file its next start tells which";
        match json {
            true => output::say_json(&json!({ "file": file, "closed": false })),
            false => output::say(&format!("{}: {text}", file.display())),
        }
        return Ok(Exit::Finding);
    };
    match json {
        true => output::say_json(
            &json!({ "file": file, "closed": true, "sessions": found.sessions, "responses": found.responses,
                "damaged": found.damaged }),
        ),
        false => output::say(&format!(
            "{}: {} sessions and {} responses, {} of them damaged",
            file.display(),
            found.sessions,
            found.responses,
            found.damaged
        )),
    }
    Ok(if found.damaged == 0 { Exit::Fine } else { Exit::Finding })
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
