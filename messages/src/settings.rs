//! Validated settings: what a generation is built from. `bin` reads them, everyone else is given them.

mod plugins;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

pub use self::plugins::{
    HookSettings, PluginConfig, PluginEntry, PluginGrants, PluginLimits, PluginSlots, PluginsSettings,
};
use crate::ids::{ModelRef, Name};

/// Everything that a generation serves from. Valid by construction: every reference resolves, except that chains may name
/// providers which a plugin declares.
#[derive(Clone, Debug, PartialEq)]
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
    /// When the same model is asked again.
    pub retry: RetrySettings,
    /// When a model is left alone.
    pub breaker: BreakerSettings,
    /// Sizes and counts that are refused beyond.
    pub limits: Limits,
    /// The plugins.
    pub plugins: PluginsSettings,
}

impl Settings {
    /// Every model that configuration names somewhere, each once, in order. Only these are labels of their own.
    pub fn listed(&self) -> Vec<ModelRef> {
        let chains = self.aliases.values().flatten();
        let speakers = self.agents.iter().flat_map(|agent| agent.chain());
        let catalog = self.providers.values().flat_map(|provider| {
            let names = provider.models.iter().flatten();
            names.map(|model| ModelRef::new(provider.name.clone(), model.clone()))
        });
        let named = chains.chain(speakers).chain(self.models.keys()).cloned();
        let listed: BTreeSet<ModelRef> = named.chain(catalog).collect();
        listed.into_iter().collect()
    }
}

/// The wire format that a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// OpenAI chat completions, from OpenAI or anyone compatible.
    OpenaiChat,
    /// OpenAI Responses.
    OpenaiResponses,
    /// Anthropic Messages.
    AnthropicMessages,
    /// Gemini's generateContent.
    Gemini,
}

impl Api {
    /// Every wire format.
    pub const ALL: [Self; 4] = [
        Self::OpenaiChat,
        Self::OpenaiResponses,
        Self::AnthropicMessages,
        Self::Gemini,
    ];

    /// As the configuration spells it.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::AnthropicMessages => "anthropic-messages",
            Self::Gemini => "gemini",
        }
    }
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
    /// Whether it passes requests on to many providers: its windows then belong to single models.
    pub aggregator: bool,
    /// Members of one group share their windows: they draw on one account.
    pub quota_group: Option<Name>,
    /// In which order credentials are used.
    pub key_order: KeyOrder,
    /// Whether streams are asked for usage that the client did not ask for.
    pub ask_usage: bool,
    /// How long a list of its models is good, where it is asked for one; `None`: it is never asked.
    pub catalog: Option<Duration>,
    /// How many attempts it is asked for at one time; `None`: as many as there are.
    pub bound: Option<Bound>,
}

/// How many there may be at one time, and how many more may wait to be, for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The most at one time.
    pub most: usize,
    /// The most that wait.
    pub queue: usize,
    /// How long each of them does.
    pub wait: Duration,
}

impl Bound {
    /// The bound of a provider of which only `most` is said.
    pub const fn of_provider(most: usize) -> Self {
        Self {
            most,
            queue: 100,
            wait: Duration::from_secs(5),
        }
    }
}

impl ProviderSettings {
    /// A provider that asks for no credential and of which nothing else is said.
    pub const fn new(name: Name, api: Api, base_url: String) -> Self {
        Self {
            name,
            api,
            base_url,
            api_keys: Vec::new(),
            models: None,
            aggregator: false,
            quota_group: None,
            key_order: KeyOrder::Listed,
            ask_usage: false,
            catalog: None,
            bound: None,
        }
    }
}

impl PartialEq for ProviderSettings {
    /// Credentials count too: a provider with another key is another one.
    fn eq(&self, other: &Self) -> bool {
        let Self {
            name,
            api,
            base_url,
            api_keys,
            models,
            aggregator,
            quota_group,
            key_order,
            ask_usage,
            catalog,
            bound,
        } = self;
        let keys = api_keys.iter().map(ExposeSecret::expose_secret);
        (name, api, base_url, models) == (&other.name, &other.api, &other.base_url, &other.models)
            && (aggregator, quota_group, key_order) == (&other.aggregator, &other.quota_group, &other.key_order)
            && (ask_usage, catalog, bound) == (&other.ask_usage, &other.catalog, &other.bound)
            && keys.eq(other.api_keys.iter().map(ExposeSecret::expose_secret))
    }
}

/// In which order a provider's credentials are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyOrder {
    /// As listed: the next one only when those before are resting.
    #[default]
    Listed,
    /// The one that was used least.
    LeastUsed,
}

/// What is known of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelSettings {
    /// Its context window in tokens.
    pub context: Option<u64>,
    /// Its own limit for the first content, whatever its place in the chain.
    pub first_content: Option<Duration>,
    /// Whether it goes on from an assistant message that stands last; `None`: as its wire format usually does, until a
    /// refusal tells otherwise.
    pub prefill: Option<bool>,
    /// Whose vectors its own can be compared with; `None`: those of models with the same name.
    pub embedding_space: Option<Name>,
}

