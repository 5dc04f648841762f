//! Inventory as the admin listener shows them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::hooks::LoadedPlugin;
use crate::plugin::InstanceState;
use crate::telemetry::Telemetry;
use serde::Serialize;
use understudy_messages::ids::Name;
use understudy_plugins::Registration;
use understudy_plugins::activation::{self, Asked};
use understudy_plugins::manifest::HostKind;

use super::candidates::Candidate;
use super::plan::Intended;
use super::shapes::{self, Notice, Shape, notices, shape};
use super::{Code, Diagnostic, Failure, Inventory, Level, Phase, Planned, Plugin, Source, Status};

/// Every plugin, and what people should know.
#[derive(Serialize)]
pub struct Report {
    plugins: Vec<One>,
    diagnostics: Vec<Diagnostic>,
    compatibility: Vec<Notice>,
}

/// One plugin, and what people should know about it.
#[derive(Serialize)]
pub struct About {
    plugin: One,
    diagnostics: Vec<Diagnostic>,
    compatibility: Vec<Notice>,
}

/// One plugin.
#[derive(Default, Serialize)]
struct One {
    id: Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    origin: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'static str>,
    enabled: bool,
    reason: &'static str,
    /// Who has switched it on: `explicit`, `default`, or `disabled`.
    enablement: &'static str,
    explicitly_enabled: bool,
    /// Whether it serves.
    activated: bool,
    /// What it is needed for, and why.
    activation: Vec<String>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_phase: Option<Phase>,
    /// Whether what it would judge is refused while it is not serving; false also where that is not known.
    required: bool,
    /// What its instance was made of.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capability_mode: Option<&'static str>,
    capability_count: usize,
    capabilities: Vec<Capability>,
    /// Providers that it brings and that are served.
    providers: Vec<Name>,
    allow_conversation_access: bool,
    allow_prompt_injection: bool,
    hooks: Vec<OneHook>,
    policies: Vec<String>,
    tools: Vec<String>,
    services: Vec<String>,
    routes: Vec<String>,
    commands: Vec<OneCommand>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    context_engine: bool,
    handlers_listed: usize,
    hook_calls: u64,
    calls_in_flight: u64,
    restarts: u64,
}

/// A kind of capability, and what of it a plugin has.
#[derive(Serialize)]
struct Capability {
    kind: &'static str,
    ids: Vec<Name>,
}

/// One command that a plugin has.
#[derive(Serialize)]
struct OneCommand {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

/// One handler that a plugin registered.
#[derive(Serialize)]
struct OneHook {
    hook: &'static str,
    priority: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
}

impl Inventory {
    /// Everything, as it is now.
    pub fn report(&self) -> Report {
        let asked = Asked::of(&self.settings);
        Report {
            plugins: self.plugins.iter().map(|plugin| self.one(plugin, &asked)).collect(),
            diagnostics: self.diagnostics.clone(),
            compatibility: self.plugins.iter().flat_map(|plugin| notices(plugin)).collect(),
        }
    }

    /// One of them, as it is now; `None` where there is none of this id.
    pub fn about(&self, id: &str) -> Option<About> {
        let plugin = self.find(id)?;
        let noted = self.diagnostics.iter();
        let own = noted.filter(|it| it.plugin_id.as_ref().is_some_and(|it| it.eq_ignore_ascii_case(id)));
        Some(About {
            plugin: self.one(plugin, &Asked::of(&self.settings)),
            diagnostics: own.cloned().collect(),
            compatibility: notices(plugin),
        })
    }

    fn one(&self, plugin: &Plugin, asked: &Asked) -> One {
        let table = self.hooks.table();
        let working = plugin.working();
        let registration = working.map(|working| &*working.loaded.registration);
        let (error, failure_phase) = match &plugin.status {
            Status::Disabled => (None, None),
            Status::Failed(failure) => (Some(failure.error.clone()), Some(failure.phase)),
            Status::Loaded(working) => (working.served.failure(), None),
        };
        let shape = registration.map(shape);
        let providers = self.brought_by(&plugin.id);
        let capabilities = registration.map(|it| capabilities(plugin, &providers, it));
        let capabilities = capabilities.unwrap_or_default();
        One {
            capability_count: capabilities.len(),
            capabilities,
            enabled: plugin.cause.enables(),
            reason: plugin.cause.as_label(),
            enablement: plugin.cause.enablement(),
            explicitly_enabled: plugin.cause.enablement() == "explicit",
            activated: plugin.state() == Some(InstanceState::Running),
            activation: activation::explained(plugin.cause, &plugin.id, plugin.manifest.as_deref(), asked),
            status: status(plugin),
            error,
            failure_phase,
            required: plugin.required,
            digest: plugin.source.as_ref().and_then(Source::digest),
            shape: shape.map(Shape::as_label),
            capability_mode: shape.map(Shape::mode),
            providers,
            allow_conversation_access: plugin.access.conversation,
            allow_prompt_injection: plugin.access.injection,
            hooks: registration.map(hooks).unwrap_or_default(),
            policies: registration.map(policies).unwrap_or_default(),
            tools: registration.map(tools).unwrap_or_default(),
            services: registration.map(services).unwrap_or_default(),
            routes: registration.map(routes).unwrap_or_default(),
            commands: registration.map(commands).unwrap_or_default(),
            context_engine: registration.is_some_and(|registration| registration.context_engine),
            handlers_listed: table.count(&plugin.id),
            hook_calls: table.calls(&plugin.id),
            calls_in_flight: plugin.calls_in_flight(),
            restarts: working.map_or(0, |working| working.served.restarts()),
            ..One::found(&plugin.as_candidate())
        }
    }

