//! What a plugin that is not of this process says it registers: a child in its first line, a webhook in its manifest.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use understudy_messages::hooks::{Hook, HookResult};
use understudy_messages::plugin::CallError;

use crate::registration::{
    CommandRegistration, Handler, HookOptions, Registration, RouteOptions, ServiceRegistration, ToolRegistration,
};

/// The most hooks, the most policies, and the most tools, that one plugin may have; so with all else.
const MOST: usize = 256;
/// The longest deadline that a plugin may give itself.
const LONGEST_MS: u64 = 600_000;

/// What one plugin registers, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Declared {
    /// Handlers of hooks. Their places in this list are their numbers.
    pub hooks: Vec<DeclaredHook>,
    /// Trusted policies of tools.
    pub policies: Vec<DeclaredPolicy>,
    /// Tools.
    pub tools: Vec<DeclaredTool>,
    /// Services.
    pub services: Vec<ServiceRegistration>,
    /// HTTP routes below the plugin's own path.
    pub routes: Vec<DeclaredRoute>,
    /// Commands, for people to see.
    pub commands: Vec<CommandRegistration>,
    /// Whether it has a context engine.
    #[serde(rename = "contextEngine")]
    pub context_engine: bool,
    /// Providers, which only plugins that are compiled in may have.
    pub providers: Vec<Value>,
}

/// One route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct DeclaredRoute {
    /// Its path below the plugin's own.
    pub path: String,
    /// How it is to be served.
    #[serde(flatten)]
    pub options: RouteOptions,
}

/// One handler.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeclaredHook {
    /// The hook's name.
    pub hook: String,
    /// Higher ones come first.
    #[serde(default)]
    pub priority: i32,
    /// How long it may take.
    pub timeout_ms: Option<u64>,
    /// The tools that it is about.
    pub matcher: Option<Vec<String>>,
    /// Whether it needs to know which tools are left.
    #[serde(default)]
    pub requires_tool_authority: bool,
}

/// One policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct DeclaredPolicy {
    /// Its name inside the plugin.
    pub id: String,
}

/// One tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeclaredTool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The JSON schema of its arguments, as it was written.
    #[serde(default, deserialize_with = "text")]
    pub parameters: Option<String>,
    /// Whether it may run again after a failure.
    #[serde(default)]
    pub replay_safe: bool,
}

impl Declared {
    /// Registers it all; what is wrong with a single hook becomes a warning.
    ///
    /// # Errors
    /// When there is more of it than one plugin may have.
    pub fn register(&self) -> Result<Registration, String> {
        let counts = [self.hooks.len(), self.policies.len(), self.tools.len()];
        if counts.into_iter().any(|count| count > MOST) {
            return Err(format!("it registers more than {MOST} hooks, policies or tools"));
        }
        let mut registration = Registration::default();
        for (number, hook) in (0..).zip(&self.hooks) {
            let deadline = hook.timeout_ms.filter(|ms| (1..=LONGEST_MS).contains(ms));
            if deadline != hook.timeout_ms {
                let warning = format!("{}: timeoutMs is none of 1 to {LONGEST_MS}: not used", hook.hook);
                registration.warnings.push(warning);
            }
            let options = HookOptions {
                priority: hook.priority,
                deadline: deadline.map(Duration::from_millis),
                tools: hook.matcher.clone(),
                authority: hook.requires_tool_authority,
            };
            registration.on(&hook.hook, options, Handler::Instance(number));
        }
        let behind = u32::try_from(self.hooks.len()).unwrap_or(u32::MAX);
        for (number, policy) in (behind..).zip(&self.policies) {
            registration.policy(&policy.id, Handler::Instance(number));
        }
        registration.tools = self.tools.iter().map(DeclaredTool::register).collect();
        for service in &self.services {
            registration.service(&service.id);
        }
        for route in &self.routes {
            registration.route(&route.path, &route.options);
        }
        for command in &self.commands {
            registration.command(command.clone());
        }
        if self.context_engine {
            registration.context_engine();
        }
        if !self.providers.is_empty() {
            let refused = "providers are refused: only a plugin that is compiled in (`host: native`) may have any";
            registration.warnings.push(refused.to_owned());
        }
        Ok(registration)
    }
}

