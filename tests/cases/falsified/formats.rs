//! Answers in Anthropic's Messages and OpenAI's Responses: what is read in them, and what a client stumbles over.

use serde_json::{Value, json};

use super::{sample, tells_apart_in};
use crate::case::ClientApi;
use crate::reply::{Answer, Ending, Reply};
use crate::seen::Seen;

fn reply(api: ClientApi, content_type: &str, body: String) -> Reply {
    Reply {
        api,
        status: Some(200),
        headers: vec![("content-type".to_owned(), content_type.to_owned())],
        body: body.into_bytes(),
        whole: true,
        ..Reply::default()
    }
}

/// Events as both formats write them: named by their type.
fn stream(api: ClientApi, events: &[Value]) -> Reply {
    let event = |data: &Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default());
    reply(api, "text/event-stream", events.iter().map(event).collect())
}

fn messages(events: &[Value]) -> Reply {
    stream(ClientApi::Anthropic, events)
}

/// Numbers the events in their order.
fn responses(events: &[Value]) -> Reply {
    let numbered = (0..).zip(events).map(|(number, event): (u64, _)| {
        let mut event = event.clone();
        event["sequence_number"] = json!(number);
        event
    });
    stream(ClientApi::OpenaiResponses, &numbered.collect::<Vec<_>>())
}

fn message_start() -> Value {
    json!({ "type": "message_start", "message": { "usage": { "input_tokens": 9, "output_tokens": 1 } } })
}

fn block(index: u64, block: Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn block_delta(index: u64, delta: Value) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn text_delta(index: u64, text: &str) -> Value {
    block_delta(index, json!({ "type": "text_delta", "text": text }))
}

fn block_stop(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

fn message_delta() -> Value {
    json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 2 } })
}

fn a_message() -> Vec<Value> {
    vec![
        message_start(),
        json!({ "type": "ping" }),
        block(0, json!({ "type": "text", "text": "" })),
        text_delta(0, "o"),
        text_delta(0, "k"),
        block_stop(0),
        block(1, json!({ "type": "tool_use", "id": "t1", "name": "add", "input": {} })),
        block_delta(1, json!({ "type": "input_json_delta", "partial_json": "{\"x\"" })),
        block_delta(1, json!({ "type": "input_json_delta", "partial_json": ":1}" })),
        block_stop(1),
        message_delta(),
        json!({ "type": "message_stop" }),
    ]
}

fn overloaded() -> Value {
    json!({ "type": "error", "error": { "type": "overloaded_error", "message": "m" } })
}

fn a_whole_message() -> Reply {
    let body = json!({
        "type": "message", "stop_reason": "tool_use", "usage": { "input_tokens": 9, "output_tokens": 2 },
        "content": [
            { "type": "text", "text": "ok" },
            { "type": "tool_use", "id": "t1", "name": "add", "input": { "x": 1 } },
        ],
    });
    reply(ClientApi::Anthropic, "application/json", body.to_string())
}

fn item(place: u64, item: Value) -> Value {
    json!({ "type": "response.output_item.added", "output_index": place, "item": item })
}

fn of_item(kind: &str, place: u64, member: &str, text: &str) -> Value {
    json!({ "type": format!("response.{kind}"), "output_index": place, member: text })
}

fn output() -> Value {
    json!([
        { "type": "message", "content": [{ "type": "output_text", "text": "ok" }] },
        { "type": "function_call", "call_id": "t1", "name": "add", "arguments": "{\"x\":1}" },
    ])
}

fn last(kind: &str, output: &Value) -> Value {
    let usage = json!({ "input_tokens": 9, "output_tokens": 2 });
    let response = json!({ "status": "completed", "output": output, "usage": usage });
    json!({ "type": format!("response.{kind}"), "response": response })
}

fn a_response() -> Vec<Value> {
    vec![
        json!({ "type": "response.created", "response": {} }),
        item(0, json!({ "type": "message" })),
        of_item("output_text.delta", 0, "delta", "o"),
        of_item("output_text.delta", 0, "delta", "k"),
        of_item("output_text.done", 0, "text", "ok"),
        of_item("output_item.done", 0, "x", ""),
        item(
            1,
            json!({ "type": "function_call", "call_id": "t1", "name": "add", "arguments": "" }),
        ),
        of_item("function_call_arguments.delta", 1, "delta", "{\"x\":1}"),
        of_item("function_call_arguments.done", 1, "arguments", "{\"x\":1}"),
        last("completed", &output()),
    ]
}

