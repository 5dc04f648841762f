use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use understudy_actors::hooks::Hooks;
use understudy_actors::inventory::{Inventory, Level, Loader};
use understudy_actors::supervision::{Supervision, Tasks};
use understudy_actors::telemetry::Telemetry;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{Hook, HookContext, HookEvent, HookResult, Snapshot, ToolFate, ToolVerdict};
use understudy_messages::plugin::TurnHooks;
use understudy_messages::settings::Settings;
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::{HookOptions, ToolRegistration};

use super::*;
use crate::config::ServerConfig;

/// A plugin that registers as its test says.
struct Test {
    id: &'static str,
    register: fn(&mut NativeApi, &Value) -> Result<(), String>,
}

impl NativePlugin for Test {
    fn id(&self) -> &str {
        self.id
    }

    fn register(&self, api: &mut NativeApi, settings: &Value) -> Result<(), String> {
        (self.register)(api, settings)
    }
}

fn hosts(plugins: Vec<Test>) -> Hosts {
    let native = plugins
        .into_iter()
        .map(|plugin| Arc::new(plugin) as Arc<dyn NativePlugin>);
    Hosts {
        native: native.collect(),
        ..Hosts::default()
    }
}

async fn loaded(plugins: &str, hosts: &Hosts) -> Arc<Inventory> {
    let (loader, settings) = staged(plugins, hosts, Clock::movable());
    loader.load(&settings).await
}

/// What makes these plugins, and what from.
fn staged(plugins: &str, hosts: &Hosts, clock: Clock) -> (Loader, Arc<Settings>) {
    let agents = "agents: { a: { model: p/m }, alone: { model: p/m, plugins: [other] } }";
    let text = format!(
        "providers: {{ p: {{ api: openai-chat, base_url: 'http://p', models: [m] }} }}\n{agents}\nplugins: {{ {plugins} }}"
    );
    let settings = ServerConfig::parse(&text, &|_| None).expect("is valid").settings;
    let supervision = Supervision {
        tasks: Tasks::new(),
        clock,
        telemetry: Telemetry::new().expect("sound"),
    };
    let loader = Loader {
        hosts: hosts.clone(),
        ..loader(hosts, &supervision, State::in_memory().expect("state"))
    };
    (loader, Arc::new(settings))
}

fn messages(plugins: &Inventory) -> Vec<&str> {
    plugins.diagnostics().iter().map(|it| &*it.message).collect()
}

fn missing(plugins: &Inventory) -> Vec<&str> {
    plugins.missing().map(|id| &**id).collect()
}

async fn judged(hooks: &Hooks) -> ToolFate {
    let event = HookEvent::BeforeToolCall {
        run_id: None,
        tool_name: "exec".into(),
        params: Arc::default(),
        tool_call_id: "c1".into(),
        conversation: Snapshot::new(Default::default),
    };
    hooks.judge(event, Arc::new(HookContext::default())).await
}

fn blocking() -> Result<HookResult, String> {
    Ok(HookResult::Tool(ToolVerdict {
        block: true,
        block_reason: Some("no".to_owned()),
        ..ToolVerdict::default()
    }))
}

/// Blocks every tool, in a handler that may wait.
fn guard(api: &mut NativeApi, _: &Value) -> Result<(), String> {
    api.on(
        "before_tool_call",
        HookOptions::default(),
        Arc::new(|_, _, _| async { blocking() }.boxed()),
    );
    Ok(())
}

fn quiet(api: &mut NativeApi, _: &Value) -> Result<(), String> {
    api.on_quick(
        "agent_end",
        HookOptions::default(),
        Arc::new(|_, _| Ok(HookResult::None)),
    );
    Ok(())
}

fn guarded() -> Hosts {
    hosts(vec![Test {
        id: "guard",
        register: guard,
    }])
}

#[actix::test]
async fn a_plugin_that_is_switched_on_judges_on_a_thread_of_its_own() {
    let plugins = loaded("entries: { guard: { enabled: true } }", &guarded()).await;
    let fate = judged(plugins.hooks()).await;
    let ToolFate::Blocked { plugin, reason, veto } = fate else {
        panic!("{fate:?}");
    };
    assert_eq!((&*plugin, &*reason, veto), ("guard", "no", true));
    let report = json!(plugins.report());
    let one = &report["plugins"][0];
    assert_eq!((&one["status"], &one["hook_calls"]), (&json!("loaded"), &json!(1)));
    assert_eq!(
        (&one["reason"], &one["shape"]),
        (&json!("enabled-in-config"), &json!("hook-only"))
    );
    plugins.stop().await;
    assert!(matches!(
        judged(plugins.hooks()).await,
        ToolFate::Blocked { veto: false, .. }
    ));
}

