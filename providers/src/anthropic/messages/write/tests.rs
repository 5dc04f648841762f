use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use understudy_messages::ids::{ModelRef, SessionKey, TurnId};
use understudy_messages::request::Endpoint;
use understudy_messages::turn::TurnRequest;

use super::*;
use crate::answer::Answer;
use crate::anthropic::messages::{answer, decode, request};
use crate::sse::SseDecoder;
use crate::stream::Signal;

const BODY: &[u8] = br#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

fn writer() -> Writer {
    let body = Bytes::from_static(BODY);
    Writer::new(Style {
        request: Arc::new(TurnRequest {
            id: TurnId::new(),
            request_id: "r".into(),
            session: SessionKey::Ephemeral,
            agent: None,
            endpoint: Endpoint::Messages,
            facts: request::scan(&body).expect("a good body"),
            body,
            headers: Vec::new(),
        }),
        served_by: ModelRef::new("lead", "one"),
        created: 7,
    })
}

fn text(text: &str) -> Piece {
    Piece::Text {
        choice: 0,
        text: text.to_owned(),
    }
}

fn thought(text: &str) -> Piece {
    Piece::Reasoning {
        choice: 0,
        text: text.to_owned(),
    }
}

fn sealed(maker: Api, whole: bool) -> Piece {
    let data = "s".to_owned();
    let seal = Seal { maker, whole, data };
    Piece::Sealed { choice: 0, seal }
}

fn call(index: u32, id: Option<&str>, arguments: &str) -> Piece {
    Piece::ToolCall {
        choice: 0,
        index,
        id: id.map(str::to_owned),
        name: id.map(|_| "f".to_owned()),
        arguments: arguments.to_owned(),
        seal: None,
    }
}

fn finish(finish: Finish) -> Piece {
    Piece::Finish {
        choice: 0,
        finish,
        stop_sequence: None,
    }
}

fn begin(id: &str) -> Piece {
    Piece::Begin {
        id: Some(id.to_owned()),
        model: Some("two".to_owned()),
    }
}

fn tokens(input: u64, output: u64) -> Piece {
    Piece::Usage(Usage {
        input,
        output,
        ..Usage::default()
    })
}

fn seam(sent: &[&str]) -> Seam {
    Seam {
        continued: true,
        sent: sent
            .iter()
            .map(|frame| Bytes::copy_from_slice(frame.as_bytes()))
            .collect(),
        served_by: ModelRef::new("b", "two"),
    }
}

/// The events of a stream; each is named by its type.
fn events(frames: &[u8]) -> Vec<Value> {
    let mut decoder = SseDecoder::default();
    decoder.push(Bytes::copy_from_slice(frames));
    let mut events = Vec::new();
    while let Ok(Some(frame)) = decoder.next_frame() {
        if let Some(data) = &frame.data {
            let event: Value = serde_json::from_slice(data).expect("JSON");
            let name = frame.event.as_deref().expect("a name");
            assert_eq!(event["type"].as_str().map(str::as_bytes), Some(name));
            events.push(event);
        }
    }
    events
}

fn streamed(pieces: Vec<Piece>) -> Vec<Value> {
    let mut writer = writer();
    let mut frames = writer.pieces(pieces).to_vec();
    frames.extend(writer.end(None));
    events(&frames)
}

/// Checks that a stream keeps to the protocol: a beginning, one block after another, an end.
fn is_proper(events: &[Value]) {
    let kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .filter(|kind| *kind != "ping")
        .collect();
    assert_eq!(kinds.first(), Some(&"message_start"));
    assert_eq!(kinds[kinds.len() - 2..], ["message_delta", "message_stop"]);
    let (mut open, mut next) = (None, 0);
    for event in events {
        let index = event["index"].as_u64();
        match event["type"].as_str().expect("a type") {
            "content_block_start" => {
                assert_eq!((open, index), (None, Some(next)), "{event}");
                (open, next) = (index, next + 1);
            }
            "content_block_delta" => assert_eq!(index, open, "{event}"),
            "content_block_stop" => {
                assert_eq!((index, open.is_some()), (open, true), "{event}");
                open = None;
            }
            _ => {}
        }
    }
    assert_eq!(open, None);
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let kind = |event: &Value| event["type"] != "ping";
    events
        .iter()
        .filter(|event| kind(event))
        .filter_map(|event| event["type"].as_str())
        .collect()
}

/// What an Anthropic client makes of it.
fn understood(frames: &[u8]) -> (Answer, Vec<Seal>) {
    let (mut sse, mut decoder, mut pieces) = (SseDecoder::default(), decode::Decoder::default(), Vec::new());
    sse.push(Bytes::copy_from_slice(frames));
    while let Ok(Some(frame)) = sse.next_frame() {
        let read = decoder.read(&frame, Some(&mut pieces));
        assert_ne!(read.signal, Signal::Malformed);
    }
    gathered(pieces)
}

