//! `understudy config`: look at a configuration without running it.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use understudy_plugins::hosts::Hosts;

use super::{Exit, output};
use crate::config::{ConfigError, ServerConfig, report, schema, show};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Report every problem of a configuration file at once.
    Check(File),
    /// Show the settings in effect: defaults filled in, secrets hidden.
    Show(File),
    /// Print the JSON Schema of configuration files.
    Schema,
}

#[derive(Debug, clap::Args)]
pub(super) struct File {
    /// The configuration file.
    #[arg(default_value = "understudy.yaml", env = "UNDERSTUDY_CONFIG")]
    file: PathBuf,
}

pub(super) fn run(command: Command, json: bool, hosts: &Hosts) -> anyhow::Result<Exit> {
    match command {
        Command::Check(File { file }) => Ok(check(&file, json, hosts)),
        Command::Show(File { file }) => show(&file, json, hosts),
        Command::Schema => {
            output::say_json(&schema::schema());
            Ok(Exit::Fine)
        }
    }
}

fn check(file: &Path, json: bool, hosts: &Hosts) -> Exit {
    match ServerConfig::load_hosting(file, hosts) {
        Ok(_) => {
            let name = file.display().to_string();
            match json {
                true => output::say_json(&report::as_json(&name, Ok(()))),
                false => output::say(&format!("{name}: no problems")),
            }
            Exit::Fine
        }
        Err(error) => refuse(file, &error, json),
    }
}

fn show(file: &Path, json: bool, hosts: &Hosts) -> anyhow::Result<Exit> {
    match ServerConfig::load_hosting(file, hosts) {
        Ok(config) => {
            let text = match json {
                true => show::as_json(&config)?,
                false => show::as_yaml(&config)?,
            };
            output::say(&text);
            Ok(Exit::Fine)
        }
        Err(error) => Ok(refuse(file, &error, json)),
    }
}

fn refuse(file: &Path, error: &ConfigError, json: bool) -> Exit {
    let name = file.display().to_string();
    match json {
        true => output::say_json(&report::as_json(&name, Err(error))),
        false => output::say(report::for_people(&name, error).trim_end()),
    }
    match error {
        ConfigError::Invalid(_) => Exit::Finding,
        ConfigError::Unreadable(_) => Exit::Unusable,
    }
}
