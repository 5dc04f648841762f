//! A plugin that writes down all that it is told.

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value};
use understudy_messages::hooks::wire::event_json;
use understudy_messages::hooks::{HOOKS, Hook, HookResult};
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::HookOptions;

use crate::seen::Told;

/// What was told, in order. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Record(Arc<Mutex<Vec<Told>>>);

impl Record {
    /// Whether the turn after the one that had this many events before it has ended.
    pub(crate) fn has_ended(&self, from: usize) -> bool {
        let told = self.0.lock().expect("sound");
        told.iter().skip(from).any(|told| told.hook == "agent_end")
    }

    pub(crate) fn count(&self) -> usize {
        self.0.lock().expect("sound").len()
    }

    /// What was told from the `from`th event on.
    pub(crate) fn since(&self, from: usize) -> Vec<Told> {
        self.0.lock().expect("sound")[from..].to_vec()
    }
}

/// The plugin.
pub(crate) struct Recorder {
    pub(crate) record: Record,
    /// Whether calls of tools are listened to: whoever does makes them wait.
    pub(crate) hears_tools: bool,
}

impl NativePlugin for Recorder {
    fn id(&self) -> &str {
        "recorder"
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        for row in HOOKS
            .iter()
            .filter(|row| self.hears_tools || row.hook != Hook::BeforeToolCall)
        {
            let record = self.record.clone();
            // before the others, as it stood in the recorded system
            let options = HookOptions {
                priority: -100,
                ..HookOptions::default()
            };
            let handler = move |event: &_, context: &understudy_messages::hooks::HookContext| {
                let object = |value: Value| value.as_object().cloned().unwrap_or_default();
                record.0.lock().expect("sound").push(Told {
                    hook: row.name.to_owned(),
                    event: object(event_json(event, true)),
                    context: object(context.to_json()),
                });
                Ok(HookResult::None)
            };
            api.on_quick(row.name, options, Arc::new(handler));
        }
        Ok(())
    }
}

/// The members of what was told, whatever they are.
pub(crate) fn names(members: &Map<String, Value>) -> impl Iterator<Item = (&str, &'static str)> {
    members.iter().map(|(name, value)| (&**name, kind(value)))
}

/// The kind of a value. In recordings long texts, lists and functions stand for themselves in short.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "flag",
        Value::Number(_) => "number",
        Value::String(text) if text.starts_with("<list") => "list",
        Value::String(_) => "text",
        Value::Array(_) => "list",
        Value::Object(members) if members.contains_key("sha") && members.contains_key("len") => "text",
        Value::Object(_) => "object",
    }
}
