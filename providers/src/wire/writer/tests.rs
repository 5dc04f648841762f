use serde_json::{Value, json};
use understudy_messages::answer::{Finish, Usage};
use understudy_messages::conversation::Seal;
use understudy_messages::ids::{SessionKey, TurnId};
use understudy_messages::settings::Api;
use understudy_messages::tools::{FallbackNotice, RemovedCall};

use super::*;
use crate::sse::SseDecoder;
use crate::wire;

const CLIENTS: [Endpoint; 3] = [Endpoint::Chat, Endpoint::Responses, Endpoint::Messages];

fn writer(endpoint: Endpoint) -> Writer {
    let body = json!({ "model": "m", "stream": true, "stream_options": { "include_usage": true }, "max_tokens": 9,
        "messages": [{ "role": "user", "content": "hi" }], "input": "hi" });
    let body = Bytes::from(body.to_string());
    Writer::new(Style {
        request: Arc::new(TurnRequest {
            id: TurnId::new(),
            request_id: "r".into(),
            session: SessionKey::Ephemeral,
            agent: None,
            endpoint,
            facts: wire::scan(endpoint, &body).expect("a request"),
            body,
            headers: Vec::new(),
        }),
        served_by: ModelRef::new("a", "m"),
        created: 7,
    })
}

/// The rest of an answer of which these events went out as bytes.
fn rest(endpoint: Endpoint, sent: &[Value], continued: bool, pieces: Vec<Piece>) -> Vec<Value> {
    let frame = |event: &Value| match event["type"].as_str() {
        Some(kind) => Bytes::from(format!("event: {kind}\ndata: {event}\n\n")),
        None => Bytes::from(format!("data: {event}\n\n")),
    };
    let mut writer = writer(endpoint);
    let sent = sent.iter().map(|event| writer.pass(frame(event))).collect();
    let served_by = ModelRef::new("b", "other");
    let seam = Seam {
        sent,
        served_by,
        continued,
    };
    let written = [writer.seam(&seam), writer.pieces(pieces), writer.end(None)].concat();
    let mut events = SseDecoder::default();
    events.push(written.into());
    let frames = std::iter::from_fn(|| events.next_frame().expect("small"));
    let data = frames.filter_map(|frame| frame.data);
    data.filter_map(|data| serde_json::from_slice(&data).ok()).collect()
}

fn call(choice: u32) -> Piece {
    Piece::ToolCall {
        choice,
        index: 0,
        id: Some("c1".to_owned()),
        name: Some("look".to_owned()),
        arguments: "{}".to_owned(),
        seal: None,
    }
}

fn finish(choice: u32, finish: Finish) -> Piece {
    Piece::Finish {
        choice,
        finish,
        stop_sequence: None,
    }
}

fn chunk(choice: u32, delta: Value, finish: Option<&str>) -> Value {
    json!({ "id": "chatcmpl-1", "created": 3, "model": "real", "choices": [{ "index": choice, "delta": delta, "finish_reason": finish }] })
}

#[test]
fn a_call_that_was_removed_is_a_comment_that_no_name_can_leave() {
    let note = TurnNote::CallRemoved(RemovedCall {
        tool: format!("ex\r\n\r\ndata: {}", "x".repeat(200)).into(),
        plugin: "guard".into(),
        veto: true,
    });
    for client in CLIENTS {
        let comment = writer(client).note(&note);
        let comment = std::str::from_utf8(&comment).expect("text");
        let name = format!("exdata: {}", "x".repeat(LONGEST_NAME - "exdata: ".len()));
        let expected = format!(": understudy removed the call of {name}, blocked by guard\n\n");
        assert_eq!(comment, expected);
        let other = TurnNote::Fallback(FallbackNotice {
            selected: "a/m".to_owned(),
            active: "b/m".to_owned(),
            cleared: false,
            text: "b/m answers".to_owned(),
        });
        assert_eq!(writer(client).note(&other), Bytes::new());
    }
}

#[test]
fn what_a_chat_answer_sent_of_itself_stands_when_its_rest_is_changed() {
    let sent = [
        chunk(0, json!({ "role": "assistant", "content": "One" }), None),
        chunk(1, json!({ "role": "assistant", "content": "Two" }), None),
        chunk(0, json!({}), Some("stop")),
    ];
    let usage = Usage {
        input: 5,
        ..Usage::default()
    };
    let pieces = vec![call(1), finish(1, Finish::ToolCalls), Piece::Usage(usage)];
    let chunks = rest(Endpoint::Chat, &sent, false, pieces);
    for chunk in &chunks {
        assert_eq!(
            (&chunk["id"], &chunk["created"], &chunk["model"]),
            (&json!("chatcmpl-1"), &json!(3), &json!("real"))
        );
    }
    let told = |chunk: &Value| {
        (
            chunk["choices"][0]["index"].clone(),
            chunk["choices"][0]["finish_reason"].clone(),
        )
    };
    assert_eq!(chunks[0]["choices"][0]["delta"].get("role"), None);
    assert_eq!(told(&chunks[0]), (json!(1), Value::Null));
    assert_eq!(
        told(&chunks[1]),
        (json!(1), json!("tool_calls")),
        "the first choice has ended before"
    );
    assert_eq!(chunks[2]["usage"]["prompt_tokens"], 5);
    assert_eq!(chunks.len(), 3);
}

