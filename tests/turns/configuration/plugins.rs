//! Plugins that another configuration switches on: one that cannot register is its own failure alone.

use std::sync::Arc;

use understudy_messages::hooks::HookResult;
use understudy_plugins::native::{NativeApi, NativePlugin};
use understudy_plugins::registration::{HookOptions, RouteOptions};

use super::*;

/// Registers a gate that blocks every run, and a route; and then perhaps fails.
struct Blocks {
    id: &'static str,
    fails: bool,
}

impl NativePlugin for Blocks {
    fn id(&self) -> &str {
        self.id
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        api.command(understudy_plugins::registration::CommandRegistration {
            name: format!("command-of-{}", self.id),
            description: None,
        });
        let nothing = Arc::new(|_: &_, _: &_| Ok(HookResult::None));
        api.on_quick("agent_end", HookOptions::default(), nothing);
        let route = |_| futures::FutureExt::boxed(std::future::ready(Err("never".to_owned())));
        api.route("/hook", &RouteOptions::default(), Arc::new(route));
        match self.fails {
            true => Err("as its test wants".to_owned()),
            false => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_candidate_that_cannot_register_is_its_own_failure_and_the_others_serve_case_t23() {
    let plugin = |id, fails| Arc::new(Blocks { id, fails }) as Arc<dyn NativePlugin>;
    let hosts = Hosts {
        native: vec![plugin("bad", true), plugin("good", false), plugin("old", false)],
        ..Hosts::default()
    };
    let entries = |others: &str| format!("plugins: {{ entries: {{ old: {{ enabled: true }}, {others} }} }}\n");
    let plan = json!({ "a/m": answers() });
    let place = Place::new(plan, &entries(""), hosts).await;
    let both = entries("bad: { enabled: true }, good: { enabled: true }");
    let reply = place.put(&document(&[place.provider("a", "key-of-a")], &both)).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let receipt = &reply.json()["receipt"];
    let warnings = receipt["warnings"].to_string();
    assert_eq!((&receipt["outcome"], place.generation().await), (&json!("applied"), 2));
    assert!(warnings.contains("bad") && !warnings.contains("good"), "{warnings}");

    let report = place.stage.admin("/admin/v1/plugins").await.json();
    let of = |id: &str| {
        let mut plugins = report["plugins"].as_array().expect("a list").iter();
        plugins.find(|plugin| plugin["id"] == id).expect("it is shown").clone()
    };
    let bad = of("bad");
    assert_eq!(
        (&bad["status"], &bad["failure_phase"]),
        (&json!("error"), &json!("register"))
    );
    assert!(
        bad["error"]
            .as_str()
            .is_some_and(|why| why.contains("as its test wants")),
        "{bad}"
    );
    assert_eq!(
        (&of("good")["status"], &of("old")["status"]),
        (&json!("loaded"), &json!("loaded"))
    );
    assert!(!report.to_string().contains("command-of-bad"), "nothing of it is left");
    assert_eq!(place.stage.get("/plugins/bad/hook").await.status, 503);
    assert_eq!(
        place.stage.get("/plugins/good/hook").await.status,
        502,
        "its own answer"
    );
    assert_eq!(place.stage.ask(&question(false)).await.status, 200);
}
