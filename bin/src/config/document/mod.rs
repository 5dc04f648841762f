//! The shape of `understudy.yaml`: `config show` writes it, `config schema` describes it.
//!
//! Reading does not go through it: deserialization would end at the first mistake. That both know the same keys is a
//! test of the schema. The doc comments here are the descriptions that the schema gives to editors.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use understudy_messages::ids::Name;
use understudy_messages::settings::{Api, BrokenStream, ContentFilter, KeyOrder, MalformedFrame};

pub(crate) use defaults::{Defaults, Listen, Log, State};
pub(crate) use plugins::{EngineLimits, Grants, HookAccess, Plugin, Plugins, Slots};
pub(crate) use scalar::{Attempts, Bytes, Count, Flag, HIDDEN, Retries, Secret, Status, Time, Word};

mod defaults;
mod plugins;
mod scalar;

/// The configuration of an Understudy gateway. `${NAME}` in a value stands for an environment variable.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, title = "understudy.yaml")]
pub(crate) struct Document {
    /// Where the gateway listens.
    #[schemars(default)]
    pub(crate) listen: Listen,
    /// Who is asked, by the name that `provider/model` begins with.
    pub(crate) providers: Entries<Provider>,
    /// Names that clients may ask for and the chain behind each; `provider/model` describes a single model.
    #[schemars(default, schema_with = "models")]
    pub(crate) models: Models,
    /// Who speaks, with which models. A request that names no agent gets the one named `default`, else the first.
    #[schemars(default)]
    pub(crate) agents: Entries<Agent>,
    /// The plugins: where they are found, which are loaded, and what they may do.
    #[schemars(default)]
    pub(crate) plugins: Plugins,
    /// What holds unless an agent or a model says otherwise.
    #[schemars(default)]
    pub(crate) defaults: Defaults,
    /// The keys that clients may present; without any, none is asked for.
    #[schemars(default)]
    pub(crate) client_keys: Vec<Secret>,
    /// The token that the admin listener asks for; required when it is not on loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) admin_token: Option<Secret>,
    /// What is logged, and how.
    #[schemars(default)]
    pub(crate) log: Log,
    /// What outlives the process, and where.
    #[schemars(default)]
    pub(crate) state: State,
}

/// One provider.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Provider {
    /// The wire format; may be left out for a provider named `openai`, `anthropic` or `gemini`.
    pub(crate) api: Option<Word<Api>>,
    /// The address that comes before `/chat/completions`, `/responses`, `/messages` or `/models`; may be left out for a
    /// provider named `openai`, `anthropic` or `gemini`.
    pub(crate) base_url: Option<String>,
    /// Its only credential. Instead of `api_keys`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) api_key: Option<Secret>,
    /// Its credentials in the order in which they are tried. Instead of `api_key`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub(crate) api_keys: Vec<Secret>,
    /// The models that it serves; any other name is then unknown. Without it every name passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) models: Option<Vec<Name>>,
    /// Whether it passes requests on to many providers: what rests is then the single model.
    #[schemars(default)]
    pub(crate) aggregator: Flag,
    /// Members of one group draw on one account and rest together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) quota_group: Option<Name>,
    /// In which order credentials are used.
    #[schemars(default)]
    pub(crate) key_order: Word<KeyOrder>,
    /// Whether streams are asked for the usage that the client did not ask for.
    #[schemars(default)]
    pub(crate) ask_usage: Flag,
    /// Whether, and how often, the provider itself is asked which models it serves; what it lists then serves beside `models`.
    #[schemars(default)]
    pub(crate) catalog: Catalog,
}

/// The provider's own list of its models.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(deny_unknown_fields)]
pub(crate) enum Catalog {
    /// `true`: it is asked every hour; `false`: never.
    Switch(Flag),
    /// It is asked as often as this.
    Every {
        /// How long a list is good; at least a minute.
        #[schemars(default = "an_hour")]
        refresh: Time,
    },
}

impl Default for Catalog {
    fn default() -> Self {
        Self::Switch(Flag::default())
    }
}

fn an_hour() -> Time {
    Time(std::time::Duration::from_secs(3600))
}

/// The two kinds of entries in `models`.
#[derive(Default, Serialize)]
pub(crate) struct Models {
    #[serde(flatten)]
    pub(crate) chains: Entries<Chain>,
    #[serde(flatten)]
    pub(crate) known: Entries<Model>,
}

/// The models behind a public name.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Chain {
    /// The models to ask, best first, each written `provider/model`.
    pub(crate) chain: Vec<String>,
}

/// What is known of a single model.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Model {
    /// Its context window in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) context: Option<Count>,
    /// Its own limit for the first content, whatever its place in the chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_content: Option<Time>,
    /// Whether it goes on from an assistant message that stands last; without it as its wire format usually does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) prefill: Option<Flag>,
    /// Models with the same word here have vectors that can be compared; without it those with the same name have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) embedding_space: Option<Name>,
}

/// One agent.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Agent {
    /// `provider/model`, a name from `models`, or a primary with fallbacks.
    pub(crate) model: Cast,
    /// What happens to a stream that breaks after content was delivered: the next candidate goes on from it (`continue`),
    /// nothing is released before the answer is whole (`hold`), or it ends as an error (`error`).
    #[schemars(default)]
    pub(crate) on_broken_stream: Word<BrokenStream>,
    /// What happens when a content filter refuses the prompt.
    #[schemars(default)]
    pub(crate) on_content_filter: Word<ContentFilter>,
    /// What happens to a frame of a stream that cannot be read.
    #[schemars(default)]
    pub(crate) on_malformed_frame: Word<MalformedFrame>,
    /// When to move on beyond the built-in rules.
    #[schemars(default)]
    pub(crate) failover: Failover,
    /// The folder that it works in: plugins read its files there. A relative path begins at the configuration file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<String>,
    /// The plugins that its turns call, by id; without it all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plugins: Option<Vec<Name>>,
}

/// The models of an agent.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(deny_unknown_fields)]
pub(crate) enum Cast {
    /// `provider/model`, asked alone, or a name from `models`.
    One(String),
    /// A model and those that follow it.
    Many {
        /// The model that is asked first.
        primary: String,
        /// The models that follow when it fails; none: it alone is asked.
        #[schemars(default)]
        fallbacks: Vec<String>,
    },
}

/// When to move on beyond the built-in rules.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Failover {
    /// Statuses that move on to the next candidate whatever their reason.
    #[schemars(default)]
    pub(crate) on_status: Vec<Status>,
}

/// A section whose keys are names that its author chose, in listed order.
#[derive(JsonSchema)]
#[schemars(with = "std::collections::BTreeMap<String, T>")]
pub(crate) struct Entries<T>(pub(crate) Vec<(String, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Serialize> Serialize for Entries<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, entry)| (name, entry)))
    }
}

fn models(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "patternProperties": {
            "^[^/]+$": generator.subschema_for::<Chain>(),
            "/": generator.subschema_for::<Model>(),
        },
        "additionalProperties": false,
    })
}
