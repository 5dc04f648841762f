//! What of a turn a session keeps.

use std::time::Duration;

use serde_json::{Value, json};
use understudy_messages::hooks::Hook;

use super::{answers, code, said, session, turn, whole};
use crate::hooks::Plugin;
use crate::stage::{Stage, lead, refusal, second};

#[tokio::test]
async fn what_the_user_said_is_kept_once_however_many_candidates_failed_case_62() {
    let fails = || json!({ "calls": [refusal(429, "rate_limit_exceeded"), answers("at last")] });
    let retry = "defaults:\n  retry: { max_per_target: 0 }\n";
    let stage = Stage::set_with(json!({ "a/m": fails(), "b/m": fails() }), retry).await;
    let ask = async |input: &str| turn(&stage, "s1", json!({ "input": input, "model": "main" })).await;
    assert_eq!(ask("first").await.status, 429);
    assert_eq!((stage.calls(&lead()), stage.calls(&second())), (1, 1));
    assert_eq!(said(&stage, "s1").await, ["user: first"]);
    stage.clock.advance(Duration::from_secs(40));
    assert_eq!(ask("again").await.status, 200);
    assert_eq!(
        said(&stage, "s1").await,
        ["user: first", "user: again", "assistant: at last"]
    );
    let body: Value = serde_json::from_slice(&stage.bodies(&lead())[1]).expect("JSON");
    let told: Vec<&str> = body["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .filter_map(|message| message["content"].as_str().or(message["content"][0]["text"].as_str()))
        .collect();
    assert_eq!(told, ["first", "again"]);
}

#[actix::test]
async fn of_a_turn_that_a_guard_blocked_nothing_is_kept() {
    let guard = Plugin::new("guard").on(Hook::BeforeAgentRun, 0, |event, _| {
        let prompt = event.conversation().map(|it| it.look().prompt.to_string());
        let verdict = match prompt.as_deref() {
            Some("forbidden") => json!({ "outcome": "block", "reason": "r", "message": "Not here." }),
            _ => json!({ "outcome": "pass" }),
        };
        crate::hooks::read(Hook::BeforeAgentRun, &verdict)
    });
    let plan = json!({ "a/m": { "calls": [answers("yes")] } });
    let stage = Stage::set_guarded(plan, "", vec![guard.loaded()]).await;
    for stream in [true, false] {
        let blocked = turn(&stage, "s1", json!({ "input": "forbidden", "stream": stream })).await;
        assert_eq!(code(&blocked), (403, "blocked".to_owned()));
    }
    assert_eq!(said(&stage, "s1").await, [""; 0]);
    assert_eq!(session(&stage, "s1").await["turns"], 2);
    whole(&stage, "s1", "allowed").await;
    assert_eq!(said(&stage, "s1").await, ["user: allowed", "assistant: yes"]);
}

#[tokio::test]
async fn of_a_turn_whose_caller_gave_up_what_the_user_said_is_kept() {
    let call = json!({ "answer": { "text": "slow", "first_ms": 20_000 } });
    let stage = Stage::set(json!({ "a/m": { "calls": [call] } })).await;
    let asked = stage.post("/v1/sessions/s1/turns", r#"{"input":"hi"}"#, |request| {
        request.header("x-understudy-timeout-ms", "5000")
    });
    let given_up = async {
        stage.called(&lead(), 1).await;
        stage.clock.advance(Duration::from_secs(5));
    };
    let (reply, ()) = tokio::join!(asked, given_up);
    assert_eq!(reply.status, 504);
    assert_eq!(said(&stage, "s1").await, ["user: hi"]);
}

#[tokio::test]
async fn of_a_turn_whose_client_left_what_the_user_said_is_kept() {
    let call = json!({ "answer": { "text": "slow", "first_ms": 20_000 } });
    let stage = Stage::set(json!({ "a/m": { "calls": [call] } })).await;
    let lead = lead();
    tokio::select! {
        _ = whole(&stage, "s1", "hi") => panic!("it is slow"),
        () = stage.called(&lead, 1) => {}
    }
    while session(&stage, "s1").await["turns"] == 0 {}
    assert_eq!(said(&stage, "s1").await, ["user: hi"]);
}

#[tokio::test]
async fn turns_of_one_session_find_what_was_said_in_those_before() {
    let stage = Stage::set(json!({ "a/m": { "calls": [answers("{n}")] } })).await;
    let turns = (0..8).map(|_| whole(&stage, "s1", "hi"));
    for reply in futures::future::join_all(turns).await {
        assert_eq!(reply.status, 200);
    }
    let lengths = stage.bodies(&lead()).into_iter().map(|body| {
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        body["messages"].as_array().expect("messages").len()
    });
    assert_eq!(lengths.collect::<Vec<_>>(), [1, 3, 5, 7, 9, 11, 13, 15]);
}
