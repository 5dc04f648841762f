//! The plugin, compiled in. The webhook's service answers by the same code.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::wire::EventView;
use understudy_messages::hooks::{Hook, HookContext, HookEvent, HookResult, PromptContribution, ToolAuthority};
use understudy_messages::service::{CallRoute, CallService, RouteAnswer};
use understudy_plugins::Instance;
use understudy_plugins::native::{NativeApi, NativeInstance, NativePlugin};
use understudy_plugins::registration::{CommandRegistration, HookOptions, RouteOptions, ToolRegistration};

/// What the plugin remembers.
#[derive(Clone)]
pub(crate) struct Probe {
    released: Arc<Semaphore>,
    kept: Arc<Mutex<Option<ToolAuthority>>>,
    state: Arc<Mutex<&'static str>>,
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
            kept: Arc::default(),
            state: Arc::new(Mutex::new("idle")),
        }
    }

    /// What it says of the authority that it got, and of the one before.
    fn authorised(&self, prompt: &str, authority: ToolAuthority) -> Result<HookResult, String> {
        let before = self.kept.lock().expect("kept").replace(authority.clone());
        let over = |kept: &ToolAuthority| kept.allows("read").is_err() && kept.assert_active().is_err();
        let text = match prompt {
            "kept" if before.as_ref().is_some_and(over) => "the one before is over".to_owned(),
            _ => {
                let may = |tool| authority.allows(tool).map_err(|over| over.to_string());
                format!("read {}, exec {}", may("read")?, may("exec")?)
            }
        };
        Ok(HookResult::Prompt(PromptContribution {
            prepend_context: Some(text),
            ..PromptContribution::default()
        }))
    }

    /// What its services do.
    pub(crate) fn service(&self, service: &str, turn: &str) -> Result<(), String> {
        if service == "broken" {
            return Err("as asked".to_owned());
        }
        *self.state.lock().expect("whole") = if turn == "start" { "started" } else { "stopped" };
        Ok(())
    }

    /// What its routes answer.
    pub(crate) fn route(&self, route: &str, request: &Value) -> Does {
        match (route, request["body"].as_str()) {
            ("/state", _) => Does::Answers(json!({ "body": *self.state.lock().expect("whole") })),
            (_, Some("throw")) => Does::Throws,
            (_, Some("garbage")) => Does::Answers(json!({ "stauts": 200 })),
            _ => {
                let of = |name: &str| request[name].clone();
                let seen = [
                    of("method"),
                    of("path"),
                    of("query"),
                    request["headers"]["x-from"].clone(),
                    of("body"),
                ];
                Does::Answers(json!({ "status": 201, "headers": { "X-Probe": "yes" }, "body": seen }))
            }
        }
    }

    fn register_serving(&self, api: &mut NativeApi) {
        for id in ["poller", "broken"] {
            let probe = self.clone();
            let handler = move |call: CallService| {
                let done = probe.service(&call.service, call.turn.as_label());
                futures::future::ready(done).boxed()
            };
            api.service(id, Arc::new(handler));
        }
        let prefix = RouteOptions {
            matches: Some("prefix".to_owned()),
            auth: Some("gateway".to_owned()),
        };
        for (path, options) in [("/state", RouteOptions::default()), ("/echo", prefix)] {
            let probe = self.clone();
            let handler = move |call: CallRoute| {
                let request = serde_json::to_value(&call.request).expect("JSON");
                let answer = match probe.route(&call.route, &request) {
                    Does::Answers(answer) => RouteAnswer::read(Some(answer)).map_err(|why| why.to_string()),
                    Does::Nothing | Does::Throws | Does::Crashes => Err("thrown".to_owned()),
                };
                futures::future::ready(answer).boxed()
            };
            api.route(path, &options, Arc::new(handler));
        }
        api.command(CommandRegistration {
            name: "sync".to_owned(),
            description: Some("Fetches it all.".to_owned()),
        });
    }

    /// What the policy does.
    pub(crate) async fn policy(&self, event: &Value) -> Does {
        Does::Answers(match event["params"]["do"].as_str().unwrap_or_default() {
            "deny" => json!({ "allow": false, "reason": "no" }),
            "allow" => json!({ "allow": true }),
            "ask" => json!({ "requireApproval": { "title": "may it?" } }),
            "unheard" => json!({ "verdict": "deny" }),
            _ => return self.gate(event).await,
        })
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
            "before_prompt_build" if context["toolAuthority"].is_object() => {
                let tools = context["toolAuthority"]["tools"].as_array().expect("a list");
                let may = |tool: &str| tools.iter().any(|name| name == tool);
                json!({ "prependContext": format!("read {}, exec {}", may("read"), may("exec")) })
            }
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
            ..HookOptions::default()
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
            let handler = move |event: Arc<HookEvent>, context: Arc<HookContext>, _| {
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
        let (probe, options) = (
            self.clone(),
            HookOptions {
                authority: true,
                ..HookOptions::default()
            },
        );
        let authorised = move |event: Arc<HookEvent>, context: Arc<HookContext>, _| {
            let prompt = event
                .conversation()
                .map(|conversation| conversation.look().prompt.clone());
            let authority = context.tool_authority.clone().expect("an authority");
            let answer = probe.authorised(&prompt.unwrap_or_default(), authority);
            futures::future::ready(answer).boxed()
        };
        api.on("before_prompt_build", options, Arc::new(authorised));
        for _ in 0..2 {
            let probe = self.clone();
            let policy = move |event: Arc<HookEvent>, _, _| {
                let probe = probe.clone();
                async move {
                    match probe.policy(&Value::Object(event.facts())).await {
                        Does::Nothing => Ok(HookResult::None),
                        Does::Answers(answer) => HookResult::of_policy(Some(answer)).map_err(|error| error.to_string()),
                        Does::Throws => Err("thrown".to_owned()),
                        Does::Crashes => panic!("the plugin crashed"),
                    }
                }
                .boxed()
            };
            api.policy("budget", Arc::new(policy));
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
        self.register_serving(api);
        Ok(())
    }
}

pub(crate) fn probe() -> Box<dyn Instance> {
    Box::new(NativeInstance::load(&Probe::new(), &json!({})).expect("it registers"))
}
