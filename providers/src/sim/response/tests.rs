use serde_json::{Value, json};

use super::*;

fn response(call: Value) -> Response {
    let call: Call = serde_json::from_value(call).expect("parses");
    Response::new(&call, &Asked::read("/a/v1/chat/completions", b"{}"), 1)
}

/// The text of each write.
fn writes(response: &Response) -> Vec<&str> {
    let pieces = response.pieces.iter();
    pieces
        .map(|it| std::str::from_utf8(&it.bytes).expect("utf-8"))
        .collect()
}

fn stream() -> Value {
    json!({ "content-type": "text/event-stream; charset=utf-8" })
}

#[test]
fn a_body_goes_out_with_its_head_and_its_length() {
    let response = response(json!({
        "status": 429, "headers": { "retry-after": "3" }, "body": "slow", "delay_ms": 20,
    }));
    assert_eq!(
        writes(&response),
        ["HTTP/1.1 429 Too Many Requests\r\nretry-after: 3\r\ncontent-length: 4\r\n\r\nslow"]
    );
    assert_eq!(response.pieces[0].after, Duration::from_millis(20));
    assert!(response.reusable && response.status == Some(429));
}

#[test]
fn an_event_stream_under_200_is_one_chunk_a_write() {
    let response = response(json!({
        "headers": stream(), "frames": [[0, "data: 1\n\n"], [5, ""], [7, "0123456789abcdef"]],
    }));
    let writes = writes(&response);
    assert!(writes[0].ends_with("transfer-encoding: chunked\r\n\r\n"));
    assert_eq!(
        writes[1..],
        ["9\r\ndata: 1\n\n\r\n", "", "10\r\n0123456789abcdef\r\n", "0\r\n\r\n"]
    );
    let waits: Vec<u128> = response.pieces.iter().map(|it| it.after.as_millis()).collect();
    assert_eq!(waits, [0, 0, 5, 7, 0]);
}

#[test]
fn an_event_stream_under_another_status_has_a_length() {
    let response = response(json!({
        "status": 500, "headers": stream(), "frames": [[0, "ab"], [0, "c", 3]],
    }));
    assert!(writes(&response)[0].contains("content-length: 5\r\n"));
}

#[test]
fn a_body_that_must_not_end_is_announced_longer_than_it_is() {
    for then in ["reset", "hang"] {
        let whole = response(json!({ "body": "abc", "then": then }));
        assert!(writes(&whole)[0].contains("content-length: 4\r\n"));
        let stream = response(json!({ "headers": stream(), "frames": [[0, "x"]], "then": then }));
        assert_eq!(writes(&stream).last(), Some(&"1\r\nx\r\n"));
    }
}

#[test]
fn a_script_with_framing_headers_frames_for_itself() {
    let lying = response(json!({ "headers": { "Content-Length": "99" }, "body": "abc" }));
    assert_eq!(writes(&lying), ["HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", "abc"]);
    assert!(!lying.reusable);
    let malformed = response(json!({
        "headers": { "transfer-encoding": "chunked" }, "writes": [[0, { "text": "zz\r\nabc" }]],
    }));
    assert_eq!(writes(&malformed)[1..], ["zz\r\nabc"]);
}

#[test]
fn without_a_head_nothing_is_added() {
    let bare = response(json!({ "head": false, "body": "noise", "delay_ms": 9 }));
    assert_eq!(writes(&bare).concat(), "noise");
    assert_eq!(bare.pieces[0].after, Duration::from_millis(9));
    assert!(bare.status.is_none() && !bare.reusable);
}

#[test]
fn a_refusal_on_an_open_connection_is_a_reset_without_a_byte() {
    let refused = response(json!({ "connect": "refuse", "body": "x" }));
    assert_eq!((refused.then, refused.pieces.len()), (Then::Reset, 0));
    let swallowed = response(json!({ "connect": "blackhole" }));
    assert_eq!((swallowed.then, swallowed.pieces.len()), (Then::Hang, 0));
}

#[test]
fn an_answer_is_streamed_or_whole_as_the_request_asks() {
    let call = json!({ "answer": { "text": "hi {model}", "first_ms": 30 }, "delay_ms": 10 });
    let call: Call = serde_json::from_value(call).expect("parses");
    let whole = Response::new(&call, &Asked::read("/a/v1/chat/completions", br#"{"model":"m1"}"#), 1);
    assert_eq!(whole.pieces[0].after, Duration::from_millis(40));
    let writes_whole = writes(&whole);
    assert!(writes_whole[0].contains("content-type: application/json\r\n"));
    assert!(writes_whole[0].contains("hi m1"));
    let asked = Asked::read("/a/v1/chat/completions", br#"{"model":"m1","stream":true}"#);
    let streamed = Response::new(&call, &asked, 1);
    assert!(writes(&streamed)[0].contains("content-type: text/event-stream\r\n"));
    assert_eq!(writes(&streamed).last(), Some(&"0\r\n\r\n"));
}
