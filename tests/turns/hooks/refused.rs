//! Turns and candidates that a guard lets nobody ask.

use std::time::Duration;

use serde_json::{Value, json};
use understudy_actors::hooks::{HookTable, Hooks, LoadedPlugin};
use understudy_actors::supervision::Tasks;
use understudy_actors::telemetry::Telemetry;
use understudy_messages::clock::Clock;
use understudy_messages::events::Decision;
use understudy_messages::failure::Reason;
use understudy_messages::hooks::{Hook, HookEvent, HookResult, PromptContribution, Snapshot, ToolFate};
use understudy_messages::plugin::TurnHooks;
use understudy_messages::turn::TurnOutcome;

use super::{Heard, Plugin, asked, message, read};
use crate::stage::{Stage, lead, question, refusal, second};

fn answering() -> Value {
    json!({ "a/m": { "calls": [{ "answer": { "text": "one" } }] }, "b/m": { "calls": [{ "answer": { "text": "two" } }] } })
}

async fn guarded(verdict: Value) -> Stage {
    let guard = Plugin::new("guard").says(Hook::BeforeAgentRun, verdict);
    Stage::set_guarded(answering(), "", vec![guard.loaded()]).await
}

#[actix::test]
async fn anything_but_an_exact_verdict_blocks_and_no_reason_leaves_case_15() {
    for verdict in [
        json!(null),
        json!({ "outcome": "pass", "extra": 1 }),
        json!({ "outcome": "block", "reason": "the secret reason" }),
        json!({ "outcome": "block", "reason": "the secret reason", "extra": 1 }),
    ] {
        let stage = guarded(verdict.clone()).await;
        let reply = stage.ask(&question(false)).await;
        assert_eq!(reply.status, 403, "{verdict}");
        assert!(!reply.text().contains("secret"), "{}", reply.text());
        assert_eq!(stage.told().await.end.outcome, TurnOutcome::Blocked);
        stage.calls_are(&lead(), 0);
    }
    let wrong = Plugin::new("guard").on(Hook::BeforeAgentRun, 0, |_, _| {
        Ok(HookResult::Prompt(PromptContribution::default()))
    });
    let stage = Stage::set_guarded(answering(), "", vec![wrong.loaded()]).await;
    assert_eq!(
        stage.ask(&question(false)).await.status,
        403,
        "an answer of another hook is no verdict"
    );
}

#[actix::test]
async fn a_guard_whose_code_fails_blocks_and_is_named() {
    for panics in [false, true] {
        let guard = Plugin::new("guard").on(Hook::BeforeAgentRun, 0, move |_, _| match panics {
            true => panic!("a secret"),
            false => Err("a secret".to_owned()),
        });
        let stage = Stage::set_guarded(answering(), "", vec![guard.loaded()]).await;
        let reply = stage.ask(&question(false)).await;
        assert_eq!(reply.status, 403);
        assert_eq!(message(&reply), "Blocked: the guard guard could not judge.");
    }
}

#[actix::test]
async fn a_blocked_turn_is_told_in_every_format_and_is_neither_failure_nor_failover() {
    let heard = Heard::default();
    let guard = Plugin::new("guard").says(
        Hook::BeforeAgentRun,
        json!({ "outcome": "block", "reason": "r", "message": "Not here.", "status": 451 }),
    );
    let observer = Plugin::new("observer")
        .hears(Hook::ModelFailover, &heard)
        .hears(Hook::ModelFailureTerminal, &heard)
        .hears(Hook::LlmInput, &heard)
        .hears(Hook::AgentEnd, &heard);
    let stage = Stage::set_guarded(answering(), "", vec![guard.loaded(), observer.loaded()]).await;
    for (path, request) in [false, true].into_iter().flat_map(asked) {
        let reply = stage.post(path, request.to_string(), |request| request).await;
        assert_eq!((reply.status, &*message(&reply)), (451, "Not here."), "{path}");
        assert_eq!(reply.header("x-should-retry"), "false");
        let told = stage.told().await;
        assert_eq!((told.end.outcome, told.failovers.len()), (TurnOutcome::Blocked, 0));
    }
    let ends = heard.await_of(Hook::AgentEnd, 6).await;
    assert!(
        ends.iter()
            .all(|end| end.facts["success"] == false && end.facts["error"] == "blocked")
    );
    assert_eq!(heard.all().len(), 6, "nothing else was fired");
    stage
        .counts("understudy_turns_total", &[("outcome", "blocked")], 6)
        .await;
    stage.calls_are(&lead(), 0);
}

