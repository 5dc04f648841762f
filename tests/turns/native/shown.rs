//! Sessions are shown, listed, bound to a model and forgotten.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::{answers, at, code, said, session, turn, whole};
use crate::stage::{Stage, lead, refusal, second};

async fn two() -> Stage {
    Stage::set(json!({ "a/m": { "calls": [answers("a: {last}")] }, "b/m": { "calls": [answers("b: {last}")] } })).await
}

fn ids(page: &Value) -> Vec<&str> {
    let sessions = page["data"].as_array().expect("a list");
    sessions.iter().filter_map(|session| session["id"].as_str()).collect()
}

#[tokio::test]
async fn a_session_tells_who_spoke_and_what_was_said() {
    let stage = two().await;
    turn(&stage, "s1", json!({ "input": "hi", "model": "main" })).await;
    let shown = session(&stage, "s1").await;
    assert_eq!(
        (&shown["id"], &shown["model"], &shown["lastModel"], &shown["turns"]),
        (&json!("s1"), &Value::Null, &json!("a/m"), &json!(1))
    );
    assert!(shown["agent"].is_string() && shown["created"].as_u64() <= shown["updated"].as_u64());
    assert_eq!(
        shown["messages"],
        json!([
            { "role": "user", "content": [{ "type": "text", "text": "hi" }] },
            { "role": "assistant", "content": [{ "type": "text", "text": "a: hi" }] },
        ])
    );
}

#[tokio::test]
async fn sessions_are_listed_page_by_page_in_a_stable_order() {
    let stage = two().await;
    for name in ["c", "a", "e", "b", "d"] {
        whole(&stage, name, "hi").await;
    }
    assert_eq!(ids(&stage.get("/v1/sessions").await.json()), ["a", "b", "c", "d", "e"]);
    let mut seen = Vec::new();
    let mut path = "/v1/sessions?limit=2".to_owned();
    loop {
        let page = stage.get(&path).await.json();
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        let Some(cursor) = page["nextCursor"].as_str() else {
            break;
        };
        path = format!("/v1/sessions?limit=2&cursor={cursor}");
        assert!(ids(&page).len() == 2 && seen.len() < 6);
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
    for bad in ["limit=0", "limit=101", "limit=x", "page=2"] {
        let reply = stage.get(&format!("/v1/sessions?{bad}")).await;
        assert_eq!(code(&reply), (400, "invalid_request".to_owned()), "{bad}");
    }
}

#[tokio::test]
async fn a_session_that_another_endpoint_named_is_listed_too_and_has_no_transcript() {
    let stage = two().await;
    stage
        .ask_as(&crate::stage::question(false), |request| {
            request.header("x-session-id", "s1")
        })
        .await;
    let page = stage.in_time(Duration::ZERO, async {
        loop {
            let page = stage.get("/v1/sessions").await.json();
            if page["data"][0]["turns"] == 1 {
                return page;
            }
        }
    });
    assert_eq!(ids(&page.await), ["s1"]);
    let shown = session(&stage, "s1").await;
    assert_eq!((&shown["lastModel"], &shown["messages"]), (&json!("a/m"), &json!([])));
}

#[tokio::test]
async fn other_client_keys_see_nothing_of_a_session() {
    let plan = json!({ "a/m": { "calls": [answers("a")] } });
    let stage = Stage::set_with(plan, "client_keys: [one, two]\n").await;
    let asked = stage
        .post("/v1/sessions/s1/turns", r#"{"input":"hi"}"#, |request| {
            request.bearer_auth("one")
        })
        .await;
    assert_eq!(asked.status, 200);
    for (key, status, listed) in [("one", 200, 1), ("two", 404, 0)] {
        let get = |path: &str| {
            let request = stage.gateway.client().get(stage.gateway.api(path)).bearer_auth(key);
            async { crate::stage::read(request.send().await.expect("a response")).await }
        };
        assert_eq!(get("/v1/sessions/s1").await.status, status);
        assert_eq!(ids(&get("/v1/sessions").await.json()).len(), listed);
    }
}

