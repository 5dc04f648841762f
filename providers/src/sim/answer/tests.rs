use serde_json::json;

use super::*;

const PATHS: [(Api, &str, &str); 4] = [
    (Api::OpenaiChat, "/a/v1/chat/completions", "/a/v1/chat/completions"),
    (Api::OpenaiResponses, "/a/v1/responses", "/a/v1/responses"),
    (Api::AnthropicMessages, "/a/v1/messages", "/a/v1/messages"),
    (
        Api::Gemini,
        "/a/v1/models/m1:generateContent",
        "/a/v1/models/m1:streamGenerateContent?alt=sse",
    ),
];

fn data(frame: &Piece) -> Value {
    let text = std::str::from_utf8(&frame.bytes).expect("utf-8");
    let (_, data) = text.split_once("data: ").expect("data");
    serde_json::from_str(data).unwrap_or_else(|_| json!(data.trim_end()))
}

fn script(json: Value) -> Answer {
    serde_json::from_value(json).expect("parses")
}

#[test]
fn what_fills_a_name_is_not_filled_again() {
    assert_eq!(fill("{n}:{model}:{last}{x", 7, "m", "{n}"), "7:m:{n}{x");
}

#[test]
fn a_tag_is_the_first_word_with_a_hash() {
    assert_eq!(fill("<{tag}>", 1, "m", "told before: #a-1 and #b"), "<#a-1>");
    assert_eq!(fill("<{tag}>", 1, "m", "none"), "<>");
}

