use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use understudy_messages::answer::Usage;

use super::*;
use crate::answer::Answer;
use crate::sse::SseDecoder;
use crate::stream::{BodyEnd, StreamFailure, StreamMachine};

/// The events as a provider sends them.
pub(crate) fn frames(events: &[Value]) -> String {
    let named = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type"));
    events.iter().map(named).collect()
}

/// What a body in these reads says, and how each frame was judged. Whether pieces are wanted must not matter to that.
pub(crate) fn read(reads: &[&[u8]]) -> (Vec<Piece>, Vec<FrameRead>) {
    let (mut decoder, mut blind) = (Decoder::default(), Decoder::default());
    let (mut sse, mut pieces, mut judged) = (SseDecoder::default(), Vec::new(), Vec::new());
    let mut take = |frame: Frame| {
        let read = decoder.read(&frame, Some(&mut pieces));
        assert_eq!(blind.read(&frame, None), read);
        judged.push(read);
    };
    for read in reads {
        sse.push(Bytes::copy_from_slice(read));
        while let Ok(Some(frame)) = sse.next_frame() {
            take(frame);
        }
    }
    if let Some(frame) = sse.finish() {
        take(frame);
    }
    (pieces, judged)
}

fn pieces(events: &[Value]) -> Vec<Piece> {
    read(&[frames(events).as_bytes()]).0
}

fn judged(event: &Value) -> Signal {
    read(&[frames(std::slice::from_ref(event)).as_bytes()]).1[0].signal
}

fn answer(events: &[Value]) -> Answer {
    let mut answer = Answer::default();
    pieces(events).iter().for_each(|piece| answer.add(piece));
    answer
}