#[actix::test]
async fn a_block_of_one_candidate_is_one_move_without_an_attempt() {
    for (status, reason) in [(Some(429), Reason::RateLimit), (None, Reason::Unclassified)] {
        let guard = Plugin::new("guard").on(Hook::BeforeAgentRun, 0, move |event, context| {
            let verdict = match context.model_provider_id.as_deref() {
                Some("a") => json!({ "outcome": "block", "reason": "r", "scope": "candidate", "status": status }),
                _ => json!({ "outcome": "pass" }),
            };
            read(event.hook(), &verdict)
        });
        let stage = Stage::set_guarded(answering(), "", vec![guard.loaded()]).await;
        for _again in 0..2 {
            let reply = stage.ask(&question(true)).await;
            assert_eq!(reply.header("x-understudy-served-by"), "b/m");
            let told = stage.told().await;
            let moves = told.decided(Decision::FallbackModel);
            assert_eq!(
                (moves.len(), moves[0].reason, moves[0].status),
                (1, reason, status),
                "no mark was left"
            );
            assert_eq!((told.failovers.len(), told.end.attempts.len()), (1, 1));
        }
        stage.calls_are(&lead(), 0);
    }
}

#[actix::test]
async fn with_no_candidate_left_the_blocks_status_goes_to_the_client() {
    let verdict =
        json!({ "outcome": "block", "reason": "r", "message": "Nobody.", "scope": "candidate", "status": 429 });
    let stage = guarded(verdict).await;
    let reply = stage.ask(&question(true)).await;
    assert_eq!((reply.status, &*message(&reply)), (429, "Nobody."));
    assert_eq!(stage.told().await.end.outcome, TurnOutcome::Blocked);
    stage.calls_are(&lead(), 0);
    stage.calls_are(&second(), 0);
}

#[actix::test]
async fn who_was_not_blocked_and_failed_is_who_the_client_hears_of() {
    let guard = Plugin::new("guard").on(Hook::BeforeAgentRun, 0, |event, context| {
        let verdict = match context.model_provider_id.as_deref() {
            Some("a") => json!({ "outcome": "block", "reason": "r", "scope": "candidate" }),
            _ => json!({ "outcome": "pass" }),
        };
        read(event.hook(), &verdict)
    });
    let plan = json!({ "a/m": { "calls": [{ "answer": { "text": "one" } }] }, "b/m": { "calls": [refusal(402, "insufficient_quota")] } });
    let stage = Stage::set_guarded(plan, "", vec![guard.loaded()]).await;
    assert_eq!(stage.ask(&question(false)).await.status, 402);
    assert!(matches!(stage.told().await.end.outcome, TurnOutcome::Failed { .. }));
}

#[actix::test]
async fn counts_and_vectors_pass_the_guard_too() {
    let heard = Heard::default();
    let guard = Plugin::new("guard")
        .hears(Hook::BeforeAgentRun, &heard)
        .says(Hook::BeforeAgentRun, json!({ "outcome": "block", "reason": "r" }));
    let stage = Stage::set_guarded(answering(), "", vec![guard.loaded()]).await;
    let request = json!({ "model": "main", "input": ["one", "two"] });
    let reply = stage
        .post("/v1/embeddings", request.to_string(), |request| request)
        .await;
    assert_eq!(reply.status, 403);
    let shown = heard.all()[0]
        .event
        .conversation()
        .expect("shown")
        .look()
        .prompt
        .clone();
    assert_eq!(&*shown, "one\ntwo");
}

/// The hooks of these plugins, without a gateway.
fn hooks(plugins: &[LoadedPlugin]) -> Hooks {
    let (table, _left_out) = HookTable::new(plugins, Vec::new());
    Hooks::new(
        table.into(),
        Clock::real(),
        Tasks::new(),
        Telemetry::new().expect("sound"),
    )
}

async fn judged(plugins: &[LoadedPlugin]) -> ToolFate {
    let event = HookEvent::BeforeToolCall {
        run_id: None,
        tool_name: "read".into(),
        params: Default::default(),
        tool_call_id: "c1".to_owned(),
        conversation: Snapshot::new(Default::default),
    };
    hooks(plugins).judge(event, Default::default()).await
}

fn verdict(id: &'static str, priority: i32, verdict: Value) -> LoadedPlugin {
    let hook = Hook::BeforeToolCall;
    Plugin::new(id)
        .on(hook, priority, move |_, _| read(hook, &verdict))
        .loaded()
}

fn blocked(plugin: &str, reason: &str) -> ToolFate {
    ToolFate::Blocked {
        plugin: plugin.into(),
        reason: reason.to_owned(),
        veto: true,
    }
}

