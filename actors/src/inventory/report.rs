//! Inventory as the admin listener shows them.

use std::path::PathBuf;

use crate::hooks::LoadedPlugin;
use crate::plugin::InstanceState;
use crate::telemetry::Telemetry;
use serde::Serialize;
use understudy_messages::ids::Name;
use understudy_plugins::Registration;
use understudy_plugins::manifest::HostKind;

use super::{Diagnostic, Inventory, Phase, Plugin, Status};

/// Every plugin, and what people should know.
#[derive(Serialize)]
pub struct Report {
    plugins: Vec<One>,
    diagnostics: Vec<Diagnostic>,
}

/// One plugin.
#[derive(Serialize)]
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
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_phase: Option<Phase>,
    required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<&'static str>,
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
        Report {
            plugins: self.plugins.iter().map(|plugin| self.one(plugin)).collect(),
            diagnostics: self.diagnostics.clone(),
        }
    }

    fn one(&self, plugin: &Plugin) -> One {
        let (manifest, table) = (plugin.manifest.as_ref(), self.hooks.table());
        let working = plugin.working();
        let registration = working.map(|working| &*working.loaded.registration);
        let (error, failure_phase) = match &plugin.status {
            Status::Disabled => (None, None),
            Status::Failed(failure) => (Some(failure.error.clone()), Some(failure.phase)),
            Status::Loaded(working) => (working.served.failure(), None),
        };
        One {
            id: plugin.id.clone(),
            name: manifest.and_then(|manifest| manifest.name.clone()),
            description: manifest.and_then(|manifest| manifest.description.clone()),
            version: manifest.and_then(|manifest| manifest.version.clone()),
            origin: plugin.origin.as_label(),
            source: plugin.source_folder.clone(),
            host: plugin.host.map(HostKind::as_label),
            enabled: plugin.cause.enables(),
            reason: plugin.cause.as_label(),
            status: status(plugin),
            error,
            failure_phase,
            required: plugin.required,
            shape: registration.map(shape),
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
            calls_in_flight: working.map_or(0, |working| working.served.calls_in_flight()),
            restarts: working.map_or(0, |working| working.served.restarts()),
        }
    }

    /// Says once which plugins are loaded.
    pub(super) fn announce(&self, telemetry: &Telemetry) {
        for plugin in &self.plugins {
            let Some(working) = plugin.working() else { continue };
            let LoadedPlugin { registration, .. } = &working.loaded;
            let (hooks, policies) = (registration.hooks.len(), registration.policies.len());
            let tools = registration.tools.len();
            let version = plugin.manifest.as_ref().and_then(|manifest| manifest.version.clone());
            let version = version.unwrap_or_default();
            telemetry.plugin_loaded(&plugin.id, &version, shape(registration));
            tracing::info!(plugin = %plugin.id, hooks, policies, tools, reason = plugin.cause.as_label(), "plugin loaded");
        }
        self.show(telemetry);
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

/// The contract's word for what a plugin registered (§5.3): it has no capabilities, since there are none to register.
fn shape(registration: &Registration) -> &'static str {
    let hooks = registration.hooks.len() + registration.policies.len();
    match registration.tools.is_empty() && hooks > 0 {
        true => "hook-only",
        false => "non-capability",
    }
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