impl DeclaredTool {
    fn register(&self) -> ToolRegistration {
        ToolRegistration {
            name: self.name.clone(),
            description: self.description.clone(),
            parameters: self.parameters.clone(),
            replay_safe: self.replay_safe,
        }
    }
}

/// What is called under a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Called {
    /// A handler of a hook.
    Hook(Hook),
    /// A policy, by its id.
    Policy(Arc<str>),
}

impl Called {
    /// Reads what was answered.
    pub(crate) fn answered(&self, answer: Option<Value>) -> Result<HookResult, CallError> {
        let read = match self {
            Self::Hook(hook) => HookResult::answered(*hook, answer),
            Self::Policy(_) => HookResult::of_policy(answer),
        };
        read.map_err(|_| CallError::Invalid)
    }
}

/// What each number calls.
pub(crate) fn by_number(registration: &Registration) -> BTreeMap<u32, Called> {
    let hooks = registration.hooks.iter();
    let hooks = hooks.filter_map(|row| Some((row.handler.number()?, Called::Hook(row.hook))));
    let policies = registration.policies.iter();
    let policies = policies.filter_map(|row| Some((row.handler.number()?, Called::Policy(row.id.as_str().into()))));
    hooks.chain(policies).collect()
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let raw: Option<Box<RawValue>> = Option::deserialize(deserializer)?;
    Ok(raw.map(|raw| raw.get().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_registers_what_it_names_and_warns_of_the_rest() {
        let text = r#"{
            "hooks": [
                { "hook": "before_agent_start" },
                { "hook": "before_tool_call", "priority": 7, "timeoutMs": 250, "matcher": ["exec"] },
                { "hook": "agent_end", "timeoutMs": 0 }
            ],
            "tools": [{ "name": "t", "parameters": { "z": 1, "a": 2 }, "replaySafe": true }]
        }"#;
        let declared: Declared = serde_json::from_str(text).expect("a declaration");
        let registration = declared.register().expect("not too many");
        assert_eq!(registration.warnings.len(), 2, "{:?}", registration.warnings);
        let [guard, end] = &registration.hooks[..] else {
            panic!("two hooks");
        };
        assert!(matches!(guard.handler, Handler::Instance(1)), "its place in the list");
        assert_eq!((guard.priority, guard.deadline), (7, Some(Duration::from_millis(250))));
        assert_eq!(guard.tools.as_deref(), Some(&["exec".to_owned()][..]));
        assert_eq!(end.deadline, None);
        let parameters = registration.tools[0].parameters.as_deref();
        assert_eq!(parameters, Some(r#"{ "z": 1, "a": 2 }"#), "as it was written");
    }

    #[test]
    fn policies_are_numbered_behind_the_hooks() {
        let text = r#"{ "hooks": [{ "hook": "agent_end" }, { "hook": "nonsense" }], "policies": [{ "id": "a" }, { "id": "a" }, { "id": "b" }] }"#;
        let declared: Declared = serde_json::from_str(text).expect("a declaration");
        let registration = declared.register().expect("not too many");
        assert_eq!(registration.warnings.len(), 2, "{:?}", registration.warnings);
        let called: Vec<_> = by_number(&registration).into_iter().collect();
        let policy = |id: &str| Called::Policy(id.into());
        assert_eq!(
            called,
            [(0, Called::Hook(Hook::AgentEnd)), (2, policy("a")), (4, policy("b"))]
        );
    }

    #[test]
    fn providers_of_another_process_are_refused_by_name_of_who_may_have_them() {
        let declared: Declared = serde_json::from_str(r#"{ "providers": [{ "id": "acme" }] }"#).expect("a declaration");
        let registration = declared.register().expect("not too many");
        assert!(registration.providers.is_empty());
        assert!(
            registration.warnings[0].contains("native"),
            "{:?}",
            registration.warnings
        );
    }

    #[test]
    fn a_declaration_has_an_end() {
        let hooks = Declared {
            hooks: vec![DeclaredHook::default(); MOST + 1],
            ..Declared::default()
        };
        let policies = Declared {
            policies: vec![DeclaredPolicy::default(); MOST + 1],
            ..Declared::default()
        };
        assert!(hooks.register().is_err() && policies.register().is_err());
    }
}