#[actix::test]
async fn a_block_ends_the_asking_with_its_own_reason_case_7() {
    let heard = Heard::default();
    let later = Plugin::new("later").hears(Hook::BeforeToolCall, &heard).loaded();
    let first = verdict("first", 100, json!({ "block": true, "blockReason": "no" }));
    assert_eq!(judged(&[later, first]).await, blocked("first", "no"));
    assert!(heard.all().is_empty());
}

#[actix::test]
async fn of_two_blocks_the_one_that_was_registered_first_stands_case_8() {
    let block = |id, reason: &str| verdict(id, 0, json!({ "block": true, "blockReason": reason }));
    assert_eq!(
        judged(&[block("one", "1"), block("two", "2")]).await,
        blocked("one", "1")
    );
}

#[actix::test]
async fn a_block_that_is_false_is_no_opinion_case_9() {
    let fate = judged(&[verdict("p", 0, json!({ "block": false }))]).await;
    assert_eq!(fate, ToolFate::Allowed { params: None });
}

#[actix::test]
async fn a_guard_that_fails_blocks_with_fixed_words_and_an_observer_that_fails_does_nothing_case_10() {
    let fails = |hook| Plugin::new("p").on(hook, 0, |_, _| Err("a secret".to_owned())).loaded();
    let ToolFate::Blocked { reason, veto, .. } = judged(&[fails(Hook::BeforeToolCall)]).await else {
        panic!("a guard that fails blocks");
    };
    assert_eq!((&*reason, veto), ("Blocked: the guard p could not judge.", false));
    let stage = Stage::set_guarded(answering(), "", vec![fails(Hook::ModelCallStarted)]).await;
    assert_eq!(stage.ask(&question(false)).await.status, 200);
    let failed = [("hook", "model_call_started"), ("outcome", "error")];
    stage.counts("understudy_hook_calls_total", &failed, 1).await;
}

#[actix::test]
async fn a_client_that_leaves_while_a_guard_thinks_ends_its_work() {
    use futures::FutureExt;
    use std::sync::Arc;
    use tokio::sync::oneshot;
    let (gone, is_gone) = oneshot::channel::<()>();
    let (begun, has_begun) = oneshot::channel::<()>();
    let slot = std::sync::Mutex::new(Some((gone, begun)));
    let guard = super::waiting(
        "guard",
        Hook::BeforeAgentRun,
        Default::default(),
        Arc::new(move |_, _, _| {
            let channels = slot.lock().expect("sound").take();
            async move {
                let (gone, begun) = channels.expect("asked once");
                let _held = gone;
                let _told = begun.send(());
                std::future::pending().await
            }
            .boxed()
        }),
    );
    let stage = Stage::set_guarded(answering(), "", vec![guard]).await;
    let question = question(true);
    let request = stage.ask(&question);
    tokio::select! {
        _ = request => panic!("the guard never answers"),
        _ = has_begun => {}
    }
    let clock = Clock::real();
    let ended = clock.timeout_at(clock.now() + Duration::from_secs(10), is_gone).await;
    assert!(ended.expect("the guard's work is ended").is_err());
    stage.calls_are(&lead(), 0);
}

#[actix::test]
async fn calls_that_would_pass_a_guard_unseen_are_refused_before_anybody_is_asked() {
    let guard = || Plugin::new("guard").says(Hook::BeforeToolCall, json!({})).loaded();
    let servers = json!({ "model": "main", "max_tokens": 9, "messages": [{ "role": "user", "content": "hi" }],
        "mcp_servers": [{ "type": "url", "name": "s", "url": "https://example.com" }] });
    let prompt = json!({ "model": "main", "input": "hi", "prompt": { "id": "pmpt_1" } });
    let hosted = json!({ "model": "main", "input": "hi", "tools": [{ "type": "web_search" }] });
    let custom = json!({ "model": "main", "input": "hi", "tools": [{ "type": "custom", "name": "free" }] });
    let mut free = question(true);
    free["tools"] = json!([{ "type": "custom", "custom": { "name": "free" } }]);
    let stage = Stage::set_guarded(answering(), "", vec![guard()]).await;
    for (path, body) in [
        ("/v1/messages", servers),
        ("/v1/responses", prompt),
        ("/v1/responses", hosted),
        ("/v1/responses", custom),
        ("/v1/chat/completions", free),
    ] {
        let reply = stage.post(path, body.to_string(), |request| request).await;
        assert_eq!(reply.status, 501, "{path}: {}", reply.text());
        assert!(message(&reply).contains("guards tool calls"), "{}", reply.text());
        assert_eq!(stage.told().await.end.outcome, TurnOutcome::Blocked);
    }
    stage.calls_are(&lead(), 0);
}