/// What may be done when a stream breaks after content was delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrokenStream {
    /// End with a protocol-right error.
    Error,
    /// Let nothing out before the answer is whole, so that there is nothing to break.
    Hold,
    /// Let the next candidate go on from what was delivered.
    #[default]
    Continue,
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
    /// What happens when a content filter refuses the prompt.
    pub on_content_filter: ContentFilter,
    /// What happens to a frame that cannot be read.
    pub on_malformed_frame: MalformedFrame,
    /// Statuses that move on to the next candidate whatever their reason.
    pub failover_on_status: Vec<u16>,
    /// The folder that it works in: plugins read its files there.
    pub workspace: Option<PathBuf>,
    /// The plugins that its turns call; `None`: all.
    pub plugins: Option<Vec<Name>>,
    /// The most of its turns at one time; `None`: as many as the gateway takes.
    pub max_concurrent: Option<usize>,
}

/// What happens to a frame of a provider's stream that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MalformedFrame {
    /// It is left out and counted.
    #[default]
    Skip,
    /// The attempt fails.
    Fail,
}

/// What happens when a provider's content filter refuses the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentFilter {
    /// The client is told: the filter is about the prompt.
    #[default]
    Surface,
    /// One candidate of another provider is asked; if that refuses too, the client is told what the first one said.
    Next,
}

impl AgentSettings {
    /// The models that may speak, in the order in which they are asked.
    pub fn chain(&self) -> impl Iterator<Item = &ModelRef> {
        std::iter::once(&self.primary).chain(&self.fallbacks)
    }
}

/// Limits of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionSettings {
    /// How long a turn may wait behind another of its session.
    pub queue_wait: Duration,
    /// How long a session without work stays in memory.
    pub idle: Duration,
    /// How long it is kept at all after its last turn.
    pub ttl: Duration,
    /// When a turn counts as kept.
    pub durability: Durability,
    /// How often turns are made durable together where nobody waits for it.
    pub interval: Duration,
    /// How much of all transcripts may be in memory, in bytes.
    pub resident: usize,
    /// How many sessions are kept, and how many responses that requests may go on from.
    pub most: usize,
    /// How much they take on disk together, in bytes.
    pub disk: usize,
}

/// When a turn counts as kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is on the disk: before that its client reads no end.
    #[default]
    Turn,
    /// At once; it is on the disk a little later.
    Interval,
    /// Sessions end with the process.
    Off,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            queue_wait: Duration::from_secs(30),
            idle: Duration::from_secs(30 * 60),
            ttl: Duration::from_secs(30 * 24 * 60 * 60),
            durability: Durability::Turn,
            interval: Duration::from_secs(1),
            resident: 256 << 20,
            most: 10_000_000,
            disk: 10 << 30,
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

/// When the same model is asked again (design §6, row "Same-model retry").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySettings {
    /// The longest wait that a rate limit may ask for and still be waited out while a later candidate is usable.
    pub short_wait: Duration,
    /// The longest wait that is begun at all.
    pub max_wait: Duration,
    /// The first backoff; it doubles up to 8 s.
    pub backoff: Duration,
    /// Extra tries after the first, for every candidate; `None`: by reason and place.
    pub max_per_target: Option<u32>,
    /// Attempts of one turn; `None`: 2 × candidates + 2.
    pub max_total: Option<u32>,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            short_wait: Duration::from_secs(3),
            max_wait: Duration::from_secs(10),
            backoff: Duration::from_millis(500),
            max_per_target: None,
            max_total: None,
        }
    }
}

/// When a model is left alone (design §6, row "Breaker").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failed attempts in a row that open it.
    pub failures: u32,
    /// The first rest; it doubles up to `cap`.
    pub window: Duration,
    /// The longest rest; a `window` larger than it stays at `window`.
    pub cap: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            failures: 3,
            window: Duration::from_secs(10),
            cap: Duration::from_secs(20),
        }
    }
}

/// Sizes and counts that are refused beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest request body, in bytes.
    pub body: usize,
    /// The most turns at one time, those that wait for anything else than a place among these included.
    pub in_flight: usize,
    /// The most turns that wait for a place, among all turns and among those of each agent.
    pub max_queue: usize,
    /// How long each of them does.
    pub queue_wait: Duration,
    /// How long a client may take in nothing of what is sent to it.
    pub unread: Duration,
}

impl Limits {
    /// The bound of so many turns, with the queue that these limits give it.
    pub const fn bound(&self, most: usize) -> Bound {
        Bound {
            most,
            queue: self.max_queue,
            wait: self.queue_wait,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 20_000_000,
            in_flight: 10_000,
            max_queue: 1000,
            queue_wait: Duration::from_secs(1),
            unread: Duration::from_secs(60),
        }
    }
}
