//! The plugins of a case: they do what its file says, and an observer beside them only listens.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use understudy_messages::hooks::{HookContext, HookEvent, HookResult};
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{AsyncHandler, NativeApi, NativePlugin};
use understudy_plugins::registration::{HookOptions, QuickHandler};

use crate::expect::events::Hook;

/// The plugin that every case has: it listens and says nothing.
pub(crate) const OBSERVER: &str = "observer";

/// One plugin of a case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plugin {
    id: String,
    hooks: std::collections::BTreeMap<Hook, Behaviour>,
    timeout_ms: Option<u64>,
    #[serde(default)]
    priority: i32,
}

/// What a plugin does at a hook.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Behaviour {
    prepend: Option<String>,
    block_if_args_contain: Option<String>,
    set_model: Option<String>,
    hang: bool,
    throw: bool,
    /// To hear of it is to count it.
    #[serde(rename = "count")]
    _count: bool,
    fail_when_text_contains: Option<String>,
    fail_when_target: Option<String>,
    allow_fallbacks: bool,
    status: Option<u16>,
}

/// One call of a handler.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) plugin: String,
    pub(crate) hook: Hook,
    /// The turn, by the gateway's name for it.
    pub(crate) turn: Option<String>,
    pub(crate) facts: Map<String, Value>,
}

/// What the plugins of a case were told, in order.
#[derive(Clone, Default)]
pub(crate) struct Heard {
    calls: Arc<Mutex<Vec<Call>>>,
    /// Nothing is kept: what is kept would be taken for the gateway's memory.
    forgets: bool,
}

impl Heard {
    /// Keeps what is heard, or forgets it at once.
    pub(crate) fn new(forgets: bool) -> Self {
        Self {
            forgets,
            ..Self::default()
        }
    }

    pub(crate) fn all(&self) -> Vec<Call> {
        self.calls.lock().expect("sound").clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.calls.lock().expect("sound").len()
    }

    /// Notes a call; whether it is about the case's hook, which may be a part of the product's.
    fn note(&self, plugin: &str, hook: Hook, event: &HookEvent, context: &HookContext) -> bool {
        let facts = event.facts();
        let concerns = hook.concerns(&facts);
        if concerns && !self.forgets {
            self.calls.lock().expect("sound").push(Call {
                plugin: plugin.to_owned(),
                hook,
                turn: context.run_id.clone(),
                facts,
            });
        }
        concerns
    }
}

/// The plugins whose next instance throws when it is started.
#[derive(Clone, Default)]
pub(crate) struct Misfits(Arc<Mutex<BTreeSet<String>>>);

impl Misfits {
    pub(crate) fn add(&self, plugin: &str) {
        self.0.lock().expect("sound").insert(plugin.to_owned());
    }

    /// Whether it is one; only once.
    fn take(&self, plugin: &str) -> bool {
        self.0.lock().expect("sound").remove(plugin)
    }
}

/// The configuration that lets plugins do what they do.
#[derive(Clone, Default)]
pub(crate) struct Entries(Map<String, Value>);

impl Entries {
    /// Sets `plugins.<id>.<setting>`.
    pub(crate) fn set(&mut self, path: &str, value: &Value) -> Result<(), String> {
        let unknown = || format!("a path that no operator knows: {path}");
        let (plugin, setting) = path
            .strip_prefix("plugins.")
            .and_then(|path| path.split_once('.'))
            .ok_or_else(unknown)?;
        let entry = self.0.get_mut(plugin).ok_or_else(unknown)?;
        entry["config"][setting] = value.clone();
        Ok(())
    }

    pub(crate) fn to_yaml(&self) -> String {
        format!("plugins: {}\n", json!({ "entries": self.0 }))
    }
}

/// What may be set while a plugin serves.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// In the place of what its hooks prepend.
    prepend: Option<String>,
}

