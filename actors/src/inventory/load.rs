//! From a plan to instances at work. A plugin that fails is passed over, unless it served before.

use std::sync::Arc;

use tokio::runtime::Runtime;
use understudy_messages::hooks::Hook;
use understudy_messages::ids::Name;
use understudy_messages::settings::Settings;
use understudy_plugins::capture::Captures;
use understudy_plugins::hosts::Hosts;

use super::commands::Commands;
use super::plan::Intended;
use super::providers::Offered;
use super::required::GATES;
use super::tools::Owners;
use super::{Anew, Diagnostic, Inventory, Level, Phase, Planned, Plugin, Status};
use crate::hooks::{HookTable, Hooks, LoadedPlugin};
use crate::plugin::Served;
use crate::state::State;
use crate::supervision::Supervision;
use crate::tools::Tools;

/// Makes inventories.
#[derive(Clone)]
pub struct Loader {
    /// What makes instances.
    pub hosts: Hosts,
    /// Where sources are kept.
    pub captures: Arc<Captures>,
    /// What instances run with.
    pub supervision: Supervision,
    /// What is remembered of them.
    pub state: State,
    /// Where their arbiters run.
    pub runtime: fn() -> &'static Runtime,
}

/// An inventory that nobody uses yet.
pub struct Built {
    /// All plugins.
    pub inventory: Arc<Inventory>,
    /// What was captured of those that are new, by plugin.
    pub digests: Vec<(Name, String)>,
    /// What could not be put back, because what it was made of is gone.
    pub lost: Vec<Name>,
}

/// A plugin that served before could not be loaded anew: the old instance goes on.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{plugin} {error}")]
pub struct BuildError {
    /// Which.
    pub plugin: Name,
    /// Why.
    pub error: String,
    /// The new instances, which were stopped again: one that did not end in time may still hold something.
    pub left: Vec<Arc<Served>>,
}

impl Loader {
    /// The plugins of the first generation.
    pub async fn load(&self, settings: &Arc<Settings>) -> Arc<Inventory> {
        self.first(settings, true).await
    }

    /// The plugins as somebody looks at them: they register, and none of their services starts.
    pub async fn inspect(&self, settings: &Arc<Settings>) -> Arc<Inventory> {
        self.first(settings, false).await
    }

    async fn first(&self, settings: &Arc<Settings>, serves: bool) -> Arc<Inventory> {
        let planned = self.plan(settings.clone(), None, Anew::default());
        let mut building = Building::new(self, None, planned);
        building.serves = serves;
        building.start().await;
        let inventory = building.finish().inventory;
        self.remember(&inventory).await;
        inventory
    }

    /// Starts what is new; what stays is taken from `serving`. Nobody uses the new instances yet.
    ///
    /// # Errors
    /// [`BuildError`]; all that had been started is stopped again.
    pub async fn build(&self, planned: Planned, serving: &Inventory) -> Result<Built, BuildError> {
        self.build_without(planned, serving, Vec::new()).await
    }

    /// The same, where those that are `lost` may be missing.
    async fn build_without(&self, planned: Planned, serving: &Inventory, lost: Vec<Name>) -> Result<Built, BuildError> {
        let mut building = Building::new(self, Some(serving), planned);
        building.start().await;
        let refused = building.refused(&lost);
        let built = Built {
            lost,
            ..building.finish()
        };
        match refused {
            None => Ok(built),
            Some(refused) => {
                built.inventory.retire_but(serving).await;
                let left = built.inventory.instances_but(serving);
                Err(BuildError { left, ..refused })
            }
        }
    }

    /// `serving` with some of its plugins' instances made anew, from what they were made of: their files may be gone. Where
    /// that is gone too for some of them, the others come back without those.
    ///
    /// # Errors
    /// [`BuildError`]; all that had been started is stopped again. Also where nothing could come back.
    pub async fn restore(&self, serving: &Inventory, plugins: &[Name]) -> Result<Built, BuildError> {
        let mut lost = serving.without_image(plugins);
        if lost.len() == plugins.len() {
            lost.clear();
        }
        self.build_without(serving.again(plugins), serving, lost).await
    }
}