fn gathered(pieces: Vec<Piece>) -> (Answer, Vec<Seal>) {
    let (mut answer, mut seals) = (Answer::default(), Vec::new());
    for piece in pieces {
        answer.add(&piece);
        if let Piece::Sealed { seal, .. } = piece {
            seals.push(seal);
        }
    }
    (answer, seals)
}

#[test]
fn a_text_is_one_block_of_one_message() {
    let events = streamed(vec![
        begin("msg_up"),
        tokens(5, 1),
        text("a"),
        text("b"),
        tokens(5, 2),
        finish(Finish::Stop),
    ]);
    is_proper(&events);
    let usage = |output: u64| json!({ "input_tokens": 5, "output_tokens": output, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0 });
    let message = json!({ "id": "msg_up", "type": "message", "role": "assistant", "model": "two", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage(1) });
    assert_eq!(events[0]["message"], message);
    assert_eq!(events[1]["content_block"], json!({ "type": "text", "text": "" }));
    assert_eq!(events[2]["delta"], json!({ "type": "text_delta", "text": "a" }));
    assert_eq!(
        events[5]["delta"],
        json!({ "stop_reason": "end_turn", "stop_sequence": null })
    );
    assert_eq!(events[5]["usage"], usage(2));
}

#[test]
fn an_id_of_another_maker_is_replaced() {
    let id = |events: &[Value]| events[0]["message"]["id"].as_str().expect("an id").to_owned();
    let made = id(&streamed(vec![begin("chatcmpl-1"), text("a")]));
    assert!(made.starts_with("msg_") && made.len() > 10);
    assert_eq!(id(&streamed(vec![begin("msg_1"), text("a")])), "msg_1");
}

#[test]
fn each_kind_has_blocks_of_its_own() {
    let events = streamed(vec![
        thought("hm"),
        sealed(Api::AnthropicMessages, false),
        sealed(Api::AnthropicMessages, true),
        text("so"),
        call(0, Some("t1"), ""),
        call(0, None, "{\"a\":"),
        Piece::Ping,
        call(0, None, "1}"),
        call(1, Some("t2"), "{}"),
        finish(Finish::ToolCalls),
    ]);
    is_proper(&events);
    let blocks: Vec<&Value> = events
        .iter()
        .map(|event| &event["content_block"]["type"])
        .filter(|kind| !kind.is_null())
        .collect();
    assert_eq!(
        blocks,
        ["thinking", "redacted_thinking", "text", "tool_use", "tool_use"]
    );
    let deltas: Vec<&Value> = events
        .iter()
        .map(|event| &event["delta"])
        .filter(|delta| delta["type"].is_string())
        .collect();
    assert_eq!(*deltas[1], json!({ "type": "signature_delta", "signature": "s" }));
    assert_eq!(
        *deltas[3],
        json!({ "type": "input_json_delta", "partial_json": "{\"a\":" })
    );
    assert!(events.iter().any(|event| event["type"] == "ping"));
}

#[test]
fn a_foreign_seal_goes_behind_its_makers_name_and_a_calls_before_the_call() {
    let events = streamed(vec![
        thought("hm"),
        sealed(Api::OpenaiResponses, true),
        sealed(Api::OpenaiResponses, true),
    ]);
    assert_eq!(events[3]["delta"]["signature"], "openai-responses:s");
    assert_eq!(events[5]["content_block"]["data"], "openai-responses:s");
    let mut sealed_call = call(0, Some("t"), "{}");
    if let Piece::ToolCall { seal, .. } = &mut sealed_call {
        *seal = Some(Seal {
            maker: Api::Gemini,
            whole: true,
            data: "g".to_owned(),
        });
    }
    let events = streamed(vec![text("x"), sealed_call.clone()]);
    is_proper(&events);
    assert_eq!(events[5]["delta"]["signature"], "gemini:g");
    let message: Value = serde_json::from_slice(&writer().whole(vec![sealed_call])).expect("JSON");
    let body = json!({ "model": "m", "messages": [{ "role": "assistant", "content": message["content"] }] });
    let conversation = request::read(body.to_string().as_bytes()).expect("a conversation");
    let seal = match &conversation.messages[0].parts[..] {
        [understudy_messages::conversation::Part::ToolCall(call)] => call.seal.clone(),
        parts => panic!("{parts:?}"),
    };
    assert_eq!(
        seal.map(|seal| (seal.maker, seal.data)),
        Some((Api::Gemini, "g".to_owned()))
    );
}

