//! What a client is told of a turn.

use serde_json::{Value, json};

use super::{answers, code, events, said, text_of, turn, types, whole};
use crate::stage::{SECOND_SAYS, Stage, lead, refusal, second, stream, text};

async fn one(calls: Value) -> Stage {
    Stage::set(json!({ "a/m": { "calls": calls } })).await
}

/// The conversation that a target was told in its last request, as OpenAI's chat has it.
fn told(stage: &Stage) -> Value {
    let bodies = stage.bodies(&lead());
    let body: Value = serde_json::from_slice(bodies.last().expect("asked")).expect("JSON");
    body["messages"].clone()
}

#[tokio::test]
async fn a_turn_is_told_as_typed_events_and_ends_once() {
    let stage = one(json!([answers("Hello there")])).await;
    let reply = turn(&stage, "s1", json!({ "input": "hi" })).await;
    let events = events(&reply);
    assert_eq!(
        types(&events),
        ["turn.started", "text.delta", "usage", "turn.completed"]
    );
    assert_eq!(events[0]["session"], "s1");
    let end = events.last().expect("an end");
    assert_eq!(
        (&end["text"], &end["servedBy"], &end["finish"]),
        (&json!("Hello there"), &json!("a/m"), &json!("stop"))
    );
    assert_eq!(text_of(&events), "Hello there");
    assert_eq!(end["usage"]["output"], 2);
    assert_eq!(reply.header("x-session-id"), "s1");
    assert_eq!(reply.header("x-understudy-served-by"), "a/m");
}

#[tokio::test]
async fn a_turn_that_does_not_stream_is_one_object() {
    let stage = one(json!([answers("Hello there")])).await;
    let reply = whole(&stage, "s1", "hi").await;
    let body = reply.json();
    assert_eq!((&body["session"], &body["text"]), (&json!("s1"), &json!("Hello there")));
    assert_eq!(
        (&body["servedBy"], &body["usage"]["output"]),
        (&json!("a/m"), &json!(2))
    );
}

#[tokio::test]
async fn the_next_turn_stands_behind_what_was_said_whoever_is_asked() {
    for api in ["openai-chat", "openai-responses", "anthropic-messages", "gemini"] {
        let plan = json!({ "a/m": { "calls": [answers("{n}: {last}")] } });
        let settings = format!("api: {api}");
        let stage = Stage::set_providers(plan, &settings).await;
        whole(&stage, "s1", "one").await;
        let reply = turn(&stage, "s1", json!({ "input": "two", "instructions": "be kind" })).await;
        assert_eq!(text_of(&events(&reply)), "2: two", "{api}");
        let expected = ["user: one", "assistant: 1: one", "user: two", "assistant: 2: two"];
        assert_eq!(said(&stage, "s1").await, expected, "{api}");
        let body = String::from_utf8_lossy(&stage.bodies(&lead())[1]).into_owned();
        let places: Vec<usize> = ["be kind", "one", "1: one", "two"]
            .iter()
            .map(|text| {
                body.find(&format!("\"{text}\""))
                    .unwrap_or_else(|| panic!("{text} in {body}"))
            })
            .collect();
        if api != "anthropic-messages" && api != "gemini" {
            assert!(places.is_sorted(), "{body}");
        }
    }
}

#[tokio::test]
async fn instructions_are_of_one_turn_alone() {
    let stage = one(json!([answers("yes")])).await;
    turn(&stage, "s1", json!({ "input": "one", "instructions": "be kind" })).await;
    turn(&stage, "s1", json!({ "input": "two" })).await;
    let roles: Vec<Value> = told(&stage)
        .as_array()
        .expect("messages")
        .iter()
        .map(|it| it["role"].clone())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
}

#[tokio::test]
async fn sessions_of_other_names_and_other_client_keys_know_nothing_of_each_other() {
    let plan = json!({ "a/m": { "calls": [answers("{n}")] } });
    let stage = Stage::set_with(plan, "client_keys: [one, two]\n").await;
    let ask = |key: &'static str, session: &str| {
        let path = format!("/v1/sessions/{session}/turns");
        let stage = &stage;
        async move {
            stage
                .post(&path, r#"{"input":"hi"}"#, |request| request.bearer_auth(key))
                .await
        }
    };
    for (key, session) in [("one", "s"), ("two", "s"), ("one", "t")] {
        assert_eq!(ask(key, session).await.status, 200);
        assert_eq!(told(&stage).as_array().expect("messages").len(), 1, "{key} {session}");
    }
}

