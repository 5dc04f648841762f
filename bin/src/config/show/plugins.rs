//! `plugins` as it is shown.

use serde_json::Value;
use understudy_messages::settings::{HookSettings, PluginEntry, PluginGrants, PluginLimits, PluginsSettings};

use super::{entries, ids, path};
use crate::config::document::{Bytes, EngineLimits, Flag, Grants, HookAccess, Plugin, Plugins, Slots, Time};

pub(super) fn plugins(plugins: &PluginsSettings) -> Plugins {
    Plugins {
        enabled: Flag(plugins.enabled),
        load_paths: plugins.load_paths.iter().map(|folder| path(folder)).collect(),
        allow: ids(&plugins.allow),
        deny: ids(&plugins.deny),
        slots: Slots {
            context_engine: plugins.slots.context_engine.clone(),
        },
        entries: entries(&plugins.entries, plugin),
    }
}

fn plugin(entry: &PluginEntry) -> Plugin {
    Plugin {
        enabled: entry.enabled.map(Flag),
        required: entry.required.map(Flag),
        config: entry.config.as_ref().map(|config| without_secrets(&config.written)),
        hooks: hooks(&entry.hooks),
        grants: (entry.grants != PluginGrants::default()).then(|| Grants {
            fetch: entry.grants.fetch.clone(),
        }),
        limits: (entry.limits != PluginLimits::default()).then(|| EngineLimits {
            memory: entry.limits.memory.map(Bytes),
            load: entry.limits.load.map(Time),
        }),
    }
}

fn hooks(hooks: &HookSettings) -> HookAccess {
    HookAccess {
        conversation: hooks.conversation.map(Flag),
        injection: hooks.injection.map(Flag),
        timeout: hooks.timeout.map(Time),
        timeouts: entries(
            hooks.timeouts.iter().map(|(hook, limit)| (hook.as_label(), limit)),
            |limit| Time(*limit),
        ),
    }
}

/// References to variables stay references; text behind a key that names a secret is hidden.
fn without_secrets(written: &Value) -> Value {
    match written {
        Value::Object(entries) => {
            let shown = entries.iter().map(|(key, value)| match value {
                Value::String(text) if names_a_secret(key) && !text.contains("${") => (key.clone(), "***".into()),
                value => (key.clone(), without_secrets(value)),
            });
            Value::Object(shown.collect())
        }
        Value::Array(items) => items.iter().map(without_secrets).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => written.clone(),
    }
}

fn names_a_secret(key: &str) -> bool {
    const WORDS: [&str; 5] = ["key", "token", "secret", "password", "credential"];
    let key = key.to_ascii_lowercase();
    WORDS.iter().any(|word| key.contains(word))
}
