//! Trusted policies of tools: they judge a call before any handler does.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Map, Value, json};
use understudy_actors::hooks::{HookTable, Hooks, LoadedPlugin};
use understudy_actors::supervision::Tasks;
use understudy_actors::telemetry::Telemetry;
use understudy_messages::clock::Clock;
use understudy_messages::hooks::{Hook, HookEvent, HookResult, Parsed, PromptContribution, Snapshot, ToolFate};
use understudy_messages::plugin::TurnHooks;
use understudy_plugins::Instance;
use understudy_plugins::native::{NativeApi, NativeInstance, NativePlugin};
use understudy_plugins::registration::Handler as Registered;

use super::{Heard, Plugin, Port, read};

impl Plugin {
    /// Has one policy, which answers always the same.
    fn decides(mut self, answer: Value) -> Self {
        let decide = move |_: &HookEvent, _: &_| {
            HookResult::of_policy(Some(answer.clone())).map_err(|invalid| invalid.to_string())
        };
        self.registration.policy("p", Registered::Quick(Arc::new(decide)));
        self
    }
}

fn policy(id: &'static str, answer: Value) -> LoadedPlugin {
    Plugin::new(id).decides(answer).loaded()
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

fn hooks(plugins: &[LoadedPlugin], missing: Vec<(Arc<str>, Vec<Hook>)>) -> Hooks {
    let (table, left_out) = HookTable::new(plugins, missing);
    assert!(left_out.is_empty(), "{left_out:?}");
    let telemetry = Telemetry::new().expect("sound");
    Hooks::new(table.into(), Clock::real(), Tasks::new(), telemetry)
}

fn call() -> HookEvent {
    HookEvent::BeforeToolCall {
        run_id: None,
        tool_name: "pay".into(),
        params: Arc::new(map(json!({ "to": "a", "sum": 7 }))),
        tool_call_id: "c1".to_owned(),
        conversation: Snapshot::new(Parsed::default),
    }
}

async fn judged(plugins: &[LoadedPlugin]) -> ToolFate {
    hooks(plugins, Vec::new()).judge(call(), Arc::default()).await
}

fn blocked(plugin: &str, reason: &str, veto: bool) -> ToolFate {
    ToolFate::Blocked {
        plugin: plugin.into(),
        reason: reason.to_owned(),
        veto,
    }
}

#[actix::test]
async fn a_policy_that_denies_ends_the_asking_with_its_own_reason() {
    let heard = Heard::default();
    let (before, behind) = (
        policy("before", json!(null)),
        policy("behind", json!({ "params": { "sum": 0 } })),
    );
    for denial in [
        json!({ "allow": false, "reason": "too much" }),
        json!({ "block": true, "blockReason": "too much" }),
    ] {
        let guard = Plugin::new("guard").hears(Hook::BeforeToolCall, &heard).loaded();
        let plugins = [before.clone(), policy("denies", denial), behind.clone(), guard];
        assert_eq!(judged(&plugins).await, blocked("denies", "too much", true));
    }
    assert!(heard.all().is_empty(), "no handler is asked");
}

#[actix::test]
async fn each_sees_the_arguments_that_the_one_before_has_left_and_so_do_handlers() {
    let heard = Heard::default();
    let mut witness = Plugin::new("witness");
    let heard_by = heard.clone();
    let hears = move |event: &HookEvent, context: &_| {
        heard_by.add(event, context);
        Ok(HookResult::None)
    };
    witness.registration.policy("w", Registered::Quick(Arc::new(hears)));
    let guard = Plugin::new("guard")
        .hears(Hook::BeforeToolCall, &heard)
        .on(Hook::BeforeToolCall, 0, |_, _| {
            read(Hook::BeforeToolCall, &json!({ "params": { "note": "seen" } }))
        });
    let cut = policy("cut", json!({ "params": { "sum": 5 } }));
    let fate = judged(&[cut.clone(), witness.loaded(), guard.loaded()]).await;
    let all: Vec<Value> = heard.all().iter().map(|call| call.facts["params"].clone()).collect();
    assert_eq!(all, [json!({ "to": "a", "sum": 5 }), json!({ "to": "a", "sum": 5 })]);
    let params = Some(map(json!({ "to": "a", "sum": 5, "note": "seen" })));
    assert_eq!(fate, ToolFate::Allowed { params });
    let params = Some(map(json!({ "to": "a", "sum": 5 })));
    assert_eq!(
        judged(&[cut]).await,
        ToolFate::Allowed { params },
        "also where no handler is"
    );
}

#[actix::test]
async fn the_first_approval_is_kept_and_no_handler_is_asked() {
    let heard = Heard::default();
    let asks = |title: &str| json!({ "requireApproval": { "title": title }, "params": { "sum": title } });
    let guard = Plugin::new("guard").hears(Hook::BeforeToolCall, &heard).loaded();
    let fate = judged(&[policy("one", asks("1")), policy("two", asks("2")), guard.clone()]).await;
    let expected = ToolFate::Approval {
        plugin: "one".into(),
        request: json!({ "title": "1" }),
        params: Some(map(json!({ "to": "a", "sum": "1" }))),
    };
    assert_eq!(fate, expected);
    let denies = policy("two", json!({ "allow": false, "reason": "no" }));
    assert_eq!(
        judged(&[policy("one", asks("1")), denies, guard]).await,
        blocked("two", "no", true)
    );
    assert!(heard.all().is_empty());
}

#[actix::test]
async fn a_policy_that_fails_or_is_not_understood_blocks_in_fixed_words() {
    let words = "Blocked: the guard p could not judge.";
    for answer in [json!("yes"), json!({ "allow": 1 }), json!({ "outcome": "pass" })] {
        assert_eq!(judged(&[policy("p", answer)]).await, blocked("p", words, false));
    }
    let failing = |handler: fn() -> Result<HookResult, String>| {
        let mut plugin = Plugin::new("p");
        plugin
            .registration
            .policy("p", Registered::Quick(Arc::new(move |_, _| handler())));
        plugin.loaded()
    };
    for handler in [
        || Err("a secret".to_owned()),
        || panic!("a secret"),
        || Ok(HookResult::Prompt(PromptContribution::default())),
    ] {
        assert_eq!(judged(&[failing(handler)]).await, blocked("p", words, false));
    }
}

/// A policy that waits until it is cancelled.
struct Slow;

impl NativePlugin for Slow {
    fn id(&self) -> &str {
        "slow"
    }

    fn register(&self, api: &mut NativeApi, _: &Value) -> Result<(), String> {
        api.policy("slow", Arc::new(|_, _, _| std::future::pending().boxed()));
        Ok(())
    }
}

#[actix::test]
async fn a_policy_that_takes_too_long_or_is_gone_blocks() {
    use actix::Actor;
    let instance = NativeInstance::load(&Slow, &Value::Null).expect("registers");
    let mut slow = LoadedPlugin {
        registration: Arc::new(instance.registration().clone()),
        port: Some(Port(instance).start().recipient()),
        ..Plugin::new("slow").loaded()
    };
    slow.access
        .deadlines
        .insert(Hook::BeforeToolCall, Duration::from_millis(5));
    let words = "Blocked: the guard slow could not judge.";
    assert_eq!(judged(&[slow]).await, blocked("slow", words, false));
    let missing = vec![("gone".into(), vec![Hook::BeforeToolCall])];
    let hooks = hooks(&[policy("p", json!({ "allow": false, "reason": "no" }))], missing);
    let words = "Blocked: the required guard gone is not serving.";
    assert_eq!(hooks.judge(call(), Arc::default()).await, blocked("gone", words, false));
}

#[actix::test]
async fn a_policy_of_a_plugin_that_an_agent_does_not_list_does_not_judge_for_it() {
    let hooks = hooks(&[policy("p", json!({ "allow": false }))], Vec::new());
    assert!(hooks.fires(Hook::BeforeToolCall));
    assert!(!hooks.only(&["other".into()]).fires(Hook::BeforeToolCall));
    let fate = hooks.only(&["p".into()]).judge(call(), Arc::default()).await;
    assert_eq!(fate, blocked("p", "Blocked by a plugin.", true));
}

#[actix::test]
async fn a_policy_sees_the_conversation_only_where_its_plugin_may() {
    for may in [true, false] {
        let plugin = if may {
            Plugin::new("p")
        } else {
            Plugin::without_conversation("p")
        };
        let mut plugin = plugin;
        let looks = move |event: &HookEvent, _: &_| {
            let seen = event.conversation().expect("there").look().system_prompt.is_some();
            assert_eq!(seen, may);
            Ok(HookResult::None)
        };
        plugin.registration.policy("p", Registered::Quick(Arc::new(looks)));
        let mut event = call();
        if let HookEvent::BeforeToolCall { conversation, .. } = &mut event {
            *conversation = Snapshot::new(|| Parsed {
                system_prompt: Some("rules".into()),
                ..Parsed::default()
            });
        }
        let fate = hooks(&[plugin.loaded()], Vec::new()).judge(event, Arc::default()).await;
        assert_eq!(fate, ToolFate::Allowed { params: None });
    }
}