#[actix::test]
async fn a_plugin_that_nobody_switched_on_is_off() {
    for nothing in [
        "",
        "enabled: false",
        "entries: { guard: { enabled: true } }, deny: [GUARD]",
    ] {
        let plugins = loaded(nothing, &guarded()).await;
        assert!(!plugins.hooks().fires(Hook::BeforeToolCall), "{nothing}");
    }
}

#[actix::test]
async fn a_registration_that_fails_is_passed_over_and_named() {
    let hosts = hosts(vec![
        Test {
            id: "panics",
            register: |_, _| panic!("as asked"),
        },
        Test {
            id: "refuses",
            register: |_, settings| Err(format!("no {settings}")),
        },
        Test {
            id: "quiet",
            register: quiet,
        },
    ]);
    let entries = "entries: { panics: { enabled: true }, refuses: { enabled: true, config: { a: 1 } }, quiet: { enabled: true } }";
    let plugins = loaded(entries, &hosts).await;
    assert!(plugins.hooks().fires(Hook::AgentEnd));
    assert!(messages(&plugins).contains(&"did not register: its registration panicked"));
    assert!(messages(&plugins).contains(&"did not register: no {\"a\":1}"));
    let report = json!(plugins.report());
    assert_eq!(
        (&report["plugins"][0]["status"], &report["plugins"][0]["failure_phase"]),
        (&json!("error"), &json!("register"))
    );
}

#[actix::test]
async fn a_required_plugin_that_is_nowhere_refuses_what_it_would_judge_until_it_is_disabled() {
    let required = "entries: { gone: { required: true } }";
    let plugins = loaded(required, &hosts(vec![])).await;
    assert_eq!(missing(&plugins), ["gone"]);
    let fate = judged(plugins.hooks()).await;
    let ToolFate::Blocked { plugin, reason, veto } = fate else {
        panic!("{fate:?}");
    };
    assert_eq!((&*plugin, veto), ("gone", false));
    assert!(reason.contains("gone"), "{reason}");
    for lifted in [
        "entries: { gone: { required: true, enabled: false } }",
        "entries: { gone: { required: true } }, deny: [gone]",
        "entries: { gone: { enabled: true } }",
    ] {
        let plugins = loaded(lifted, &hosts(vec![])).await;
        assert!(
            missing(&plugins).is_empty() && !plugins.hooks().fires(Hook::BeforeToolCall),
            "{lifted}"
        );
    }
    let not_allowed = loaded("allow: [other], entries: { guard: { required: true } }", &guarded()).await;
    assert_eq!(
        missing(&not_allowed),
        ["guard"],
        "an allow list disables nobody by name"
    );
}

#[actix::test]
async fn a_guard_with_code_on_the_turns_own_thread_that_panicked_refuses_from_then_on() {
    let hosts = hosts(vec![Test {
        id: "guard",
        register: |api, _| {
            api.on(
                "before_tool_call",
                HookOptions::default(),
                Arc::new(|_, _, _| async { panic!("as asked") }.boxed()),
            );
            api.on_quick(
                "agent_end",
                HookOptions::default(),
                Arc::new(|_, _| Ok(HookResult::None)),
            );
            Ok(())
        },
    }]);
    let plugins = loaded("entries: { guard: { enabled: true, required: true } }", &hosts).await;
    assert!(missing(&plugins).is_empty());
    for _ in 0..2 {
        assert!(matches!(
            judged(plugins.hooks()).await,
            ToolFate::Blocked { veto: false, .. }
        ));
        assert_eq!(missing(&plugins), ["guard"]);
    }
    assert_eq!(json!(plugins.report())["plugins"][0]["status"], "failed");
}