/// The hosts that have these plugins and the observer, and the configuration that lets them do what they do.
///
/// Only where somebody wants to know of them does the observer listen to calls of tools: whoever does makes them wait.
pub(crate) fn hosts(plugins: &[Plugin], hears_tools: bool, heard: &Heard, misfits: &Misfits) -> (Hosts, Entries) {
    let hooks = Hook::ALL
        .into_iter()
        .filter(|hook| hears_tools || *hook != Hook::BeforeToolCall);
    let observer = Plugin {
        id: OBSERVER.to_owned(),
        hooks: hooks.map(|hook| (hook, Behaviour::default())).collect(),
        timeout_ms: None,
        priority: 0,
    };
    let mut entries = Map::new();
    let mut hosts = Hosts::default();
    for plugin in plugins.iter().chain([&observer]) {
        let settings = json!({ "enabled": true, "hooks": { "allowConversationAccess": true } });
        entries.insert(plugin.id.clone(), settings);
        hosts.native.push(Arc::new(Acting {
            plugin: plugin.clone(),
            heard: heard.clone(),
            misfits: misfits.clone(),
        }));
    }
    (hosts, Entries(entries))
}

/// A plugin that does what a case says.
struct Acting {
    plugin: Plugin,
    heard: Heard,
    misfits: Misfits,
}

impl NativePlugin for Acting {
    fn id(&self) -> &str {
        &self.plugin.id
    }

    fn register(&self, api: &mut NativeApi, settings: &Value) -> Result<(), String> {
        if self.misfits.take(&self.plugin.id) {
            return Err("thrown in start".to_owned());
        }
        let settings: Option<Settings> =
            serde_json::from_value(settings.clone()).map_err(|unknown| unknown.to_string())?;
        let settings = settings.unwrap_or_default();
        for (hook, behaviour) in &self.plugin.hooks {
            let options = HookOptions {
                priority: self.plugin.priority,
                deadline: self.plugin.timeout_ms.map(Duration::from_millis),
                ..HookOptions::default()
            };
            match behaviour.hang {
                true => api.on(hook.products(), options, self.hanging(*hook)),
                false => api.on_quick(hook.products(), options, self.quick(*hook, behaviour.set(&settings))),
            }
        }
        Ok(())
    }
}

impl Acting {
    fn hanging(&self, hook: Hook) -> AsyncHandler {
        let (id, heard) = (self.plugin.id.clone(), self.heard.clone());
        Arc::new(move |event, context, _cancelled_by_drop| {
            heard.note(&id, hook, &event, &context);
            std::future::pending().boxed()
        })
    }

    fn quick(&self, hook: Hook, behaviour: Behaviour) -> QuickHandler {
        let (id, heard) = (self.plugin.id.clone(), self.heard.clone());
        Arc::new(move |event, context| {
            if !heard.note(&id, hook, event, context) {
                return Ok(HookResult::None);
            }
            if behaviour.throw {
                return Err("thrown".to_owned());
            }
            match behaviour.answer(event, context) {
                Some(answer) => HookResult::read(event.hook(), answer).map_err(|invalid| invalid.to_string()),
                None => Ok(HookResult::None),
            }
        })
    }
}

impl Behaviour {
    /// The same with these settings.
    fn set(&self, settings: &Settings) -> Self {
        let set = settings.prepend.as_ref().filter(|_| self.prepend.is_some());
        Self {
            prepend: set.or(self.prepend.as_ref()).cloned(),
            ..self.clone()
        }
    }

    fn answer(&self, event: &HookEvent, context: &HookContext) -> Option<Value> {
        if let Some(text) = &self.prepend {
            return Some(json!({ "prependContext": text }));
        }
        if let Some(model) = &self.set_model {
            return Some(json!({ "modelOverride": model }));
        }
        if let Some(text) = &self.block_if_args_contain {
            let arguments = event.facts().remove("params").unwrap_or_default().to_string();
            return arguments
                .contains(&**text)
                .then(|| json!({ "block": true, "blockReason": "not these arguments" }));
        }
        let scope = if self.allow_fallbacks { "candidate" } else { "turn" };
        self.fails(event, context)
            .then(|| json!({ "outcome": "block", "reason": "as the case says", "scope": scope, "status": self.status }))
    }

    fn fails(&self, event: &HookEvent, context: &HookContext) -> bool {
        let said = |text: &String| {
            let conversation = event.conversation();
            conversation.is_some_and(|conversation| conversation.look().prompt.contains(&**text))
        };
        let asked = |target: &String| {
            let (provider, model) = (context.model_provider_id.as_deref(), context.model_id.as_deref());
            provider
                .zip(model)
                .is_some_and(|(provider, model)| *target == format!("{provider}/{model}"))
        };
        self.fail_when_text_contains.as_ref().is_some_and(said) || self.fail_when_target.as_ref().is_some_and(asked)
    }
}
