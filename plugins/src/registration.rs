//! What a plugin registers while it is loaded.

mod providers;
mod serving;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use understudy_messages::hooks::{Hook, HookContext, HookEvent, HookResult};

pub use self::providers::ProviderRegistration;
pub use self::serving::{CommandRegistration, RouteOptions, RouteRegistration, ServiceRegistration};

/// A handler that is quick and does not wait: called on the turn's own thread.
pub type QuickHandler = Arc<dyn Fn(&HookEvent, &HookContext) -> Result<HookResult, String> + Send + Sync>;

/// The longest id of a policy, in bytes.
const LONGEST_POLICY: usize = 128;

/// Everything that one instance registered, in its order.
#[derive(Clone, Debug, Default)]
pub struct Registration {
    /// Handlers of hooks.
    pub hooks: Vec<HookRegistration>,
    /// Trusted policies of tools.
    pub policies: Vec<PolicyRegistration>,
    /// Tools.
    pub tools: Vec<ToolRegistration>,
    /// What runs as long as the instance does.
    pub services: Vec<ServiceRegistration>,
    /// HTTP routes below the plugin's own path.
    pub routes: Vec<RouteRegistration>,
    /// Commands of the command line, for people to see.
    pub commands: Vec<CommandRegistration>,
    /// Whether it has a context engine: at most one.
    pub context_engine: bool,
    /// Providers: who may be asked for models.
    pub providers: Vec<ProviderRegistration>,
    /// What was passed over, and why.
    pub warnings: Vec<String>,
}

/// A handler of a hook.
#[derive(Clone)]
pub struct HookRegistration {
    /// Which hook.
    pub hook: Hook,
    /// Higher ones come first; equal ones in the order of registration.
    pub priority: i32,
    /// How long it may take; `None`: as the hook's row says.
    pub deadline: Option<Duration>,
    /// The tools that it is about, for hooks of tools; `None`: all.
    pub tools: Option<Vec<String>>,
    /// Whether it is asked when the tools are settled, and told which are left.
    pub authority: bool,
    /// Who is called.
    pub handler: Handler,
}

/// A trusted policy: it judges every call of a tool before any handler does.
#[derive(Clone)]
pub struct PolicyRegistration {
    /// Its name inside the plugin.
    pub id: String,
    /// Who is called: with a `before_tool_call` event, and a verdict is the answer.
    pub handler: Handler,
}

/// Who is called for a hook.
#[derive(Clone)]
pub enum Handler {
    /// Code of this process that does not wait.
    Quick(QuickHandler),
    /// The instance, by the number of its handler.
    Instance(u32),
}

/// A tool that the plugin runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolRegistration {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The JSON schema of its arguments, as it was written.
    pub parameters: Option<String>,
    /// Whether it may run again after a failure: nothing happens outside by it. False unless the plugin says so.
    pub replay_safe: bool,
}

impl fmt::Debug for HookRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookRegistration")
            .field("hook", &self.hook.as_label())
            .field("priority", &self.priority)
            .field("deadline", &self.deadline)
            .field("tools", &self.tools)
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PolicyRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyRegistration")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Registration {
    /// Registers a handler under a hook's name; a name that nothing fires becomes a warning and registers nothing.
    pub fn on(&mut self, name: &str, options: HookOptions, handler: Handler) {
        let checked = Hook::parse(name).and_then(|hook| options.check(hook).map(|()| hook).map_err(str::to_owned));
        let hook = match checked {
            Ok(hook) => hook,
            Err(why) => return self.warnings.push(format!("{name}: {why}")),
        };
        let authority = options.authority && hook == Hook::BeforePromptBuild;
        if authority != options.authority {
            // what the handler does otherwise is not lost by it
            let warning = format!("{name}: requiresToolAuthority is for before_prompt_build: not used");
            self.warnings.push(warning);
        }
        self.hooks.push(HookRegistration {
            hook,
            priority: options.priority,
            deadline: options.deadline,
            tools: options.tools,
            authority,
            handler,
        });
    }

    /// Registers a trusted policy of tools; whether it was taken. A name that is none, or that the plugin has given already, becomes
    /// a warning and registers nothing.
    pub fn policy(&mut self, id: &str, handler: Handler) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'/');
        let why = if id.is_empty() || id.len() > LONGEST_POLICY || !id.bytes().all(plain) {
            "its id is not made of letters, digits and _-.:/ (at most 128)"
        } else if self.policies.iter().any(|policy| policy.id == id) {
            "is there already"
        } else {
            let id = id.to_owned();
            self.policies.push(PolicyRegistration { id, handler });
            return true;
        };
        let shown: String = id.escape_debug().take(LONGEST_POLICY).collect();
        self.warnings.push(format!("policy {shown} is refused: {why}"));
        false
    }
}

impl Registration {
    /// Whether another registration is the same to everybody who calls: handlers of this process's own code never are.
    pub fn is_same(&self, other: &Self) -> bool {
        let counts = |it: &Self| (it.hooks.len(), it.policies.len());
        let mut hooks = self.hooks.iter().zip(&other.hooks);
        let mut policies = self.policies.iter().zip(&other.policies);
        counts(self) == counts(other)
            && self.tools == other.tools
            && (&self.services, &self.routes) == (&other.services, &other.routes)
            && self.context_engine == other.context_engine
            && self.providers == other.providers
            && hooks.all(|(own, other)| own.is_same(other))
            && policies.all(|(own, other)| own.id == other.id && own.handler.is_same(&other.handler))
    }

