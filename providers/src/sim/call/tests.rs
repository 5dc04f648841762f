use serde_json::json;

use super::*;

fn call(json: Value) -> Result<Call, serde_json::Error> {
    serde_json::from_value(json)
}

#[test]
fn an_empty_call_is_an_empty_200_that_closes() {
    let call = call(json!({})).expect("parses");
    assert_eq!((call.status, call.then), (None, None));
    assert_eq!((call.connect, call.times.get()), (Connect::Accept, 1));
    assert!(call.head && call.delay.is_zero());
    assert!(matches!(call.content, Content::Body(body) if body.is_empty()));
}

#[test]
fn frames_and_writes_become_timed_pieces() {
    let frames = call(json!({ "frames": [[5, "a"], [6, "b", 3]] })).expect("parses");
    let writes = call(json!({ "writes": [[5, { "text": "é" }], [0, { "base64": "w6k=" }]] }));
    let pieces = |call: Call| match call.content {
        Content::Timed(pieces) => pieces,
        other => panic!("{other:?}"),
    };
    let frames = pieces(frames);
    assert_eq!(frames[0], Piece::once(Duration::from_millis(5), "a"));
    assert_eq!((frames[1].count, &frames[1].bytes[..]), (3, &b"b"[..]));
    let writes = pieces(writes.expect("parses"));
    assert_eq!(writes[0].bytes, writes[1].bytes);
}

#[test]
fn a_text_body_stays_as_it_is_and_a_json_body_is_written_out() {
    let text = call(json!({ "body": "<html>" })).expect("parses");
    let json = call(json!({ "body": { "a": [1] } })).expect("parses");
    assert!(matches!(text.content, Content::Body(body) if body == "<html>"));
    assert!(matches!(json.content, Content::Body(body) if body == r#"{"a":[1]}"#));
}

#[test]
fn a_call_with_two_contents_is_refused() {
    let refused = call(json!({ "body": "x", "frames": [] }));
    let why = refused.expect_err("is refused").to_string();
    assert!(why.contains("one of"), "{why}");
}

#[test]
fn what_would_break_the_wire_is_refused() {
    for json in [
        json!({ "status": 99 }),
        json!({ "status": 1000 }),
        json!({ "headers": { "a": "b\r\nc: d" } }),
        json!({ "headers": { "": "b" } }),
        json!({ "writes": [[0, { "base64": "?" }]] }),
        json!({ "times": 0 }),
    ] {
        assert!(call(json.clone()).is_err(), "{json}");
    }
}
