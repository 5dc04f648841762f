//! What plugins are told of a turn, and how often.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::hooks::{Hook, HookResult};

use super::{Call, Heard, Plugin, asked, fenced, message, waiting};
use crate::house::{House, Play};
use crate::stage::{DONE, SECOND_SAYS, Stage, lead, question, refusal, second, stream, text};

const TWO: &str = "
providers:
  a: { api: openai-chat, base_url: \"http://127.0.0.1:1\", models: [x] }
  b: { api: openai-chat, base_url: \"http://127.0.0.1:1\", models: [z] }
models:
  main: { chain: [a/x, b/z] }
";

fn observer(heard: &Heard) -> Plugin {
    let hooks = [Hook::ModelFailover, Hook::ModelFailureTerminal, Hook::AgentEnd];
    hooks
        .into_iter()
        .fold(Plugin::new("observer"), |plugin, hook| plugin.hears(hook, heard))
}

async fn failing_lead(lead: Value, heard: &Heard, configuration: &str) -> Stage {
    let plan = json!({ "a/m": { "calls": [lead] }, "b/m": { "calls": [{ "answer": { "text": SECOND_SAYS } }] } });
    Stage::set_guarded(plan, configuration, vec![observer(heard).loaded()]).await
}

fn last_message(call: &Call) -> Option<Value> {
    call.event
        .conversation()
        .expect("shown")
        .look()
        .messages
        .last()
        .cloned()
}

#[actix::test]
async fn a_stream_that_broke_after_content_is_told_to_the_client_and_to_no_terminal_hook_case_54() {
    let heard = Heard::default();
    let frames = [
        &*text("On"),
        "data: {\"error\":{\"message\":\"broken\",\"type\":\"server_error\"}}\n\n",
    ];
    let policy = "agents:\n  one: { model: { primary: a/m, fallbacks: [b/m] }, on_broken_stream: error }\n";
    let stage = failing_lead(stream(frames, "close"), &heard, policy).await;
    let mut request = question(true);
    request["model"] = json!("one");
    let reply = stage.ask(&request).await;
    assert!(reply.text().contains("On") && reply.text().contains("error") && !reply.text().contains("[DONE]"));
    stage.calls_are(&second(), 0);
    let ends = heard.await_of(Hook::AgentEnd, 1).await;
    assert_eq!(ends[0].facts["success"], false);
    let failovers = heard.await_of(Hook::ModelFailover, 1).await;
    assert_eq!(
        (&failovers[0].facts["decision"], &failovers[0].facts["stage"]),
        (&json!("surface_error"), &json!("assistant"))
    );
    assert!(heard.of(Hook::ModelFailureTerminal).is_empty());
}

#[actix::test]
async fn after_something_ran_that_may_not_run_twice_nobody_else_is_asked_case_55() {
    let heard = Heard::default();
    let house = House::open_guarded(TWO, &[observer(&heard).loaded()], |asked| {
        asked.attempt.turn.effects.note_unsafe();
        Play::fail(Failure {
            status: Some(429),
            ..Failure::observed(Reason::RateLimit, Cut::Answered)
        })
    })
    .await;
    assert!(house.ask().await.is_err());
    assert_eq!(house.targets(), ["a/x"; 3], "the same model alone");
    assert_eq!(
        heard.await_of(Hook::ModelFailover, 1).await[0].facts["decision"],
        "surface_error"
    );
}

#[actix::test]
async fn an_empty_answer_is_never_passed_on_case_56() {
    let empty = || stream([DONE], "close");
    let heard = Heard::default();
    let stage = failing_lead(empty(), &heard, "").await;
    let reply = stage.ask(&question(true)).await;
    assert_eq!(reply.header("x-understudy-served-by"), "b/m", "{}", reply.text());
    let moved = heard.await_of(Hook::ModelFailover, 1).await;
    assert_eq!(moved[0].facts["failoverReason"], "empty_response");
    let plan = json!({ "a/m": { "calls": [empty()] } });
    let retry = "defaults:\n  retry: { max_per_target: 0 }\n";
    let stage = Stage::set_guarded(plan, retry, vec![observer(&heard).loaded()]).await;
    let reply = stage.ask(&question(true)).await;
    assert_eq!(reply.status, 502);
    assert_eq!(
        heard.await_of(Hook::ModelFailureTerminal, 1).await[0].facts["finalMessage"],
        message(&reply)
    );
}

#[actix::test]
async fn a_lead_without_quota_and_a_second_that_answers_are_one_failover_case_58() {
    let heard = Heard::default();
    let stage = failing_lead(refusal(429, "rate_limit_exceeded"), &heard, "").await;
    let reply = stage
        .ask_as(&question(false), |request| request.header("x-session-id", "s1"))
        .await;
    assert!(reply.text().contains(SECOND_SAYS));
    let end = heard.await_of(Hook::AgentEnd, 1).await;
    let told = heard.await_of(Hook::ModelFailover, 1).await;
    assert_eq!((told.len(), heard.of(Hook::ModelFailureTerminal).len()), (1, 0));
    let (facts, context) = (&told[0].facts, &told[0].context);
    for (key, value) in [
        ("provider", json!("b")),
        ("model", json!("m")),
        ("sourceProvider", json!("a")),
        ("sourceModel", json!("m")),
        ("stage", json!("prompt")),
        ("decision", json!("fallback_model")),
        ("failoverReason", json!("rate_limit")),
        ("profileFailureReason", json!("rate_limit")),
        ("fallbackConfigured", json!(true)),
        ("timedOut", json!(false)),
        ("status", json!(429)),
        ("sourceRecoverable", json!(true)),
        ("sessionKey", json!("s1")),
        ("sessionId", json!("s1")),
    ] {
        assert_eq!(facts[key], value, "{key}");
    }
    for key in ["runId", "agentId", "sessionId", "sessionKey"] {
        assert_eq!(facts[key], context[key], "{key}");
    }
    assert_eq!(end[0].facts["success"], true);
    let said = json!({ "role": "assistant", "content": [{ "type": "text", "text": SECOND_SAYS }] });
    assert_eq!(last_message(&end[0]), Some(said));
}

#[actix::test]
async fn a_candidate_that_rests_is_told_of_with_who_is_asked_instead() {
    let heard = Heard::default();
    let stage = failing_lead(refusal(429, "rate_limit_exceeded"), &heard, "").await;
    for _turn in 0..2 {
        assert_eq!(stage.ask(&question(false)).await.status, 200);
    }
    let told = heard.await_of(Hook::ModelFailover, 2).await;
    let (facts, keys) = (
        &told[1].facts,
        ["sourceProvider", "provider", "decision", "failoverReason"],
    );
    assert_eq!(
        keys.map(|key| facts[key].as_str().unwrap_or("none")),
        ["a", "b", "fallback_model", "rate_limit"]
    );
    assert!(facts.get("status").is_none());
    stage.calls_are(&lead(), 1);
}

#[actix::test]
async fn a_turn_that_nobody_could_answer_is_told_once_in_the_clients_words_case_59() {
    let heard = Heard::default();
    let plan = json!({ "a/m": { "calls": [refusal(429, "rate_limit_exceeded")] },
        "b/m": { "calls": [refusal(429, "rate_limit_exceeded")] } });
    let retry = "defaults:\n  retry: { max_per_target: 0 }\n";
    for (path, request) in [false, true].into_iter().flat_map(asked) {
        let heard = Heard::default();
        let stage = Stage::set_guarded(plan.clone(), retry, vec![observer(&heard).loaded()]).await;
        let reply = stage.post(path, request.to_string(), |request| request).await;
        assert_eq!(reply.status, 429, "{path}");
        heard.await_of(Hook::AgentEnd, 1).await;
        let told = heard.await_of(Hook::ModelFailureTerminal, 1).await;
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].facts["kind"], "all_models_failed");
        assert_eq!(told[0].facts["finalMessage"], message(&reply), "{path}");
        assert_eq!(
            told[0].facts["attempts"],
            json!([{ "provider": "a", "model": "m", "reason": "rate_limit" }, { "provider": "b", "model": "m", "reason": "rate_limit" }])
        );
    }
    // and so is one in which nobody could even be asked, and one that is the client's own fault
    let stage = Stage::set_guarded(plan, retry, vec![observer(&heard).loaded()]).await;
    for turn in 1..=2 {
        let reply = stage.ask(&question(false)).await;
        let told = heard.await_of(Hook::ModelFailureTerminal, turn).await;
        assert_eq!(told[turn - 1].facts["finalMessage"], message(&reply));
        assert_eq!(told[turn - 1].facts["attempts"].as_array().map(Vec::len), Some(2));
    }
    let heard = Heard::default();
    let refused = json!({ "status": 400, "headers": { "content-type": "application/json" },
        "body": { "error": { "message": "invalid 'temperature'", "type": "invalid_request_error", "code": null } } });
    let stage = failing_lead(refused, &heard, "").await;
    let reply = stage.ask(&question(false)).await;
    let told = heard.await_of(Hook::ModelFailureTerminal, 1).await;
    assert_eq!(
        (reply.status, &told[0].facts["finalMessage"]),
        (400, &json!(message(&reply)))
    );
    assert!(message(&reply).contains("temperature"));
}

