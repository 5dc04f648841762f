//! What settings ask for, so that what waits for it is loaded.

use std::collections::BTreeSet;

use understudy_messages::settings::Settings;

use super::Capability;

/// What settings ask for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Providers that are configured, or that a chain names.
    providers: BTreeSet<String>,
    /// Places in the configuration where something stands.
    paths: BTreeSet<String>,
    /// Whether a chain names a provider that is not configured.
    foreign: bool,
}

impl Asked {
    /// By these settings.
    pub fn of(settings: &Settings) -> Self {
        let listed = settings.listed();
        let named = listed.iter().map(|model| &model.provider);
        let foreign = named.clone().any(|name| !settings.providers.contains_key(name));
        let providers = settings.providers.keys().chain(named).map(ToString::to_string);
        let plugins = &settings.plugins;
        let configured = settings.providers.keys().map(|name| format!("providers.{name}"));
        let chains = settings.aliases.keys().map(|name| format!("models.{name}"));
        let agents = settings.agents.iter().map(|agent| format!("agents.{}", agent.name));
        let entries = plugins.entries.keys().map(|id| format!("plugins.entries.{id}"));
        let slot = plugins
            .slots
            .context_engine
            .iter()
            .map(|_| "plugins.slots.contextEngine".to_owned());
        Self {
            providers: providers.collect(),
            paths: configured
                .chain(chains)
                .chain(agents)
                .chain(entries)
                .chain(slot)
                .collect(),
            foreign,
        }
    }

    pub(super) fn has_provider(&self, name: &str) -> bool {
        self.providers.contains(name)
    }

    /// Whether something stands at a place, or below it.
    pub(super) fn has_path(&self, path: &str) -> bool {
        let is_below = |place: &String| {
            place
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.paths.iter().any(is_below)
    }

    /// Every turn has hooks, and sessions are given tools; providers are wanted where one is named that is not configured.
    pub(super) fn has_capability(&self, capability: &str) -> bool {
        let known = Capability::ALL.into_iter().find(|it| it.as_label() == capability);
        match known {
            Some(Capability::Hook | Capability::Tool) => true,
            Some(Capability::Provider) => self.foreign,
            None => false,
        }
    }

    pub(super) fn says_something_of(&self, plugin: &str) -> bool {
        let entry = |path: &String| {
            path.strip_prefix("plugins.entries.")
                .is_some_and(|id| id.eq_ignore_ascii_case(plugin))
        };
        self.paths.iter().any(entry)
    }

    #[cfg(test)]
    pub(super) fn for_tests(providers: &[&str], paths: &[&str]) -> Self {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        Self {
            providers: texts(providers),
            paths: texts(paths),
            foreign: false,
        }
    }
}