fn failed() -> Value {
    json!({ "type": "response.failed", "response": { "error": { "code": "overloaded_error", "type": "overloaded_error" } } })
}

fn a_whole_response() -> Reply {
    let body = last("completed", &output())["response"].to_string();
    reply(ClientApi::OpenaiResponses, "application/json", body)
}

/// The first of each kind goes well, the second breaks off with an error, the third is whole.
fn seen() -> Seen {
    let broken_message = [&a_message()[..4], &[overloaded()]].concat();
    let broken_response = [&a_response()[..3], &[failed()]].concat();
    let replies = [
        ("m1", messages(&a_message())),
        ("m2", messages(&broken_message)),
        ("m3", a_whole_message()),
        ("p1", responses(&a_response())),
        ("p2", responses(&broken_response)),
        ("p3", a_whole_response()),
    ];
    Seen {
        replies: replies.map(|(id, reply)| (id.to_owned(), reply)).into(),
        ..sample()
    }
}

fn of(id: &str, rule: Value) -> Value {
    json!({ "responses": { id: rule } })
}

#[test]
fn false_content_is_refused_in_every_format() {
    let call = |x: u64| json!({ "tool_calls": [{ "id": "t1", "name": "add", "arguments": { "x": x } }] });
    for id in ["m1", "m3", "p1", "p3"] {
        let finish = if id.starts_with('m') { "tool_use" } else { "completed" };
        tells_apart_in(
            &seen(),
            &[
                of(id, json!({ "text": "ok" })),
                of(id, call(1)),
                of(id, json!({ "usage": { "input": 9, "output": 2 } })),
                of(id, json!({ "finish_reason": finish })),
            ],
            &[
                of(id, json!({ "text": "okok" })),
                of(id, json!({ "text": "o" })),
                of(id, call(2)),
                of(id, json!({ "tool_calls": [] })),
                of(id, json!({ "usage": { "input": 9, "output": 1 } })),
                of(id, json!({ "usage": { "input": 1, "output": 2 } })),
                of(id, json!({ "finish_reason": "stop" })),
                of(id, json!({ "body_error": {} })),
            ],
        );
    }
}

#[test]
fn a_false_ending_is_refused_in_every_format() {
    const ENDS: [&str; 4] = ["done", "error_event", "message_stop", "response.completed"];
    for (id, right) in [
        ("m1", Some("message_stop")),
        ("m2", Some("error_event")),
        ("m3", None),
        ("p1", Some("response.completed")),
        ("p2", Some("error_event")),
        ("p3", None),
    ] {
        for end in ENDS {
            let rule = [of(id, json!({ "ends_with": end }))];
            match right == Some(end) {
                true => tells_apart_in(&seen(), &rule, &[]),
                false => tells_apart_in(&seen(), &[], &rule),
            }
        }
    }
}

#[test]
fn a_false_error_is_refused_in_every_format() {
    for id in ["m2", "p2"] {
        tells_apart_in(
            &seen(),
            &[
                of(id, json!({ "body_error": { "type": "overloaded_error" } })),
                of(id, json!({ "text": "o", "tool_calls": [] })),
            ],
            &[
                of(id, json!({ "body_error": { "type": "api_error" } })),
                of(id, json!({ "body_error": { "reason": "overloaded" } })),
            ],
        );
    }
}

#[test]
fn an_error_that_is_a_body_is_read_in_every_format() {
    for api in [ClientApi::Anthropic, ClientApi::OpenaiResponses] {
        let refused = reply(api, "application/json", overloaded().to_string()).answer();
        assert_eq!(refused.error.expect("an error")["type"], "overloaded_error");
        assert_eq!((refused.ending, refused.faults.len()), (Ending::Whole, 0));
    }
}

/// The answer without its `n`-th event.
fn without(events: &[Value], n: usize) -> Vec<Value> {
    [&events[..n], &events[n + 1..]].concat()
}

/// The answer with an event before its `n`-th.
fn with(events: &[Value], n: usize, event: Value) -> Vec<Value> {
    [&events[..n], &[event], &events[n..]].concat()
}

