//! The plugin, compiled in. The webhook's service answers by the same code.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::wire::EventView;
use understudy_messages::hooks::{Hook, HookContext, HookResult};
use understudy_plugins::Instance;
use understudy_plugins::native::{NativeApi, NativeInstance, NativePlugin};
use understudy_plugins::registration::{HookOptions, ToolRegistration};

/// What the plugin remembers.
#[derive(Clone)]
pub(crate) struct Probe {
    released: Arc<Semaphore>,
}

/// What it answers.
pub(crate) enum Does {
    Nothing,
    Answers(Value),
    Throws,
    Crashes,
}

impl Probe {
    pub(crate) fn new() -> Self {
        Self {
            released: Arc::new(Semaphore::new(0)),
        }
    }

    /// Does what the event tells it to.
    pub(crate) async fn hook(&self, hook: &str, event: &Value, context: &Value) -> Does {
        Does::Answers(match hook {
            "before_tool_call" => return self.gate(event).await,
            "before_agent_run" if event["prompt"] == "stop" => {
                json!({ "outcome": "block", "reason": "said so", "status": 451 })
            }
            "before_agent_run" if event["prompt"] == "silence" => return Does::Nothing,
            "before_agent_run" => json!({ "outcome": "pass" }),
            "before_prompt_build" => {
                json!({ "prependContext": format!("for {}", context["modelId"].as_str().unwrap_or_default()) })
            }
            "before_model_resolve" => json!({ "modelOverride": "other", "fallbacks": [] }),
            "before_agent_reply" => json!({ "handled": true, "reply": event["cleanedBody"] }),
            _ => json!("an observer's answer"),
        })
    }

    async fn gate(&self, event: &Value) -> Does {
        Does::Answers(match event["params"]["do"].as_str().unwrap_or_default() {
            "block" => json!({ "block": true, "blockReason": "no" }),
            "params" => json!({ "params": { "a": 2 } }),
            "null" => json!(null),
            "throw" => return Does::Throws,
            "hang" | "idle" => std::future::pending().await,
            "garbage" => json!({ "block": "perhaps" }),
            "conversation" => {
                let mut seen = event.clone();
                if let Value::Object(seen) = &mut seen {
                    seen.retain(|key, _| matches!(&**key, "systemPrompt" | "messages" | "tools"));
                }
                json!({ "params": { "seen": seen } })
            }
            "wait" => {
                self.released.acquire().await.expect("open").forget();
                json!({ "params": { "order": "second" } })
            }
            "release" => {
                self.released.add_permits(1);
                json!({ "params": { "order": "first" } })
            }
            "late" => {
                Clock::real().sleep(Duration::from_millis(200)).await;
                json!({ "block": true, "blockReason": "too late" })
            }
            "crash" => return Does::Crashes,
            _ => return Does::Nothing,
        })
    }
}

impl NativePlugin for Probe {
    fn id(&self) -> &str {
        "probe"
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        let gate = HookOptions {
            priority: 5,
            deadline: Some(Duration::from_millis(250)),
            tools: Some(vec!["exec".to_owned()]),
        };
        let late = HookOptions {
            priority: -1,
            ..HookOptions::default()
        };
        let hooks = [
            ("before_agent_start", HookOptions::default()),
            ("before_tool_call", gate),
            ("before_agent_run", HookOptions::default()),
            ("before_prompt_build", late),
            ("before_model_resolve", HookOptions::default()),
            ("before_agent_reply", HookOptions::default()),
            ("agent_end", HookOptions::default()),
        ];
        for (name, options) in hooks {
            let probe = self.clone();
            let handler = move |event: Arc<understudy_messages::hooks::HookEvent>, context: Arc<HookContext>, _| {
                let probe = probe.clone();
                async move {
                    let view = EventView {
                        event: &event,
                        conversation: true,
                    };
                    let told = serde_json::to_value(view).expect("JSON");
                    match probe.hook(name, &told, &context.to_json()).await {
                        Does::Nothing => Ok(HookResult::None),
                        Does::Answers(answer) => {
                            let hook = Hook::parse(name).expect("a hook");
                            HookResult::read(hook, answer).map_err(|error| error.to_string())
                        }
                        Does::Throws => Err("thrown\non two lines".to_owned()),
                        Does::Crashes => panic!("the plugin crashed"),
                    }
                }
                .boxed()
            };
            api.on(name, options, Arc::new(handler));
        }
        let echo = ToolRegistration {
            name: "echo".to_owned(),
            description: Some("Says it again.".to_owned()),
            parameters: Some(r#"{"type":"object"}"#.to_owned()),
            replay_safe: true,
        };
        let echoes =
            |call: understudy_messages::plugin::CallTool| async move { Ok(json!({ "echo": call.params })) }.boxed();
        api.tool(echo, Arc::new(echoes));
        Ok(())
    }
}

pub(crate) fn probe() -> Box<dyn Instance> {
    Box::new(NativeInstance::load(&Probe::new(), &json!({})).expect("it registers"))
}
