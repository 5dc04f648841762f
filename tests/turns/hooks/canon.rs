//! The built-in canon in turns that fail over, fail, and are tried again.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use understudy_actors::hooks::LoadedPlugin;
use understudy_actors::telemetry::Telemetry;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{Hook, HookContext};
use understudy_messages::ids::ModelRef;
use understudy_messages::plugin::CallHook;
use understudy_plugins::Instance;
use understudy_plugins::canon::{CanonOptions, plugin};
use understudy_plugins::native::NativeInstance;
use understudy_plugins::registration::HookOptions;

use super::waiting;
use crate::stage::{Stage, lead, question, refusal, second};

const CANON: &str = "Never promise a refund.";

/// A workspace with a canon; gone when dropped.
struct Workspace(PathBuf);

impl Workspace {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("understudy-turns-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        std::fs::write(path.join("AGENTS.md"), CANON).expect("written");
        Self(path)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _best_effort = std::fs::remove_dir_all(&self.0);
    }
}

/// The canon with these settings, for agents that all work in `workspace`.
fn canon(workspace: &Workspace, settings: &Value) -> LoadedPlugin {
    let options = CanonOptions {
        clock: Clock::real(),
        observer: Telemetry::new().expect("a sound table"),
    };
    let instance = Arc::new(NativeInstance::load(&plugin(options), settings).expect("registers"));
    let workspace = workspace.0.to_str().expect("plain").to_owned();
    let handler = Arc::new(move |event, context: Arc<HookContext>, cancel| {
        let context = HookContext {
            workspace_dir: Some(workspace.clone()),
            ..HookContext::clone(&context)
        };
        let call = CallHook {
            handler: 0,
            event,
            context: Arc::new(context),
            conversation: true,
            cancel,
        };
        let called = instance.call_hook(call);
        async move { called.await.map_err(|error| error.to_string()) }.boxed()
    });
    waiting("canon", Hook::BeforePromptBuild, HookOptions::default(), handler)
}

/// Whether each request that a target got carried the canon.
fn told(stage: &Stage, target: &ModelRef) -> Vec<bool> {
    let carries = |body: &bytes::Bytes| String::from_utf8_lossy(body).contains(CANON);
    stage.bodies(target).iter().map(carries).collect()
}

async fn turn(stage: &Stage) -> u16 {
    let question = question(true);
    let asked = stage.ask_as(&question, |request| request.header("x-session-id", "s"));
    stage.in_time(Duration::from_millis(50), asked).await.status
}

fn answer() -> Value {
    json!({ "answer": { "text": "yes" } })
}

#[actix::test]
async fn a_fallback_is_told_before_its_first_token_and_the_primary_again_when_it_is_back_case_20() {
    let workspace = Workspace::new("20");
    let plan = json!({
        "a/m": { "calls": [answer(), answer(), refusal(503, "overloaded_error"), answer(), answer()] },
        "b/m": { "calls": [answer()] },
    });
    let plugins = vec![canon(&workspace, &json!({ "mode": "selective" }))];
    let stage = Stage::set_guarded(plan, "", plugins).await;
    for _ in 0..5 {
        assert_eq!(turn(&stage).await, 200);
    }
    assert_eq!(told(&stage, &lead()), [true, false, false, true, false]);
    assert_eq!(told(&stage, &second()), [true]);
}

#[actix::test]
async fn a_retry_carries_what_the_first_attempt_carried_and_only_an_answer_counts() {
    let workspace = Workspace::new("retry");
    let plan = json!({ "a/m": { "calls": [
        refusal(400, "invalid_request_error"), refusal(500, "server_error"), answer(), answer(),
    ] } });
    let plugins = vec![canon(&workspace, &json!({ "mode": "selective" }))];
    let stage = Stage::set_guarded(plan, "", plugins).await;
    assert_eq!(turn(&stage).await, 400, "nobody answered this one");
    assert_eq!(turn(&stage).await, 200, "the second attempt did");
    assert_eq!(turn(&stage).await, 200);
    assert_eq!(told(&stage, &lead()), [true, true, true, false]);
}

#[actix::test]
async fn sticky_tells_every_model_in_every_request_the_same() {
    let workspace = Workspace::new("sticky");
    let plan = json!({
        "a/m": { "calls": [answer(), refusal(503, "overloaded_error"), answer(), answer()] },
        "b/m": { "calls": [answer()] },
    });
    let stage = Stage::set_guarded(plan, "", vec![canon(&workspace, &Value::Null)]).await;
    for _ in 0..4 {
        assert_eq!(turn(&stage).await, 200);
    }
    let (lead, second) = (stage.bodies(&lead()), stage.bodies(&second()));
    assert_eq!((lead.len(), second.len()), (4, 1));
    assert!(lead.iter().all(|body| *body == lead[0]), "byte for byte");
    assert!(String::from_utf8_lossy(&second[0]).contains(CANON));
}

#[actix::test]
async fn an_entry_of_the_configuration_is_enough_for_a_fallback_that_knows_its_lines() {
    let workspace = Workspace::new("built-in");
    let plan = json!({
        "a/m": { "calls": [refusal(402, "insufficient_quota")] },
        "b/m": { "calls": [answer()] },
    });
    let agent = json!({ "model": "main", "workspace": workspace.0 });
    let configuration =
        format!("agents: {{ default: {agent} }}\nplugins: {{ entries: {{ canon: {{ enabled: true }} }} }}\n");
    let stage = Stage::set_with(plan, &configuration).await;
    assert_eq!(turn(&stage).await, 200);
    assert_eq!(told(&stage, &second()), [true]);
    let labels = [("reason", "model_switch")];
    stage.counts("understudy_canon_injections_total", &labels, 1).await;
}
