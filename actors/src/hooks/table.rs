//! Who is called for which hook: made once for a generation, read by every turn. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::Recipient;
use understudy_messages::hooks::{Descriptor, HOOKS, Hook};
use understudy_messages::ids::Name;
use understudy_messages::plugin::{CallHook, CallTool};
use understudy_plugins::Registration;
use understudy_plugins::registration::{Handler, QuickHandler};

use crate::telemetry::HandlerMetrics;

/// What an operator lets a plugin do (`plugins.entries.<id>.hooks`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether it may see conversations.
    pub conversation: bool,
    /// Whether it may write into prompts.
    pub injection: bool,
    /// How long its handlers may take, by hook.
    pub deadlines: BTreeMap<Hook, Duration>,
    /// How long they may take otherwise.
    pub deadline: Option<Duration>,
}

/// A plugin at work, as the table is made from it.
#[derive(Clone, Debug)]
pub struct LoadedPlugin {
    /// Its id.
    pub id: Name,
    /// What it may do.
    pub access: Access,
    /// What it registered.
    pub registration: Arc<Registration>,
    /// Its instance; `None` where all its handlers are quick.
    pub port: Option<Recipient<CallHook>>,
    /// Its instance, for its tools; `None` where it has none.
    pub tools: Option<Recipient<CallTool>>,
}

/// One handler in its place.
#[derive(Clone)]
pub struct Listed {
    /// Whose it is.
    pub plugin: Name,
    /// How long it may take.
    pub deadline: Duration,
    /// Whether it may see the conversation.
    pub conversation: bool,
    /// How it is called.
    pub call: Call,
    /// Whether it is asked when the tools are settled, and told which are left.
    pub authority: bool,
    /// The policy that it is, by its plugin's name for it; `None` for a handler of a hook.
    pub policy: Option<String>,
    /// The handles of its metrics.
    pub metrics: Arc<HandlerMetrics>,
    calls: Arc<AtomicU64>,
    tools: Option<Vec<String>>,
    priority: i32,
}

/// How a handler is called.
#[derive(Clone)]
pub enum Call {
    /// On the turn's own thread.
    Quick(QuickHandler),
    /// By a message to its instance: the number of its handler.
    Instance(Recipient<CallHook>, u32),
}

impl Call {
    /// How `plugin` is called; `None`: it has no instance for that.
    fn of(handler: &Handler, plugin: &LoadedPlugin) -> Option<Self> {
        Some(match handler {
            Handler::Quick(quick) => Self::Quick(quick.clone()),
            Handler::Instance(number) => Self::Instance(plugin.port.clone()?, *number),
        })
    }
}

/// Why a plugin may not have a handler of a hook.
fn refused(row: &Descriptor, access: &Access) -> Option<&'static str> {
    if row.shows_conversation && !access.conversation {
        return Some("needs hooks.allowConversationAccess: true");
    }
    (row.writes_prompt && !access.injection).then_some("hooks.allowPromptInjection is false")
}

const NOT_THERE: &str = "the instance is not there";

impl Listed {
    /// Whether it is about this tool.
    pub fn is_about(&self, tool: Option<&str>) -> bool {
        match (&self.tools, tool) {
            (Some(tools), Some(tool)) => tools.iter().any(|name| name == tool),
            (Some(_), None) | (None, _) => true,
        }
    }