#[test]
fn a_seal_is_one_of_its_own_models_thoughts_alone() {
    let seal = || Piece::Sealed {
        choice: 0,
        seal: Seal {
            maker: Api::AnthropicMessages,
            whole: false,
            data: "proof".to_owned(),
        },
    };
    let thought = Piece::Reasoning {
        choice: 0,
        text: "own".to_owned(),
    };
    let sent = [chunk(
        0,
        json!({ "role": "assistant", "reasoning_content": "hm" }),
        None,
    )];
    let detail =
        |chunks: &[Value], at: usize| chunks[at]["choices"][0]["delta"]["reasoning_details"][0]["text"].clone();
    let chunks = rest(Endpoint::Chat, &sent, false, vec![seal(), call(0)]);
    assert_eq!(detail(&chunks, 0), "hm");
    let chunks = rest(Endpoint::Chat, &sent, true, vec![thought, seal(), call(0)]);
    assert_eq!(detail(&chunks, 1), "own");
}

#[test]
fn a_thought_that_is_open_in_messages_is_gone_on_with_and_text_is_closed_by_a_call() {
    let start = json!({ "type": "message_start", "message": { "id": "msg_1", "model": "real", "usage": { "input_tokens": 5, "output_tokens": 1 } } });
    let open =
        |kind: &str| json!({ "type": "content_block_start", "index": 0, "content_block": { "type": kind, kind: "" } });
    let thought = Piece::Reasoning {
        choice: 0,
        text: "hm".to_owned(),
    };
    let kinds = |events: &[Value]| -> Vec<String> {
        events
            .iter()
            .map(|event| format!("{} {}", event["type"].as_str().expect("a type"), event["index"]))
            .collect()
    };
    let events = rest(
        Endpoint::Messages,
        &[start.clone(), open("thinking")],
        false,
        vec![thought, call(0)],
    );
    assert_eq!(
        kinds(&events)[..3],
        ["content_block_delta 0", "content_block_stop 0", "content_block_start 1"]
    );
    let events = rest(Endpoint::Messages, &[start, open("text")], false, vec![call(0)]);
    assert_eq!(kinds(&events)[..2], ["content_block_stop 0", "content_block_start 1"]);
    let ended = events
        .iter()
        .find(|event| event["type"] == "message_delta")
        .expect("an end");
    assert_eq!(
        (&ended["delta"]["stop_reason"], &ended["usage"]["input_tokens"]),
        (&json!("tool_use"), &json!(5))
    );
}

#[test]
fn a_message_that_is_open_in_responses_is_closed_by_a_call_and_told_again_at_the_end() {
    let sent = [
        json!({ "type": "response.created", "sequence_number": 0, "response": { "id": "resp_1", "model": "real", "created_at": 3 } }),
        json!({ "type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": { "id": "msg_1", "type": "message", "role": "assistant", "content": [] } }),
        json!({ "type": "response.content_part.added", "sequence_number": 2, "output_index": 0, "item_id": "msg_1", "content_index": 0, "part": { "type": "output_text", "text": "" } }),
        json!({ "type": "response.output_text.delta", "sequence_number": 3, "output_index": 0, "item_id": "msg_1", "content_index": 0, "delta": "One" }),
    ];
    let events = rest(Endpoint::Responses, &sent, false, vec![call(0)]);
    let kinds: Vec<_> = events
        .iter()
        .map(|event| event["type"].as_str().expect("a type"))
        .collect();
    assert_eq!(
        kinds[..4],
        [
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added"
        ]
    );
    assert_eq!(
        (&events[0]["sequence_number"], &events[3]["output_index"]),
        (&json!(4), &json!(1))
    );
    let response = &events.last().expect("an end")["response"];
    assert_eq!(
        (&response["id"], &response["model"]),
        (&json!("resp_1"), &json!("real"))
    );
    assert_eq!(response["output"][0]["content"][0]["text"], "One");
    assert_eq!(response["output"][1]["type"], "function_call");
}