#[test]
fn why_it_ended_is_said_in_anthropics_words() {
    let reason = |pieces: Vec<Piece>| {
        let events = streamed(pieces);
        events[events.len() - 2]["delta"]["stop_reason"]
            .as_str()
            .expect("a reason")
            .to_owned()
    };
    assert_eq!(reason(vec![text("a")]), "end_turn");
    assert_eq!(reason(vec![text("a"), finish(Finish::Length)]), "max_tokens");
    assert_eq!(reason(vec![finish(Finish::ContentFilter)]), "refusal");
    assert_eq!(reason(vec![call(0, Some("t"), "{}"), finish(Finish::Stop)]), "tool_use");
    let refused = Piece::Refusal {
        choice: 0,
        text: "no".to_owned(),
    };
    assert_eq!(reason(vec![refused, finish(Finish::Stop)]), "refusal");
    let met = Piece::Finish {
        choice: 0,
        finish: Finish::Stop,
        stop_sequence: Some("END".to_owned()),
    };
    assert_eq!(reason(vec![text("a"), met]), "stop_sequence");
}

#[test]
fn other_choices_are_not_told() {
    let other = Piece::Text {
        choice: 1,
        text: "b".to_owned(),
    };
    assert_eq!(kinds(&streamed(vec![text("a"), other, finish(Finish::Stop)])).len(), 6);
}

#[test]
fn the_providers_own_end_is_kept_where_nothing_was_written_here() {
    let last = Bytes::from_static(b"data: {\"type\":\"message_stop\"}\n\n");
    assert_eq!(writer().end(Some(last.clone())), last);
    assert_eq!(
        writer().end(None),
        "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
    );
    let mut writer = writer();
    writer.pieces(vec![text("a")]);
    assert_eq!(
        kinds(&events(&writer.end(Some(last)))),
        ["content_block_stop", "message_delta", "message_stop"]
    );
}

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"one\",\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\n";

fn block_start(index: u64, kind: &str) -> String {
    format!(
        "event: content_block_start\ndata: {{\"type\":\"content_block_start\",\"index\":{index},\"content_block\":{{\"type\":\"{kind}\"}}}}\n\n"
    )
}

#[test]
fn after_a_seam_text_goes_on_in_the_open_block() {
    let sent = [START, &block_start(0, "text")];
    let delta = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"to be \"}}\n\n";
    let mut writer = writer();
    let mut frames = [sent[0], sent[1], delta].concat().into_bytes();
    let seam = writer.seam(&seam(&[sent[0], sent[1], delta]));
    assert_eq!(seam, ": understudy continued by b/two\n\n");
    frames.extend(seam);
    frames.extend(writer.pieces(vec![
        begin("msg_2"),
        tokens(9, 1),
        text("or not"),
        tokens(9, 4),
        finish(Finish::Stop),
    ]));
    frames.extend(writer.end(None));
    let events = events(&frames);
    is_proper(&events);
    assert_eq!(
        kinds(&events)
            .iter()
            .filter(|kind| **kind == "content_block_start")
            .count(),
        1
    );
    let (answer, _) = understood(&frames);
    assert_eq!(answer.text, "to be or not");
    assert_eq!(
        answer.usage.map(|usage| (usage.input, usage.output)),
        Some((14, 5)),
        "the sum"
    );
}

#[test]
fn after_a_seam_an_open_thought_is_closed() {
    let mut writer = writer();
    let sent = [START, &block_start(0, "thinking")];
    let mut frames = sent.concat().into_bytes();
    frames.extend(writer.seam(&seam(&sent)));
    frames.extend(writer.pieces(vec![thought("hm"), text("so")]));
    frames.extend(writer.end(None));
    let events = events(&frames);
    is_proper(&events);
    assert_eq!(
        kinds(&events)[1..4],
        ["content_block_start", "content_block_stop", "content_block_start"]
    );
}

#[test]
fn a_seam_between_pieces_goes_on_too() {
    let mut writer = writer();
    let mut frames = writer.pieces(vec![begin("x"), text("to "), tokens(3, 2)]).to_vec();
    frames.extend(writer.seam(&seam(&[])));
    frames.extend(writer.pieces(vec![begin("y"), text("be"), tokens(4, 1), call(0, Some("t"), "{}")]));
    frames.extend(writer.end(None));
    is_proper(&events(&frames));
    let (answer, _) = understood(&frames);
    assert_eq!((&*answer.text, answer.tool_calls.len()), ("to be", 1));
    assert_eq!(answer.usage.map(|usage| (usage.input, usage.output)), Some((7, 3)));
}

#[test]
fn arguments_that_come_late_are_not_lost() {
    let mut writer = writer();
    let mut frames = writer
        .pieces(vec![
            call(0, Some("a"), "{"),
            call(1, Some("b"), "{"),
            call(0, None, "}"),
            call(1, None, "}"),
        ])
        .to_vec();
    frames.extend(writer.end(None));
    let (answer, _) = understood(&frames);
    assert!(answer.tool_calls.iter().all(|call| call.arguments == "{}"));
}

