//! `understudy config`: check a configuration without running it.

use std::path::PathBuf;

use clap::Subcommand;

use super::{Exit, output};
use crate::config::{ServerConfig, report};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Report every problem of a configuration file at once.
    Check {
        /// The file.
        #[arg(default_value = "understudy.yaml")]
        file: PathBuf,
    },
}

pub(super) fn run(command: Command, json: bool) -> anyhow::Result<Exit> {
    let Command::Check { file } = command;
    let name = file.display().to_string();
    let checked = ServerConfig::load(&file);
    let problems = checked.as_ref().map(|_| ());
    match (json, problems) {
        (true, problems) => output::say_json(&report::as_json(&name, problems)),
        (false, Ok(())) => output::say(&format!("{name}: no problems")),
        (false, Err(error)) => output::say(report::for_people(&name, error).trim_end()),
    }
    Ok(match checked {
        Ok(_) => Exit::Fine,
        Err(crate::config::ConfigError::Invalid(_)) => Exit::Finding,
        Err(crate::config::ConfigError::Unreadable(_)) => Exit::Unusable,
    })
}
