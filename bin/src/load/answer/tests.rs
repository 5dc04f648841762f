use serde_json::json;

use super::*;

/// Reads these bodies byte by byte, as one body each.
fn heard(format: Format, events: bool, body: &str) -> Heard {
    let mut reader = Reader::new(format, events);
    for byte in body.as_bytes().chunks(1) {
        reader.take(Bytes::copy_from_slice(byte));
    }
    reader.finish()
}

fn stream(frames: &[Value]) -> String {
    frames.iter().map(|frame| format!("data: {frame}\n\n")).collect()
}

fn summary(heard: &Heard) -> (&str, u32, End, bool) {
    (&heard.text, heard.calls, heard.end, heard.garbled)
}

fn chat() -> String {
    let delta = |delta: Value, finish: Value| json!({ "choices": [{ "delta": delta, "finish_reason": finish }] });
    let call = json!({ "tool_calls": [{ "index": 0, "function": { "name": "t", "arguments": "{" } }] });
    let rest = json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "}" } }] });
    let frames = [
        delta(json!({ "role": "assistant" }), Value::Null),
        delta(json!({ "content": "a" }), Value::Null),
        delta(json!({ "content": "b" }), Value::Null),
        delta(call, Value::Null),
        delta(rest, json!("tool_calls")),
        json!({ "choices": [], "usage": {} }),
    ];
    format!(": hello\n\n{}data: [DONE]\n\n", stream(&frames))
}

fn messages() -> String {
    stream(&[
        json!({ "type": "message_start", "message": {} }),
        json!({ "type": "content_block_start", "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "delta": { "type": "text_delta", "text": "ab" } }),
        json!({ "type": "content_block_start", "content_block": { "type": "tool_use", "name": "t" } }),
        json!({ "type": "content_block_delta", "delta": { "type": "input_json_delta", "partial_json": "{}" } }),
        json!({ "type": "message_stop" }),
    ])
}

fn responses() -> String {
    stream(&[
        json!({ "type": "response.created" }),
        json!({ "type": "response.output_text.delta", "delta": "ab" }),
        json!({ "type": "response.output_item.done", "item": { "type": "message" } }),
        json!({ "type": "response.output_item.done", "item": { "type": "function_call" } }),
        json!({ "type": "response.completed", "response": {} }),
    ])
}

fn native() -> String {
    stream(&[
        json!({ "type": "turn.started" }),
        json!({ "type": "text.delta", "text": "ab" }),
        json!({ "type": "turn.completed", "text": "ab" }),
    ])
}

#[test]
fn a_stream_is_read_in_every_format_wherever_the_reads_were_cut() {
    for (format, body, calls) in [
        (Format::Chat, chat(), 1),
        (Format::Messages, messages(), 1),
        (Format::Responses, responses(), 1),
        (Format::Native, native(), 0),
    ] {
        let heard = heard(format, true, &body);
        assert_eq!(summary(&heard), ("ab", calls, End::Whole, false), "{format:?}");
    }
}

#[test]
fn a_stream_without_its_last_frame_has_not_ended() {
    for (format, body) in [
        (Format::Chat, chat()),
        (Format::Messages, messages()),
        (Format::Responses, responses()),
        (Format::Native, native()),
    ] {
        let (cut, _last) = body.trim_end().rsplit_once("data: ").expect("has frames");
        assert_eq!(heard(format, true, cut).end, End::None, "{format:?}");
    }
    let unfinished = heard(
        Format::Chat,
        true,
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n",
    );
    assert_eq!(unfinished.end, End::None);
}

#[test]
fn an_error_in_a_stream_is_an_ending() {
    for (format, event) in [
        (Format::Chat, json!({ "error": { "message": "m" } })),
        (Format::Messages, json!({ "type": "error", "error": {} })),
        (Format::Responses, json!({ "type": "response.failed" })),
        (Format::Native, json!({ "type": "turn.failed", "error": {} })),
    ] {
        assert_eq!(heard(format, true, &stream(&[event])).end, End::Error, "{format:?}");
    }
}

#[test]
fn what_comes_behind_the_end_or_is_no_json_is_garbled() {
    assert!(heard(Format::Chat, true, &(chat() + &chat())).garbled);
    assert!(heard(Format::Native, true, &(native() + &native())).garbled);
    assert!(heard(Format::Messages, true, "data: {\n\n").garbled);
    assert!(heard(Format::Chat, false, "{").garbled);
}

#[test]
fn a_whole_body_is_read_in_every_format() {
    let chat = json!({ "choices": [{ "finish_reason": "stop",
        "message": { "content": "ab", "tool_calls": [{ "function": { "name": "t" } }] } }] });
    let messages =
        json!({ "stop_reason": "tool_use", "content": [{ "type": "text", "text": "ab" }, { "type": "tool_use" }] });
    let responses = json!({ "status": "completed", "output": [
        { "type": "message", "content": [{ "type": "output_text", "text": "ab" }] }, { "type": "function_call" }] });
    let native = json!({ "turn": "t", "text": "ab" });
    for (format, body, calls) in [
        (Format::Chat, chat, 1),
        (Format::Messages, messages, 1),
        (Format::Responses, responses, 1),
        (Format::Native, native, 0),
    ] {
        let heard = heard(format, false, &body.to_string());
        assert_eq!(summary(&heard), ("ab", calls, End::Whole, false), "{format:?}");
        let error = json!({ "error": { "message": "m" } }).to_string();
        assert_eq!(super::tests::heard(format, false, &error).end, End::Error, "{format:?}");
    }
    assert_eq!(heard(Format::Chat, false, "{}").end, End::None);
}

#[test]
fn an_answer_has_begun_with_its_first_word() {
    let mut reader = Reader::new(Format::Native, true);
    reader.take(Bytes::from(stream(&[json!({ "type": "turn.started" })])));
    assert!(!reader.has_begun());
    reader.take(Bytes::from(stream(&[json!({ "type": "text.delta", "text": "a" })])));
    assert!(reader.has_begun());
}