#[test]
fn usage_is_told_in_anthropics_way() {
    let mut writer = writer();
    let usage = Usage {
        input: 10,
        output: 4,
        cache_read: 3,
        cache_write: 2,
        reasoning: 1,
    };
    let message: Value = serde_json::from_slice(&writer.whole(vec![text("a"), Piece::Usage(usage)])).expect("JSON");
    let expected = json!({ "input_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2, "output_tokens": 4,
        "output_tokens_details": { "thinking_tokens": 1 } });
    assert_eq!(message["usage"], expected);
}

#[test]
fn a_whole_answer_is_one_message() {
    let pieces = vec![
        begin("msg_1"),
        thought("hm"),
        sealed(Api::AnthropicMessages, false),
        text("a"),
        text("b"),
        call(0, Some("t"), "{\"z\":1e2,\"a\":2}"),
        call(1, Some("u"), "{\"cut"),
        call(2, None, ""),
        finish(Finish::ToolCalls),
    ];
    let body = writer().whole(pieces);
    assert!(
        String::from_utf8_lossy(&body).contains("\"input\":{\"z\":1e2,\"a\":2}"),
        "arguments keep their text"
    );
    let message: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!(
        (&message["id"], &message["stop_reason"]),
        (&json!("msg_1"), &json!("tool_use"))
    );
    let content = &message["content"];
    assert_eq!(
        content[0],
        json!({ "type": "thinking", "thinking": "hm", "signature": "s" })
    );
    assert_eq!(content[1], json!({ "type": "text", "text": "ab" }));
    assert_eq!(content[3]["input"], json!({ "_unparsable": "{\"cut" }));
    assert!(content[4]["id"].as_str().is_some_and(|id| id.starts_with("toolu_")));
    assert_eq!(content[4]["input"], json!({}));
}

fn piece() -> impl Strategy<Value = Piece> {
    let words = || "[a-zé😀\"\\\\]{1,8}";
    let maker = prop::sample::select(vec![Api::AnthropicMessages, Api::OpenaiResponses, Api::Gemini]);
    prop_oneof![
        words().prop_map(|words| text(&words)),
        words().prop_map(|words| thought(&words)),
        (maker, any::<bool>()).prop_map(|(maker, whole)| sealed(maker, whole)),
        (0u64..50, 0u64..50).prop_map(|(input, output)| tokens(input, output)),
        Just(Piece::Ping),
    ]
}

/// An answer: what was said, then calls in order, then its end.
fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let calls = prop::collection::vec(prop::sample::select(vec!["{}", "{\"a\":\"}\"}", "{\"b\":[1]}"]), 0..3);
    let finishes = prop::sample::select(vec![Finish::Length, Finish::ToolCalls, Finish::ContentFilter]);
    (prop::collection::vec(piece(), 0..12), calls, finishes).prop_map(|(mut pieces, calls, end)| {
        for (index, arguments) in (0..).zip(calls) {
            let (head, rest) = arguments.split_at(1);
            pieces.extend([call(index, Some("t"), head), call(index, None, rest)]);
        }
        pieces.push(tokens(7, 7));
        pieces.push(finish(end));
        pieces
    })
}

proptest! {
    #[test]
    fn what_is_streamed_is_proper_and_says_the_same(pieces in pieces(), cut in 0usize..14) {
        let mut writer = writer();
        let (expected, seals) = gathered(pieces.clone());
        let mut before = pieces;
        let after = before.split_off(cut.min(before.len()));
        let mut frames = writer.pieces(before).to_vec();
        frames.extend(writer.pieces(after));
        frames.extend(writer.end(None));
        is_proper(&events(&frames));
        let (answer, told) = understood(&frames);
        prop_assert_eq!(answer, expected);
        let told: Vec<String> = told.into_iter().map(|seal| seal.data).collect();
        let seals: Vec<String> = seals.iter().map(|seal| seal.in_format(Api::AnthropicMessages)).collect();
        prop_assert_eq!(told, seals);
    }

    #[test]
    fn what_is_written_whole_says_the_same(pieces in pieces()) {
        let (expected, _) = gathered(pieces.clone());
        let body = writer().whole(pieces);
        let mut read = Vec::new();
        answer::read(&body, Some(&mut read)).expect("an answer");
        prop_assert_eq!(gathered(read).0, expected);
    }

    #[test]
    fn any_frames_may_have_been_sent(sent in prop::collection::vec(any::<Vec<u8>>(), 0..4), pieces in pieces()) {
        let mut writer = writer();
        let sent = sent.into_iter().map(Bytes::from).collect();
        writer.seam(&Seam { continued: true, sent, served_by: ModelRef::new("b", "two") });
        writer.pieces(pieces);
        writer.end(None);
    }
}