#[tokio::test]
async fn what_cannot_be_a_turn_is_refused_by_name_and_makes_no_session() {
    let stage = one(json!([answers("yes")])).await;
    for (body, named) in [
        (json!({ "input": "hi", "tools": [] }), "`tools` is none of `input`"),
        (json!({ "model": "main" }), "`input` is missing"),
        (
            json!({ "input": [{ "role": "assistant", "content": "I" }] }),
            "role `user`",
        ),
    ] {
        let reply = turn(&stage, "s1", body).await;
        assert_eq!(code(&reply), (400, "invalid_request".to_owned()));
        assert!(reply.text().contains(named), "{}", reply.text());
    }
    let unknown = turn(&stage, "s1", json!({ "input": "hi", "model": "nobody" })).await;
    assert_eq!(code(&unknown), (404, "model_not_found".to_owned()));
    let long = turn(&stage, &"s".repeat(257), json!({ "input": "hi" })).await;
    assert_eq!(code(&long), (400, "invalid_session_id".to_owned()));
    let hidden = turn(&stage, "a%07b", json!({ "input": "hi" })).await;
    assert_eq!(code(&hidden), (400, "invalid_session_id".to_owned()));
    assert_eq!(stage.get("/v1/sessions/s1").await.status, 404);
    stage.calls_are(&lead(), 0);
}

#[tokio::test]
async fn a_failure_before_anything_was_said_is_an_error_of_its_own_status() {
    let stage = one(json!([refusal(400, "invalid_value")])).await;
    for stream in [true, false] {
        let reply = turn(&stage, "s1", json!({ "input": "hi", "stream": stream })).await;
        assert_eq!(code(&reply), (400, "invalid_value".to_owned()));
        assert_eq!(reply.json()["error"]["reason"], "format");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_gone_on_with_and_nothing_is_said_twice() {
    let begun = stream([&*text("knows"), &text(" the ")], "reset");
    let stage = Stage::with_second(begun, "").await;
    let reply = turn(&stage, "s1", json!({ "input": "hi", "model": "main" })).await;
    let events = events(&reply);
    assert_eq!(
        types(&events),
        [
            "turn.started",
            "text.delta",
            "model.fallback",
            "usage",
            "turn.completed"
        ]
    );
    stage.calls_are(&second(), 1);
    assert_eq!(text_of(&events), SECOND_SAYS);
    let end = events.last().expect("an end");
    assert_eq!((&end["text"], &end["servedBy"]), (&json!(SECOND_SAYS), &json!("b/m")));
    assert_eq!(said(&stage, "s1").await, ["user: hi", "assistant: knows the lines"]);
}

#[tokio::test]
async fn an_answer_that_nobody_goes_on_with_ends_as_failed_after_content() {
    let begun = stream([&*text("knows")], "reset");
    let stage = one(json!([begun, refusal(400, "invalid_value")])).await;
    let reply = turn(&stage, "s1", json!({ "input": "hi", "fallbacks": [] })).await;
    let events = events(&reply);
    assert_eq!(types(&events), ["turn.started", "text.delta", "turn.failed"]);
    let end = events.last().expect("an end");
    assert_eq!(end["afterContent"], true);
    assert!(
        end["error"]["message"].is_string() && end["error"]["reason"].is_string(),
        "{end}"
    );
    assert_eq!(said(&stage, "s1").await, ["user: hi"]);
}

#[tokio::test]
async fn the_agent_that_spoke_goes_on_speaking() {
    let agents = "agents:\n  one: { model: { primary: a/m, fallbacks: [] } }\n  two: { model: { primary: b/m, fallbacks: [] } }\n";
    let plan = json!({ "a/m": { "calls": [answers("a")] }, "b/m": { "calls": [answers("b")] } });
    let stage = Stage::set_with(plan, agents).await;
    assert_eq!(whole(&stage, "s1", "hi").await.json()["text"], "a");
    let named = stage
        .post("/v1/sessions/s1/turns", r#"{"input":"hi","stream":false}"#, |request| {
            request.header("x-understudy-agent", "two")
        })
        .await;
    assert_eq!(named.json()["text"], "b");
    assert_eq!(
        whole(&stage, "s1", "hi").await.json()["text"],
        "b",
        "as in the turn before"
    );
    let model = turn(&stage, "s1", json!({ "input": "hi", "model": "a/m", "stream": false })).await;
    assert_eq!(model.json()["text"], "a", "a model of the turn's own");
    assert_eq!(super::session(&stage, "s1").await["agent"], "two");
}