#[actix::test]
async fn a_guard_that_panicked_refuses_until_it_has_another_instance() {
    static PANICS: AtomicBool = AtomicBool::new(true);
    let hosts = hosts(vec![Test {
        id: "guard",
        register: |api, _| {
            let handler = |_, _, _| {
                let panics = PANICS.swap(false, Ordering::Relaxed);
                async move {
                    assert!(!panics, "as asked");
                    blocking()
                }
                .boxed()
            };
            api.on("before_tool_call", HookOptions::default(), Arc::new(handler));
            Ok(())
        },
    }]);
    let plugins = loaded("entries: { guard: { enabled: true, required: true } }", &hosts).await;
    let fate = judged(plugins.hooks()).await;
    assert!(matches!(fate, ToolFate::Blocked { veto: false, .. }), "{fate:?}");
    let clock = Clock::real();
    let end = clock.now() + Duration::from_secs(20);
    while !missing(&plugins).is_empty() {
        assert!(clock.now() < end, "it never came back");
        tokio::task::yield_now().await;
    }
    let fate = judged(plugins.hooks()).await;
    assert!(matches!(fate, ToolFate::Blocked { veto: true, .. }), "{fate:?}");
    assert_eq!(json!(plugins.report())["plugins"][0]["restarts"], 1);
}

#[actix::test]
async fn the_second_plugin_with_a_tool_does_not_get_it() {
    let register: fn(&mut NativeApi, &Value) -> Result<(), String> = |api, _| {
        let tool = ToolRegistration {
            name: "read".to_owned(),
            ..ToolRegistration::default()
        };
        api.tool(tool, Arc::new(|_| async { Ok(Value::Null) }.boxed()));
        Ok(())
    };
    let hosts = hosts(vec![Test { id: "a", register }, Test { id: "b", register }]);
    let plugins = loaded("entries: { a: { enabled: true }, b: { enabled: true } }", &hosts).await;
    assert!(messages(&plugins).contains(&"tool read is refused: it belongs to a"));
    let report = json!(plugins.report());
    assert_eq!(
        (&report["plugins"][0]["tools"], &report["plugins"][1]["tools"]),
        (&json!(["read"]), &json!([]))
    );
}

#[actix::test]
async fn what_an_operator_should_know_is_said() {
    let injects: fn(&mut NativeApi, &Value) -> Result<(), String> = |api, _| {
        api.on_quick(
            "before_prompt_build",
            HookOptions::default(),
            Arc::new(|_, _| Ok(HookResult::None)),
        );
        api.on_quick(
            "before_agent_start",
            HookOptions::default(),
            Arc::new(|_, _| Ok(HookResult::None)),
        );
        Ok(())
    };
    let hosts = hosts(vec![
        Test {
            id: "canon",
            register: injects,
        },
        Test {
            id: "canon-guardian",
            register: injects,
        },
        Test {
            id: "guard",
            register: guard,
        },
    ]);
    let blind = "hooks: { allowConversationAccess: false }";
    let entries = format!(
        "allow: [canon, canon-guardian, guard, nobody], entries: {{ canon: {{ enabled: true }}, \
         canon-guardian: {{ enabled: true }}, guard: {{ enabled: true, {blind} }}, stray: {{ config: {{ a: 1 }} }} }}"
    );
    let plugins = loaded(&entries, &hosts).await;
    let all = messages(&plugins).join("\n");
    for part in [
        "before_agent_start",
        "both write the canon",
        "narrow event",
        "plugins.allow names nobody",
        "agents.alone.plugins names other",
        "was not found",
    ] {
        assert!(all.contains(part), "{part} is not in\n{all}");
    }
}

/// A folder with one plugin, gone with its value.
struct Folder(PathBuf);

impl Folder {
    fn with(manifest: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "understudy-plugins-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder");
        fs::write(path.join("openclaw.plugin.json"), manifest).expect("a manifest");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left_behind = fs::remove_dir_all(&self.0);
    }
}

#[actix::test]
async fn a_guard_from_outside_is_required_and_may_not_see_the_conversation_unless_somebody_says_so() {
    let folder = Folder::with("{ id: 'Guard', host: 'native', configSchema: {} }");
    let path = folder.0.display();
    let off = loaded(&format!("load_paths: ['{path}']"), &guarded()).await;
    assert_eq!(
        json!(off.report())["plugins"][0]["reason"],
        "outsider-disabled-by-default"
    );
    let on = loaded(&format!("load_paths: ['{path}'], allow: [guard]"), &guarded()).await;
    let one = &json!(on.report())["plugins"][0];
    assert_eq!(
        (&one["required"], &one["allow_conversation_access"]),
        (&json!(true), &json!(false))
    );
    assert_eq!((&one["origin"], &one["status"]), (&json!("config"), &json!("loaded")));
    assert!(missing(&on).is_empty());
}

