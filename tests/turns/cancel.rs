//! A client that leaves cancels its upstream call at once.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use understudy_messages::ids::ModelRef;
use understudy_providers::sim::entries::EndedBy;
use understudy_providers::sim::{SimOptions, Simulator};
use understudy_tests::gateway::Gateway;

/// How soon the provider must see that the client left.
const AT_ONCE: Duration = Duration::from_millis(100);

async fn stage(call: Value) -> (Simulator, Gateway) {
    let plan = serde_json::from_value(json!({ "a/m": { "calls": [call] } })).expect("a plan");
    let simulator = Simulator::start(plan, SimOptions::default())
        .await
        .expect("a simulator");
    let gateway = Gateway::start(&format!(
        "providers: {{ a: {{ api: openai-chat, base_url: \"{}\", models: [m] }} }}\nmodels: {{ main: {{ chain: [a/m] }} }}\n",
        simulator.base_url("a")
    ));
    (simulator, gateway)
}

/// Sends a request, waits until the provider has it (and, for a stream, until the client has content), then leaves.
async fn leave(call: Value, stream: bool, reset: bool) {
    let (simulator, gateway) = stage(call).await;
    let target = ModelRef::new("a", "m");
    let address = gateway.api("").replace("http://", "");
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    let body =
        json!({ "model": "main", "stream": stream, "messages": [{ "role": "user", "content": "hi" }] }).to_string();
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.expect("sent");
    simulator
        .journal()
        .wait_until(|entries| entries.calls(&target) == 1)
        .await;
    if stream {
        let mut seen = Vec::new();
        while !String::from_utf8_lossy(&seen).contains("once upon") {
            socket.read_buf(&mut seen).await.expect("content");
        }
    }
    if reset {
        socket.set_zero_linger().expect("linger");
    }
    let left = simulator.journal().elapsed();
    drop(socket);
    simulator
        .journal()
        .wait_until(|entries| entries.records_of(&target).all(|call| call.end.is_some()))
        .await;
    let end = simulator.journal().read(|entries| {
        entries
            .records_of(&target)
            .next()
            .and_then(|call| call.end)
            .expect("ended")
    });
    assert_eq!(end.by, EndedBy::Peer, "the gateway must leave its upstream");
    assert!(
        end.at.saturating_sub(left) < AT_ONCE,
        "left at {left:?}, seen at {:?}",
        end.at
    );
}

fn silent() -> Value {
    json!({ "delay_ms": 600_000, "body": {}, "headers": { "content-type": "application/json" } })
}

fn begun() -> Value {
    let data = json!({ "choices": [{ "index": 0, "delta": { "content": "once upon" }, "finish_reason": null }] });
    json!({ "headers": { "content-type": "text/event-stream" }, "frames": [[0, format!("data: {data}\n\n")]], "then": "hang" })
}

#[tokio::test]
async fn a_client_that_closes_before_a_whole_answer_cancels_upstream() {
    leave(silent(), false, false).await;
}

#[tokio::test]
async fn a_client_that_resets_before_a_whole_answer_cancels_upstream() {
    leave(silent(), false, true).await;
}

#[tokio::test]
async fn a_client_that_closes_in_mid_stream_cancels_upstream() {
    leave(begun(), true, false).await;
}

#[tokio::test]
async fn a_client_that_resets_in_mid_stream_cancels_upstream() {
    leave(begun(), true, true).await;
}