#[tokio::test]
async fn a_model_chosen_for_a_session_answers_alone_case_43() {
    let plan = json!({ "a/m": { "calls": [answers("a")] }, "b/m": { "calls": [refusal(429, "rate_limit_exceeded")] } });
    let retry = "defaults:\n  retry: { max_per_target: 0 }\n";
    let stage = Stage::set_with(plan, retry).await;
    assert_eq!(whole(&stage, "s1", "hi").await.json()["text"], "a");
    let chosen = at(&stage, Method::PATCH, "/v1/sessions/s1", json!({ "model": "b/m" })).await;
    assert_eq!((chosen.status, &chosen.json()["model"]), (200, &json!("b/m")));
    let failed = whole(&stage, "s1", "hi").await;
    assert_eq!(code(&failed), (429, "rate_limit_exceeded".to_owned()));
    assert_eq!(failed.json()["error"]["reason"], "rate_limit");
    stage.calls_are(&second(), 1);
    stage.calls_are(&lead(), 1);
    let own = turn(&stage, "s1", json!({ "input": "hi", "model": "a/m", "stream": false })).await;
    assert_eq!(own.json()["text"], "a", "a turn may name another one");
    let free = at(&stage, Method::PATCH, "/v1/sessions/s1", json!({ "model": null })).await;
    assert_eq!(free.json()["model"], Value::Null);
    assert_eq!(whole(&stage, "s1", "hi").await.json()["text"], "a");
}

#[tokio::test]
async fn nobody_can_be_chosen_who_is_not_there_nor_for_a_session_that_is_not() {
    let stage = two().await;
    let choose = |path: &'static str, body: Value| at(&stage, Method::PATCH, path, body);
    let reply = choose("/v1/sessions/s1", json!({ "model": "a/m" })).await;
    assert_eq!(code(&reply), (404, "session_not_found".to_owned()));
    whole(&stage, "s1", "hi").await;
    let reply = choose("/v1/sessions/s1", json!({ "model": "nobody" })).await;
    assert_eq!(code(&reply), (404, "model_not_found".to_owned()));
    for body in [
        json!({}),
        json!({ "model": 7 }),
        json!({ "model": "a/m", "agent": "x" }),
    ] {
        assert_eq!(
            code(&choose("/v1/sessions/s1", body).await),
            (400, "invalid_request".to_owned())
        );
    }
    assert_eq!(session(&stage, "s1").await["model"], Value::Null);
}

#[tokio::test]
async fn a_session_is_forgotten_when_it_is_deleted_but_not_while_it_is_at_work() {
    let call = json!({ "answer": { "text": "slow", "first_ms": 20_000 } });
    let stage = Stage::set(json!({ "a/m": { "calls": [call] } })).await;
    let at_work = async {
        stage.called(&lead(), 1).await;
        let reply = at(&stage, Method::DELETE, "/v1/sessions/s1", Value::Null).await;
        assert_eq!(code(&reply), (409, "session_busy".to_owned()));
        stage.clock.advance(Duration::from_secs(20));
    };
    let (reply, ()) = tokio::join!(whole(&stage, "s1", "hi"), at_work);
    assert_eq!(reply.json()["text"], "slow");
    let delete = async || at(&stage, Method::DELETE, "/v1/sessions/s1", Value::Null).await;
    assert_eq!(delete().await.json(), json!({ "id": "s1", "deleted": true }));
    assert_eq!(code(&delete().await), (404, "session_not_found".to_owned()));
    assert_eq!(stage.get("/v1/sessions/s1").await.status, 404);
}

#[tokio::test]
async fn a_session_that_was_idle_too_long_is_forgotten() {
    let plan = json!({ "a/m": { "calls": [answers("a")] } });
    let stage = Stage::set_with(plan, "defaults: { session: { idle: 10m } }\n").await;
    whole(&stage, "s1", "hi").await;
    assert_eq!(said(&stage, "s1").await.len(), 2);
    let gone = stage.in_time(Duration::from_secs(60), async {
        while stage.get("/v1/sessions/s1").await.status != 404 {}
    });
    gone.await;
}

#[tokio::test]
async fn paths_of_sessions_know_their_methods() {
    let stage = two().await;
    for (method, path, allowed) in [
        (Method::GET, "/v1/sessions/s1/turns", "POST, OPTIONS"),
        (Method::POST, "/v1/sessions/s1", "GET, HEAD, PATCH, DELETE, OPTIONS"),
        (Method::DELETE, "/v1/sessions", "GET, HEAD, OPTIONS"),
    ] {
        let reply = at(&stage, method, path, Value::Null).await;
        assert_eq!((reply.status, reply.header("allow")), (405, allowed), "{path}");
    }
}
