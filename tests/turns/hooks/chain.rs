//! Plugins that choose who may answer, or answer themselves.

use serde_json::{Value, json};
use understudy_messages::hooks::Hook;
use understudy_messages::turn::TurnOutcome;

use super::{Heard, Plugin, asked};
use crate::stage::{Stage, lead, question, refusal, second};

fn answering() -> Value {
    json!({ "a/m": { "calls": [{ "answer": { "text": "one" } }] }, "b/m": { "calls": [{ "answer": { "text": "two" } }] } })
}

fn broke() -> Value {
    json!({ "a/m": { "calls": [refusal(402, "insufficient_quota")] }, "b/m": { "calls": [refusal(402, "insufficient_quota")] } })
}

async fn choosing(plan: Value, choice: Value) -> Stage {
    let plugin = Plugin::new("p").says(Hook::BeforeModelResolve, choice);
    Stage::set_guarded(plan, "", vec![plugin.loaded()]).await
}

#[actix::test]
async fn a_chosen_model_leads_and_the_configured_fallbacks_follow() {
    for choice in [
        json!({ "modelOverride": "m", "providerOverride": "b" }),
        json!({ "modelOverride": "b/m" }),
    ] {
        let stage = choosing(answering(), choice).await;
        assert_eq!(
            stage.ask(&question(false)).await.header("x-understudy-served-by"),
            "b/m"
        );
    }
}

#[actix::test]
async fn fallbacks_that_a_plugin_gives_bind_the_chain() {
    let stage = choosing(broke(), json!({ "fallbacks": [] })).await;
    assert_eq!(stage.ask(&question(false)).await.status, 402);
    stage.calls_are(&lead(), 1);
    stage.calls_are(&second(), 0);
    let stage = choosing(broke(), json!({ "modelOverride": "b/m", "fallbacks": ["a/m"] })).await;
    assert_eq!(stage.ask(&question(false)).await.status, 402);
    stage.calls_are(&lead(), 1);
    stage.calls_are(&second(), 1);
}

#[actix::test]
async fn a_model_that_nobody_knows_is_passed_over_and_the_fallbacks_still_bind() {
    let stage = choosing(broke(), json!({ "modelOverride": "nobody/knows", "fallbacks": [] })).await;
    assert_eq!(stage.ask(&question(false)).await.status, 402);
    stage.calls_are(&lead(), 1);
    stage.calls_are(&second(), 0);
}

#[actix::test]
async fn a_pinned_model_that_fails_is_a_clear_error_and_no_fallback_case_43() {
    let stage = Stage::set(broke()).await;
    let mut pinned = question(false);
    pinned["model"] = json!("b/m");
    pinned["fallbacks"] = json!([]);
    let reply = stage.ask(&pinned).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]["reason"]),
        (402, &json!("billing"))
    );
    stage.calls_are(&lead(), 0);
    stage.calls_are(&second(), 1);
}

#[actix::test]
async fn a_plugin_may_answer_in_every_format_and_nobody_else_is_asked() {
    let heard = Heard::default();
    let plugin = Plugin::new("oracle").says(Hook::BeforeAgentReply, json!({ "handled": true, "reply": "I know." }));
    let observer = Plugin::new("observer")
        .hears(Hook::AgentEnd, &heard)
        .hears(Hook::ModelCallStarted, &heard);
    let stage = Stage::set_guarded(answering(), "", vec![plugin.loaded(), observer.loaded()]).await;
    for (path, request) in [false, true].into_iter().flat_map(asked) {
        let reply = stage.post(path, request.to_string(), |request| request).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        assert!(reply.text().contains("I know."), "{}", reply.text());
        assert_eq!(reply.header("x-understudy-served-by"), "plugin/oracle");
        assert_eq!(reply.header("x-understudy-attempts"), "0");
        let end = stage.told().await.end;
        assert_eq!((end.outcome, end.served_by), (TurnOutcome::Completed, None));
    }
    let ends = heard.await_of(Hook::AgentEnd, 6).await;
    let last = |call: &super::Call| {
        call.event
            .conversation()
            .expect("shown")
            .look()
            .messages
            .last()
            .cloned()
    };
    let said = json!({ "role": "assistant", "content": [{ "type": "text", "text": "I know." }] });
    assert!(ends.iter().all(|end| last(end) == Some(said.clone())));
    assert_eq!(heard.all().len(), 6);
    stage.calls_are(&lead(), 0);
}

#[actix::test]
async fn a_claim_without_a_reply_is_an_answer_without_text_and_no_failure() {
    let heard = Heard::default();
    let plugin = Plugin::new("silent")
        .says(Hook::BeforeAgentReply, json!({ "handled": true, "reason": "a secret" }))
        .hears(Hook::ModelFailureTerminal, &heard);
    let stage = Stage::set_guarded(answering(), "", vec![plugin.loaded()]).await;
    for (path, request) in [false, true].into_iter().flat_map(asked) {
        let reply = stage.post(path, request.to_string(), |request| request).await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(!reply.text().contains("secret"));
        assert_eq!(stage.told().await.end.outcome, TurnOutcome::Completed);
    }
    assert!(heard.all().is_empty());
    stage.calls_are(&lead(), 0);
}

#[actix::test]
async fn a_claim_that_fails_leaves_the_turn_to_the_models() {
    let fails = Plugin::new("fails").on(Hook::BeforeAgentReply, 0, |_, _| Err("broken".to_owned()));
    let declines = Plugin::new("declines").says(Hook::BeforeAgentReply, json!({ "handled": false }));
    let stage = Stage::set_guarded(answering(), "", vec![fails.loaded(), declines.loaded()]).await;
    assert_eq!(
        stage.ask(&question(false)).await.header("x-understudy-served-by"),
        "a/m"
    );
}