/// Plugins while they are put to work.
pub(super) struct Building<'a> {
    pub(super) loader: &'a Loader,
    pub(super) serving: Option<&'a Inventory>,
    /// Whether what is built is to serve at once.
    pub(super) serves: bool,
    pub(super) settings: Arc<Settings>,
    planned: Vec<Intended>,
    pub(super) tools: Owners,
    pub(super) commands: Commands,
    pub(super) digests: Vec<(Name, String)>,
    pub(super) plugins: Vec<Arc<Plugin>>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl<'a> Building<'a> {
    fn new(loader: &'a Loader, serving: Option<&'a Inventory>, planned: Planned) -> Self {
        Self {
            loader,
            serving,
            serves: serving.is_none(),
            settings: planned.settings,
            planned: planned.plugins,
            tools: Owners::default(),
            commands: Commands::default(),
            digests: Vec::new(),
            plugins: Vec::new(),
            diagnostics: planned.diagnostics,
        }
    }

    pub(super) fn note(&mut self, level: Level, phase: Phase, plugin: Option<&Name>, message: impl Into<String>) {
        let diagnostic = Diagnostic::new(level, phase, plugin, message);
        // one that came with what is put back is known already
        if !self.diagnostics.contains(&diagnostic) {
            self.diagnostics.push(diagnostic);
        }
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
            self.check_engine();
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
            self.commands.keep(&plugin.id, &working.loaded.registration);
        }
        self.diagnostics.extend(plugin.noted.iter().cloned());
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
        let known = self.diagnostics.len();
        let status = match &source {
            None => Status::Disabled,
            Some(Err(failure)) => Status::Failed(failure.clone()),
            Some(Ok(source)) => match self.begin(source, &access).await {
                Ok(working) => Status::Loaded(working),
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
            noted: self.diagnostics[known..].to_vec(),
            status,
        }));
    }

    /// A plugin that serves and has failed in this building.
    fn refused(&self, lost: &[Name]) -> Option<BuildError> {
        let serving = self.serving?;
        self.plugins.iter().find_map(|plugin| {
            let Status::Failed(failure) = &plugin.status else {
                return None;
            };
            let served = serving
                .find(&plugin.id)
                .is_some_and(|served| served.working().is_some());
            (served && !lost.contains(&plugin.id)).then(|| BuildError {
                plugin: plugin.id.clone(),
                error: failure.error.clone(),
                left: Vec::new(),
            })
        })
    }

    /// The settings, with the providers that plugins bring.
    fn offer(&mut self) -> Offered {
        let working = self.plugins.iter().filter_map(|plugin| plugin.working());
        let brought: Vec<_> = working.map(|it| (&it.loaded.id, &*it.loaded.registration)).collect();
        let before = self.serving.map(|serving| &serving.offered);
        let (offered, refusals) = Offered::of(&self.settings, &brought, before);
        for (plugin, why) in refusals {
            self.note(Level::Error, Phase::Register, Some(&plugin), why);
        }
        offered
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
        let supervision = &self.loader.supervision;
        let (tools, left_out) = Tools::new(&loaded, supervision.clock.clone());
        for (plugin, why) in left_out {
            self.note(Level::Warn, Phase::Register, Some(&plugin), format!("left out: {why}"));
        }
        let offered = self.offer();
        let injects = |id: &str| table.of(Hook::BeforePromptBuild).iter().any(|it| &*it.plugin == id);
        if injects("canon") && injects("canon-guardian") {
            let message = "canon and canon-guardian both write the canon into prompts: switch one of them off";
            self.note(Level::Warn, Phase::Register, None, message);
        }
        let known = self.serving.map_or(&[][..], |serving| &serving.diagnostics);
        for diagnostic in self.diagnostics.iter().filter(|it| !known.contains(it)) {
            diagnostic.log();
        }
        let telemetry = &supervision.telemetry;
        let (tasks, clock) = (supervision.tasks.clone(), supervision.clock.clone());
        let hooks = Hooks::new(Arc::new(table), clock, tasks, telemetry.clone());
        let inventory = Inventory {
            settings: self.settings,
            offered,
            plugins: self.plugins,
            diagnostics: self.diagnostics,
            hooks: Arc::new(hooks),
            tools: Arc::new(tools),
        };
        inventory.announce(self.serving, telemetry);
        Built {
            inventory: Arc::new(inventory),
            digests: self.digests,
            lost: Vec::new(),
        }
    }
}
