//! The native API: turns of a session whose transcript the gateway keeps.

mod documented;
mod engines;
mod fitted;
mod hooked;
mod kept;
mod notices;
mod shown;
mod stored;
mod tools;
mod turns;

use reqwest::Method;
use serde_json::{Value, json};

use crate::stage::{Reply, Stage, read};

/// Asks for a turn of a session.
async fn turn(stage: &Stage, session: &str, body: Value) -> Reply {
    let path = format!("/v1/sessions/{session}/turns");
    stage.post(&path, body.to_string(), |request| request).await
}

/// Asks for a turn that is answered whole.
async fn whole(stage: &Stage, session: &str, input: &str) -> Reply {
    turn(stage, session, json!({ "input": input, "stream": false })).await
}

/// `GET`, `PATCH` or `DELETE` of a path.
async fn at(stage: &Stage, method: Method, path: &str, body: Value) -> Reply {
    let request = stage.gateway.client().request(method, stage.gateway.api(path));
    let request = match body {
        Value::Null => request,
        body => request.body(body.to_string()),
    };
    read(request.send().await.expect("a response")).await
}

async fn session(stage: &Stage, id: &str) -> Value {
    stage.get(&format!("/v1/sessions/{id}")).await.json()
}

/// Who said what in a session: `user: hi`.
async fn said(stage: &Stage, id: &str) -> Vec<String> {
    let session = session(stage, id).await;
    let messages = session["messages"].as_array().cloned().unwrap_or_default();
    let line = |message: &Value| {
        let content = message["content"].as_array().cloned().unwrap_or_default();
        let texts: Vec<&str> = content.iter().filter_map(|part| part["text"].as_str()).collect();
        format!("{}: {}", message["role"].as_str().unwrap_or_default(), texts.join("|"))
    };
    messages.iter().map(line).collect()
}

/// The events of a stream. Each has its type as its name.
fn events(reply: &Reply) -> Vec<Value> {
    assert!(
        reply.header("content-type").starts_with("text/event-stream"),
        "{}",
        reply.text()
    );
    let text = reply.text();
    let frames = text
        .split("\n\n")
        .filter(|frame| !frame.is_empty() && !frame.starts_with(':'));
    let event = |frame: &str| {
        let (name, data) = frame.split_once('\n').expect("two lines");
        let event: Value = serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
        assert_eq!(name.strip_prefix("event: "), event["type"].as_str());
        event
    };
    frames.map(event).collect()
}

/// The types of events, each once where several of one type stand in a row.
fn types(events: &[Value]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
    types.dedup();
    types
}

/// The texts of all deltas.
fn text_of(events: &[Value]) -> String {
    let deltas = events.iter().filter(|event| event["type"] == "text.delta");
    deltas.filter_map(|event| event["text"].as_str()).collect()
}

fn code(reply: &Reply) -> (u16, String) {
    let error = &reply.json()["error"];
    (reply.status, error["code"].as_str().unwrap_or_default().to_owned())
}

fn answers(text: &str) -> Value {
    json!({ "answer": { "text": text } })
}