#[actix::test]
async fn a_handler_that_hangs_delays_no_turn_and_is_ended_in_time_case_60() {
    struct Counts(Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = ended.clone();
    let hangs = waiting(
        "hangs",
        Hook::ModelFailover,
        Default::default(),
        Arc::new(move |_, _, _| {
            let counts = Counts(counted.clone());
            async move {
                let _counts = counts;
                std::future::pending::<Result<HookResult, String>>().await
            }
            .boxed()
        }),
    );
    let house = House::open_guarded(TWO, &[hangs], |asked| match asked.target.starts_with("a/") {
        true => Play::refuse(Reason::Billing),
        false => Play::answer(),
    })
    .await;
    assert_eq!(house.ask().await, Ok("b/z".to_owned()));
    assert!(house.clock.now().duration_since(house.started) < Duration::from_secs(1));
    house.clock.sleep(Duration::from_secs(29)).await;
    assert_eq!(ended.load(Ordering::Acquire), 0);
    house.clock.sleep(Duration::from_secs(2)).await;
    assert_eq!(ended.load(Ordering::Acquire), 1);
}

#[actix::test]
async fn without_conversation_access_only_the_failover_is_told_case_61() {
    let heard = Heard::default();
    let both = Plugin::without_conversation("p")
        .hears(Hook::ModelFailover, &heard)
        .hears(Hook::ModelFailureTerminal, &heard);
    let house = House::open_guarded(TWO, &[both.loaded()], |_| Play::refuse(Reason::Billing)).await;
    assert!(house.ask().await.is_err());
    heard.await_of(Hook::ModelFailover, 2).await;
    house.clock.sleep(Duration::from_secs(1)).await;
    let decisions: Vec<Value> = heard.all().iter().map(|call| call.facts["decision"].clone()).collect();
    assert_eq!(decisions, ["fallback_model", "surface_error"]);
}

#[actix::test]
async fn each_call_of_a_model_is_told_with_what_it_was_told_and_what_it_said() {
    let heard = Heard::default();
    let hooks = [
        Hook::LlmInput,
        Hook::ModelCallStarted,
        Hook::ModelCallEnded,
        Hook::LlmOutput,
        Hook::AgentEnd,
    ];
    let plugin = hooks
        .into_iter()
        .fold(Plugin::new("p"), |plugin, hook| plugin.hears(hook, &heard));
    let plugin = plugin.says(Hook::BeforePromptBuild, json!({ "prependSystemContext": "CANON" }));
    let plan = json!({ "a/m": { "calls": [refusal(402, "insufficient_quota")] },
        "b/m": { "calls": [{ "answer": { "text": SECOND_SAYS } }] } });
    let stage = Stage::set_guarded(plan, "", vec![plugin.loaded()]).await;
    let mut turns = 0;
    for (path, request) in [false, true].into_iter().flat_map(asked) {
        let reply = stage.post(path, request.to_string(), |request| request).await;
        assert!(reply.text().contains("knows"), "{path}: {}", reply.text());
        turns += 1;
        heard.await_of(Hook::AgentEnd, turns).await;
    }
    let inputs = heard.await_of(Hook::LlmInput, 7).await;
    assert_eq!(inputs.len(), 7, "the lead was asked once, then it rested");
    for call in &inputs {
        let conversation = call.event.conversation().expect("shown").look().clone();
        assert_eq!(
            (conversation.system_prompt.as_deref(), &*conversation.prompt),
            (Some(&*fenced("CANON")), "hi")
        );
    }
    let (started, ended) = (
        heard.of(Hook::ModelCallStarted),
        heard.await_of(Hook::ModelCallEnded, 7).await,
    );
    let ids = |calls: &[Call]| {
        calls
            .iter()
            .map(|call| call.facts["callId"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&started), ids(&ended));
    let failed: Vec<&Value> = ended.iter().map(|call| &call.facts["outcome"]).collect();
    assert_eq!(failed.iter().filter(|outcome| **outcome == "error").count(), 1);
    let said = heard.await_of(Hook::LlmOutput, 6).await;
    assert!(
        said.iter()
            .all(|call| call.facts["assistantTexts"] == json!([SECOND_SAYS])),
        "{said:?}"
    );
    assert!(said.iter().all(|call| call.context["modelProviderId"] == "b"));
    let answer = json!({ "role": "assistant", "content": [{ "type": "text", "text": SECOND_SAYS }] });
    assert!(
        heard
            .of(Hook::AgentEnd)
            .iter()
            .all(|end| last_message(end) == Some(answer.clone()))
    );
}

#[actix::test]
async fn the_gateways_own_start_and_stop_are_told() {
    let heard = Heard::default();
    let plugin = Plugin::new("p")
        .hears(Hook::GatewayStart, &heard)
        .hears(Hook::GatewayStop, &heard);
    let stage = Stage::set_guarded(json!({ "a/m": { "calls": [] } }), "", vec![plugin.loaded()]).await;
    let started = heard.await_of(Hook::GatewayStart, 1).await;
    let port = started[0].facts["port"].as_u64().expect("a port");
    assert!(stage.gateway.api("").ends_with(&format!(":{port}")));
    drop(stage);
    assert_eq!(heard.of(Hook::GatewayStop)[0].facts["reason"], "shutdown");
}
