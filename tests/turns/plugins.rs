//! Plugins over the real app: which are loaded, what operators are told, and what a guard that is gone does.

use std::sync::Arc;

use serde_json::{Value, json};
use understudy_messages::hooks::HookResult;
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::HookOptions;

use crate::stage::{Stage, question};

/// Listens to the ends of turns.
struct Listener;

impl NativePlugin for Listener {
    fn id(&self) -> &str {
        "listener"
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        let quiet = Arc::new(|_: &_, _: &_| Ok(HookResult::None));
        api.on_quick("agent_end", HookOptions::default(), quiet.clone());
        api.on_quick("session_start", HookOptions::default(), quiet);
        Ok(())
    }
}

async fn stage(plugins: &str) -> Stage {
    let hosts = Hosts {
        native: vec![Arc::new(Listener)],
        ..Hosts::default()
    };
    let plan = json!({ "a/m": { "calls": [{ "answer": { "text": "hi" } }] } });
    Stage::set_hosting(plan, &format!("plugins: {{ {plugins} }}\n"), hosts).await
}

#[tokio::test]
async fn a_loaded_plugin_is_listed_with_what_it_registered() {
    let stage = stage("entries: { listener: { enabled: true } }").await;
    let report = stage.admin("/admin/v1/plugins").await.json();
    let plugin = &report["plugins"][0];
    assert_eq!(
        (&plugin["id"], &plugin["status"]),
        (&json!("listener"), &json!("loaded"))
    );
    assert_eq!(plugin["hooks"], json!([{ "hook": "agent_end", "priority": 0 }]));
    let told = report["diagnostics"][0]["message"].as_str().expect("a diagnostic");
    assert!(told.contains("session_start"), "{told}");
    let scrape = stage.gateway.scrape().await;
    let state = |state| {
        scrape.count(
            "understudy_plugin_instances",
            &[("plugin", "listener"), ("state", state)],
        )
    };
    assert_eq!((state("running"), state("failed")), (1, 0));
    assert!(scrape.has(
        "understudy_plugin_info",
        &[("plugin", "listener"), ("shape", "hook-only")]
    ));
    assert_eq!(stage.admin("/readyz").await.status, 200);
}

#[tokio::test]
async fn a_plugin_that_cannot_be_loaded_stops_nobody() {
    let stage = stage("load_paths: [/nowhere], entries: { listener: { enabled: true } }").await;
    let reply = stage.ask(&question(false)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let report = stage.admin("/admin/v1/plugins").await.json();
    assert!(report["diagnostics"].to_string().contains("/nowhere"), "{report}");
}

#[tokio::test]
async fn a_required_plugin_that_does_not_serve_fails_readiness_by_name() {
    let stage = stage("entries: { gone: { required: true } }").await;
    let ready = stage.admin("/readyz").await;
    let told = ready.json();
    assert_eq!((ready.status, &told["ready"]), (503, &json!(false)));
    assert_eq!(told["failing"], json!(["plugin:gone"]));
    assert_eq!(stage.admin("/livez").await.status, 200, "it is alive all the same");
}
