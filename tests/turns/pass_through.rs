//! What nobody needs to change passes unchanged, both ways.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use understudy_providers::sim::entries::EndedBy;

use crate::stage::{DONE, Reply, Stage, delta, finish, lead, question, read, stream, text};

/// Odd, and valid: key order, numbers, escapes, blanks and unknown members that a re-serialisation would lose.
const ODD: &str = "{ \"zeta\" : 1e2,\t\"model\" :\"MODEL\" ,\n \"n\":1, \"seed\": 12345678901234567890, \"temperature\":1.0,\n\
    \"messages\":[ {\"content\":\"\\u00e9\\ud83d\\ude00 \\/ é\",\"role\":\"user\", \"extra\" : {\"b\":1,\"a\":2}}],\r\n\
    \"alpha\":null , \"stop\": [ ] }\n";

fn odd(model: &str) -> String {
    ODD.replace("MODEL", model)
}

#[tokio::test]
async fn a_request_reaches_the_provider_byte_for_byte_but_for_the_model() {
    let stage = Stage::set(json!({ "a/m": { "calls": [{ "answer": { "text": "yes" } }] } })).await;
    assert_eq!(stage.ask_raw(odd("main")).await.status, 200);
    assert_eq!(stage.bodies(&lead()), [odd("m")]);
}

#[tokio::test]
async fn a_request_that_names_the_model_itself_is_not_touched() {
    let stage = Stage::set(json!({ "a/m": { "calls": [{ "answer": { "text": "yes" } }] } })).await;
    assert_eq!(stage.ask_raw(odd("m")).await.status, 200);
    assert_eq!(stage.bodies(&lead()), [odd("m")]);
}

#[tokio::test]
async fn a_whole_answer_reaches_the_client_byte_for_byte() {
    let body = "{ \"x\":1e2,\"choices\" :[{\"message\":{\"content\":\"\\u00e9\",\"role\":\"assistant\"},\n\
        \"finish_reason\":\"stop\",\"index\":0}],\"id\":\"r\" }\n";
    let call = json!({ "headers": { "content-type": "application/json" }, "body": body });
    let stage = Stage::set(json!({ "a/m": { "calls": [call] } })).await;
    assert_eq!(stage.ask(&question(false)).await.text(), body);
}

async fn streamed<'a>(frames: impl IntoIterator<Item = &'a str>, then: &str) -> (Stage, Reply) {
    let stage = Stage::set(json!({ "a/m": { "calls": [stream(frames, then)] } })).await;
    let reply = stage.ask(&question(true)).await;
    assert_eq!(reply.status, 200);
    assert!(reply.header("content-type").starts_with("text/event-stream"));
    (stage, reply)
}

#[tokio::test]
async fn a_stream_reaches_the_client_byte_for_byte() {
    let (role, hello) = (delta(&json!({ "role": "assistant", "content": "" })), text("hello"));
    let frames = [
        role.as_str(),
        &hello,
        ": a comment\n\n",
        // CR LF, an id and an unknown field
        "id: 7\r\nunknown: field\r\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" wor\"}}],\"later\":1e2}\r\n\r\n",
        // one value over two data lines
        "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"ld\"}}]}\n\n",
        &finish(),
        // as this provider spells it
        "data:[DONE]\r\n\r\n",
    ];
    let (_stage, reply) = streamed(frames, "close").await;
    assert_eq!(reply.text(), frames.concat());
}

#[tokio::test]
async fn a_frame_cut_anywhere_into_network_writes_is_whole_again() {
    let frames = [text("né😀"), finish(), DONE.to_owned()].concat();
    let writes: Vec<_> = frames
        .as_bytes()
        .chunks(7)
        .map(|bytes| json!([1, { "base64": STANDARD.encode(bytes) }]))
        .collect();
    let call = json!({ "headers": { "content-type": "text/event-stream" }, "writes": writes });
    let stage = Stage::set(json!({ "a/m": { "calls": [call] } })).await;
    assert_eq!(stage.ask(&question(true)).await.text(), frames);
}

#[tokio::test]
async fn a_missing_done_is_supplied() {
    let (_stage, reply) = streamed([&*text("hello"), &finish()], "close").await;
    assert_eq!(reply.text(), [text("hello"), finish(), DONE.to_owned()].concat());
}

#[tokio::test]
async fn a_socket_left_open_after_done_holds_nobody_up() {
    let (stage, reply) = streamed([&*text("hello"), &finish(), DONE], "hang").await;
    assert_eq!(reply.text(), [text("hello"), finish(), DONE.to_owned()].concat());
    stage.told().await;
    stage.all_ended().await;
}

#[tokio::test]
async fn silence_after_the_finish_reason_ends_within_the_tail() {
    let call = stream([&*text("hello"), &finish()], "hang");
    let stage = Stage::set(json!({ "a/m": { "calls": [call] } })).await;
    let response = stage.gateway.chat(&question(true), |request| request).await;
    let began = stage.clock.now();
    let reply = stage.in_time(Duration::from_millis(100), read(response)).await;
    assert!(
        stage.clock.now() - began < Duration::from_secs(30),
        "waited longer than the tail"
    );
    assert_eq!(reply.text(), [text("hello"), finish(), DONE.to_owned()].concat());
    stage.all_ended().await;
}

#[tokio::test]
async fn the_end_of_a_body_is_read_so_that_its_connection_can_be_used_again() {
    let mut call = stream([&*text("hello"), &finish(), DONE], "close");
    let frames = call["frames"].as_array_mut().expect("frames");
    frames.push(json!([5, ": one more word\n\n"]));
    let stage = Stage::set(json!({ "a/m": { "calls": [call] } })).await;
    for _ in 0..3 {
        let reply = stage.ask(&question(true)).await;
        assert_eq!(reply.text(), [text("hello"), finish(), DONE.to_owned()].concat());
    }
    stage.all_ended().await;
    stage.simulator.journal().read(|entries| {
        assert!(
            entries
                .records_of(&lead())
                .all(|call| call.end.is_some_and(|end| end.by == EndedBy::Sim))
        );
    });
}