#[test]
fn an_answer_that_is_cut_has_so_many_chunks_and_no_end() {
    let answer = script(json!({ "text": "abcdef", "chunks": 3, "cut_after": 2 }));
    for (_, _, path) in PATHS {
        let asked = Asked::read(path, br#"{"model":"m","stream":true}"#);
        let frames = MadeAnswer::new(&answer, &asked, 1).frames();
        let sent: String = frames
            .iter()
            .map(|frame| String::from_utf8_lossy(&frame.bytes))
            .collect();
        assert!(
            sent.contains("ab") && sent.contains("cd") && !sent.contains("ef"),
            "{sent}"
        );
        assert!(
            !["[DONE]", "message_stop", "response.completed", "STOP"]
                .iter()
                .any(|end| sent.contains(end)),
            "{sent}"
        );
    }
}

#[test]
fn pieces_join_to_the_text_and_none_is_empty() {
    for (text, count) in [("", 3), ("é", 3), ("grüße dich", 4), ("abc", 1)] {
        let pieces = pieces_of(text, count);
        assert_eq!(pieces.concat(), text);
        assert!(pieces.len() <= count && pieces.iter().all(|piece| !piece.is_empty()));
    }
}

#[test]
fn a_chat_stream_has_role_reasoning_content_finish_usage_and_done() {
    let answer = script(json!({
        "text": "hello {last}", "chunks": 2, "first_ms": 30, "every_ms": 10, "reasoning": "hm",
        "usage": { "prompt_tokens": 4, "completion_tokens": 2 },
    }));
    let body =
        br#"{"model":"m1","messages":[{"role":"user","content":"you"}],"stream_options":{"include_usage":true}}"#;
    let asked = Asked::read(PATHS[0].1, body);
    let frames = MadeAnswer::new(&answer, &asked, 3).frames();
    let choices: Vec<Value> = frames.iter().map(|f| data(f)["choices"].clone()).collect();
    assert_eq!(choices[0][0]["delta"]["role"], "assistant");
    assert_eq!(choices[1][0]["delta"]["reasoning_content"], "hm");
    assert_eq!(choices[2][0]["delta"]["content"], "hello");
    assert_eq!(choices[3][0]["delta"]["content"], " you");
    assert_eq!(choices[4][0]["finish_reason"], "stop");
    assert_eq!(choices[5], json!([]));
    assert_eq!(data(&frames[5])["usage"]["total_tokens"], 6);
    assert_eq!(data(&frames[6]), "[DONE]");
    let waits: Vec<u128> = frames.iter().map(|f| f.after.as_millis()).collect();
    assert_eq!(waits, [0, 30, 10, 10, 0, 0, 0]);
}

#[test]
fn usage_is_streamed_only_when_it_was_asked_for() {
    let answer = script(json!({ "text": "x" }));
    let asked = Asked::read(PATHS[0].1, b"{}");
    let frames = MadeAnswer::new(&answer, &asked, 1).frames();
    assert!(frames.iter().all(|frame| data(frame).get("usage").is_none()));
}

#[test]
fn a_whole_answer_takes_as_long_as_its_stream() {
    let answer = script(json!({ "text": "abc", "first_ms": 30, "every_ms": 10 }));
    for (api, whole, _) in PATHS {
        let asked = Asked::read(whole, b"{}");
        let (takes, body) = MadeAnswer::new(&answer, &asked, 1).whole();
        assert_eq!(takes.as_millis(), 50, "{api:?}");
        assert!(body.contains("\"abc\""), "{body}");
    }
}

/// An answer with everything in it.
fn full() -> Answer {
    script(json!({
        "text": "one two three", "chunks": 3, "reasoning": "hm", "usage": { "prompt_tokens": 4, "completion_tokens": 2 },
        "tool_calls": [{ "name": "add", "arguments": { "x": 1 } }, { "name": "mul", "arguments": {} }],
    }))
}

#[test]
fn every_format_has_text_reasoning_calls_usage_and_an_end() {
    for (api, whole, streamed) in PATHS {
        let body = br#"{"model":"m1","stream":true,"stream_options":{"include_usage":true}}"#;
        let (answer, asked) = (full(), Asked::read(streamed, body));
        assert_eq!(asked.api, api);
        let frames = MadeAnswer::new(&answer, &asked, 1).frames();
        let stream: String = frames
            .iter()
            .map(|frame| String::from_utf8_lossy(&frame.bytes))
            .collect();
        let (_, body) = MadeAnswer::new(&answer, &Asked::read(whole, b"{}"), 1).whole();
        let ends = match api {
            Api::OpenaiChat => "data: [DONE]\n\n",
            Api::OpenaiResponses => "event: response.completed\n",
            Api::AnthropicMessages => "event: message_stop\n",
            Api::Gemini => "\"finishReason\":\"STOP\"",
        };
        assert!(stream.contains(ends), "{stream}");
        for text in ["one t", "\"hm\"", "\"add\"", "\"mul\""] {
            assert!(stream.contains(text), "{api:?}: {text} in {stream}");
        }
        for text in ["\"one two three\"", "\"hm\"", "\"add\"", "\"mul\""] {
            assert!(body.contains(text), "{api:?}: {text} in {body}");
        }
    }
}

#[test]
fn events_of_responses_are_numbered_and_blocks_of_messages_follow_each_other() {
    let answer = full();
    let asked = Asked::read(PATHS[1].2, b"{}");
    let events: Vec<Value> = MadeAnswer::new(&answer, &asked, 1).frames().iter().map(data).collect();
    assert!(
        (0..)
            .zip(&events)
            .all(|(number, event): (u64, _)| event["sequence_number"] == number)
    );
    let added = events.iter().filter(|it| it["type"] == "response.output_item.added");
    assert!(
        (0..)
            .zip(added)
            .all(|(place, event): (u64, _)| event["output_index"] == place)
    );
    let asked = Asked::read(PATHS[2].2, b"{}");
    let events: Vec<Value> = MadeAnswer::new(&answer, &asked, 1).frames().iter().map(data).collect();
    let of_kind = |kind: &str| -> Vec<u64> {
        let events = events.iter().filter(|it| it["type"] == kind);
        events.filter_map(|it| it["index"].as_u64()).collect()
    };
    assert_eq!(of_kind("content_block_start"), [0, 1, 2, 3]);
    assert_eq!(of_kind("content_block_stop"), [0, 1, 2, 3]);
}
