//! The outside of the API: models, refusals, methods, ids, bounds.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::stage::{Reply, Stage, lead, question, read};

async fn answering(configuration: &str) -> Stage {
    let call = json!({ "answer": { "text": "yes" } });
    Stage::set_with(
        json!({ "a/m": { "calls": [call] }, "b/vendor/m": { "calls": [call] } }),
        configuration,
    )
    .await
}

/// Checks an error in the shape that clients of this API know.
fn refused(reply: &Reply, status: u16, code: &str) {
    let error = &reply.json()["error"];
    assert_eq!(
        (reply.status, &error["code"]),
        (status, &json!(code)),
        "{}",
        reply.text()
    );
    assert!(error["message"].is_string() && error["type"].is_string());
    assert_eq!(reply.header("content-type"), "application/json");
    assert!(!reply.header("x-request-id").is_empty());
}

#[tokio::test]
async fn models_are_listed_and_found_by_names_with_slashes() {
    let stage = answering("").await;
    let list = stage.get("/v1/models").await.json();
    let names: Vec<&str> = list["data"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|it| it["id"].as_str())
        .collect();
    assert_eq!(list["object"], "list");
    for name in ["main", "a/m", "b/vendor/m"] {
        assert!(names.contains(&name), "{name} in {names:?}");
        let model = stage.get(&format!("/v1/models/{name}")).await;
        assert_eq!(
            (model.status, &model.json()["id"], &model.json()["object"]),
            (200, &json!(name), &json!("model"))
        );
    }
    let escaped = stage.get("/v1/models/b%2Fvendor%2Fm").await;
    assert_eq!((escaped.status, &escaped.json()["id"]), (200, &json!("b/vendor/m")));
    refused(&stage.get("/v1/models/nobody").await, 404, "model_not_found");
}

#[tokio::test]
async fn a_model_answers_under_its_alias_its_full_and_its_bare_name() {
    let stage = answering("").await;
    for (name, served_by) in [
        ("main", "a/m"),
        ("a/m", "a/m"),
        ("m", "a/m"),
        ("b/vendor/m", "b/vendor/m"),
    ] {
        let mut question = question(false);
        question["model"] = json!(name);
        assert_eq!(
            stage.ask(&question).await.header("x-understudy-served-by"),
            served_by,
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_thousand_unknown_models_are_refused_and_make_no_series() {
    let stage = answering("").await;
    let junk = |number: usize| {
        let mut question = question(false);
        question["model"] = json!(format!("junk-{number}/x"));
        question
    };
    refused(&stage.ask(&junk(0)).await, 404, "model_not_found");
    let _unknown_path_once = stage.get("/v1/nothing-0").await;
    let before = stage.gateway.scrape().await.series();
    for number in 1..1000 {
        assert_eq!(stage.ask(&junk(number)).await.status, 404);
    }
    for number in 1..10 {
        assert_eq!(stage.get(&format!("/v1/nothing-{number}")).await.status, 404);
    }
    assert_eq!(stage.gateway.scrape().await.series(), before);
    stage.calls_are(&lead(), 0);
}

#[tokio::test]
async fn an_unknown_agent_is_refused() {
    let stage = answering("").await;
    let reply = stage
        .ask_as(&question(false), |request| {
            request.header("x-understudy-agent", "nobody")
        })
        .await;
    refused(&reply, 404, "agent_not_found");
}

#[tokio::test]
async fn a_body_that_is_no_chat_request_is_refused() {
    let stage = answering("").await;
    let long = json!({ "model": "main", "messages": [{ "role": "user", "content": "x".repeat(2000) }] });
    for body in [
        "",
        "{",
        "[]",
        "not json",
        "{\"model\":\"main\"}",
        "{\"messages\":[{\"role\":\"user\"}]}",
    ] {
        refused(&stage.ask_raw(body).await, 400, "invalid_request");
    }
    assert!(
        stage
            .ask_raw("{\"model\":\"main\"}")
            .await
            .text()
            .contains("`messages` is missing")
    );
    assert_eq!(stage.ask(&long).await.status, 200);
    stage.calls_are(&lead(), 1);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let stage = answering("defaults: { limits: { body: 1KB } }\n").await;
    let mut long = question(false);
    assert_eq!(stage.ask(&long).await.status, 200);
    long["padding"] = json!("x".repeat(1000));
    refused(&stage.ask(&long).await, 413, "body_too_large");
    stage.calls_are(&lead(), 1);
}

#[tokio::test]
async fn an_unknown_path_is_a_404_in_json() {
    let stage = answering("").await;
    refused(&stage.get("/").await, 404, "not_found");
    refused(&stage.get("/v1/nothing").await, 404, "not_found");
    refused(&stage.admin("/nothing").await, 404, "not_found");
}

async fn send(stage: &Stage, method: Method, path: &str) -> Reply {
    let request = stage.gateway.client().request(method, stage.gateway.api(path));
    read(request.send().await.expect("a response")).await
}

#[tokio::test]
async fn a_known_path_says_which_methods_it_takes() {
    let stage = answering("").await;
    for (path, allowed) in [
        ("/v1/chat/completions", "POST, OPTIONS"),
        ("/v1/models", "GET, HEAD, OPTIONS"),
    ] {
        let asked = send(&stage, Method::OPTIONS, path).await;
        assert_eq!(
            (asked.status, asked.header("allow"), asked.body.len()),
            (204, allowed, 0)
        );
        let wrong = send(&stage, Method::DELETE, path).await;
        refused(&wrong, 405, "method_not_allowed");
        assert_eq!(wrong.header("allow"), allowed);
    }
    let head = send(&stage, Method::HEAD, "/v1/models").await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(send(&stage, Method::HEAD, "/v1/models/a/m").await.status, 200);
}

#[tokio::test]
async fn a_request_id_is_echoed_or_made() {
    let stage = answering("").await;
    let named = stage
        .ask_as(&question(false), |request| request.header("x-request-id", "mine-1"))
        .await;
    assert_eq!(named.header("x-request-id"), "mine-1");
    let (one, two) = (stage.ask(&question(false)).await, stage.ask(&question(false)).await);
    assert!(one.header("x-request-id").starts_with("req_"));
    assert_ne!(one.header("x-request-id"), two.header("x-request-id"));
    let refused = stage
        .ask_as(&Value::Null, |request| request.header("x-request-id", "mine-2"))
        .await;
    assert_eq!((refused.status, refused.header("x-request-id")), (400, "mine-2"));
}

#[tokio::test]
async fn turns_beyond_the_limit_in_flight_are_refused_and_those_within_are_not() {
    let call = json!({ "answer": { "text": "yes", "first_ms": 300_000 } });
    let plan = json!({ "a/m": { "calls": [call] } });
    let stage = Stage::set_with(plan, "defaults: { limits: { in_flight: 1, max_queue: 0 } }\n").await;
    let question = question(false);
    let full = async {
        stage.called(&lead(), 1).await;
        let refusal = stage.ask(&question).await;
        stage.clock.advance(Duration::from_secs(300));
        refusal
    };
    let (first, refusal) = tokio::join!(stage.ask(&question), full);
    refused(&refusal, 503, "gateway_busy");
    assert_eq!(first.status, 200);
    let again = async {
        stage.called(&lead(), 2).await;
        stage.clock.advance(Duration::from_secs(300));
    };
    assert_eq!(
        tokio::join!(stage.ask(&question), again).0.status,
        200,
        "the place is free again"
    );
}
