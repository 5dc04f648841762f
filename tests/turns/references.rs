//! Responses requests that name items of earlier answers instead of repeating them.

use serde_json::{Value, json};

use crate::stage::{Reply, Stage, lead};

const KEYS: &str = "client_keys: [one, other]\n";

async fn ask(stage: &Stage, key: &str, input: Value) -> Reply {
    let body = json!({ "model": "main", "input": input }).to_string();
    stage
        .post("/v1/responses", body, |request| request.bearer_auth(key))
        .await
}

fn item_of(reply: &Reply) -> Value {
    json!({ "type": "item_reference", "id": reply.json()["output"][0]["id"] })
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

#[tokio::test]
async fn a_provider_of_another_format_is_sent_the_item_that_was_named() {
    let answer = json!({ "calls": [{ "answer": { "text": "{n}: {last}" } }] });
    let stage = Stage::set_with(json!({ "a/m": answer }), KEYS).await;
    let first = ask(&stage, "one", json!("first")).await;
    assert_eq!(first.status, 200, "{}", first.text());
    let second = ask(&stage, "one", json!([user("first"), item_of(&first), user("second")])).await;
    assert_eq!(second.status, 200, "{}", second.text());
    let named = [
        user("first"),
        item_of(&first),
        user("second"),
        item_of(&second),
        user("third"),
    ];
    assert_eq!(ask(&stage, "one", json!(named)).await.status, 200);
    let body = stage.bodies(&lead()).pop().expect("was asked");
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let said: Vec<_> = body["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|it| &it["content"])
        .collect();
    assert_eq!(said, ["first", "1: first", "second", "2: second", "third"]);
}

#[tokio::test]
async fn an_item_of_another_client_or_of_nobody_is_not_put_in() {
    let answer = json!({ "calls": [{ "answer": { "text": "yes" } }] });
    let stage = Stage::set_with(json!({ "a/m": answer }), KEYS).await;
    let first = ask(&stage, "one", json!("first")).await;
    let lost = json!({ "type": "item_reference", "id": "msg_lost" });
    for (key, named) in [("other", item_of(&first)), ("one", lost)] {
        let reply = ask(&stage, key, json!([named, user("second")])).await;
        assert_eq!(reply.status, 400, "{}", reply.text());
        assert_eq!(reply.json()["error"]["code"], "unsupported_by_target");
    }
    stage.calls_are(&lead(), 1);
}
