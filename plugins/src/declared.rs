//! What a plugin that is not of this process says it registers: a child in its first line, a webhook in its manifest.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use understudy_messages::hooks::Hook;

use crate::registration::{Handler, HookOptions, Registration, ToolRegistration};

/// The most hooks, and the most tools, that one plugin may have.
const MOST: usize = 256;
/// The longest deadline that a plugin may give itself.
const LONGEST_MS: u64 = 600_000;

/// Hooks and tools of one plugin, in its own words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Declared {
    /// Handlers of hooks. Their places in this list are their numbers.
    pub hooks: Vec<DeclaredHook>,
    /// Tools.
    pub tools: Vec<DeclaredTool>,
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
        if self.hooks.len() > MOST || self.tools.len() > MOST {
            return Err(format!("it registers more than {MOST} hooks or tools"));
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
            };
            registration.on(&hook.hook, options, Handler::Instance(number));
        }
        registration.tools = self.tools.iter().map(DeclaredTool::register).collect();
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

/// The hook of each handler, by the handler's number.
pub(crate) fn hooks_by_number(registration: &Registration) -> BTreeMap<u32, Hook> {
    let number = |handler: &Handler| match handler {
        Handler::Instance(number) => Some(*number),
        Handler::Quick(_) => None,
    };
    let numbered = registration.hooks.iter();
    numbered
        .filter_map(|row| Some((number(&row.handler)?, row.hook)))
        .collect()
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
    fn a_declaration_has_an_end() {
        let hooks = vec![DeclaredHook::default(); MOST + 1];
        let tools = Vec::new();
        assert!(Declared { hooks, tools }.register().is_err());
    }
}
