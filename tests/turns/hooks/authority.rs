//! Prompt handlers that are told which tools are left, and what handlers may hold only while they work.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use understudy_actors::hooks::LoadedPlugin;
use understudy_messages::hooks::{Hook, HookContext, HookInvocation, PromptContribution, ToolAuthority};
use understudy_plugins::registration::{Handler as Registered, HookOptions};

use super::{Plugin, read, waiting};
use crate::stage::{Stage, lead, question};

const HOOK: Hook = Hook::BeforePromptBuild;

/// A plugin whose only handler has authority.
fn authorised(id: &'static str, answer: impl Fn(&ToolAuthority) -> Value + Send + Sync + 'static) -> LoadedPlugin {
    let options = HookOptions {
        authority: true,
        ..HookOptions::default()
    };
    let mut plugin = Plugin::new(id);
    let handler = move |_: &_, context: &HookContext| {
        let authority = context.tool_authority.as_ref().expect("an authority");
        read(HOOK, &answer(authority))
    };
    plugin
        .registration
        .on(HOOK.as_label(), options, Registered::Quick(Arc::new(handler)));
    plugin.loaded()
}

/// What the lead is told by these plugins, when the client offers these tools.
async fn told(plugins: Vec<LoadedPlugin>, tools: &[&str]) -> Value {
    let plan = json!({ "a/m": { "calls": [{ "answer": { "text": "yes" } }] } });
    let stage = Stage::set_guarded(plan, "", plugins).await;
    let mut request = question(false);
    if !tools.is_empty() {
        let tool = |name: &&str| json!({ "type": "function", "function": { "name": name } });
        request["tools"] = tools.iter().map(tool).collect();
    }
    // a handler that waits runs into its deadline: the clock is moved, so that a slow machine makes no other test of it
    let reply = stage.in_time(Duration::from_millis(100), stage.ask(&request)).await;
    assert_eq!(reply.status, 200);
    serde_json::from_slice(&stage.bodies(&lead())[0]).expect("JSON")
}

fn texts(told: &Value) -> Value {
    let parts = &told["messages"]
        .as_array()
        .and_then(|all| all.last())
        .expect("a message")["content"];
    let parts = parts.as_array().expect("parts").iter();
    parts.map(|part| part["text"].clone()).collect()
}

#[actix::test]
async fn whoever_has_authority_is_asked_when_the_tools_are_settled() {
    let lists = |authority: &ToolAuthority| {
        let tools: Vec<&str> = authority.tools().map(|name| &**name).collect();
        assert_eq!(
            (authority.allows("read"), authority.allows("exec")),
            (Ok(true), Ok(false))
        );
        json!({ "appendContext": tools.join(" ") })
    };
    let first = authorised("first", lists);
    let narrows = Plugin::new("narrows").says(
        HOOK,
        json!({ "toolsAllow": ["read", "web_*"], "appendContext": "plain" }),
    );
    let told = told(vec![first, narrows.loaded()], &["exec", "web_fetch", "read"]).await;
    assert_eq!(texts(&told), json!(["hi", "plain\n\nread web_fetch"]));
}

#[actix::test]
async fn a_handler_with_authority_adds_context_and_nothing_else_and_keeps_nothing_case_5() {
    let kept: Arc<Mutex<Vec<ToolAuthority>>> = Arc::default();
    let keeps = kept.clone();
    let greedy = authorised("greedy", move |authority| {
        assert_eq!(authority.assert_active(), Ok(()));
        keeps.lock().expect("kept").push(authority.clone());
        json!({ "systemPrompt": "mine", "prependSystemContext": "mine", "toolsAllow": [], "prependContext": "context" })
    });
    let later = kept.clone();
    let next = authorised("next", move |_| {
        let before = &later.lock().expect("kept")[0];
        assert!(before.assert_active().is_err(), "it ended with its handler");
        json!({})
    });
    let told = told(vec![greedy, next], &["read"]).await;
    assert_eq!(texts(&told), json!(["context", "hi"]));
    assert_eq!(told["messages"].as_array().map(Vec::len), Some(1), "no system text");
    assert_eq!(told["tools"].as_array().map(Vec::len), Some(1), "no tool is taken away");
    let kept = kept.lock().expect("kept");
    assert!(kept.len() == 1 && kept[0].allows("read").is_err());
}

#[actix::test]
async fn a_handler_without_authority_gets_none() {
    let plain = Plugin::new("plain").on(HOOK, 0, |_, context| {
        assert!(context.tool_authority.is_none());
        assert!(
            context
                .hook_invocation
                .as_ref()
                .is_some_and(|call| call.assert_active().is_ok())
        );
        read(HOOK, &json!({ "prependContext": "asked" }))
    });
    let told = told(vec![plain.loaded()], &["read"]).await;
    assert_eq!(texts(&told), json!(["asked", "hi"]));
}

#[actix::test]
async fn what_a_slow_handler_holds_is_dead_before_the_next_one_starts_case_4() {
    let held: Arc<Mutex<Option<HookInvocation>>> = Arc::default();
    let (keeps, seen) = (held.clone(), held.clone());
    let options = HookOptions {
        priority: 5,
        deadline: Some(Duration::from_secs(10)),
        ..HookOptions::default()
    };
    let slow = Arc::new(move |_, context: Arc<HookContext>, cancel: CancellationToken| {
        let call = context.hook_invocation.clone().expect("a call");
        assert!(call.assert_active().is_ok());
        *keeps.lock().expect("held") = Some(call);
        async move {
            cancel.cancelled().await;
            Ok(understudy_messages::hooks::HookResult::Prompt(PromptContribution {
                prepend_context: Some("too late".to_owned()),
                ..PromptContribution::default()
            }))
        }
        .boxed()
    });
    let quick = Plugin::new("quick").on(HOOK, 0, move |_, _| {
        let held = seen.lock().expect("held");
        let dead = held.as_ref().is_some_and(|call| call.assert_active().is_err());
        assert!(dead, "the slow one still holds its call");
        read(HOOK, &json!({ "prependContext": "mine" }))
    });
    let told = told(vec![waiting("slow", HOOK, options, slow), quick.loaded()], &[]).await;
    assert_eq!(texts(&told), json!(["mine", "hi"]));
}

#[actix::test]
async fn a_handler_that_waits_holds_its_call_until_it_has_answered_case_5() {
    let held: Arc<Mutex<Option<ToolAuthority>>> = Arc::default();
    let keeps = held.clone();
    let options = HookOptions {
        authority: true,
        ..HookOptions::default()
    };
    let handler = Arc::new(move |_, context: Arc<HookContext>, _| {
        let keeps = keeps.clone();
        async move {
            tokio::task::yield_now().await;
            let authority = context.tool_authority.clone().expect("an authority");
            let fingerprint = authority.fingerprint().to_owned();
            assert_eq!(authority.allows("read"), Ok(true));
            *keeps.lock().expect("held") = Some(authority);
            read(HOOK, &json!({ "appendContext": fingerprint }))
        }
        .boxed()
    });
    let told = told(vec![waiting("waits", HOOK, options, handler)], &["read"]).await;
    let held = held.lock().expect("held").take().expect("kept");
    assert_eq!(texts(&told), json!(["hi", held.fingerprint()]));
    assert!(held.allows("read").is_err());
}
