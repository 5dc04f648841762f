//! What the product cannot do yet. A case that uses one of these is skipped for what it uses, never for its name.

use crate::case::{Action, Case};
use crate::expect::metrics::Role;

/// A feature that is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feature {
    SessionsAtScale,
}

impl Feature {
    pub(crate) const fn as_label(self) -> &'static str {
        match self {
            Self::SessionsAtScale => "sessions at scale",
        }
    }
}

/// The first feature that the case needs and the product lacks.
pub(crate) fn missing(case: &Case) -> Option<Feature> {
    let expect = &case.expect;
    let of_steps = case.steps.iter().filter_map(|step| of_action(&step.action));
    let of_metrics = expect.metrics.iter().filter_map(|metric| of_role(metric.role));
    let mut needed = of_steps
        .chain(of_metrics)
        .chain(expect.rss.is_some().then_some(Feature::SessionsAtScale));
    needed.next()
}

const fn of_action(action: &Action) -> Option<Feature> {
    match action {
        Action::Request(_)
        | Action::ClientDisconnect { .. }
        | Action::AdvanceClock { .. }
        | Action::ActivatePlugin { .. }
        | Action::ReloadPlugin { .. }
        | Action::ReloadConfig { .. } => None,
        Action::Load { .. } => Some(Feature::SessionsAtScale),
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
        | Role::Reloads
        | Role::RegistryGeneration
        | Role::HookFailures
        | Role::StreamParseFaults => None,
        Role::SessionsLive => Some(Feature::SessionsAtScale),
    }
}
