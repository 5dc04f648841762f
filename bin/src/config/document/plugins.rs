//! `plugins` as the file writes it.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;
use understudy_messages::hooks::HOOKS;
use understudy_messages::ids::Name;

use super::{Bytes, Entries, Flag, Time};

/// The plugins: where they are found, which are loaded, and what they may do.
#[derive(Serialize, JsonSchema)]
#[schemars(default, deny_unknown_fields)]
pub(crate) struct Plugins {
    /// Whether there are any.
    pub(crate) enabled: Flag,
    /// Folders that hold plugins, or are one. A relative path begins at the configuration file.
    pub(crate) load_paths: Vec<String>,
    /// The only plugins that may be loaded; empty: those that are enabled one by one.
    pub(crate) allow: Vec<Name>,
    /// Plugins that are not loaded whatever else is said.
    pub(crate) deny: Vec<Name>,
    /// Which plugin does what only one can do.
    pub(crate) slots: Slots,
    /// What is said of single plugins, by id.
    pub(crate) entries: Entries<Plugin>,
}

impl Default for Plugins {
    fn default() -> Self {
        Self {
            enabled: Flag(true),
            load_paths: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            slots: Slots::default(),
            entries: Entries::default(),
        }
    }
}

/// What only one plugin can do, and which one does.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Slots {
    /// Whose context engine says what of a session a model is told; without it the built-in one does.
    #[serde(rename = "contextEngine", skip_serializing_if = "Option::is_none")]
    pub(crate) context_engine: Option<Name>,
}

/// One plugin.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Plugin {
    /// Whether it is loaded; without it as the lists and its origin say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) enabled: Option<Flag>,
    /// Whether what it would judge is refused while it is not serving; without it as its manifest says, else if it is a
    /// guard from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) required: Option<Flag>,
    /// Its own settings, as its manifest describes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "any_section")]
    pub(crate) config: Option<Value>,
    /// What its hooks may do.
    #[schemars(default)]
    pub(crate) hooks: HookAccess,
    /// What its code may reach, where its host (`js`) lends it nothing by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub(crate) grants: Option<Grants>,
    /// What its instance may use up, where its host (`js`) bounds that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub(crate) limits: Option<EngineLimits>,
}

/// What the code of a plugin may reach.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Grants {
    /// Origins that it may fetch from, each as `https://api.example.com`; `*`: any.
    #[schemars(default)]
    pub(crate) fetch: Vec<String>,
}

/// What an instance may use up.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct EngineLimits {
    /// The memory of its engine; without it 64 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) memory: Option<Bytes>,
    /// How long loading may take, at most 30s; without it 10s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) load: Option<Time>,
}

/// What the hooks of a plugin may do.
#[derive(Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct HookAccess {
    /// Whether they may see conversations; without it only those of built-in plugins may.
    #[serde(rename = "allowConversationAccess", skip_serializing_if = "Option::is_none")]
    pub(crate) conversation: Option<Flag>,
    /// Whether they may write into prompts; without it they may.
    #[serde(rename = "allowPromptInjection", skip_serializing_if = "Option::is_none")]
    pub(crate) injection: Option<Flag>,
    /// How long each may take, at most ten minutes; without it as the plugin, else the hook says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout: Option<Time>,
    /// How long each may take, by the hook's name.
    #[schemars(default, schema_with = "by_hook")]
    pub(crate) timeouts: Entries<Time>,
}

fn any_section(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": true })
}

fn by_hook(generator: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = HOOKS.iter().map(|row| row.name).collect();
    json_schema!({
        "type": "object",
        "propertyNames": { "enum": names },
        "additionalProperties": generator.subschema_for::<Time>(),
    })
}
