//! What a plugin is by what it registered, and what its operator should know of that (contract §5.3). Pure.

use serde::Serialize;
use understudy_messages::ids::Name;
use understudy_plugins::Registration;

use super::{Level, Plugin, Status};

/// The contract's four words for what a plugin registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Capabilities of more than one kind.
    HybridCapability,
    /// Capabilities of one kind.
    PlainCapability,
    /// Hooks or policies, and nothing else.
    HookOnly,
    /// Anything else.
    NonCapability,
}

impl Shape {
    /// The shape of something with capabilities of so many kinds.
    pub(super) const fn of(kinds: usize, has_hooks: bool, has_others: bool) -> Self {
        match (kinds, has_hooks, has_others) {
            (0, true, false) => Self::HookOnly,
            (0, ..) => Self::NonCapability,
            (1, ..) => Self::PlainCapability,
            _ => Self::HybridCapability,
        }
    }

    /// The contract's label.
    pub(super) const fn as_label(self) -> &'static str {
        match self {
            Self::HybridCapability => "hybrid-capability",
            Self::PlainCapability => "plain-capability",
            Self::HookOnly => "hook-only",
            Self::NonCapability => "non-capability",
        }
    }

    /// The contract's word for how capable that is.
    pub(super) const fn mode(self) -> &'static str {
        match self {
            Self::HybridCapability => "hybrid",
            Self::PlainCapability => "plain",
            Self::HookOnly | Self::NonCapability => "none",
        }
    }
}

/// The kinds of capabilities that were registered, in the contract's words. Neither hooks, policies nor tools are one.
pub(super) fn capabilities(registration: &Registration) -> Vec<&'static str> {
    let text = (!registration.providers.is_empty()).then_some("text-inference");
    let engine = registration.context_engine.then_some("context-engine");
    text.into_iter().chain(engine).collect()
}

/// The shape of what was registered.
pub(super) fn shape(registration: &Registration) -> Shape {
    let hooks = registration.hooks.len() + registration.policies.len();
    let others = !registration.tools.is_empty()
        || !registration.services.is_empty()
        || !registration.routes.is_empty()
        || !registration.commands.is_empty();
    Shape::of(capabilities(registration).len(), hooks > 0, others)
}

/// A signal about one plugin: how well it fits this gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Notice {
    plugin_id: Name,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    compat_code: Option<&'static str>,
    severity: &'static str,
    message: String,
}

/// What is to be said of a plugin that is on.
pub(super) fn notices(plugin: &Plugin) -> Vec<Notice> {
    let notice = |code, compat_code, severity, message: &str| Notice {
        plugin_id: plugin.id.clone(),
        code,
        compat_code,
        severity,
        message: message.to_owned(),
    };
    match &plugin.status {
        Status::Disabled => Vec::new(),
        Status::Failed(failure) => vec![notice("hard-error", None, Level::Error.as_label(), &failure.error)],
        Status::Loaded(working) => {
            let mut notices = vec![notice("config-valid", None, "ok", "its settings are valid")];
            if shape(&working.loaded.registration) == Shape::HookOnly {
                let message = "has hooks alone: they are the part of the interface that stays as it is";
                let compat = Some("hook-only-plugin-shape");
                notices.push(notice("hook-only", compat, Level::Info.as_label(), message));
            }
            notices
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use understudy_messages::hooks::HookResult;
    use understudy_messages::settings::{Api, ProviderSettings};
    use understudy_plugins::ToolRegistration;
    use understudy_plugins::registration::{Handler, HookOptions, ProviderRegistration};

    use super::*;

    #[test]
    fn what_is_registered_makes_the_shape_case_t43() {
        let shapes = [
            (1, false, false),
            (2, true, true),
            (0, true, false),
            (0, true, true),
            (0, false, false),
        ];
        let labels = shapes.map(|(kinds, hooks, others)| Shape::of(kinds, hooks, others).as_label());
        let expected = [
            "plain-capability",
            "hybrid-capability",
            "hook-only",
            "non-capability",
            "non-capability",
        ];
        assert_eq!(labels, expected);
        let modes = shapes.map(|(kinds, hooks, others)| Shape::of(kinds, hooks, others).mode());
        assert_eq!(modes, ["plain", "hybrid", "none", "none", "none"]);
    }

    #[test]
    fn hooks_and_policies_alone_are_hook_only_and_a_tool_ends_that_case_t43() {
        let handler = || Handler::Quick(Arc::new(|_, _| Ok(HookResult::None)));
        let mut registration = Registration::default();
        assert_eq!(shape(&registration), Shape::NonCapability);
        registration.policy("p", handler());
        registration.on("agent_end", HookOptions::default(), handler());
        assert_eq!(shape(&registration), Shape::HookOnly);
        registration.tools.push(ToolRegistration::default());
        assert_eq!(shape(&registration), Shape::NonCapability);
        let url = "http://127.0.0.1:1".to_owned();
        let provider = ProviderSettings::new("acme".into(), Api::OpenaiChat, url);
        assert!(registration.provider(ProviderRegistration::new(provider)));
        assert_eq!(shape(&registration), Shape::PlainCapability);
        assert!(registration.context_engine());
        assert_eq!(shape(&registration), Shape::HybridCapability);
    }

    #[test]
    fn a_service_beside_hooks_is_no_hook_only_plugin_case_t43() {
        let mut registration = Registration::default();
        registration.on("agent_end", HookOptions::default(), Handler::Instance(0));
        assert!(registration.service("sync"));
        assert_eq!(shape(&registration), Shape::NonCapability);
    }
}
