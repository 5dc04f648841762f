//! The plugins of a generation: which there are, what has become of each, and who is called for what.
//!
//! An inventory is made by a [`Loader`] and never changes; what becomes of the instances in it is seen through it. What a
//! reload does not touch is the same instance in the next inventory.

mod calls;
mod candidates;
mod code;
mod commands;
mod engine;
mod instances;
mod kept;
mod load;
mod names;
mod plan;
mod policies;
mod providers;
mod report;
mod required;
mod routes;
mod shapes;
mod start;
mod staying;
mod tools;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use actix::Recipient;
use serde::Serialize;
use understudy_messages::context::CallEngine;
use understudy_messages::ids::Name;
use understudy_messages::service::CallRoute;
use understudy_messages::settings::Settings;
use understudy_plugins::capture::Capture;
use understudy_plugins::enablement::{Cause, Origin};
use understudy_plugins::hosts::Load;
use understudy_plugins::manifest::{HostKind, Manifest, Resources};

use self::candidates::Candidate;
pub use self::code::Code;
pub use self::load::{BuildError, Built, Loader};
pub use self::plan::Planned;
use self::providers::Offered;
pub use self::report::{About, Report};
pub use self::routes::Routed;
pub use self::staying::Anew;
use crate::hooks::{Access, Hooks, LoadedPlugin};
use crate::plugin::{InstanceState, Served};
use crate::registry::reload::diff::Identity;
use crate::telemetry::{LoadedAs, ShownPlugin, Telemetry};
use crate::tools::Tools;

/// All plugins that were found, loaded or not.
pub struct Inventory {
    /// What it was made from.
    settings: Arc<Settings>,
    offered: Offered,
    plugins: Vec<Arc<Plugin>>,
    diagnostics: Vec<Diagnostic>,
    hooks: Arc<Hooks>,
    tools: Arc<Tools>,
}

/// One plugin.
struct Plugin {
    id: Name,
    origin: Origin,
    /// Its folder.
    source_folder: Option<PathBuf>,
    host: Option<HostKind>,
    manifest: Option<Arc<Manifest>>,
    cause: Cause,
    required: bool,
    access: Access,
    /// What makes it the same plugin; `None` for one that is off.
    identity: Option<Identity>,
    /// What its instance was made of.
    source: Option<Source>,
    /// What was noted while it was loaded: it holds as long as its instance.
    noted: Vec<Diagnostic>,
    status: Status,
}

/// What an instance is made of: the same again where it has to be put back.
#[derive(Clone)]
struct Source {
    load: Load,
    host: HostKind,
    /// `None` for what is compiled in.
    capture: Option<Arc<Capture>>,
}

/// What has become of a plugin.
enum Status {
    /// It is off.
    Disabled,
    /// It could not be loaded.
    Failed(Failure),
    /// It has registered.
    Loaded(Working),
}

/// Why a plugin could not be loaded.
#[derive(Clone)]
struct Failure {
    phase: Phase,
    error: String,
    /// Whether it had registered a guard before it failed.
    guards: bool,
}

impl Failure {
    /// Of a plugin that has registered nothing.
    const fn new(phase: Phase, error: String) -> Self {
        let guards = false;
        Self { phase, error, guards }
    }
}

/// A plugin that has registered.
struct Working {
    served: Arc<Served>,
    loaded: LoadedPlugin,
    /// Its instance, for its routes; `None` where it has none.
    routes: Option<Recipient<CallRoute>>,
    /// The same, for its context engine.
    engine: Option<Recipient<CallEngine>>,
}

/// When something was noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// While folders were looked at.
    Discovery,
    /// While settings were read.
    Config,
    /// While it registered.
    Register,
    /// While its services were started.
    Start,
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Good to know.
    Info,
    /// Probably not meant.
    Warn,
    /// Something does not work.
    Error,
}

impl Level {
    const fn as_label(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// Something that people should know.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnostic {
    /// What it is about.
    pub code: Code,
    /// How bad it is.
    pub level: Level,
    /// About which plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_id: Option<Name>,
    /// What.
    pub message: String,
    /// Where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<PathBuf>,
    /// What is used in the place of `source`, where two have the same id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<PathBuf>,
    /// When.
    pub phase: Phase,
}

impl Diagnostic {
    fn new(code: Code, level: Level, phase: Phase, plugin: Option<&Name>, message: impl Into<String>) -> Self {
        Self {
            code,
            level,
            plugin_id: plugin.cloned(),
            message: message.into(),
            source: None,
            active: None,
            phase,
        }
    }