    /// Whether all of it is called by message.
    pub fn is_by_message(&self) -> bool {
        let hooks = self.hooks.iter().map(|hook| &hook.handler);
        let policies = self.policies.iter().map(|policy| &policy.handler);
        hooks.chain(policies).all(|handler| handler.number().is_some())
    }
}

impl Handler {
    /// The number that an instance is called by.
    pub const fn number(&self) -> Option<u32> {
        match self {
            Self::Quick(_) => None,
            Self::Instance(number) => Some(*number),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.number().is_some() && self.number() == other.number()
    }
}

impl HookRegistration {
    fn is_same(&self, other: &Self) -> bool {
        let facts = |it: &Self| (it.hook, it.priority, it.deadline, it.authority);
        facts(self) == facts(other) && self.tools == other.tools && self.handler.is_same(&other.handler)
    }
}

/// How a handler is to be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookOptions {
    /// Higher ones come first.
    pub priority: i32,
    /// How long it may take.
    pub deadline: Option<Duration>,
    /// The tools that it is about.
    pub tools: Option<Vec<String>>,
    /// Whether it needs to know which tools are left (`requiresToolAuthority`).
    pub authority: bool,
}

impl HookOptions {
    /// A matcher is a list of names, none of them blank or a pattern, and only for hooks of tools (contract §1.1).
    fn check(&self, hook: Hook) -> Result<(), &'static str> {
        let Some(tools) = &self.tools else { return Ok(()) };
        if !matches!(hook, Hook::BeforeToolCall | Hook::AfterToolCall) {
            return Err("only hooks of tools take a matcher");
        }
        let plain = |name: &String| {
            let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
            !name.is_empty() && name.bytes().all(letter)
        };
        match tools.is_empty() || !tools.iter().all(plain) {
            true => Err("a matcher is a list of names of tools, without patterns"),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use understudy_messages::settings::{Api, ProviderSettings};

    use super::*;

    fn handler() -> Handler {
        Handler::Quick(Arc::new(|_, _| Ok(HookResult::None)))
    }

    fn with(tools: &[&str]) -> HookOptions {
        HookOptions {
            tools: Some(tools.iter().map(|&name| name.to_owned()).collect()),
            ..HookOptions::default()
        }
    }

    fn acme() -> ProviderRegistration {
        let url = "http://127.0.0.1:1/v1".to_owned();
        ProviderRegistration::new(ProviderSettings::new("acme".into(), Api::OpenaiChat, url))
    }

    #[test]
    fn a_matcher_without_plain_names_registers_nothing_case_13() {
        for bad in [&[][..], &["*"], &[""], &["read", "web_*"]] {
            let mut registration = Registration::default();
            registration.on("before_tool_call", with(bad), handler());
            assert!(registration.hooks.is_empty(), "{bad:?}");
            assert_eq!(registration.warnings.len(), 1, "{bad:?}");
        }
        let mut registration = Registration::default();
        registration.on("before_tool_call", with(&["exec"]), handler());
        assert_eq!(registration.hooks.len(), 1);
    }

    #[test]
    fn a_registration_is_the_same_in_all_that_callers_see() {
        let registration = |edit: fn(&mut Registration)| {
            let mut registration = Registration::default();
            registration.on("before_tool_call", with(&["exec"]), Handler::Instance(0));
            registration.policy("p", Handler::Instance(1));
            edit(&mut registration);
            registration
        };
        let plain = registration(|it| it.warnings.push("said".to_owned()));
        assert!(plain.is_same(&registration(|_| {})) && plain.is_by_message());
        let others: [fn(&mut Registration); 7] = [
            |it| it.hooks[0].priority = 1,
            |it| it.hooks[0].authority = true,
            |it| it.hooks[0].handler = Handler::Instance(1),
            |it| it.policies[0].id = "q".to_owned(),
            |it| it.tools.push(ToolRegistration::default()),
            |it| assert!(it.provider(acme())),
            |it| it.hooks[0].handler = handler(),
        ];
        for edit in others {
            assert!(!plain.is_same(&registration(edit)));
        }
        let quick = registration(|it| it.hooks[0].handler = handler());
        assert!(!quick.is_same(&quick.clone()) && !quick.is_by_message());
    }

    #[test]
    fn a_policy_is_registered_once_and_under_a_plain_name() {
        let mut registration = Registration::default();
        assert!(registration.policy("budget", handler()));
        for refused in ["budget", "", "two words", &"x".repeat(129)] {
            assert!(!registration.policy(refused, handler()), "{refused}");
        }
        assert_eq!((registration.policies.len(), registration.warnings.len()), (1, 4));
    }

    #[test]
    fn only_a_prompt_is_built_with_authority_and_no_guard_is_lost_by_it() {
        let options = HookOptions {
            authority: true,
            ..HookOptions::default()
        };
        let mut registration = Registration::default();
        registration.on("before_prompt_build", options.clone(), handler());
        registration.on("before_tool_call", options, handler());
        let authority: Vec<bool> = registration.hooks.iter().map(|hook| hook.authority).collect();
        assert_eq!((authority, registration.warnings.len()), (vec![true, false], 1));
    }

    #[test]
    fn an_unknown_hook_is_a_warning_and_the_plugin_still_loads() {
        let mut registration = Registration::default();
        registration.on("before_agent_start", HookOptions::default(), handler());
        registration.on("agent_end", HookOptions::default(), handler());
        assert_eq!((registration.hooks.len(), registration.warnings.len()), (1, 1));
    }
}
