//! What the product cannot do yet. A case that uses one of these is skipped for what it uses, never for its name.

use crate::case::{Action, Case};
use crate::expect::events::Hook;
use crate::expect::metrics::Role;

/// A feature that is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feature {
    Plugins,
    NativeSessions,
    Reload,
    SessionsAtScale,
}

impl Feature {
    pub(crate) const fn as_label(self) -> &'static str {
        match self {
            Self::Plugins => "plugins",
            Self::NativeSessions => "native sessions",
            Self::Reload => "reload",
            Self::SessionsAtScale => "sessions at scale",
        }
    }
}

/// The first feature that the case needs and the product lacks.
pub(crate) fn missing(case: &Case) -> Option<Feature> {
    let of_steps = case.steps.iter().filter_map(|step| of_action(&step.action));
    let of_plugins = (!case.config.plugins.is_empty()).then_some(Feature::Plugins);
    let expect = &case.expect;
    let of_hooks = expect.events.iter().filter_map(|event| match event.plugin() {
        Some(_) => Some(Feature::Plugins),
        None => of_hook(event.hook),
    });
    let of_metrics = expect.metrics.iter().filter_map(|metric| of_role(metric.role));
    let mut needed = of_plugins
        .into_iter()
        .chain(of_steps)
        .chain(of_hooks)
        .chain(of_metrics)
        .chain((expect.session_transcript.is_some() || expect.deliveries.is_some()).then_some(Feature::NativeSessions))
        .chain(expect.instances.is_some().then_some(Feature::Plugins))
        .chain(expect.rss.is_some().then_some(Feature::SessionsAtScale));
    needed.next()
}

/// Whether a part of what the case expects is seen by plugins alone and therefore not checked.
pub(crate) fn is_checked_in_part(case: &Case) -> bool {
    let gate = case
        .expect
        .events
        .iter()
        .any(|event| event.hook.is_seen_by_plugins_alone());
    gate || case.expect.tools_executed.is_some()
}

const fn of_action(action: &Action) -> Option<Feature> {
    match action {
        Action::Request(_) | Action::ClientDisconnect { .. } | Action::AdvanceClock { .. } => None,
        Action::Load { .. } => Some(Feature::SessionsAtScale),
        Action::ActivatePlugin { .. } => Some(Feature::Plugins),
        Action::ReloadPlugin { .. } | Action::ReloadConfig { .. } => Some(Feature::Reload),
    }
}

const fn of_hook(hook: Hook) -> Option<Feature> {
    match hook {
        Hook::ModelFailover
        | Hook::ModelFailureTerminal
        | Hook::AgentEnd
        | Hook::AfterResponse
        | Hook::OnError
        | Hook::BeforeToolCall => None,
        Hook::BeforePromptBuild | Hook::BeforeAgentStart | Hook::BeforeAgentRun | Hook::BeforeModelCall => {
            Some(Feature::Plugins)
        }
    }
}

const fn of_role(role: Role) -> Option<Feature> {
    match role {
        Role::Requests
        | Role::Attempts
        | Role::Failovers
        | Role::Streams
        | Role::Tokens
        | Role::InFlight
        | Role::RegistryGeneration
        | Role::StreamParseFaults => None,
        Role::SessionsLive => Some(Feature::SessionsAtScale),
        Role::Reloads => Some(Feature::Reload),
        Role::HookFailures => Some(Feature::Plugins),
    }
}