fn denies(reason: &'static str) -> understudy_plugins::registration::QuickHandler {
    Arc::new(move |_, _| {
        HookResult::of_policy(Some(json!({ "allow": false, "reason": reason }))).map_err(|_| String::new())
    })
}

/// Two plugins with policies; the one from outside comes first in the list.
fn judging() -> Hosts {
    hosts(vec![
        Test {
            id: "outside",
            register: |api, _| {
                let denies = denies("outside");
                let handler = move |event: Arc<HookEvent>, context: Arc<HookContext>, _| {
                    futures::future::ready(denies(&event, &context)).boxed()
                };
                api.policy("declared", Arc::new(handler));
                api.policy_quick("undeclared", self::denies("undeclared"));
                Ok(())
            },
        },
        Test {
            id: "inside",
            register: |api, _| {
                api.policy_quick("own", denies("inside"));
                Ok(())
            },
        },
    ])
}

#[actix::test]
async fn policies_of_built_in_plugins_judge_first_and_an_outsider_declares_its_own() {
    let contracts = "contracts: { trustedToolPolicies: ['declared', 'absent'] }";
    let folder = Folder::with(&format!(
        "{{ id: 'outside', host: 'native', configSchema: {{}}, {contracts} }}"
    ));
    let entries = |inside: bool| {
        let path = folder.0.display();
        format!("load_paths: ['{path}'], entries: {{ outside: {{ enabled: true }}, inside: {{ enabled: {inside} }} }}")
    };
    let reason = async |plugins: &Inventory| match judged(plugins.hooks()).await {
        ToolFate::Blocked { reason, veto: true, .. } => reason,
        other => panic!("{other:?}"),
    };
    let both = loaded(&entries(true), &judging()).await;
    assert_eq!(reason(&both).await, "inside");
    let alone = loaded(&entries(false), &judging()).await;
    assert_eq!(reason(&alone).await, "outside");
    let report = json!(alone.report());
    let mut plugins = report["plugins"].as_array().expect("a list").iter();
    let one = plugins.find(|one| one["id"] == "outside").expect("it is there");
    assert_eq!(
        (&one["policies"], &one["required"]),
        (&json!(["declared"]), &json!(true))
    );
    assert_eq!(
        (&one["handlers_listed"], &one["shape"]),
        (&json!(1), &json!("hook-only"))
    );
    let all = messages(&alone).join("\n");
    for part in ["policy undeclared is refused", "the policy absent", "narrow event"] {
        assert!(all.contains(part), "{part} is not in\n{all}");
    }
    alone.stop().await;
    assert_eq!(missing(&alone), ["outside"]);
    assert!(matches!(
        judged(alone.hooks()).await,
        ToolFate::Blocked { veto: false, .. }
    ));
}

#[actix::test]
async fn whoever_never_registered_guards_if_its_manifest_promises_a_policy_or_a_guards_hook_and_else_that_is_said() {
    let promise = async |manifest: &str| {
        let folder = Folder::with(&format!(
            "{{ id: 'remote', url: 'http://127.0.0.1:9', configSchema: {{}}, {manifest} }}"
        ));
        let path = folder.0.display();
        loaded(
            &format!("load_paths: ['{path}'], entries: {{ remote: {{ enabled: true }} }}"),
            &hosts(vec![]),
        )
        .await
    };
    for guards in [
        "contracts: { trustedToolPolicies: ['p'] }",
        "contracts: { hooks: ['before_agent_run'] }",
        "hooks: [{ hook: 'before_tool_call' }]",
        "policies: [{ id: 'p' }]",
    ] {
        let plugins = promise(guards).await;
        assert_eq!(missing(&plugins), ["remote"], "{guards}");
        assert!(matches!(
            judged(plugins.hooks()).await,
            ToolFate::Blocked { veto: false, .. }
        ));
    }
    let plugins = promise("hooks: ['agent_end'], contracts: { tools: ['t'] }").await;
    assert!(missing(&plugins).is_empty());
    let unknown = plugins
        .diagnostics()
        .iter()
        .find(|it| it.message.contains("whether it is a guard is not known"));
    assert_eq!(
        unknown.map(|it| it.level),
        Some(Level::Warn),
        "the log and doctor say so"
    );
}

