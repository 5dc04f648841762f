//! From a plan to instances at work. A plugin that fails is passed over, unless it served before.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Arbiter};
use tokio::runtime::Runtime;
use understudy_messages::hooks::Hook;
use understudy_messages::ids::Name;
use understudy_messages::settings::Settings;
use understudy_plugins::capture::Captures;
use understudy_plugins::hosts::Hosts;
use understudy_plugins::registration::Handler;
use understudy_plugins::{Instance, Registration};

use super::plan::Intended;
use super::required::GATES;
use super::tools::Tools;
use super::{Diagnostic, Failure, Inventory, Level, Phase, Planned, Plugin, Source, Status, Working};
use crate::hooks::{Access, HookTable, Hooks, LoadedPlugin};
use crate::plugin::{PluginInstanceActor, Served};
use crate::supervision::Supervision;

/// How long one plugin may take to register.
const REGISTER: Duration = Duration::from_secs(30);

/// Makes inventories.
#[derive(Clone)]
pub struct Loader {
    /// What makes instances.
    pub hosts: Hosts,
    /// Where sources are kept.
    pub captures: Arc<Captures>,
    /// What instances run with.
    pub supervision: Supervision,
    /// Where their arbiters run.
    pub runtime: fn() -> &'static Runtime,
}

/// An inventory that nobody uses yet.
pub struct Built {
    /// All plugins.
    pub inventory: Arc<Inventory>,
    /// What was captured of those that are new, by plugin.
    pub digests: Vec<(Name, String)>,
}

/// A plugin that served before could not be loaded anew: the old instance goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{plugin} {error}")]
pub struct BuildError {
    /// Which.
    pub plugin: Name,
    /// Why.
    pub error: String,
}

impl Loader {
    /// The plugins of the first generation.
    pub async fn load(&self, settings: &Arc<Settings>) -> Arc<Inventory> {
        let planned = self.plan(settings.clone(), None, &[]);
        let mut building = Building::new(self, None, planned);
        building.start().await;
        building.finish().inventory
    }

    /// Starts what is new; what stays is taken from `serving`. Nobody uses the new instances yet.
    ///
    /// # Errors
    /// [`BuildError`]; all that had been started is stopped again.
    pub async fn build(&self, planned: Planned, serving: &Inventory) -> Result<Built, BuildError> {
        let mut building = Building::new(self, Some(serving), planned);
        building.start().await;
        let refused = building.refused();
        let built = building.finish();
        match refused {
            None => Ok(built),
            Some(refused) => {
                built.inventory.retire_but(serving, &self.supervision.clock).await;
                Err(refused)
            }
        }
    }

    /// `serving` with some of its plugins' instances made anew, from what they were made of: their files may be gone.
    ///
    /// # Errors
    /// [`BuildError`]; all that had been started is stopped again.
    pub async fn restore(&self, serving: &Inventory, plugins: &[Name]) -> Result<Built, BuildError> {
        self.build(serving.again(plugins), serving).await
    }

    async fn instance(&self, source: &Source) -> Result<Arc<dyn Instance>, Failure> {
        let clock = &self.supervision.clock;
        let loading = self.hosts.load(source.host, source.load.clone());
        let failed = |error| Failure {
            phase: Phase::Register,
            error,
        };
        match clock.timeout_at(clock.now() + REGISTER, loading).await {
            Ok(loaded) => loaded.map_err(|error| failed(format!("did not register: {error}"))),
            Err(_elapsed) => Err(failed("did not register in time".to_owned())),
        }
    }
}

