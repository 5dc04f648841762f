//! The terminal hook: once for each turn that failed before any answer, in the words that its client got, and never else.

use std::time::Duration;

use serde_json::{Value, json};
use understudy_messages::hooks::Hook;

use super::{Call, Heard, Plugin, asked};
use crate::house::{House, Play};
use crate::stage::{DONE, Reply, Stage, delta, lead, question, refusal, stream};

const ONE_TRY: &str = "defaults:\n  retry: { max_per_target: 0 }\n";

fn observer(heard: &Heard) -> Plugin {
    Plugin::new("observer")
        .hears(Hook::ModelFailureTerminal, heard)
        .hears(Hook::AgentEnd, heard)
}

async fn stage(calls: [Value; 2], configuration: &str, heard: &Heard) -> Stage {
    let [lead, second] = calls.map(|call| json!({ "calls": [call] }));
    let plan = json!({ "a/m": lead, "b/m": second });
    Stage::set_guarded(plan, configuration, vec![observer(heard).loaded()]).await
}

/// The words of the error that the client was told last, in whatever format, in a body or in a stream.
fn words(reply: &Reply) -> Value {
    let text = reply.text();
    let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let told = events
        .chain([&*text])
        .filter_map(|data| serde_json::from_str(data).ok());
    let words = told.map(|told: Value| {
        let places = ["/error/message", "/response/error/message", "/message"];
        places.iter().find_map(|place| told.pointer(place).cloned())
    });
    words.flatten().last().unwrap_or_default()
}

/// What the terminal hook was told by the end of so many turns.
async fn told(heard: &Heard, turns: usize) -> Vec<Call> {
    heard.await_of(Hook::AgentEnd, turns).await;
    heard.of(Hook::ModelFailureTerminal)
}

fn tried(reasons: [&str; 2]) -> Value {
    let [a, b] = reasons;
    json!([{ "provider": "a", "model": "m", "reason": a }, { "provider": "b", "model": "m", "reason": b }])
}

/// Both candidates do this: what the client is told is told once.
async fn exhausted(calls: [Value; 2], streams: &[bool], reasons: [&str; 2]) {
    for (path, request) in streams.iter().copied().flat_map(asked) {
        let heard = Heard::default();
        let stage = stage(calls.clone(), ONE_TRY, &heard).await;
        let reply = stage.post(path, request.to_string(), |request| request).await;
        let told = told(&heard, 1).await;
        assert_eq!(told.len(), 1, "{path}");
        let facts = &told[0].facts;
        assert!(facts["finalMessage"].is_string());
        assert_eq!(facts["finalMessage"], words(&reply), "{path}: {}", reply.text());
        assert_eq!(
            (&facts["kind"], &facts["attempts"]),
            (&json!("all_models_failed"), &tried(reasons)),
            "{path}"
        );
        assert_eq!(facts["runId"], told[0].context["runId"]);
    }
}

#[actix::test]
async fn errors_of_all_models_are_told_once_in_every_format_case_59() {
    let refused = || refusal(402, "insufficient_quota");
    exhausted([refused(), refused()], &[false, true], ["billing", "billing"]).await;
}

