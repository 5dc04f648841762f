//! Whole gateways that differ in their plugin.

use std::sync::Arc;

use serde_json::Value;
use understudy::config::ServerConfig;
use understudy::{App, AppOptions};
use understudy_messages::hooks::{HOOKS, Hook, HookResult};
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::HookOptions;
use understudy_tests::bench::process::Program;
use understudy_tests::bench::target::{CHAT, FIRST_ATTEMPT, Target};
use understudy_tests::bench::upstream::MODEL;

/// The argument that makes this program a gateway.
pub const ROLE: &str = "gateway";

/// A plugin that is compiled in, sees everything and says nothing: a quick handler on each of its hooks.
pub struct Quiet {
    id: &'static str,
    pub about: &'static str,
    hears: fn(Hook) -> bool,
}

/// What the gateways have; the first has nothing.
pub const PLUGINS: [Quiet; 4] = [
    Quiet {
        id: "none",
        about: "no plugin",
        hears: |_| false,
    },
    Quiet {
        id: "one",
        about: "quiet native, before_prompt_build alone",
        hears: |hook| hook == Hook::BeforePromptBuild,
    },
    Quiet {
        id: "turns",
        about: "quiet native, every hook of a turn",
        hears: |hook| !is_about_tools(hook),
    },
    Quiet {
        id: "tools",
        about: "quiet native guard of tools",
        hears: is_about_tools,
    },
];

fn is_about_tools(hook: Hook) -> bool {
    matches!(hook, Hook::BeforeToolCall | Hook::AfterToolCall)
}

impl NativePlugin for Quiet {
    fn id(&self) -> &str {
        self.id
    }

    fn enabled_by_default(&self) -> bool {
        true
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        for row in HOOKS.iter().filter(|row| (self.hears)(row.hook)) {
            api.on_quick(row.name, HookOptions::default(), Arc::new(|_, _| Ok(HookResult::None)));
        }
        Ok(())
    }
}

/// One gateway for each plugin.
pub fn gateways(start: impl Fn(&str) -> Program) -> Vec<Program> {
    PLUGINS.iter().map(|plugin| start(plugin.id)).collect()
}

/// The way through one of them.
pub fn target<'a>(name: &'static str, program: &'a Program) -> Target<'a> {
    Target {
        name,
        program,
        path: CHAT,
        model: "direct",
        sessions: false,
        expected: FIRST_ATTEMPT,
    }
}

/// Serves for ever on a free port with one of the plugins, and says where.
pub fn serve(origin: &str, plugin: &str) {
    let config = format!(
        r#"listen: {{ api: "127.0.0.1:0", admin: "127.0.0.1:0" }}
providers:
  ok: {{ api: openai-chat, base_url: "{origin}/ok/v1", models: [{MODEL}] }}
models:
  direct: {{ chain: [ok/{MODEL}] }}
"#
    );
    let plugins = PLUGINS.into_iter().filter(|one| one.id == plugin);
    let hosts = Hosts {
        native: plugins.map(|one| Arc::new(one) as Arc<dyn NativePlugin>).collect(),
        ..Hosts::default()
    };
    actix::System::with_tokio_rt(understudy::shared_runtime).block_on(async {
        let config = ServerConfig::parse(&config, &|_| None).expect("a sound configuration");
        let app = App::start_hosting(config, AppOptions::default(), &hosts).await;
        let app = app.expect("the app starts");
        println!("{}", serde_json::json!({ "api": app.api() }));
        std::future::pending::<()>().await;
    });
}
