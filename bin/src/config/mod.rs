//! `understudy.yaml` and the environment, read into settings that are valid as a whole or not at all.
//!
//! Reading never stops at the first mistake: every problem is collected, with its place and a way out. Nothing is bound or
//! contacted here, and nothing opened but manifests of plugins, where a chain names a provider that only one of these may know.

use std::fs::File;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path as FilePath;
use std::sync::Arc;

use secrecy::SecretString;
use tracing::level_filters::LevelFilter;
use understudy_messages::settings::{AgentSettings, Settings};
use understudy_plugins::hosts::Hosts;

use compiled::Compiled;
use field::Reading;
pub use problem::Problem;
use source::Source;
pub use state::{StateSettings, Store};

pub(crate) mod compiled;
pub(crate) mod document;
pub(crate) mod edit;
mod environment;
pub(crate) mod field;
mod path;
mod problem;
pub(crate) mod quantity;
pub(crate) mod raw;
pub mod report;
pub(crate) mod restart;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod source;
pub(crate) mod state;
mod substitution;
mod suggestion;
mod unsupported;
mod validate;
pub(crate) mod words;
mod yaml;

#[cfg(test)]
mod tests;

/// Where the value of an environment variable comes from; tests bring their own.
pub type Environment<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Everything that `serve` needs to know before it starts.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What generations are built from.
    pub settings: Settings,
    /// Where clients connect.
    pub api: SocketAddr,
    /// Where operators and Prometheus connect.
    pub admin: SocketAddr,
    /// The keys that clients may present, in listed order; empty: no key is asked for.
    pub client_keys: Vec<SecretString>,
    /// The token that the admin listener asks for. Always there when that listener leaves loopback (design §9).
    pub admin_token: Option<SecretString>,
    /// What is logged, and how.
    pub log: LogSettings,
    /// What outlives the process, and where.
    pub state: StateSettings,
    /// What it was read from.
    pub(crate) source: Source,
}

/// What is logged, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The least severe level that is written.
    pub level: LevelFilter,
    /// The shape of a line.
    pub format: LogFormat,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            level: LevelFilter::INFO,
            format: LogFormat::Pretty,
        }
    }
}

/// The shape of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// Why there is no configuration to run with.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration file cannot be read")]
    Unreadable(#[source] io::Error),
    /// It was read and is wrong; never an empty list.
    #[error("the configuration is not valid (problems: {})", .0.len())]
    Invalid(Vec<Problem>),
}

impl ServerConfig {
    /// Where clients connect unless `listen.api` says otherwise.
    const API: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4242);
    /// Where operators connect unless `listen.admin` says otherwise.
    const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4243);
    /// The largest file that is read, in bytes: a mistaken path must not fill the memory.
    pub(crate) const MAX_FILE: u64 = 1 << 20;

    /// Reads and checks a configuration file, with the variables of this process.
    ///
    /// # Errors
    /// [`ConfigError::Unreadable`] when the file is missing, forbidden, not UTF-8 or larger than 1 MiB;
    /// [`ConfigError::Invalid`] with every problem found in it.
    pub fn load(path: &FilePath) -> Result<Self, ConfigError> {
        Self::load_knowing(path, &Compiled::default())
    }

    /// As [`ServerConfig::load`], for an app with these hosts: it may name providers that plugins which are compiled into them
    /// declare in their manifests.
    ///
    /// # Errors
    /// As [`ServerConfig::load`].
    pub fn load_hosting(path: &FilePath, hosts: &Hosts) -> Result<Self, ConfigError> {
        Self::load_knowing(path, &Compiled::of(hosts))
    }

    pub(crate) fn load_knowing(path: &FilePath, compiled: &Compiled) -> Result<Self, ConfigError> {
        let text = Self::text_of(path).map_err(ConfigError::Unreadable)?;
        Self::read(&text, Some(path), compiled)
    }

    /// What stands in a configuration file.
    pub(crate) fn text_of(path: &FilePath) -> io::Result<String> {
        read_bounded(path, Self::MAX_FILE)
    }

    /// Checks the text of a file, or text that belongs to none, with the variables of this process.
    pub(crate) fn read(text: &str, file: Option<&FilePath>, compiled: &Compiled) -> Result<Self, ConfigError> {
        let folder = file.map(|file| file.parent().unwrap_or(file));
        let mut config = Self::parse_in(folder, text, &|name| std::env::var(name).ok(), compiled)?;
        if let (Some(file), Some(folder)) = (file, folder) {
            config.begin_paths_at(folder);
            config.source.file = Some(file.into());
        }
        Ok(config)
    }

    /// Makes relative paths in the settings begin at `folder`, the one of the file.
    fn begin_paths_at(&mut self, folder: &FilePath) {
        if let Some(dir) = &mut self.state.dir {
            *dir = folder.join(&dir);
        }
        let settings = &mut self.settings;
        for path in &mut settings.plugins.load_paths {
            *path = folder.join(&path);
        }
        for agent in &mut settings.agents {
            if let Some(workspace) = &agent.workspace {
                let workspace = Some(folder.join(workspace));
                *agent = Arc::new(AgentSettings {
                    workspace,
                    ..(**agent).clone()
                });
            }
        }
    }

    /// Checks a configuration given as text.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with every problem, in the order of their lines; a YAML syntax error comes alone.
    pub fn parse(text: &str, env: &Environment<'_>) -> Result<Self, ConfigError> {
        Self::parse_in(None, text, env, &Compiled::default())
    }

    /// As [`ServerConfig::parse`], for an app with these hosts: see [`ServerConfig::load_hosting`].
    ///
    /// # Errors
    /// As [`ServerConfig::parse`].
    pub fn parse_hosting(text: &str, env: &Environment<'_>, hosts: &Hosts) -> Result<Self, ConfigError> {
        Self::parse_in(None, text, env, &Compiled::of(hosts))
    }

    fn parse_in(
        folder: Option<&FilePath>,
        text: &str,
        env: &Environment<'_>,
        compiled: &Compiled,
    ) -> Result<Self, ConfigError> {
        let root = raw::parse(text)?;
        let reading = Reading::new(env, folder, compiled);
        let mut config = validate::server(&reading.root(&root));
        config.source.text = text.into();
        config.source.compiled = compiled.clone();
        let problems = reading.into_problems();
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(ConfigError::Invalid(problems))
        }
    }

    /// A configuration from the keys of OpenAI, Anthropic and Gemini that are set, each a provider with one model, asked in
    /// this order; `None` when none is set.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] when a variable has an unusable value.
    pub fn from_environment(env: &Environment<'_>) -> Result<Option<Self>, ConfigError> {
        environment::read(env)
    }
}

fn read_bounded(path: &FilePath, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(limit + 1).read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok(text)
}
