//! Tokens of streams are booked also where the client did not ask for them, and only who asked is told.

use serde_json::{Value, json};

use crate::stage::{DONE, Reply, Stage, delta, finish, lead, question, stream, text};

/// The report that a provider adds at the end of a stream, when it is asked to.
const REPORT: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n";

fn asking(options: &Value) -> Value {
    let mut body = question(true);
    body["stream_options"] = options.clone();
    body
}

/// A provider that answers in words, then with a report when it is asked for one.
async fn answering(settings: &str) -> Stage {
    let answer = json!({ "text": "hello", "usage": { "prompt_tokens": 7, "completion_tokens": 3 } });
    Stage::set_providers(json!({ "a/m": { "calls": [{ "answer": answer }] } }), settings).await
}

async fn tokens_are(stage: &Stage, input: u64, output: u64) {
    for (kind, count) in [("input", input), ("output", output)] {
        let labels = [("provider", "a"), ("kind", kind)];
        stage.counts("understudy_tokens_total", &labels, count).await;
    }
}

fn reports(reply: &Reply) -> usize {
    assert!(reply.text().ends_with(DONE), "{}", reply.text());
    reply.text().matches("prompt_tokens").count()
}

#[tokio::test]
async fn usage_that_nobody_asked_for_is_booked_and_kept_from_the_client() {
    let stage = answering("ask_usage: true").await;
    for (asked, body) in (1..).zip([
        question(true),
        asking(&Value::Null),
        asking(&json!({ "include_usage": false })),
    ]) {
        let reply = stage.ask(&body).await;
        assert_eq!((reply.status, reports(&reply)), (200, 0));
        tokens_are(&stage, 7 * asked, 3 * asked).await;
    }
    for body in stage.bodies(&lead()) {
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(body["stream_options"], json!({ "include_usage": true }));
    }
}

#[tokio::test]
async fn who_asks_for_usage_gets_it() {
    let stage = answering("ask_usage: true").await;
    let body = asking(&json!({ "include_usage": true }));
    assert_eq!(reports(&stage.ask(&body).await), 1);
    tokens_are(&stage, 7, 3).await;
}

#[tokio::test]
async fn unless_configured_nothing_is_asked_and_nothing_is_kept_back() {
    let stage = answering("ask_usage: false").await;
    assert_eq!(reports(&stage.ask(&question(true)).await), 0);
    let body: Value = serde_json::from_slice(&stage.bodies(&lead())[0]).expect("JSON");
    assert_eq!(body.get("stream_options"), None);
    tokens_are(&stage, 0, 0).await;

    let frames = [&*text("hello"), &finish(), REPORT, DONE];
    let stage = Stage::set(json!({ "a/m": { "calls": [stream(frames, "close")] } })).await;
    assert_eq!(stage.ask(&question(true)).await.text(), frames.concat());
}

#[tokio::test]
async fn only_the_extra_chunk_is_kept_back_wherever_it_comes() {
    let early = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7}}\n\n";
    let beside =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" you\"}}],\"usage\":{\"prompt_tokens\":7}}\n\n";
    let (role, hello) = (delta(&json!({ "role": "assistant" })), text("hello"));
    let frames = [&*role, early, &hello, early, beside, &finish(), REPORT, DONE];
    let plan = json!({ "a/m": { "calls": [stream(frames, "close")] } });
    let stage = Stage::set_providers(plan, "ask_usage: true").await;
    let passes = [&*role, &hello, beside, &finish(), DONE].concat();
    assert_eq!(stage.ask(&question(true)).await.text(), passes);
    tokens_are(&stage, 7, 3).await;
}
