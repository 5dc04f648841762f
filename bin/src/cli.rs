//! The command line. Exit codes: 0 fine, 1 a finding, 2 usage or unreachable.

mod admin;
mod config;
mod demo;
mod doctor;
mod load;
mod log;
mod output;
mod plugins;
mod providers;
mod serve;
mod sessions;
mod signals;
mod sim;
mod state;
mod status;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use understudy_plugins::hosts::Hosts;

use crate::plugins::standard_hosts;

/// An agent gateway: when the lead model fails, the next one answers, knowing its lines.
#[derive(Debug, Parser)]
#[command(name = "understudy", version, propagate_version = true)]
struct Cli {
    /// Print JSON for programs instead of text for people.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway.
    Serve(serve::Args),
    /// Run simulated upstreams that misbehave by script.
    Sim(sim::Args),
    /// Run simulator and gateway together, drive sessions through an outage, and check every number.
    Demo(demo::Args),
    /// Put a gateway under load, check every answer, and tell what it takes.
    Load(load::Args),
    /// Ask a running gateway what it is doing.
    Status(status::Args),
    /// Look at plugins and replace them.
    #[command(subcommand)]
    Plugins(plugins::Command),
    /// Ask providers for what they serve.
    #[command(subcommand)]
    Providers(providers::Command),
    /// Say what is wrong with a gateway, and mend what is safe to mend.
    Doctor(doctor::Args),
    /// Look at sessions, and carry them from one gateway to another.
    #[command(subcommand)]
    Sessions(sessions::Command),
    /// Copy what outlives the process, and look at a copy.
    #[command(subcommand)]
    State(state::Command),
    /// Work on configuration files.
    #[command(subcommand)]
    Config(config::Command),
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    /// As it should.
    Fine,
    /// It worked, and found something wrong.
    Finding,
    /// It could not do its work.
    Unusable,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Fine => Self::SUCCESS,
            Exit::Finding => Self::from(1),
            Exit::Unusable => Self::from(2),
        }
    }
}

/// The whole command line, so that what is written about it can be checked against it.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Parses the process's arguments and runs the command.
pub fn main() -> ExitCode {
    main_hosting(standard_hosts())
}

/// As [`main`], for a program of one's own: `serve` has these hosts, and the plugins that are compiled into them.
pub fn main_hosting(hosts: Hosts) -> ExitCode {
    let cli = Cli::parse();
    crate::install_tls();
    let runner = actix::System::with_tokio_rt(crate::shared_runtime);
    let result = runner.block_on(run(cli.command, cli.json, hosts));
    let exit = result.unwrap_or_else(|error| {
        output::complain(&error, cli.json);
        Exit::Unusable
    });
    exit.into()
}

async fn run(command: Command, json: bool, hosts: Hosts) -> anyhow::Result<Exit> {
    match command {
        Command::Serve(args) => serve::run(args, json, &hosts).await,
        Command::Sim(args) => sim::run(args, json).await,
        Command::Demo(args) => demo::run(args, json).await,
        Command::Load(args) => load::run(args, json).await,
        Command::Status(args) => status::run(args, json).await,
        Command::Plugins(command) => plugins::run(command, json, &hosts).await,
        Command::Providers(command) => providers::run(command, json).await,
        Command::Doctor(args) => doctor::run(args, json, &hosts).await,
        Command::Sessions(command) => sessions::run(command, json, &hosts).await,
        Command::State(command) => state::run(command, json, &hosts).await,
        Command::Config(command) => config::run(command, json, &hosts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