/// Plugins while they are put to work.
pub(super) struct Building<'a> {
    loader: &'a Loader,
    serving: Option<&'a Inventory>,
    pub(super) settings: Arc<Settings>,
    planned: Vec<Intended>,
    tools: Tools,
    digests: Vec<(Name, String)>,
    pub(super) plugins: Vec<Arc<Plugin>>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl<'a> Building<'a> {
    fn new(loader: &'a Loader, serving: Option<&'a Inventory>, planned: Planned) -> Self {
        Self {
            loader,
            serving,
            settings: planned.settings,
            planned: planned.plugins,
            tools: Tools::default(),
            digests: Vec::new(),
            plugins: Vec::new(),
            diagnostics: planned.diagnostics,
        }
    }

    pub(super) fn note(&mut self, level: Level, phase: Phase, plugin: Option<&Name>, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::new(level, phase, plugin, message));
    }

    async fn start(&mut self) {
        for intended in std::mem::take(&mut self.planned) {
            // between two of them somebody else may have a turn
            tokio::task::yield_now().await;
            match self.kept(&intended) {
                Some(kept) => self.keep(kept),
                None => self.add(intended).await,
            }
        }
        if self.settings.plugins.enabled {
            self.add_what_was_not_found();
            self.check_names();
        }
    }

    /// The plugin as it serves, where it stays as it is.
    fn kept(&self, intended: &Intended) -> Option<Arc<Plugin>> {
        let stays = intended.source.is_none() && intended.cause.enables();
        let served = self.serving.filter(|_| stays)?.find(&intended.candidate.id)?;
        Some(served.clone())
    }

    fn keep(&mut self, plugin: Arc<Plugin>) {
        if let Some(working) = plugin.working() {
            self.tools.keep(&plugin.id, &working.loaded.registration);
        }
        self.plugins.push(plugin);
    }

    async fn add(&mut self, intended: Intended) {
        let Intended {
            candidate,
            cause,
            access,
            identity,
            source,
        } = intended;
        let status = match &source {
            None => Status::Disabled,
            Some(Err(failure)) => Status::Failed(failure.clone()),
            Some(Ok(source)) => match self.loader.instance(source).await {
                Ok(instance) => Status::Loaded(self.put_to_work(&candidate.id, source, &access, instance)),
                Err(failure) => Status::Failed(failure),
            },
        };
        if let Status::Failed(failure) = &status {
            self.note(Level::Error, failure.phase, Some(&candidate.id), &*failure.error);
        }
        if let (Status::Disabled, Some(why)) = (&status, &candidate.refused) {
            let message = format!("is off, and {why}");
            self.note(Level::Info, Phase::Discovery, Some(&candidate.id), message);
        }
        let required = self.is_required(&candidate, cause, &status);
        self.plugins.push(Arc::new(Plugin {
            required,
            id: candidate.id,
            origin: candidate.origin,
            source_folder: candidate.folder,
            host: candidate.host,
            manifest: candidate.manifest,
            cause,
            access,
            identity,
            source: source.and_then(Result::ok),
            status,
        }));
    }

    fn put_to_work(&mut self, id: &Name, source: &Source, access: &Access, instance: Arc<dyn Instance>) -> Working {
        let mut registration = instance.registration().clone();
        for warning in std::mem::take(&mut registration.warnings) {
            self.note(Level::Warn, Phase::Register, Some(id), warning);
        }
        for refusal in self.tools.admit(id, source.load.manifest.as_deref(), &mut registration) {
            self.note(Level::Warn, Phase::Register, Some(id), refusal);
        }
        let guards = registration.hooks.iter().any(|hook| hook.hook == Hook::BeforeToolCall);
        if guards && !access.conversation {
            let message = "guards tools without seeing the conversation: it gets the narrow event, unless \
                           hooks.allowConversationAccess is true";
            self.note(Level::Warn, Phase::Register, Some(id), message);
        }
        if let Some(capture) = &source.capture {
            self.digests.push((id.clone(), capture.digest_text()));
        }
        let served = Served::new(id.clone(), instance);
        let arbiter = takes_messages(&registration).then(|| Arbiter::with_tokio_rt(self.loader.runtime));
        let actor = arbiter.as_ref().map(|arbiter| {
            let served = served.clone();
            PluginInstanceActor::start_in_arbiter(&arbiter.handle(), move |_| PluginInstanceActor::new(served))
        });
        Working {
            served,
            loaded: LoadedPlugin {
                id: id.clone(),
                access: access.clone(),
                registration: Arc::new(registration),
                port: actor.map(actix::Addr::recipient),
            },
            arbiter,
        }
    }

    /// A plugin that serves and has failed in this building.
    fn refused(&self) -> Option<BuildError> {
        let serving = self.serving?;
        self.plugins.iter().find_map(|plugin| {
            let Status::Failed(failure) = &plugin.status else {
                return None;
            };
            let served = serving
                .find(&plugin.id)
                .is_some_and(|served| served.working().is_some());
            served.then(|| BuildError {
                plugin: plugin.id.clone(),
                error: failure.error.clone(),
            })
        })
    }

    fn finish(mut self) -> Built {
        let working = || self.plugins.iter().filter_map(|plugin| plugin.working());
        let loaded: Vec<LoadedPlugin> = working().map(|working| working.loaded.clone()).collect();
        let missing = self
            .plugins
            .iter()
            .filter(|plugin| plugin.required && plugin.working().is_none());
        let missing = missing.map(|plugin| (plugin.id.clone(), GATES.to_vec())).collect();
        let (table, left_out) = HookTable::new(&loaded, missing);
        for (plugin, why) in left_out {
            let message = format!("handler left out: {why}");
            self.note(Level::Warn, Phase::Register, Some(&plugin), message);
        }
        let injects = |id: &str| table.of(Hook::BeforePromptBuild).iter().any(|it| &*it.plugin == id);
        if injects("canon") && injects("canon-guardian") {
            let message = "canon and canon-guardian both write the canon into prompts: switch one of them off";
            self.note(Level::Warn, Phase::Register, None, message);
        }
        for diagnostic in &self.diagnostics {
            diagnostic.log();
        }
        let supervision = &self.loader.supervision;
        let telemetry = &supervision.telemetry;
        let (tasks, clock) = (supervision.tasks.clone(), supervision.clock.clone());
        let hooks = Hooks::new(Arc::new(table), clock, tasks, telemetry.clone());
        let inventory = Inventory {
            settings: self.settings,
            plugins: self.plugins,
            diagnostics: self.diagnostics,
            hooks: Arc::new(hooks),
        };
        inventory.announce(telemetry);
        Built {
            inventory: Arc::new(inventory),
            digests: self.digests,
        }
    }
}

/// Whether a plugin has handlers or tools that are called by message.
fn takes_messages(registration: &Registration) -> bool {
    let by_message = |handler: &Handler| matches!(handler, Handler::Instance(_));
    !registration.tools.is_empty() || registration.hooks.iter().any(|hook| by_message(&hook.handler))
}
