//! Quiet plugins on every host, at work as the gateway puts them to work.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use actix::{Actor, Arbiter, Recipient};
use futures::FutureExt;
use serde_json::{Value, json};
use understudy_actors::hooks::Hooks;
use understudy_actors::plugin::{PluginInstanceActor, Served};
use understudy_actors::supervision::{Supervision, Tasks};
use understudy_actors::telemetry::Telemetry;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{HookEvent, HookResult, Parsed};
use understudy_messages::plugin::CallHook;
use understudy_plugins::hosts::{Hosts, Load};
use understudy_plugins::manifest::{HostKind, Manifest};
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::{HookOptions, Registration};
use understudy_tests::bench::hooks::{self, ID};

use crate::child;

/// The hooks that every plugin registers.
pub const HOOKS: [&str; 2] = ["before_prompt_build", "before_tool_call"];

/// How much of a conversation a handler looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Nothing,
    Last,
    All,
}

impl Look {
    const fn as_label(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Last => "last",
            Self::All => "all",
        }
    }

    /// Looks, and sees that there is something where there has to be.
    fn at(self, event: &HookEvent) -> Result<HookResult, String> {
        let conversation = || event.conversation().map(|snapshot| snapshot.look());
        let seen = match self {
            Self::Nothing => 1,
            Self::Last => conversation().and_then(|it| it.messages.last()).map_or(0, letters),
            Self::All => conversation().map_or(0, |Parsed { messages, .. }| messages.iter().map(letters).sum()),
        };
        if seen == 0 {
            Err("saw nothing".to_owned())
        } else {
            Ok(HookResult::None)
        }
    }
}

fn letters(message: &Value) -> usize {
    let parts = message["content"].as_array().into_iter().flatten();
    parts.map(|part| part["text"].as_str().map_or(0, str::len)).sum()
}

/// A plugin of the bench.
#[derive(Clone, Copy, Debug)]
pub enum Plugin {
    /// Compiled in; so many handlers on each hook.
    Quick(Look, usize),
    /// Compiled in, and called by message.
    Native,
    #[cfg(feature = "js")]
    Js(Look),
    Process,
    Webhook(SocketAddr),
}

impl Plugin {
    fn host(self) -> HostKind {
        match self {
            Self::Quick(..) | Self::Native => HostKind::Native,
            #[cfg(feature = "js")]
            Self::Js(_) => HostKind::Js,
            Self::Process => HostKind::Process,
            Self::Webhook(_) => HostKind::Webhook,
        }
    }

    fn manifest(self) -> Value {
        let hooks = HOOKS.map(|hook| json!({ "hook": hook }));
        match self {
            Self::Quick(..) | Self::Native => json!({ "id": ID, "host": "native" }),
            #[cfg(feature = "js")]
            Self::Js(_) => json!({ "id": ID, "main": "guard.js" }),
            Self::Process => {
                let this = std::env::current_exe().expect("an executable");
                json!({ "id": ID, "host": "process", "command": [this, child::ROLE] })
            }
            Self::Webhook(address) => json!({ "id": ID, "url": format!("http://{address}/hooks"), "hooks": hooks }),
        }
    }

    fn settings(self) -> Value {
        match self {
            #[cfg(feature = "js")]
            Self::Js(look) => json!({ "look": look.as_label(), "hooks": HOOKS }),
            Self::Quick(..) | Self::Native | Self::Process | Self::Webhook(_) => json!({}),
        }
    }
}

impl NativePlugin for Plugin {
    fn id(&self) -> &str {
        ID
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        for hook in HOOKS {
            match *self {
                Self::Quick(look, handlers) => {
                    for _ in 0..handlers {
                        api.on_quick(hook, HookOptions::default(), Arc::new(move |event, _| look.at(event)));
                    }
                }
                Self::Native => {
                    let answer = |_, _, _| async { Ok(HookResult::None) }.boxed();
                    api.on(hook, HookOptions::default(), Arc::new(answer));
                }
                #[cfg(feature = "js")]
                Self::Js(_) => {}
                Self::Process | Self::Webhook(_) => {}
            }
        }
        Ok(())
    }
}

/// Plugins at work, each alone with its hooks.
pub struct House {
    telemetry: Arc<Telemetry>,
    hosts: Hosts,
    at_work: Vec<(Arc<Served>, Arbiter)>,
}

impl House {
    pub fn new() -> Self {
        Self {
            telemetry: Telemetry::new().expect("a sound table"),
            hosts: understudy::plugins::standard_hosts(),
            at_work: Vec::new(),
        }
    }

    /// The hooks of `plugin`, which sees conversations if it `sees`.
    pub async fn hooks(&mut self, plugin: Plugin, sees: bool) -> Hooks {
        let (manifest, _) = Manifest::read(&plugin.manifest().to_string()).expect("a manifest");
        let load = Load {
            id: ID.into(),
            manifest: Some(Arc::new(manifest)),
            folder: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/bench/hooks")),
            settings: plugin.settings(),
            workspaces: Vec::new(),
            grants: Default::default(),
            limits: Default::default(),
            clock: Clock::real(),
            listeners: Default::default(),
        };
        self.hosts.native = vec![Arc::new(plugin)];
        let instance = self.hosts.load(plugin.host(), load).await.expect("it registers");
        let registration = instance.registration().clone();
        assert_eq!((registration.warnings.len(), registration.hooks.is_empty()), (0, false));
        let supervision = Supervision {
            tasks: Tasks::new(),
            clock: Clock::real(),
            telemetry: self.telemetry.clone(),
        };
        let served = Served::new(ID.into(), instance, None, &supervision);
        let arbiter = Arbiter::with_tokio_rt(understudy::shared_runtime);
        let actor = PluginInstanceActor::start_in_arbiter(&arbiter.handle(), {
            let served = served.clone();
            move |_| PluginInstanceActor::new(served)
        });
        self.at_work.push((served, arbiter));
        self.alone(registration, Some(actor.recipient()), sees)
    }

    /// The hooks of one plugin that has registered this.
    pub fn alone(&self, registration: Registration, port: Option<Recipient<CallHook>>, sees: bool) -> Hooks {
        hooks::alone(registration, port, sees, self.telemetry.clone())
    }

    /// What was counted.
    pub fn scrape(&self) -> String {
        self.telemetry.render()
    }

    pub async fn stop(&self) {
        for (served, arbiter) in &self.at_work {
            served.stop().await.expect("it lets go");
            arbiter.stop();
        }
    }
}