    /// Says it once, in the log.
    fn log(&self) {
        let (plugin, message) = (self.plugin_id.as_deref().unwrap_or("-"), &*self.message);
        match self.level {
            Level::Info => tracing::info!(plugin, "{message}"),
            Level::Warn => tracing::warn!(plugin, "{message}"),
            Level::Error => tracing::error!(plugin, "{message}"),
        }
    }
}

impl Plugin {
    /// Whether its resources cannot be held twice (design §4): by its manifest's word, else by what it registered.
    fn is_exclusive(&self) -> bool {
        match self.manifest.as_ref().and_then(|manifest| manifest.resources) {
            Some(said) => said == Resources::Exclusive,
            None => self.working().is_some_and(|working| {
                let registration = working.served.registration();
                !registration.services.is_empty() || !registration.routes.is_empty() || registration.context_engine
            }),
        }
    }

    fn working(&self) -> Option<&Working> {
        match &self.status {
            Status::Loaded(working) => Some(working),
            Status::Disabled | Status::Failed(_) => None,
        }
    }

    /// As it was found.
    fn as_candidate(&self) -> Candidate {
        Candidate {
            id: self.id.clone(),
            origin: self.origin,
            host: self.host,
            manifest: self.manifest.clone(),
            folder: self.source_folder.clone(),
            default_on: self.cause == Cause::BundledDefaultEnablement,
            refused: None,
        }
    }

    fn is_the_instance_of(&self, other: &Self) -> bool {
        let both = self.working().zip(other.working());
        both.is_some_and(|(one, other)| Arc::ptr_eq(&one.served, &other.served))
    }

    /// The state of its instance; `None` for one that is off.
    fn state(&self) -> Option<InstanceState> {
        match &self.status {
            Status::Disabled => None,
            Status::Failed(_) => Some(InstanceState::Failed),
            Status::Loaded(working) => Some(working.served.state()),
        }
    }

    /// How a scrape shows it; `None` for one that is off.
    fn shown(&self) -> Option<ShownPlugin> {
        let version = || self.manifest.as_ref().and_then(|manifest| manifest.version.clone());
        let loaded = self.working().map(|working| LoadedAs {
            version: version().unwrap_or_default(),
            shape: shapes::shape(&working.loaded.registration).as_label(),
        });
        Some(ShownPlugin {
            plugin: self.id.clone(),
            state: self.state()?,
            loaded,
        })
    }
}

impl Inventory {
    /// Of plugins that nobody loaded: handlers and tools alone.
    pub fn of(settings: Arc<Settings>, hooks: Arc<Hooks>, tools: Arc<Tools>) -> Self {
        Self {
            offered: Offered::none(settings.clone()),
            settings,
            plugins: Vec::new(),
            diagnostics: Vec::new(),
            hooks,
            tools,
        }
    }

    /// What people should know.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    fn find(&self, id: &str) -> Option<&Arc<Plugin>> {
        self.plugins.iter().find(|plugin| plugin.id.eq_ignore_ascii_case(id))
    }

    /// The hooks of those whose instances `other` does not have.
    pub fn hooks_but(&self, other: &Self) -> Hooks {
        let gone: Vec<Name> = self.gone_from(other).map(|plugin| plugin.id.clone()).collect();
        self.hooks.only(&gone)
    }

    /// The hooks of what is loaded.
    pub fn hooks(&self) -> &Arc<Hooks> {
        &self.hooks
    }

    /// The tools of what is loaded.
    pub fn tools(&self) -> &Arc<Tools> {
        &self.tools
    }

    /// Plugins that have to serve and do not: what they would judge is refused.
    pub fn missing(&self) -> impl Iterator<Item = &Name> {
        let lacks = |plugin: &&Arc<Plugin>| plugin.required && plugin.state() != Some(InstanceState::Running);
        self.plugins.iter().filter(lacks).map(|plugin| &plugin.id)
    }

    /// Brings the metrics up to date.
    pub fn show(&self, telemetry: &Telemetry) {
        telemetry.show_plugins(self.plugins.iter().filter_map(|plugin| plugin.shown()));
    }

    /// Whether one of some plugins is compiled in.
    pub fn has_native(&self, plugins: &[Name]) -> bool {
        self.named(plugins).any(|plugin| plugin.host == Some(HostKind::Native))
    }

    /// What people should know about some plugins.
    pub fn warnings(&self, plugins: &[Name]) -> Vec<String> {
        let about =
            |it: &&Diagnostic| it.level != Level::Info && it.plugin_id.as_ref().is_some_and(|id| plugins.contains(id));
        let line = |it: &Diagnostic| format!("{}: {}", it.plugin_id.as_deref().unwrap_or("-"), it.message);
        self.diagnostics.iter().filter(about).map(line).collect()
    }

    fn named(&self, plugins: &[Name]) -> impl Iterator<Item = &Arc<Plugin>> {
        self.plugins.iter().filter(|plugin| plugins.contains(&plugin.id))
    }
}

impl fmt::Debug for Inventory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inventory")
    }
}