    fn brought_by(&self, plugin: &Name) -> Vec<Name> {
        let own = self.providers().filter(|(owner, _)| *owner == plugin);
        own.map(|(_, provider)| provider.settings.name.clone()).collect()
    }

    /// Says once which plugins are loaded: those that `before` had are known.
    pub(super) fn announce(&self, before: Option<&Self>, telemetry: &Telemetry) {
        let is_new =
            |plugin: &&Arc<Plugin>| !before.is_some_and(|it| it.plugins.iter().any(|old| Arc::ptr_eq(old, plugin)));
        for plugin in self.plugins.iter().filter(is_new) {
            let Some(working) = plugin.working() else { continue };
            let LoadedPlugin { registration, .. } = &working.loaded;
            let (hooks, policies) = (registration.hooks.len(), registration.policies.len());
            let tools = registration.tools.len();
            telemetry.plugin_loaded(&plugin.id);
            tracing::info!(plugin = %plugin.id, hooks, policies, tools, reason = plugin.cause.as_label(), "plugin loaded");
        }
    }
}

impl One {
    /// What its manifest says.
    fn found(candidate: &Candidate) -> Self {
        let manifest = candidate.manifest.as_ref();
        Self {
            id: candidate.id.clone(),
            name: manifest.and_then(|manifest| manifest.name.clone()),
            description: manifest.and_then(|manifest| manifest.description.clone()),
            version: manifest.and_then(|manifest| manifest.version.clone()),
            origin: candidate.origin.as_label(),
            source: candidate.folder.clone(),
            host: candidate.host.map(HostKind::as_label),
            ..Self::default()
        }
    }

    /// What it would be: none of its code has run.
    fn intended(intended: &Intended, asked: &Asked) -> Self {
        let (status, failure) = match &intended.source {
            None => ("disabled", None),
            Some(Ok(_)) => ("enabled", None),
            Some(Err(Failure { phase, error, .. })) => ("error", Some((*phase, error.clone()))),
        };
        let (failure_phase, error) = failure.unzip();
        let source = intended.source.as_ref().and_then(|source| source.as_ref().ok());
        Self {
            enabled: intended.cause.enables(),
            reason: intended.cause.as_label(),
            enablement: intended.cause.enablement(),
            explicitly_enabled: intended.cause.enablement() == "explicit",
            activation: activation::explained(
                intended.cause,
                &intended.candidate.id,
                intended.candidate.manifest.as_deref(),
                asked,
            ),
            status,
            error,
            failure_phase,
            digest: source.and_then(Source::digest),
            allow_conversation_access: intended.access.conversation,
            allow_prompt_injection: intended.access.injection,
            ..Self::found(&intended.candidate)
        }
    }
}

impl Planned {
    /// What there is and what of it would be loaded, without any of its code.
    pub fn report(&self) -> Report {
        let failed = self.plugins.iter().filter_map(|intended| {
            let failure = intended.source.as_ref()?.as_ref().err()?;
            let id = Some(&intended.candidate.id);
            Some(Diagnostic::new(
                Code::LoadFailed,
                Level::Error,
                failure.phase,
                id,
                &*failure.error,
            ))
        });
        let asked = Asked::of(&self.settings);
        Report {
            plugins: self.plugins.iter().map(|it| One::intended(it, &asked)).collect(),
            diagnostics: self.diagnostics.iter().cloned().chain(failed).collect(),
            compatibility: Vec::new(),
        }
    }
}

impl Source {
    pub(super) fn digest(&self) -> Option<String> {
        self.capture.as_ref().map(|capture| capture.digest_text())
    }
}

fn status(plugin: &Plugin) -> &'static str {
    match (&plugin.status, plugin.state()) {
        (Status::Disabled, _) => "disabled",
        (Status::Failed(_), _) => "error",
        (Status::Loaded(_), Some(InstanceState::Failed)) => "failed",
        (Status::Loaded(_), _) => "loaded",
    }
}

fn capabilities(plugin: &Plugin, providers: &[Name], registration: &Registration) -> Vec<Capability> {
    let ids = |kind| match kind {
        "text-inference" => providers.to_vec(),
        _ => vec![plugin.id.clone()],
    };
    let kinds = shapes::capabilities(registration).into_iter();
    kinds.map(|kind| Capability { kind, ids: ids(kind) }).collect()
}

fn hooks(registration: &Registration) -> Vec<OneHook> {
    let one = |hook: &understudy_plugins::HookRegistration| OneHook {
        hook: hook.hook.as_label(),
        priority: hook.priority,
        tools: hook.tools.clone(),
    };
    registration.hooks.iter().map(one).collect()
}

fn policies(registration: &Registration) -> Vec<String> {
    registration.policies.iter().map(|policy| policy.id.clone()).collect()
}

fn tools(registration: &Registration) -> Vec<String> {
    registration.tools.iter().map(|tool| tool.name.clone()).collect()
}

fn services(registration: &Registration) -> Vec<String> {
    registration.services.iter().map(|service| service.id.clone()).collect()
}

fn routes(registration: &Registration) -> Vec<String> {
    registration.routes.iter().map(|route| route.path.clone()).collect()
}

fn commands(registration: &Registration) -> Vec<OneCommand> {
    let one = |command: &understudy_plugins::registration::CommandRegistration| OneCommand {
        name: command.name.clone(),
        description: command.description.clone(),
    };
    registration.commands.iter().map(one).collect()
}