#[test]
fn a_stream_without_its_last_word_was_cut() {
    for reply in [
        messages(&without(&a_message(), 11)),
        responses(&without(&a_response(), 9)),
    ] {
        assert_eq!(reply.answer().ending, Ending::Cut);
        assert!(reply.answer().faults.is_empty());
    }
    for whole in [messages(&a_message()), responses(&a_response())] {
        let cut = Reply { whole: false, ..whole };
        assert_eq!(cut.answer().ending, Ending::Cut, "the connection was cut");
    }
    let incomplete = with(&without(&a_response(), 9), 9, last("incomplete", &output()));
    assert_eq!(responses(&incomplete).answer().ending, Ending::ResponseIncomplete);
}

#[track_caller]
fn stumbles(answer: &Answer, what: &str) {
    assert!(!answer.faults.is_empty(), "{what} passes");
}

#[test]
fn whatever_is_out_of_order_in_a_message_is_a_fault() {
    let right = a_message();
    assert_eq!(messages(&right).answer().faults, Vec::<&str>::new());
    // without the ping, a delta of the text, one of the arguments, or the last word nothing is out of order
    for n in (0..11).filter(|n| ![1, 3, 4, 7, 8].contains(n)) {
        stumbles(&messages(&without(&right, n)).answer(), &format!("without {n}"));
    }
    let again = |n: usize| with(&right, n, right[n].clone());
    for n in [0, 2, 5, 6, 9, 11] {
        stumbles(&messages(&again(n)).answer(), &format!("{n} twice"));
    }
    for (n, event) in [
        (4, text_delta(1, "x")),
        (
            4,
            block_delta(0, json!({ "type": "input_json_delta", "partial_json": "x" })),
        ),
        (8, text_delta(1, "x")),
        (6, block(2, json!({ "type": "text", "text": "" }))),
        (6, block(1, json!({}))),
        (12, overloaded()),
        (12, json!({ "type": "ping" })),
        (3, json!({ "type": "message_stop" })),
        (3, json!({ "type": "error" })),
        (3, json!({ "choices": [] })),
    ] {
        stumbles(&messages(&with(&right, n, event.clone())).answer(), &event.to_string());
    }
}

#[test]
fn whatever_is_out_of_order_in_a_response_is_a_fault() {
    let right = a_response();
    assert_eq!(responses(&right).answer().faults, Vec::<&str>::new());
    for n in [1, 2, 3, 6, 7] {
        stumbles(&responses(&without(&right, n)).answer(), &format!("without {n}"));
    }
    for n in [0, 1, 3, 5, 6, 7, 9] {
        stumbles(
            &responses(&with(&right, n, right[n].clone())).answer(),
            &format!("{n} twice"),
        );
    }
    for (n, event) in [
        (4, of_item("output_text.delta", 1, "delta", "x")),
        (4, of_item("function_call_arguments.delta", 0, "delta", "x")),
        (4, of_item("output_text.done", 0, "text", "x")),
        (6, of_item("output_text.delta", 0, "delta", "")),
        (8, of_item("function_call_arguments.done", 1, "arguments", "{}")),
        (8, of_item("output_text.delta", 1, "delta", "")),
        (10, failed()),
        (9, json!({ "type": "response.failed", "response": {} })),
        (9, json!({ "choices": [] })),
    ] {
        stumbles(&responses(&with(&right, n, event.clone())).answer(), &event.to_string());
    }
    for output in [json!([]), json!([output()[0]]), json!([output()[1]])] {
        let differs = with(&without(&right, 9), 9, last("completed", &output));
        stumbles(&responses(&differs).answer(), "an end that differs");
    }
}

#[test]
fn events_are_numbered_and_named_by_their_type() {
    let mut misnumbered = a_response();
    for (number, event) in (0_u64..).zip(&mut misnumbered) {
        event["sequence_number"] = json!(if number < 4 { number } else { number + 1 });
    }
    stumbles(
        &stream(ClientApi::OpenaiResponses, &misnumbered).answer(),
        "a gap in the numbers",
    );
    stumbles(
        &stream(ClientApi::OpenaiResponses, &a_response()).answer(),
        "events without numbers",
    );
    for reply in [messages(&a_message()), responses(&a_response())] {
        let unnamed = reply.text().replace("event: ", "x: ");
        let unnamed = Reply {
            body: unnamed.into_bytes(),
            ..reply
        };
        stumbles(&unnamed.answer(), "events without names");
    }
}

#[test]
fn done_is_no_word_of_other_formats() {
    for reply in [messages(&a_message()), responses(&a_response())] {
        let body = [&reply.body[..], b"data: [DONE]\n\n"].concat();
        stumbles(&Reply { body, ..reply }.answer(), "[DONE]");
    }
}
