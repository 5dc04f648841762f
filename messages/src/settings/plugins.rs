//! Which plugins are loaded, with which settings, and what they may do.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::hooks::Hook;
use crate::ids::Name;

/// The plugins of a generation.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginsSettings {
    /// Whether there are any: without, none is even looked for.
    pub enabled: bool,
    /// Folders that hold plugins, or are one.
    pub load_paths: Vec<PathBuf>,
    /// The only plugins that may be loaded; empty: those that are enabled one by one.
    pub allow: Vec<Name>,
    /// Plugins that are not loaded whatever else is said.
    pub deny: Vec<Name>,
    /// Which plugin does what only one can do.
    pub slots: PluginSlots,
    /// What is said of single plugins, by id.
    pub entries: BTreeMap<Name, PluginEntry>,
}

impl Default for PluginsSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            load_paths: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            slots: PluginSlots::default(),
            entries: BTreeMap::new(),
        }
    }
}

impl PluginsSettings {
    /// What is said of a plugin. Case makes no difference in ids.
    pub fn entry(&self, id: &str) -> Option<&PluginEntry> {
        let is_it = |(name, _): &(&Name, &PluginEntry)| name.eq_ignore_ascii_case(id);
        self.entries.iter().find(is_it).map(|(_, entry)| entry)
    }

    /// Whether a plugin is switched off by name, or all are.
    pub fn switches_off(&self, id: &str) -> bool {
        let denied = self.deny.iter().any(|name| name.eq_ignore_ascii_case(id));
        !self.enabled || denied || self.entry(id).is_some_and(|entry| entry.enabled == Some(false))
    }
}

/// What only one plugin can do, and which one does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginSlots {
    /// Whose context engine says what of a session a model is told; `None`: the built-in one.
    pub context_engine: Option<Name>,
}

/// What is said of one plugin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginEntry {
    /// Whether it is loaded; `None`: as the lists and its origin say.
    pub enabled: Option<bool>,
    /// Whether what it would judge is refused while it is not serving; `None`: as its manifest says, else if it is a guard.
    pub required: Option<bool>,
    /// Its own settings.
    pub config: Option<PluginConfig>,
    /// What its hooks may do.
    pub hooks: HookSettings,
    /// What its code may reach, where its host lends it nothing by itself.
    pub grants: PluginGrants,
    /// What its instance may use up, where its host bounds that.
    pub limits: PluginLimits,
}

/// What the code of one plugin may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginGrants {
    /// Origins that it may fetch from, each as `scheme://host` or `scheme://host:port`; `*`: any.
    pub fetch: Vec<String>,
}

/// What one instance may use up; `None`: as its host says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginLimits {
    /// The memory of its engine, in bytes.
    pub memory: Option<usize>,
    /// How long loading may take, registration included.
    pub load: Option<Duration>,
}

/// The settings of one plugin, which may hold secrets: they are not printed.
#[derive(Clone, PartialEq)]
pub struct PluginConfig {
    /// As the plugin gets them.
    pub value: Value,
    /// As they were written, with references to variables in place of their values.
    pub written: Value,
}

impl fmt::Debug for PluginConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PluginConfig(withheld)")
    }
}

/// What the hooks of one plugin may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookSettings {
    /// Whether they may see conversations; `None`: only if the plugin is built in.
    pub conversation: Option<bool>,
    /// Whether they may write into prompts; `None`: yes.
    pub injection: Option<bool>,
    /// How long each may take, unless `timeouts` says otherwise.
    pub timeout: Option<Duration>,
    /// How long each may take, by hook.
    pub timeouts: BTreeMap<Hook, Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugins_settings_are_not_printed() {
        let config = PluginConfig {
            value: Value::from("sk-canary"),
            written: Value::from("${KEY}"),
        };
        let entry = PluginEntry {
            config: Some(config),
            ..PluginEntry::default()
        };
        assert!(!format!("{entry:?}").contains("canary"));
    }

    #[test]
    fn ids_are_the_same_in_capitals() {
        let entry = PluginEntry {
            enabled: Some(false),
            ..PluginEntry::default()
        };
        let settings = PluginsSettings {
            deny: vec!["Other".into()],
            entries: [(Name::from("Guard"), entry)].into(),
            ..PluginsSettings::default()
        };
        assert!(settings.switches_off("guard") && settings.switches_off("OTHER"));
        assert!(!settings.switches_off("third"));
    }
}