fn start() -> Value {
    json!({ "type": "message_start", "message": { "id": "msg_1", "model": "c", "type": "message", "content": [],
        "usage": { "input_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2, "output_tokens": 1 } } })
}

fn block(index: u64, block: Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn delta(index: u64, delta: Value) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn stop(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

fn end(reason: &str) -> Value {
    json!({ "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
        "usage": { "output_tokens": 7, "input_tokens": null } })
}

fn last() -> Value {
    json!({ "type": "message_stop" })
}

#[test]
fn an_answer_says_who_answers_what_why_it_ended_and_what_it_cost() {
    let text = |text: &str| delta(0, json!({ "type": "text_delta", "text": text }));
    let events = [
        start(),
        block(0, json!({ "type": "text", "text": "" })),
        text("né"),
        text("😀"),
        stop(0),
        end("end_turn"),
        last(),
    ];
    let usage = |output| {
        Piece::Usage(Usage {
            input: 10,
            output,
            cache_read: 3,
            cache_write: 2,
            reasoning: 0,
        })
    };
    let said = |text: &str| Piece::Text {
        choice: 0,
        text: text.to_owned(),
    };
    let expected = [
        Piece::Begin {
            id: Some("msg_1".to_owned()),
            model: Some("c".to_owned()),
        },
        usage(1),
        said("né"),
        said("😀"),
        usage(7),
        Piece::Finish {
            choice: 0,
            finish: Finish::Stop,
            stop_sequence: None,
        },
    ];
    assert_eq!(pieces(&events), expected);
}

#[test]
fn an_answer_is_whole_without_its_closing_word_once_it_said_why_it_ended() {
    let events = [
        start(),
        delta(0, json!({ "type": "text_delta", "text": "x" })),
        end("end_turn"),
    ];
    let ended = |events: &[Value]| {
        let mut machine = StreamMachine::default();
        for read in read(&[frames(events).as_bytes()]).1 {
            machine.frame(read.signal, 1);
        }
        machine.end(BodyEnd::Lost)
    };
    assert_eq!(ended(&events), Ok(()));
    assert_eq!(ended(&events[..2]), Err(StreamFailure::Lost));
}

#[test]
fn stop_reasons_are_told_apart() {
    let table = [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("tool_use", Finish::ToolCalls),
        ("refusal", Finish::ContentFilter),
        ("pause_turn", Finish::Other),
    ];
    for (reason, finish) in table {
        assert_eq!(answer(&[end(reason)]).finish, Some(finish), "{reason}");
    }
    let met = json!({ "type": "message_delta", "delta": { "stop_reason": "stop_sequence", "stop_sequence": "\n\n" } });
    let expected = Piece::Finish {
        choice: 0,
        finish: Finish::Stop,
        stop_sequence: Some("\n\n".to_owned()),
    };
    assert_eq!(pieces(&[met]), [expected]);
}

#[test]
fn a_signature_comes_once_when_its_block_ends() {
    let events = [
        block(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "hm" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "" })),
        delta(0, json!({ "type": "signature_delta", "signature": "ab" })),
        delta(0, json!({ "type": "signature_delta", "signature": "cd" })),
        stop(0),
        block(1, json!({ "type": "redacted_thinking", "data": "xyz" })),
        stop(1),
    ];
    let thought = Piece::Reasoning {
        choice: 0,
        text: "hm".to_owned(),
    };
    let expected = [
        thought,
        sealed(false, "abcd".to_owned()),
        sealed(true, "xyz".to_owned()),
    ];
    assert_eq!(pieces(&events), expected);
}

#[test]
fn calls_are_counted_from_nought_whatever_their_blocks_are() {
    let events = [
        block(1, json!({ "type": "tool_use", "id": "t1", "name": "f", "input": {} })),
        delta(1, json!({ "type": "input_json_delta", "partial_json": "" })),
        delta(1, json!({ "type": "input_json_delta", "partial_json": "{\"a\":" })),
        delta(1, json!({ "type": "input_json_delta", "partial_json": "1}" })),
        stop(1),
        block(2, json!({ "type": "tool_use", "id": "t2", "name": "g", "input": {} })),
        stop(2),
        block(
            3,
            json!({ "type": "tool_use", "id": "t3", "name": "h", "input": { "whole": true } }),
        ),
        stop(3),
        end("tool_use"),
    ];
    let calls: Vec<_> = answer(&events)
        .tool_calls
        .into_iter()
        .map(|call| (call.id, call.name, call.arguments))
        .collect();
    let call = |id: &str, name: &str, arguments: &str| (id.to_owned(), name.to_owned(), arguments.to_owned());
    let expected = [
        call("t1", "f", "{\"a\":1}"),
        call("t2", "g", "{}"),
        call("t3", "h", "{\"whole\":true}"),
    ];
    assert_eq!(calls, expected);
}

#[test]
fn a_call_that_was_cut_before_its_input_is_not_one_without_any() {
    let events = [
        block(0, json!({ "type": "tool_use", "id": "t1", "name": "f", "input": {} })),
        end("max_tokens"),
        last(),
    ];
    assert_eq!(answer(&events).tool_calls[0].arguments, "");
}

#[test]
fn an_input_that_a_block_begins_with_is_told_whatever_it_is_and_however_the_answer_ends() {
    for (input, told) in [
        (json!({ "a": 1 }), r#"{"a":1}"#),
        (json!("rm {"), r#""rm {""#),
        (json!(null), "{}"),
    ] {
        let call = block(0, json!({ "type": "tool_use", "id": "t", "name": "f", "input": input }));
        assert_eq!(
            answer(&[start(), call.clone(), stop(0), end("tool_use")]).tool_calls[0].arguments,
            told
        );
        if told != "{}" {
            assert_eq!(
                answer(&[start(), call, end("max_tokens")]).tool_calls[0].arguments,
                told
            );
        }
    }
}

#[test]
fn what_the_provider_ran_itself_is_content_and_no_call() {
    let events = [
        block(
            0,
            json!({ "type": "server_tool_use", "id": "s1", "name": "web_search", "input": {} }),
        ),
        delta(
            0,
            json!({ "type": "input_json_delta", "partial_json": "{\"query\":\"x\"}" }),
        ),
        block(
            1,
            json!({ "type": "web_search_tool_result", "tool_use_id": "s1", "content": [] }),
        ),
    ];
    let (pieces, judged) = read(&[frames(&events).as_bytes()]);
    assert_eq!(pieces, []);
    for read in judged {
        let Signal::Delta(delta) = read.signal else {
            panic!("{read:?}");
        };
        assert!(delta.content && !delta.tool_call);
    }
}

#[test]
fn pings_are_comments_and_what_is_unknown_says_nothing() {
    assert_eq!(judged(&json!({ "type": "ping" })), Signal::Comment);
    let nothing = Signal::Delta(Delta::default());
    for event in [
        json!({ "type": "from_the_future", "delta": { "text": "x" } }),
        block(
            0,
            json!({ "type": "fallback", "from": { "model": "a" }, "to": { "model": "b" } }),
        ),
        delta(
            0,
            json!({ "type": "citations_delta", "citation": { "cited_text": "x" } }),
        ),
        json!({ "type": "content_block_start" }),
    ] {
        assert_eq!(judged(&event), nothing, "{event}");
    }
    for broken in ["data: {\"type\":\n\n", "data: []\n\n", "data: {} x\n\n"] {
        assert_eq!(read(&[broken.as_bytes()]).1[0].signal, Signal::Malformed, "{broken}");
    }
    assert_eq!(read(&[b": keep-alive\n\n"]).1[0].signal, Signal::Comment);
    assert_eq!(read(&[b"event: data\ndata: [DONE]\n\n"]).1[0].signal, Signal::Done);
}

#[test]
fn the_type_is_believed_where_the_event_has_no_name_and_the_name_where_there_is_no_type() {
    assert_eq!(
        read(&[b"data: {\"type\":\"message_stop\"}\n\n"]).1[0].signal,
        Signal::Done
    );
    assert_eq!(read(&[b"event: message_stop\ndata: {}\n\n"]).1[0].signal, Signal::Done);
}

#[test]
fn an_error_is_told_in_the_providers_words() {
    for frame in [
        "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"busy\"}}\n\n",
        "data: {\"error\":{\"message\":\"busy\",\"type\":\"overloaded_error\"}}\n\n",
        "event: error\ndata: {\"type\":\"overloaded_error\",\"message\":\"busy\"}\n\n",
    ] {
        let (_, judged) = read(&[frame.as_bytes()]);
        let error = judged[0].error.clone().expect("an error");
        assert_eq!(error.kind.as_deref(), Some("overloaded_error"));
        assert_eq!(error.message.expect("words").reveal(), "busy");
    }
    let (_, judged) = read(&[b"event: error\ndata: no JSON\n\n"]);
    assert_eq!(
        judged[0]
            .error
            .clone()
            .expect("an error")
            .message
            .expect("words")
            .reveal(),
        "no JSON"
    );
}

#[test]
fn a_repeated_beginning_begins_nothing() {
    let begins = |pieces: Vec<Piece>| {
        pieces
            .iter()
            .filter(|piece| matches!(piece, Piece::Begin { .. }))
            .count()
    };
    assert_eq!(begins(pieces(&[start(), start()])), 1);
}

#[test]
fn calls_beyond_the_bound_are_left_out() {
    let call = |index| block(index, json!({ "type": "tool_use", "id": "t", "name": "f" }));
    let events: Vec<Value> = (0..MAX_CALLS as u64 + 5).map(call).collect();
    assert_eq!(answer(&events).tool_calls.len(), MAX_CALLS);
}

fn odd_event() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec![
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
        "other",
    ]);
    let of = prop::sample::select(vec![
        "text",
        "thinking",
        "redacted_thinking",
        "tool_use",
        "server_tool_use",
        "text_delta",
        "thinking_delta",
        "signature_delta",
        "input_json_delta",
    ]);
    (kind, of, 0u64..4, "\\PC{0,6}", any::<u64>()).prop_map(|(kind, of, index, text, count)| {
        let block = json!({ "type": of, "text": text, "thinking": text, "signature": text, "data": text, "id": text,
            "name": text, "partial_json": text, "input": { "x": text }, "stop_reason": text });
        json!({ "type": kind, "index": index, "message": block, "content_block": block, "delta": block,
            "usage": { "input_tokens": count, "output_tokens": count, "cache_read_input_tokens": count } })
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(data: Vec<u8>, name in prop::sample::select(vec!["", "event: error\n", "event: ping\n"])) {
        let frame = [name.as_bytes(), b"data: ", &data, b"\n\n"].concat();
        read(&[&frame]);
    }

    #[test]
    fn any_events_in_any_order_and_any_cut_say_the_same(
        events in prop::collection::vec(odd_event(), 0..12), size in 1usize..60,
    ) {
        let body = frames(&events);
        let cut: Vec<&[u8]> = body.as_bytes().chunks(size).collect();
        prop_assert_eq!(read(&cut), read(&[body.as_bytes()]));
    }
}
