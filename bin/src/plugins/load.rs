//! From the settings to instances at work: find, decide, check, register. A plugin that fails is passed over.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Arbiter};
use understudy_actors::hooks::{Access, HookTable, Hooks, LoadedPlugin};
use understudy_actors::plugin::{PluginInstanceActor, Served};
use understudy_actors::supervision::Supervision;
use understudy_actors::tools::Tools;
use understudy_messages::hooks::Hook;
use understudy_messages::ids::Name;
use understudy_messages::settings::{PluginsSettings, Settings};
use understudy_plugins::enablement::{self, Origin};
use understudy_plugins::hosts::{Hosts, Load};
use understudy_plugins::registration::Handler;
use understudy_plugins::{Instance, Registration};

use super::candidates::Candidate;
use super::required::GATES;
use super::tools::Owners;
use super::{Diagnostic, Failure, Level, Phase, Plugin, Plugins, Status, Working};

/// How long one plugin may take to register.
const REGISTER: Duration = Duration::from_secs(30);

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
    supervision: &'a Supervision,
    tools: Owners,
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

    async fn start(&mut self, candidate: &Candidate, access: &Access) -> Result<Working, Failure> {
        let failed = |phase, error| Failure { phase, error };
        let Some(host) = candidate.host else {
            let why = candidate.refused.clone().unwrap_or_default();
            return Err(failed(Phase::Discovery, format!("is present but blocked: {why}")));
        };
        let own = self
            .config()
            .entry(&candidate.id)
            .and_then(|entry| entry.config.clone());
        let settings = own.map_or_else(|| serde_json::json!({}), |own| own.value);
        if let Some(manifest) = &candidate.manifest {
            let checked = manifest.check(&settings);
            checked.map_err(|error| failed(Phase::Config, format!("its settings are refused: {error}")))?;
        }
        let clock = &self.supervision.clock;
        let load = Load {
            id: candidate.id.clone(),
            manifest: candidate.manifest.clone(),
            folder: candidate.folder.clone().unwrap_or_default(),
            settings,
            workspaces: self
                .settings
                .agents
                .iter()
                .filter_map(|agent| agent.workspace.clone())
                .collect(),
            clock: clock.clone(),
        };
        let loading = clock
            .timeout_at(clock.now() + REGISTER, self.hosts.load(host, load))
            .await;
        let instance = match loading {
            Ok(loaded) => loaded.map_err(|error| failed(Phase::Register, format!("did not register: {error}")))?,
            Err(_elapsed) => return Err(failed(Phase::Register, "did not register in time".to_owned())),
        };
        Ok(self.put_to_work(candidate, access, instance))
    }

    fn put_to_work(&mut self, candidate: &Candidate, access: &Access, instance: Arc<dyn Instance>) -> Working {
        let mut registration = instance.registration().clone();
        for warning in std::mem::take(&mut registration.warnings) {
            self.note(Level::Warn, Phase::Register, Some(&candidate.id), warning);
        }
        for refusal in self
            .tools
            .admit(&candidate.id, candidate.manifest.as_deref(), &mut registration)
        {
            self.note(Level::Warn, Phase::Register, Some(&candidate.id), refusal);
        }
        let guards = registration.hooks.iter().any(|hook| hook.hook == Hook::BeforeToolCall);
        if guards && !access.conversation {
            let message = "guards tools without seeing the conversation: it gets the narrow event, unless \
                           hooks.allowConversationAccess is true";
            self.note(Level::Warn, Phase::Register, Some(&candidate.id), message);
        }
        let served = Served::new(candidate.id.clone(), instance);
        let arbiter = takes_messages(&registration).then(|| Arbiter::with_tokio_rt(crate::shared_runtime));
        let actor = arbiter.as_ref().map(|arbiter| {
            let served = served.clone();
            PluginInstanceActor::start_in_arbiter(&arbiter.handle(), move |_| PluginInstanceActor::new(served))
        });
        Working {
            served,
            loaded: LoadedPlugin {
                id: candidate.id.clone(),
                access: access.clone(),
                registration: Arc::new(registration),
                port: actor.clone().map(actix::Addr::recipient),
                tools: actor.map(actix::Addr::recipient),
            },
            arbiter,
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

/// Whether a plugin has handlers or tools that are called by message.
fn takes_messages(registration: &Registration) -> bool {
    let by_message = |handler: &Handler| matches!(handler, Handler::Instance(_));
    !registration.tools.is_empty() || registration.hooks.iter().any(|hook| by_message(&hook.handler))
}