#[actix::test]
async fn answers_without_anything_in_them_are_told_as_errors_are_case_59() {
    let empty = || stream([DONE], "close");
    let reasons = ["empty_response", "empty_response"];
    exhausted([empty(), empty()], &[true], reasons).await;
    let empty = json!({ "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{ "index": 0, "message": { "role": "assistant", "content": "" }, "finish_reason": "stop" }] });
    let empty = || json!({ "headers": { "content-type": "application/json" }, "body": empty });
    exhausted([empty(), empty()], &[false], reasons).await;
}

#[actix::test]
async fn a_stream_that_had_shown_nothing_but_reasoning_is_told_in_its_own_last_words_case_59() {
    let reasoning = delta(&json!({ "reasoning_content": "let me see" }));
    let thinks = stream([&*reasoning], "reset");
    exhausted(
        [thinks, refusal(402, "insufficient_quota")],
        &[true],
        ["timeout", "billing"],
    )
    .await;
}

#[actix::test]
async fn a_turn_that_waited_behind_another_is_told_as_the_first_was_case_59() {
    let heard = Heard::default();
    let stage = stage(
        [refusal(404, "model_not_found"), refusal(402, "insufficient_quota")],
        ONE_TRY,
        &heard,
    )
    .await;
    let question = question(false);
    let turn = || stage.ask_as(&question, |request| request.header("x-session-id", "s"));
    let replies = futures::future::join(turn(), turn()).await;
    let told = told(&heard, 2).await;
    assert_eq!(told.len(), 2);
    assert_ne!(told[0].facts["runId"], told[1].facts["runId"]);
    let mut expected = [words(&replies.0), words(&replies.1)].map(|words| words.to_string());
    let mut seen = [&told[0], &told[1]].map(|call| call.facts["finalMessage"].to_string());
    expected.sort();
    seen.sort();
    assert_eq!(seen, expected);
}

#[actix::test]
async fn a_turn_that_ran_out_of_its_time_failed_before_its_reply_case_59() {
    let heard = Heard::default();
    let silent = || json!({ "delay_ms": 600_000, "body": {} });
    let stage = stage([silent(), silent()], "defaults:\n  timeouts: { turn: 3s }\n", &heard).await;
    let question = question(false);
    let reply = stage.in_time(Duration::from_millis(100), stage.ask(&question)).await;
    let told = told(&heard, 1).await;
    assert_eq!((reply.status, told.len()), (504, 1));
    let facts = &told[0].facts;
    assert_eq!(
        (&facts["kind"], &facts["finalMessage"]),
        (&json!("run_failed_before_reply"), &words(&reply))
    );
    assert!(facts.get("attempts").is_none(), "{facts}");
}

#[actix::test]
async fn a_turn_that_the_gateway_lost_failed_before_its_reply_case_59() {
    let heard = Heard::default();
    let config = "providers: { a: { api: openai-chat, base_url: \"http://127.0.0.1:1\", models: [x] } }\n\
        models: { main: { chain: [a/x] } }\n";
    let house = House::open_guarded(config, &[observer(&heard).loaded()], |_| Play::answer()).await;
    house.lose_conductors();
    let failure = house.ask().await.expect_err("nobody conducts");
    let told = told(&heard, 1).await;
    assert_eq!((&*failure.code, told.len()), ("conductor_lost", 1));
    let facts = &told[0].facts;
    assert_eq!(
        (&facts["kind"], &facts["finalMessage"]),
        (&json!("run_failed_before_reply"), &json!(failure.client_message()))
    );
    assert!(facts.get("attempts").is_none(), "{facts}");
}

#[actix::test]
async fn a_turn_that_was_left_blocked_or_answered_with_silence_is_none_that_failed() {
    let silent = || json!({ "delay_ms": 600_000, "body": {} });
    let heard = Heard::default();
    let left = stage([silent(), silent()], "", &heard).await;
    let (question, target) = (question(true), lead());
    tokio::select! {
        _ = left.ask(&question) => panic!("nobody answers"),
        () = left.called(&target, 1) => {}
    }
    assert!(told(&heard, 1).await.is_empty());
    let caller = |request: reqwest::RequestBuilder| request.header("x-understudy-timeout-ms", "500");
    let reply = left
        .in_time(Duration::from_millis(100), left.ask_as(&question, caller))
        .await;
    assert_eq!(reply.status, 504);
    assert!(told(&heard, 2).await.is_empty());

    let heard = Heard::default();
    let guard = Plugin::new("guard").says(Hook::BeforeAgentRun, json!({ "outcome": "block", "reason": "r" }));
    let silence = Plugin::new("silence").on(Hook::BeforeAgentReply, 0, |event, _| {
        let prompt = event
            .conversation()
            .map(|conversation| conversation.look().prompt.clone());
        let claims = json!({ "handled": prompt.as_deref() == Some("hush") });
        super::read(Hook::BeforeAgentReply, &claims)
    });
    let plugins = [guard, silence, observer(&heard)].map(Plugin::loaded).into();
    let stage = Stage::set_guarded(json!({ "a/m": { "calls": [] } }), "", plugins).await;
    let mut question = question.clone();
    assert_eq!(stage.ask(&question).await.status, 403);
    question["messages"][0]["content"] = json!("hush");
    assert_eq!(stage.ask(&question).await.status, 200);
    assert!(told(&heard, 2).await.is_empty());
}

#[actix::test]
async fn a_name_that_nobody_knows_is_no_turn_of_an_agent_and_no_hook_hears_of_it() {
    let heard = Heard::default();
    let answers = || json!({ "answer": { "text": "hi" } });
    let stage = stage([answers(), answers()], "", &heard).await;
    let mut unknown = question(false);
    unknown["model"] = json!("nobody");
    assert_eq!(stage.ask(&unknown).await.status, 404);
    assert_eq!(stage.ask(&question(false)).await.status, 200);
    assert!(told(&heard, 1).await.is_empty());
    assert_eq!(heard.all().len(), 1);
}
