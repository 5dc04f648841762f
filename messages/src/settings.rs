//! Validated settings: what a generation is built from. `bin` reads them, everyone else is given them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

use crate::ids::{ModelRef, Name};

/// Everything that a generation serves from. Valid by construction: every reference resolves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Providers by name.
    pub providers: BTreeMap<Name, Arc<ProviderSettings>>,
    /// Public model names and the chain that stands behind each. Never empty chains.
    pub aliases: BTreeMap<Name, Vec<ModelRef>>,
    /// What is known of single models.
    pub models: BTreeMap<ModelRef, ModelSettings>,
    /// Agents in listed order; never empty.
    pub agents: Vec<Arc<AgentSettings>>,
    /// The agent of a request that names none: an index into `agents`.
    pub default_agent: usize,
    /// Sessions and their queues.
    pub session: SessionSettings,
    /// Time limits of attempts and turns.
    pub timeouts: Timeouts,
    /// Sizes and counts that are refused beyond.
    pub limits: Limits,
}

/// The wire format that a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// OpenAI chat completions, from OpenAI or anyone compatible.
    OpenaiChat,
}

/// One provider.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// Its name in the configuration.
    pub name: Name,
    /// Its wire format.
    pub api: Api,
    /// Where its API lives, without a slash at the end: `https://api.openai.com/v1`.
    pub base_url: String,
    /// Credentials in the order in which they are tried; empty for a provider that asks for none.
    pub api_keys: Vec<SecretString>,
    /// The models that it serves, in listed order; `None`: any name passes.
    pub models: Option<Vec<Name>>,
}

/// What is known of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelSettings {
    /// Its context window in tokens.
    pub context: Option<u64>,
    /// Its own limit for the first content, whatever its place in the chain.
    pub first_content: Option<Duration>,
}

/// What may be done when a stream breaks after content was delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrokenStream {
    /// End with a protocol-right error.
    #[default]
    Error,
}

/// One agent: who speaks, with which models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSettings {
    /// Its name.
    pub name: Name,
    /// The model that is asked first.
    pub primary: ModelRef,
    /// The models that follow; empty = strict.
    pub fallbacks: Vec<ModelRef>,
    /// What happens to a stream that breaks after content.
    pub on_broken_stream: BrokenStream,
}

/// Limits of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// How long a turn may wait behind another of its session.
    pub queue_wait: Duration,
    /// How long a session without work is remembered.
    pub idle: Duration,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            queue_wait: Duration::from_secs(30),
            idle: Duration::from_secs(30 * 60),
        }
    }
}

/// Time limits (design §6, row "Timeouts").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To open a connection.
    pub connect: Duration,
    /// To the first content while a later candidate is usable.
    pub first_content: Duration,
    /// To the first content on the last usable candidate.
    pub first_content_last: Duration,
    /// Between two pieces of content.
    pub idle: Duration,
    /// For a whole non-streaming answer while a later candidate is usable.
    pub whole: Duration,
    /// For a whole non-streaming answer on the last usable candidate.
    pub whole_last: Duration,
    /// For the whole turn.
    pub turn: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_content: Duration::from_secs(30),
            first_content_last: Duration::from_secs(120),
            idle: Duration::from_secs(60),
            whole: Duration::from_secs(120),
            whole_last: Duration::from_secs(600),
            turn: Duration::from_secs(600),
        }
    }
}

/// Sizes and counts that are refused beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest request body, in bytes.
    pub body: usize,
    /// The most turns at one time, those that wait included.
    pub in_flight: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 20_000_000,
            in_flight: 10_000,
        }
    }
}
