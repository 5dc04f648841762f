//! `responses`.

use serde_json::{Value, json};

use super::tells_apart;
use crate::reply::{Ending, Reply};

fn r1(rule: Value) -> Value {
    json!({ "responses": { "r1": rule } })
}

#[test]
fn a_false_status_is_refused() {
    tells_apart(
        &[
            r1(json!({ "status": 200 })),
            json!({ "responses": { "r*": { "status": [200, 503] } } }),
        ],
        &[
            r1(json!({ "status": 503 })),
            r1(json!({ "status": [502, 503] })),
            json!({ "responses": { "x*": {} } }),
        ],
    );
}

#[test]
fn a_false_text_is_refused() {
    tells_apart(
        &[r1(json!({ "text": "ok" })), r1(json!({ "text": ["no", "ok"] }))],
        &[r1(json!({ "text": "okok" })), r1(json!({ "text": [] }))],
    );
}

#[test]
fn false_tool_calls_are_refused() {
    let call =
        |arguments: Value| r1(json!({ "tool_calls": [{ "id": "call_a", "name": "add", "arguments": arguments }] }));
    tells_apart(
        &[call(json!({ "x": 1 }))],
        &[call(json!({ "x": 2 })), r1(json!({ "tool_calls": [] }))],
    );
}

#[test]
fn a_false_usage_finish_or_server_is_refused() {
    tells_apart(
        &[r1(
            json!({ "usage": { "input": 9, "output": 2 }, "finish_reason": "stop", "served_by": "b/m2" }),
        )],
        &[
            r1(json!({ "usage": { "input": 9, "output": 3 } })),
            r1(json!({ "finish_reason": "length" })),
            r1(json!({ "served_by": "a/m1" })),
        ],
    );
}

#[test]
fn a_false_ending_is_refused() {
    let r2 = |end: &str| json!({ "responses": { "r2": { "ends_with": end } } });
    let of_other_formats = ["message_stop", "response.completed"].map(|end| r1(json!({ "ends_with": end })));
    tells_apart(
        &[r1(json!({ "ends_with": "done" })), r2("error_event")],
        &[r1(json!({ "ends_with": "error_event" })), r2("done")],
    );
    tells_apart(&[], &of_other_formats);
}

#[test]
fn a_false_header_is_refused() {
    let header = |name: &str, rule: Value| r1(json!({ "header": { name: rule } }));
    tells_apart(
        &[
            header("retry-after", json!({ "int_between": [24, 25] })),
            header("retry-after", json!("24")),
            header("x-absent", Value::Null),
            r1(json!({ "not_content_type": "application/json" })),
        ],
        &[
            header("retry-after", json!({ "int_between": [25, 26] })),
            header("retry-after", json!("25")),
            header("retry-after", Value::Null),
            header("x-absent", json!({ "int_between": [0, 9] })),
            r1(json!({ "not_content_type": "text/event-stream" })),
        ],
    );
}

#[test]
fn a_false_error_is_refused() {
    let r2 = |error: Value| json!({ "responses": { "r2": { "body_error": error } } });
    tells_apart(
        &[r2(json!({ "reason": "server_error" }))],
        &[
            r2(json!({ "reason": "billing" })),
            r2(json!({ "param": null })),
            r1(json!({ "body_error": {} })),
        ],
    );
}

fn stream(body: &str, whole: bool) -> Reply {
    Reply {
        headers: vec![("content-type".to_owned(), "text/event-stream; charset=utf-8".to_owned())],
        body: body.into(),
        whole,
        ..Reply::default()
    }
}

#[test]
fn a_stream_without_its_last_word_was_cut() {
    assert_eq!(stream("data: {}\n\n", true).answer().ending, Ending::Cut);
    assert_eq!(stream("data: [DONE]\n\n", false).answer().ending, Ending::Cut);
    assert_eq!(
        stream("data: [DONE]", true).answer().ending,
        Ending::Cut,
        "an event ends with an empty line"
    );
}

#[test]
fn what_a_client_stumbles_over_is_a_fault() {
    for body in [
        "data: {\"choices\":\n\n",
        "data: [DONE]\n\ndata: {}\n\n",
        "data: {\"error\":{}}\n\ndata: [DONE]\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"id\":\"a\"}]}}]}\n\n",
    ] {
        assert_eq!(stream(body, true).answer().faults.len(), 1, "{body}");
    }
}