    /// Counts a call.
    pub(super) fn count(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// Everyone who is called, by hook, in the order in which they are called.
#[derive(Clone, Default)]
pub struct HookTable {
    handlers: [Vec<Listed>; HOOKS.len()],
    /// Trusted policies of tools, in the order of their plugins.
    policies: Vec<Listed>,
    /// Guards that have to be there and are not, by hook: what they would have judged is refused.
    missing: Vec<(Name, Vec<Hook>)>,
    /// How often handlers of a plugin were called.
    calls: BTreeMap<Name, Arc<AtomicU64>>,
}

impl HookTable {
    /// The table of `plugins`, in their order (built-in ones come first: so their policies do), and what was left out of it, by plugin. `missing` are guards that ought to be
    /// among them.
    pub fn new(plugins: &[LoadedPlugin], missing: Vec<(Name, Vec<Hook>)>) -> (Self, Vec<(Name, String)>) {
        let mut table = Self {
            missing,
            ..Self::default()
        };
        let mut left_out = Vec::new();
        for plugin in plugins {
            for warning in table.add(plugin) {
                left_out.push((plugin.id.clone(), warning));
            }
        }
        for handlers in &mut table.handlers {
            handlers.sort_by_key(|handler| std::cmp::Reverse(handler.priority));
        }
        (table, left_out)
    }

    fn add(&mut self, plugin: &LoadedPlugin) -> Vec<String> {
        let mut left_out = Vec::new();
        let calls = self.calls.entry(plugin.id.clone()).or_default().clone();
        let listed = |hook: Hook, handler: &Handler, deadline: Option<Duration>| {
            let operators = plugin.access.deadlines.get(&hook).copied();
            let deadline = operators.or(plugin.access.deadline).or(deadline);
            Some(Listed {
                plugin: plugin.id.clone(),
                deadline: deadline.unwrap_or(hook.descriptor().deadline),
                conversation: plugin.access.conversation,
                call: Call::of(handler, plugin)?,
                authority: false,
                policy: None,
                metrics: Arc::default(),
                calls: calls.clone(),
                tools: None,
                priority: 0,
            })
        };
        for policy in &plugin.registration.policies {
            match listed(Hook::BeforeToolCall, &policy.handler, None) {
                Some(listed) => self.policies.push(Listed {
                    policy: Some(policy.id.clone()),
                    ..listed
                }),
                None => left_out.push(format!("policy {}: {NOT_THERE}", policy.id)),
            }
        }
        for registered in &plugin.registration.hooks {
            let row = registered.hook.descriptor();
            let listed = listed(registered.hook, &registered.handler, registered.deadline);
            match (refused(row, &plugin.access), listed) {
                (Some(why), _) => left_out.push(format!("{}: {why}", row.name)),
                (None, None) => left_out.push(format!("{}: {NOT_THERE}", row.name)),
                (None, Some(listed)) => self.handlers[registered.hook as usize].push(Listed {
                    authority: registered.authority,
                    tools: registered.tools.clone(),
                    priority: registered.priority,
                    ..listed
                }),
            }
        }
        left_out
    }

    /// Everyone who is called for `hook`, in order.
    pub fn of(&self, hook: Hook) -> &[Listed] {
        &self.handlers[hook as usize]
    }

    /// The trusted policies of tools, in the order in which they judge.
    pub fn policies(&self) -> &[Listed] {
        &self.policies
    }

    /// How many handlers and policies of a plugin are called.
    pub fn count(&self, plugin: &str) -> usize {
        let all = self.handlers.iter().flatten().chain(&self.policies);
        all.filter(|listed| &*listed.plugin == plugin).count()
    }

    /// The first guard of `hook` that ought to be there and is not.
    pub fn missing(&self, hook: Hook) -> Option<&Name> {
        let lacks = |(_, hooks): &&(Name, Vec<Hook>)| hooks.contains(&hook);
        self.missing.iter().find(lacks).map(|(name, _)| name)
    }

    /// Whether anything happens at `hook`.
    pub fn fires(&self, hook: Hook) -> bool {
        let judged = hook == Hook::BeforeToolCall && !self.policies.is_empty();
        judged || !self.of(hook).is_empty() || self.missing(hook).is_some()
    }

    /// How often handlers of a plugin were called.
    pub fn calls(&self, plugin: &str) -> u64 {
        self.calls.get(plugin).map_or(0, |calls| calls.load(Ordering::Relaxed))
    }

    /// This table with the handlers and guards of these plugins alone. Case makes no difference in ids.
    #[must_use]
    pub fn only(&self, plugins: &[Name]) -> Self {
        let listed = |name: &Name| plugins.iter().any(|plugin| plugin.eq_ignore_ascii_case(name));
        let mut table = self.clone();
        for handlers in &mut table.handlers {
            handlers.retain(|handler| listed(&handler.plugin));
        }
        table.policies.retain(|policy| listed(&policy.plugin));
        table.missing.retain(|(name, _)| listed(name));
        table
    }
}

#[cfg(test)]
mod tests {
    use understudy_messages::hooks::HookResult;
    use understudy_plugins::registration::HookOptions;

    use super::*;

    fn plugin(id: &str, conversation: bool, hooks: &[(&str, i32)]) -> LoadedPlugin {
        let mut registration = Registration::default();
        for (hook, priority) in hooks {
            let options = HookOptions {
                priority: *priority,
                ..HookOptions::default()
            };
            registration.on(hook, options, Handler::Quick(Arc::new(|_, _| Ok(HookResult::None))));
        }
        LoadedPlugin {
            id: id.into(),
            access: Access {
                conversation,
                injection: true,
                ..Access::default()
            },
            registration: Arc::new(registration),
            port: None,
            tools: None,
        }
    }

    fn order(table: &HookTable, hook: Hook) -> Vec<&str> {
        table.of(hook).iter().map(|handler| &*handler.plugin).collect()
    }

    #[test]
    fn higher_priority_comes_first_and_equal_ones_in_order() {
        let hook = "before_tool_call";
        let plugins = [
            plugin("a", true, &[(hook, 0)]),
            plugin("b", true, &[(hook, 5), (hook, 0)]),
            plugin("c", true, &[(hook, 5)]),
        ];
        let (table, left_out) = HookTable::new(&plugins, Vec::new());
        assert_eq!(order(&table, Hook::BeforeToolCall), ["b", "c", "a", "b"]);
        assert!(left_out.is_empty());
    }

    #[test]
    fn without_conversation_access_only_hooks_that_show_it_are_left_out_cases_14_61() {
        let hooks = [
            ("agent_end", 0),
            ("before_tool_call", 0),
            ("model_failover", 0),
            ("model_failure_terminal", 0),
        ];
        let (table, left_out) = HookTable::new(&[plugin("p", false, &hooks)], Vec::new());
        assert!(order(&table, Hook::AgentEnd).is_empty());
        assert!(order(&table, Hook::ModelFailureTerminal).is_empty());
        assert_eq!(order(&table, Hook::BeforeToolCall), ["p"]);
        assert_eq!(order(&table, Hook::ModelFailover), ["p"]);
        assert_eq!(left_out.len(), 2);
        assert!(left_out[0].1.contains("allowConversationAccess"));
    }

    #[test]
    fn an_operators_deadline_comes_before_the_plugins() {
        let mut one = plugin("p", true, &[("agent_end", 0), ("llm_input", 0)]);
        one.access.deadlines.insert(Hook::AgentEnd, Duration::from_millis(7));
        let (table, _) = HookTable::new(&[one], Vec::new());
        assert_eq!(table.of(Hook::AgentEnd)[0].deadline, Duration::from_millis(7));
        assert_eq!(table.of(Hook::LlmInput)[0].deadline, Duration::from_secs(30));
    }

    #[test]
    fn an_agents_table_has_the_plugins_that_it_lists() {
        let hooks = [("before_tool_call", 0), ("agent_end", 0)];
        let missing = vec![
            (Name::from("c"), vec![Hook::BeforeAgentRun]),
            (Name::from("d"), vec![Hook::BeforeToolCall]),
        ];
        let (whole, _) = HookTable::new(&[plugin("a", true, &hooks), plugin("b", true, &hooks)], missing);
        let table = whole.only(&["B".into(), "c".into()]);
        assert_eq!(order(&table, Hook::BeforeToolCall), ["b"]);
        assert_eq!(table.missing(Hook::BeforeAgentRun).map(|name| &**name), Some("c"));
        assert!(table.missing(Hook::BeforeToolCall).is_none());
        assert!(!whole.only(&[]).fires(Hook::AgentEnd));
        table.of(Hook::AgentEnd)[0].count();
        assert_eq!(
            (whole.calls("b"), whole.calls("a")),
            (1, 0),
            "calls are counted once for all"
        );
    }

    #[test]
    fn policies_stand_in_the_order_of_their_plugins_and_count_as_guards_of_tools() {
        let policy = |id: &str| {
            let mut plugin = plugin(id, false, &[]);
            let mut registration = Registration::default();
            registration.policy("p", Handler::Quick(Arc::new(|_, _| Ok(HookResult::None))));
            plugin.registration = Arc::new(registration);
            plugin
                .access
                .deadlines
                .insert(Hook::BeforeToolCall, Duration::from_millis(7));
            plugin
        };
        let (table, left_out) = HookTable::new(&[policy("b"), policy("a")], Vec::new());
        let order: Vec<&str> = table.policies().iter().map(|policy| &*policy.plugin).collect();
        assert_eq!((order, left_out.len()), (vec!["b", "a"], 0), "and no access is needed");
        assert_eq!(table.policies()[0].deadline, Duration::from_millis(7));
        assert!(table.fires(Hook::BeforeToolCall) && !table.fires(Hook::AfterToolCall));
        assert_eq!(table.count("a"), 1);
        let only = table.only(&["a".into()]);
        assert_eq!(only.policies().len(), 1);
        assert!(!table.only(&[]).fires(Hook::BeforeToolCall));
    }

    #[test]
    fn a_guard_that_is_gone_is_named() {
        let (table, _) = HookTable::new(&[], vec![("guard".into(), vec![Hook::BeforeToolCall])]);
        assert_eq!(table.missing(Hook::BeforeToolCall).map(|name| &**name), Some("guard"));
        assert!(table.fires(Hook::BeforeToolCall) && !table.fires(Hook::BeforeAgentRun));
    }
}
