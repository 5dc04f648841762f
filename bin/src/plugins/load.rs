//! From the settings to instances at work: find, decide, check, register. A plugin that fails is passed over.

use std::sync::Arc;

use understudy_actors::hooks::{Access, HookTable, Hooks, LoadedPlugin};
use understudy_actors::supervision::Supervision;
use understudy_actors::tools::Tools;
use understudy_messages::hooks::Hook;
use understudy_messages::ids::Name;
use understudy_messages::settings::{PluginsSettings, Settings};
use understudy_plugins::enablement::{self, Origin};
use understudy_plugins::hosts::Hosts;

use super::candidates::Candidate;
use super::required::GATES;
use super::tools::Owners;
use super::{Diagnostic, Level, Phase, Plugin, Plugins, Status};

/// Loads every plugin that the settings switch on.
pub(crate) async fn load(settings: &Settings, hosts: &Hosts, supervision: &Supervision) -> Plugins {
    let mut loading = Loading {
        settings,
        hosts,
        supervision,
        tools: Owners::default(),
        plugins: Vec::new(),
        diagnostics: Vec::new(),
    };
    if settings.plugins.enabled {
        for candidate in loading.candidates() {
            loading.add(candidate).await;
        }
        loading.add_what_was_not_found();
        loading.check_names();
    }
    loading.finish()
}

/// Plugins while they are loaded.
pub(super) struct Loading<'a> {
    pub(super) settings: &'a Settings,
    pub(super) hosts: &'a Hosts,
    pub(super) supervision: &'a Supervision,
    pub(super) tools: Owners,
    pub(super) plugins: Vec<Plugin>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl Loading<'_> {
    pub(super) fn config(&self) -> &PluginsSettings {
        &self.settings.plugins
    }

    pub(super) fn note(&mut self, level: Level, phase: Phase, plugin: Option<&Name>, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::new(level, phase, plugin, message));
    }

    async fn add(&mut self, candidate: Candidate) {
        let cause = enablement::decide(self.config(), &candidate.id, candidate.origin, candidate.default_on);
        let access = self.access(&candidate);
        let status = match cause.enables() {
            true => match self.start(&candidate, &access).await {
                Ok(working) => Status::Loaded(working),
                Err(failure) => {
                    self.note(Level::Error, failure.phase, Some(&candidate.id), &*failure.error);
                    Status::Failed(failure)
                }
            },
            false => Status::Disabled,
        };
        if let (Status::Disabled, Some(why)) = (&status, &candidate.refused) {
            self.note(
                Level::Info,
                Phase::Discovery,
                Some(&candidate.id),
                format!("is off, and {why}"),
            );
        }
        let required = self.is_required(&candidate, cause, &status);
        self.plugins.push(Plugin {
            required,
            id: candidate.id,
            origin: candidate.origin,
            source: candidate.folder,
            host: candidate.host,
            manifest: candidate.manifest,
            cause,
            access,
            status,
        });
    }

    /// What a plugin may do. What is built in may see conversations unless somebody says otherwise.
    fn access(&self, candidate: &Candidate) -> Access {
        let said = self.config().entry(&candidate.id).map(|entry| &entry.hooks);
        Access {
            conversation: (said.and_then(|hooks| hooks.conversation)).unwrap_or(candidate.origin == Origin::Bundled),
            injection: said.and_then(|hooks| hooks.injection).unwrap_or(true),
            deadlines: said.map(|hooks| hooks.timeouts.clone()).unwrap_or_default(),
            deadline: said.and_then(|hooks| hooks.timeout),
        }
    }

    fn finish(mut self) -> Plugins {
        let working = || self.plugins.iter().filter_map(Plugin::working);
        let loaded: Vec<LoadedPlugin> = working().map(|working| working.loaded.clone()).collect();
        let missing = self
            .plugins
            .iter()
            .filter(|plugin| plugin.required && plugin.working().is_none());
        let missing = missing.map(|plugin| (plugin.id.clone(), GATES.to_vec())).collect();
        let (table, left_out) = HookTable::new(&loaded, missing);
        for (plugin, why) in left_out {
            self.note(
                Level::Warn,
                Phase::Register,
                Some(&plugin),
                format!("handler left out: {why}"),
            );
        }
        let (tools, left_out) = Tools::new(&loaded, self.supervision.clock.clone());
        for (plugin, why) in left_out {
            self.note(Level::Warn, Phase::Register, Some(&plugin), format!("left out: {why}"));
        }
        let injects = |id: &str| table.of(Hook::BeforePromptBuild).iter().any(|it| &*it.plugin == id);
        if injects("canon") && injects("canon-guardian") {
            let message = "canon and canon-guardian both write the canon into prompts: switch one of them off";
            self.note(Level::Warn, Phase::Register, None, message);
        }
        for diagnostic in &self.diagnostics {
            diagnostic.log();
        }
        let telemetry = &self.supervision.telemetry;
        let (tasks, clock) = (self.supervision.tasks.clone(), self.supervision.clock.clone());
        let hooks = Hooks::new(Arc::new(table), clock, tasks, telemetry.clone());
        let plugins = Plugins {
            plugins: self.plugins,
            diagnostics: self.diagnostics,
            hooks: Arc::new(hooks),
            tools: Arc::new(tools),
        };
        plugins.announce(telemetry);
        plugins
    }
}