#[cfg(feature = "js")]
#[actix::test]
async fn a_guard_whose_engine_was_given_up_refuses_until_it_has_another_one() {
    let folder = Folder::with("{ id: 'guard', main: 'index.js', configSchema: {} }");
    let hang = folder.0.join("hang");
    fs::write(&hang, "").expect("a file");
    // one search of the engine's own, which asks nobody whether to go on
    let code = format!(
        "import {{ existsSync }} from 'node:fs';
        export function register(api) {{
            api.on('before_tool_call', () => {{
                if (existsSync({:?})) 'a'.repeat(6e5).indexOf('a'.repeat(3e5) + 'b');
                return {{ block: true, blockReason: 'no' }};
            }}, {{ timeoutMs: 30 }});
        }}",
        hang.display().to_string()
    );
    fs::write(folder.0.join("index.js"), code).expect("a file");
    let hosts = Hosts {
        js: Some(understudy_plugins::js::constructor()),
        ..Hosts::default()
    };
    let path = folder.0.display();
    let plugins = loaded(&format!("load_paths: ['{path}'], allow: [guard]"), &hosts).await;
    let restarts = || json!(plugins.report())["plugins"][0]["restarts"].clone();
    let clock = Clock::real();
    let end = clock.now() + Duration::from_secs(60);
    while plugins.missing().next().is_none() {
        assert!(clock.now() < end, "it was never given up");
        let fate = judged(plugins.hooks()).await;
        assert!(matches!(fate, ToolFate::Blocked { veto: false, .. }), "{fate:?}");
    }
    fs::remove_file(&hang).expect("removed");
    loop {
        assert!(clock.now() < end, "it never came back");
        let ToolFate::Blocked { veto, .. } = judged(plugins.hooks()).await else {
            panic!("a guard that is away is no open gate");
        };
        if veto {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(restarts(), 1);
    plugins.stop().await;
}

#[actix::test]
async fn settings_that_the_schema_refuses_keep_a_plugin_from_loading() {
    let schema = "{ type: 'object', properties: { n: { type: 'integer' } } }";
    let folder = Folder::with(&format!(
        "{{ id: 'guard', host: 'native', required: true, configSchema: {schema} }}"
    ));
    let entry = |config| {
        format!(
            "load_paths: ['{}'], entries: {{ guard: {{ enabled: true, config: {config} }} }}",
            folder.0.display()
        )
    };
    let refused = loaded(&entry("{ n: sk-canary }"), &guarded()).await;
    assert_eq!(missing(&refused), ["guard"]);
    let text = json!(refused.report()).to_string();
    assert!(
        text.contains("its settings are refused") && !text.contains("canary"),
        "{text}"
    );
    assert!(missing(&*loaded(&entry("{ n: 3 }"), &guarded()).await).is_empty());
}

#[actix::test]
async fn a_plugin_without_a_host_is_named_and_may_have_been_a_guard() {
    let folder =
        Folder::with("{ id: 'remote', url: 'http://127.0.0.1:9', hooks: ['before_tool_call'], configSchema: {} }");
    let entries = |more: &str| {
        format!(
            "load_paths: ['{}'], entries: {{ remote: {{ enabled: true{more} }} }}",
            folder.0.display()
        )
    };
    let plugins = loaded(&entries(""), &hosts(vec![])).await;
    assert_eq!(missing(&plugins), ["remote"], "its manifest says that it guards");
    assert!(messages(&plugins)[0].contains("no host for webhook plugins"));
    let plugins = loaded(&entries(", required: false"), &hosts(vec![])).await;
    assert!(missing(&plugins).is_empty());
}

#[actix::test]
async fn a_guard_whose_service_does_not_start_is_no_open_gate() {
    let folder = Folder::with("{ id: 'guard', host: 'native' }");
    let hosts = hosts(vec![Test {
        id: "guard",
        register: |api, _| {
            let passes = Arc::new(|_: &HookEvent, _: &HookContext| Ok(HookResult::None));
            api.on_quick("before_tool_call", HookOptions::default(), passes);
            api.service("rules", Arc::new(|_| async { Err("not today".to_owned()) }.boxed()));
            Ok(())
        },
    }]);
    let path = folder.0.display();
    let plugins = loaded(&format!("load_paths: ['{path}'], allow: [guard]"), &hosts).await;
    assert_eq!(missing(&plugins), ["guard"]);
    assert!(matches!(
        judged(plugins.hooks()).await,
        ToolFate::Blocked { veto: false, .. }
    ));
}

/// A plugin that takes two seconds to register.
struct Slow(Clock);

impl NativePlugin for Slow {
    fn id(&self) -> &str {
        "slow"
    }

    fn register(&self, _: &mut NativeApi, _: &Value) -> Result<(), String> {
        self.0.advance(Duration::from_secs(2));
        Ok(())
    }
}

#[tokio::test]
async fn a_registration_that_takes_long_is_noted() {
    let clock = Clock::movable();
    let quick = Test {
        id: "quick",
        register: quiet,
    };
    let hosts = Hosts {
        native: vec![Arc::new(Slow(clock.clone())), Arc::new(quick)],
        ..Hosts::default()
    };
    let plugins = "entries: { slow: { enabled: true }, quick: { enabled: true } }";
    let (loader, settings) = staged(plugins, &hosts, clock);
    let plugins = loader.load(&settings).await;
    let notes = plugins.diagnostics().iter();
    let slow: Vec<_> = notes.filter(|it| it.message.contains("more than a second")).collect();
    assert!(
        slow.len() == 1 && slow[0].plugin_id.as_deref() == Some("slow"),
        "{slow:?}"
    );
}

#[actix::test]
async fn whoever_looks_at_a_plugin_starts_none_of_its_services() {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let serving = |api: &mut NativeApi, _: &Value| {
        let service = |_| {
            STARTED.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }.boxed()
        };
        api.service("poller", Arc::new(service));
        Ok(())
    };
    let hosts = hosts(vec![Test {
        id: "serving",
        register: serving,
    }]);
    let (loader, settings) = staged("entries: { serving: { enabled: true } }", &hosts, Clock::movable());
    let looked_at = loader.inspect(&settings).await;
    let report = serde_json::to_value(looked_at.report()).expect("shown");
    let services = report["plugins"].as_array().expect("plugins").iter();
    let services: Vec<&Value> = services
        .filter(|it| it["id"] == "serving")
        .map(|it| &it["services"])
        .collect();
    assert_eq!(services, [&json!(["poller"])]);
    looked_at.stop().await;
    assert_eq!(STARTED.load(Ordering::SeqCst), 0);
    loader.load(&settings).await;
    assert_eq!(STARTED.load(Ordering::SeqCst), 1);
}

#[actix::test]
async fn what_failed_before_stays_a_record_when_others_are_put_back() {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let broken = |_: &mut NativeApi, _: &Value| {
        TRIED.fetch_add(1, Ordering::SeqCst);
        Err("as its test wants".to_owned())
    };
    let hosts = hosts(vec![
        Test {
            id: "broken",
            register: broken,
        },
        Test {
            id: "sound",
            register: guard,
        },
    ]);
    let plugins = "entries: { broken: { enabled: true }, sound: { enabled: true }, nobody: { enabled: true } }";
    let (loader, settings) = staged(plugins, &hosts, Clock::movable());
    let serving = loader.load(&settings).await;
    let restored = loader.restore(&serving, &["sound".into()]).await.expect("put back");
    assert_eq!(TRIED.load(Ordering::SeqCst), 1, "nobody runs what has failed");
    let status = |of: &Inventory| {
        let report = serde_json::to_value(of.report()).expect("shown");
        let plugins = report["plugins"].as_array().expect("plugins").clone();
        let broken = plugins.into_iter().find(|it| it["id"] == "broken").expect("a record");
        (
            broken["status"].clone(),
            broken["error"].clone(),
            broken["failure_phase"].clone(),
        )
    };
    assert_eq!(status(&restored.inventory), status(&serving));
    assert_eq!(status(&serving).0, "error");
    let mut notes = messages(&restored.inventory);
    let mut before = messages(&serving);
    notes.sort_unstable();
    before.sort_unstable();
    assert_eq!(notes, before, "each is there once");
}
