//! Plugins that tests have made already, as plugins that are compiled into the app.

use std::sync::Arc;

use futures::FutureExt;
use serde_json::{Value, json};
use understudy_actors::hooks::LoadedPlugin;
use understudy_messages::plugin::CallHook;
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::{Handler, HookOptions};

/// Hands its handlers on.
struct Given(LoadedPlugin);

impl NativePlugin for Given {
    fn id(&self) -> &str {
        &self.0.id
    }

    fn enabled_by_default(&self) -> bool {
        true
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        for hook in &self.0.registration.hooks {
            let options = HookOptions {
                priority: hook.priority,
                deadline: hook.deadline,
                tools: hook.tools.clone(),
            };
            let name = hook.hook.as_label();
            let handler = match &hook.handler {
                Handler::Quick(quick) => {
                    api.on_quick(name, options, quick.clone());
                    continue;
                }
                Handler::Instance(handler) => *handler,
            };
            let port = self.0.port.clone().ok_or("its instance is not there")?;
            let sent = Arc::new(move |event, context, cancel| {
                let call = port.send(CallHook {
                    handler,
                    event,
                    context,
                    conversation: true,
                    cancel,
                });
                async move {
                    let answer = call.await.map_err(|error| error.to_string())?;
                    answer.map_err(|error| error.to_string())
                }
                .boxed()
            });
            api.on(name, options, sent);
        }
        Ok(())
    }
}

/// Hosts that have these plugins.
pub fn hosts(plugins: Vec<LoadedPlugin>) -> Hosts {
    Hosts {
        native: plugins
            .into_iter()
            .map(|plugin| Arc::new(Given(plugin)) as Arc<dyn NativePlugin>)
            .collect(),
        ..Hosts::default()
    }
}

/// The configuration that lets these plugins do what they may do.
pub fn access(plugins: &[LoadedPlugin]) -> String {
    let entry = |plugin: &LoadedPlugin| {
        let access = &plugin.access;
        let hooks = json!({ "allowConversationAccess": access.conversation, "allowPromptInjection": access.injection });
        (plugin.id.to_string(), json!({ "hooks": hooks }))
    };
    let entries: serde_json::Map<String, Value> = plugins.iter().map(entry).collect();
    format!("\nplugins: {}\n", json!({ "entries": entries }))
}
