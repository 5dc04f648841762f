//! Plugins that tests have made already, as plugins that are compiled into the app.

use std::sync::Arc;

use futures::FutureExt;
use serde_json::{Value, json};
use understudy_actors::hooks::LoadedPlugin;
use understudy_messages::plugin::CallHook;
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{AsyncHandler, NativeApi, NativePlugin};
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
                authority: hook.authority,
            };
            let name = hook.hook.as_label();
            match &hook.handler {
                Handler::Quick(quick) => api.on_quick(name, options, quick.clone()),
                Handler::Instance(handler) => api.on(name, options, self.sent(*handler)?),
            }
        }
        for policy in &self.0.registration.policies {
            match &policy.handler {
                Handler::Quick(quick) => api.policy_quick(&policy.id, quick.clone()),
                Handler::Instance(handler) => api.policy(&policy.id, self.sent(*handler)?),
            }
        }
        Ok(())
    }
}

impl Given {
    /// A handler that asks the plugin's own instance.
    fn sent(&self, handler: u32) -> Result<AsyncHandler, String> {
        let port = self.0.port.clone().ok_or("its instance is not there")?;
        Ok(Arc::new(move |event, context, cancel| {
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
        }))
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
