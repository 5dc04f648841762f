//! `plugins`: where they are found, which are loaded, and what they may do.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use understudy_messages::hooks::{HOOKS, Hook};
use understudy_messages::ids::Name;
use understudy_messages::settings::{
    HookSettings, PluginEntry, PluginGrants, PluginLimits, PluginSlots, PluginsSettings,
};

use super::providers::refuse_repeated;
use crate::config::field::Field;
use crate::config::suggestion;

/// The longest that a handler may be given.
const LONGEST: Duration = Duration::from_secs(600);
/// The longest that an instance may take to load.
const LONGEST_LOAD: Duration = Duration::from_secs(30);

pub(super) fn plugins(field: &Field<'_>) -> PluginsSettings {
    let mut settings = PluginsSettings::default();
    field.section(|keys| {
        settings.enabled = keys.key("enabled").flag().unwrap_or(settings.enabled);
        let paths = keys.key("load_paths").items();
        settings.load_paths = paths.iter().filter_map(required_folder).collect();
        settings.allow = ids(&keys.key("allow"));
        settings.deny = ids(&keys.key("deny"));
        settings.slots = slots(&keys.key("slots"));
        for (id, entry) in keys.key("entries").entries() {
            settings.entries.insert(id, self::entry(&entry));
        }
    });
    settings
}

/// A folder, where one is named.
pub(super) fn folder(field: &Field<'_>) -> Option<PathBuf> {
    (!field.is_absent()).then(|| required_folder(field)).flatten()
}

fn required_folder(field: &Field<'_>) -> Option<PathBuf> {
    let text = field.required_text("write the path of a folder")?;
    Some(PathBuf::from(text.value))
}

/// A list of plugins, each named once.
pub(super) fn ids(field: &Field<'_>) -> Vec<Name> {
    let mut ids: Vec<Name> = Vec::new();
    for item in field.items() {
        let Some(text) = item.required_text("write the id of a plugin, or remove the item") else {
            continue;
        };
        refuse_repeated(&item, &text, !ids.iter().any(|id| id.eq_ignore_ascii_case(&text.value)));
        ids.push(text.value.into());
    }
    ids
}

fn slots(field: &Field<'_>) -> PluginSlots {
    let mut slots = PluginSlots::default();
    field.section(|keys| {
        let engine = keys.key("contextEngine");
        let named = (!engine.is_absent()).then(|| engine.required_text("write the id of a plugin, or remove the key"));
        slots.context_engine = named.flatten().map(|id| id.value.into());
    });
    slots
}

fn entry(field: &Field<'_>) -> PluginEntry {
    let mut entry = PluginEntry::default();
    field.section(|keys| {
        entry.enabled = keys.key("enabled").flag();
        entry.required = keys.key("required").flag();
        entry.config = keys.key("config").own_settings();
        entry.hooks = hooks(&keys.key("hooks"));
        entry.grants = grants(&keys.key("grants"));
        entry.limits = limits_of(&keys.key("limits"));
    });
    entry
}

fn grants(field: &Field<'_>) -> PluginGrants {
    let mut grants = PluginGrants::default();
    field.section(|keys| {
        let origins = keys.key("fetch").items();
        grants.fetch = origins.iter().filter_map(origin).collect();
    });
    grants
}

/// An origin, written in one way; `*` is any.
fn origin(field: &Field<'_>) -> Option<String> {
    let fix = "write an origin, https://api.example.com, or `*` for any";
    let text = field.required_text(fix)?;
    if text.value == "*" {
        return Some(text.value);
    }
    let plain = |url: &Url| {
        let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let named = url.host_str().is_some_and(|host| !host.contains('*'));
        bare && named
            && url.username().is_empty()
            && url.password().is_none()
            && matches!(url.scheme(), "http" | "https")
    };
    match Url::parse(&text.value).ok().filter(plain) {
        Some(url) => Some(url.origin().ascii_serialization()),
        None => {
            // not shown: what stands before an @ may be a credential
            field.refuse("is no origin", fix);
            None
        }
    }
}

fn limits_of(field: &Field<'_>) -> PluginLimits {
    let mut limits = PluginLimits::default();
    field.section(|keys| {
        limits.memory = keys.key("memory").size();
        let load = keys.key("load");
        limits.load = load.duration();
        if limits.load.is_some_and(|limit| limit > LONGEST_LOAD) {
            load.refuse("is longer than a plugin may take to register", "give it at most 30s");
        }
    });
    limits
}

fn hooks(field: &Field<'_>) -> HookSettings {
    let mut hooks = HookSettings::default();
    field.section(|keys| {
        hooks.conversation = keys.key("allowConversationAccess").flag();
        hooks.injection = keys.key("allowPromptInjection").flag();
        hooks.timeout = limit(&keys.key("timeout"));
        hooks.timeouts = limits(&keys.key("timeouts"));
    });
    hooks
}

fn limits(field: &Field<'_>) -> BTreeMap<Hook, Duration> {
    let mut limits = BTreeMap::new();
    for (name, entry) in field.entries() {
        match Hook::parse(&name) {
            Ok(hook) => limits.extend(limit(&entry).map(|limit| (hook, limit))),
            Err(why) => entry.refuse(
                format!("is no hook: {why}"),
                suggestion::instead_of(&name, HOOKS.iter().map(|row| row.name)),
            ),
        }
    }
    limits
}

fn limit(field: &Field<'_>) -> Option<Duration> {
    let limit = field.duration()?;
    if limit > LONGEST {
        field.refuse("is longer than ten minutes", "give a handler at most 10m");
    }
    Some(limit)
}
