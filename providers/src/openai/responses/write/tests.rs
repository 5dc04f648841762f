use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use understudy_messages::answer::{Finish, Usage};
use understudy_messages::conversation::Seal;
use understudy_messages::ids::{ModelRef, SessionKey, TurnId};
use understudy_messages::request::Endpoint;
use understudy_messages::settings::Api;
use understudy_messages::turn::TurnRequest;

use super::*;
use crate::answer::Answer;
use crate::openai::responses::decode::Decoder;
use crate::sse::SseDecoder;
use crate::stream::{BodyEnd, StreamMachine};
use crate::wire;

fn style(body: &Value) -> Style {
    style_of(body.to_string())
}

fn style_of(body: String) -> Style {
    let body = Bytes::from(body);
    let request = TurnRequest {
        id: TurnId::new(),
        request_id: "r".into(),
        session: SessionKey::Ephemeral,
        agent: None,
        endpoint: Endpoint::Responses,
        facts: wire::scan(Endpoint::Responses, &body).expect("a request"),
        body,
        headers: Vec::new(),
    };
    Style {
        request: Arc::new(request),
        served_by: ModelRef::new("p", "m"),
        created: 1_700_000_000,
    }
}

fn writer() -> Writer {
    Writer::new(style(&json!({ "model": "m", "stream": true, "input": "hi" })))
}

/// The events in `bytes`, comments left out.
fn events(bytes: &[u8]) -> Vec<Value> {
    let mut frames = SseDecoder::default();
    frames.push(Bytes::copy_from_slice(bytes));
    let mut events = Vec::new();
    while let Some(frame) = frames.next_frame().expect("small") {
        if let Some(data) = frame.data {
            let event: Value = serde_json::from_slice(&data).expect("JSON");
            assert_eq!(frame.event.expect("named"), event["type"].as_str().expect("a type"));
            events.push(event);
        }
    }
    events
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let kinds = events.iter().map(|event| event["type"].as_str().expect("a type"));
    kinds.map(|kind| kind.trim_start_matches("response.")).collect()
}

fn numbered_from(events: &[Value], first: usize) {
    for (number, event) in (first..).zip(events) {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
}

fn text(text: &str) -> Piece {
    Piece::Text {
        choice: 0,
        text: text.to_owned(),
    }
}

fn begin() -> Piece {
    Piece::Begin {
        id: Some("theirs".into()),
        model: Some("m-2".into()),
    }
}

fn finish(finish: Finish) -> Piece {
    Piece::Finish {
        choice: 0,
        finish,
        stop_sequence: None,
    }
}

fn call(index: u32, id: Option<&str>, arguments: &str) -> Piece {
    Piece::ToolCall {
        choice: 0,
        index,
        id: id.map(Into::into),
        name: id.map(|_| "f".into()),
        arguments: arguments.to_owned(),
        seal: None,
    }
}

#[test]
fn an_answer_is_told_as_clients_expect_it() {
    let mut writer = writer();
    let thought = Piece::Reasoning {
        choice: 0,
        text: "hm".into(),
    };
    let seal = Seal {
        maker: Api::AnthropicMessages,
        whole: false,
        data: "sig".into(),
    };
    let pieces = vec![
        begin(),
        thought,
        Piece::Sealed { choice: 0, seal },
        text("He"),
        text("y"),
        call(0, Some("c1"), "{}"),
    ];
    let mut bytes = writer.pieces(pieces).to_vec();
    let usage = Usage {
        input: 5,
        output: 3,
        cache_read: 2,
        cache_write: 1,
        reasoning: 1,
    };
    bytes.extend_from_slice(&writer.pieces(vec![finish(Finish::ToolCalls), Piece::Usage(usage)]));
    bytes.extend_from_slice(&writer.end(None));
    let events = events(&bytes);
    numbered_from(&events, 0);
    assert_eq!(
        kinds(&events),
        [
            "created",
            "in_progress",
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ]
    );
    let response = &events[19]["response"];
    assert_eq!(response["model"], "m-2");
    assert_eq!(response["status"], "completed");
    let types: Vec<_> = response["output"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| &item["type"])
        .collect();
    assert_eq!(types, ["reasoning", "message", "function_call"]);
    assert_eq!(response["output"][0]["encrypted_content"], "anthropic-messages:sig");
    assert_eq!(
        response["output"][1]["content"][0],
        json!({"type": "output_text", "text": "Hey", "annotations": [], "logprobs": []})
    );
    assert_eq!(
        response["usage"]["input_tokens_details"],
        json!({"cached_tokens": 2, "cache_write_tokens": 1})
    );
    assert_eq!(response["usage"]["total_tokens"], 8);
    assert_eq!(events[0]["response"]["status"], "in_progress");
    assert_eq!(events[10]["logprobs"], json!([]));
    assert_eq!(events[10]["item_id"], events[8]["item"]["id"]);
}

#[test]
fn a_response_repeats_its_request() {
    let request = json!({
        "model": "m", "input": "hi", "instructions": "be brief", "temperature": 0.5, "metadata": {"k": "v"},
        "tools": [{"type": "function", "name": "f"}], "top_p": null, "store": false,
    });
    let mut writer = Writer::new(style(&request));
    let body: Value = serde_json::from_slice(&writer.whole(vec![begin(), text("yes")])).expect("JSON");
    for name in ["instructions", "temperature", "metadata", "tools", "store"] {
        assert_eq!(body[name], request[name], "{name}");
    }
    assert_eq!((&body["top_p"], &body["tool_choice"]), (&json!(1.0), &json!("auto")));
    assert_eq!(
        (&body["object"], &body["created_at"]),
        (&json!("response"), &json!(1_700_000_000))
    );
    assert_eq!(body["usage"], Value::Null);
    assert_eq!(writer.kept(), None, "it is not to be stored");
}

#[test]
fn an_event_is_one_line_however_many_its_request_had() {
    let tool = json!({ "type": "function", "name": "f\ng", "parameters": { "type": "object" } });
    let body = json!({ "model": "m", "stream": true, "input": "hi", "tools": [tool], "metadata": { "a": "b" } });
    let pretty = serde_json::to_string_pretty(&body).expect("JSON").replace('\n', "\r\n");
    let mut writer = Writer::new(style_of(pretty));
    let written = writer.pieces(vec![begin(), text("hi")]);
    let events = events(&written);
    assert_eq!(events[0]["response"]["tools"], body["tools"]);
}

#[test]
fn an_answer_that_is_to_be_found_again_is_kept_however_it_was_written() {
    let mut stream = writer();
    stream.pieces(vec![begin(), text("yes"), finish(Finish::Length)]);
    assert_eq!(stream.kept(), None);
    stream.end(None);
    let kept = stream.kept().expect("kept");
    let response: Value = serde_json::from_str(&kept.response).expect("JSON");
    assert_eq!(response["incomplete_details"], json!({"reason": "max_output_tokens"}));
    assert_eq!(response["id"], *kept.id);
    assert_eq!(
        response["output"][0],
        serde_json::from_str::<Value>(&kept.response[kept.output.clone()]).expect("JSON")
    );

    let mut passing = writer();
    passing.pass(&Bytes::from_static(
        b"data: {\"type\":\"response.created\",\"response\":{\"id\":\"a\",\"output\":[]}}\n\n",
    ));
    assert_eq!(passing.kept(), None);
    let last =
        r#"data: {"response":{"id":"a", "output":[ {"x":1} ],"status":"completed"},"type":"response.completed"}"#;
    passing.end(Some(Bytes::from(format!("{last}\n\n"))));
    let kept = passing.kept().expect("kept");
    assert_eq!((&*kept.id, &kept.response[kept.output.clone()]), ("a", "{\"x\":1}"));
}

#[test]
fn a_stream_that_passed_fails_under_its_own_id_and_number() {
    let mut writer = writer();
    writer.pass(&Bytes::from_static(b": hi\n\n"));
    writer.pass(&Bytes::from_static(
        b"event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_theirs\",\"created_at\":7,\"model\":\"m-3\"}}\n\n",
    ));
    writer.pass(&Bytes::from_static(
        b"data: {\"type\":\"response.output_text.delta\",\"sequence_number\":41,\"output_index\":0,\"delta\":\"x\"}\n\n",
    ));
    let bytes = writer.fail(&TurnFailure::ours(502, "upstream_error", "It broke."));
    let events = events(&bytes);
    assert_eq!(kinds(&events), ["failed"]);
    numbered_from(&events, 42);
    let response = &events[0]["response"];
    assert_eq!(
        (&response["id"], &response["status"]),
        (&json!("resp_theirs"), &json!("failed"))
    );
    assert_eq!(
        response["error"],
        json!({"code": "upstream_error", "message": "It broke."})
    );
    assert!(!bytes.windows(6).any(|window| window == b"[DONE]"));
}

#[test]
fn a_stream_of_which_nothing_was_seen_begins_and_fails() {
    let bytes = writer().fail(&TurnFailure::ours(502, "upstream_error", "It broke."));
    let events = events(&bytes);
    assert_eq!(kinds(&events), ["created", "in_progress", "failed"]);
    numbered_from(&events, 0);
}

fn seam(sent: Vec<Bytes>) -> Seam {
    Seam {
        continued: true,
        sent,
        served_by: ModelRef::new("q", "m-4"),
    }
}

#[test]
fn after_a_seam_the_text_goes_on_in_its_message_and_reasoning_is_closed() {
    let mut first = writer();
    let thought = Piece::Reasoning {
        choice: 0,
        text: "hm".into(),
    };
    let mut sent: Vec<Bytes> = Vec::new();
    for pieces in [vec![begin(), thought], vec![text("Hel")]] {
        sent.push(first.pieces(pieces));
    }
    let before = sent.concat();
    let mut other = writer();
    let passed = seam(sent.clone());
    for (writer, seam) in [(&mut first, seam(Vec::new())), (&mut other, passed)] {
        let mut bytes = before.clone();
        let sign = writer.seam(&seam);
        assert_eq!(sign, ": understudy continued by q/m-4\n\n");
        bytes.extend_from_slice(&sign);
        let usage = Usage {
            input: 1,
            output: 2,
            ..Usage::default()
        };
        bytes.extend_from_slice(&writer.pieces(vec![
            Piece::Begin { id: None, model: None },
            text("lo"),
            Piece::Usage(usage),
        ]));
        bytes.extend_from_slice(&writer.end(Some(Bytes::from_static(b"not this"))));
        let events = events(&bytes);
        numbered_from(&events, 0);
        let response = &events.last().expect("an end")["response"];
        assert_eq!(response["output"][1]["content"][0]["text"], "Hello", "{response}");
        assert_eq!(response["output"].as_array().expect("items").len(), 2);
        assert_eq!(response["id"], events[0]["response"]["id"]);
        assert_eq!(response["model"], "m-4");
        assert_eq!(response["usage"]["total_tokens"], 3);
    }
}

#[test]
fn the_usage_of_all_who_wrote_is_added_up() {
    let mut writer = writer();
    let usage = Usage {
        input: 1,
        output: 2,
        ..Usage::default()
    };
    writer.pieces(vec![begin(), text("a"), Piece::Usage(usage)]);
    writer.seam(&seam(Vec::new()));
    writer.pieces(vec![text("b"), Piece::Usage(usage)]);
    let events = events(&writer.end(None));
    assert_eq!(events.last().expect("an end")["response"]["usage"]["total_tokens"], 6);
}

#[test]
fn arguments_may_come_in_turns_and_a_call_without_any_has_an_empty_object() {
    let mut writer = writer();
    let pieces = vec![
        begin(),
        call(0, Some("a"), "{\"x\""),
        call(1, Some("b"), ""),
        call(0, None, ":1}"),
        finish(Finish::ToolCalls),
    ];
    let mut bytes = writer.pieces(pieces).to_vec();
    bytes.extend_from_slice(&writer.end(None));
    let events = events(&bytes);
    let output = &events.last().expect("an end")["response"]["output"];
    assert_eq!(
        (&output[0]["arguments"], &output[1]["arguments"]),
        (&json!("{\"x\":1}"), &json!("{}"))
    );
}

#[test]
fn a_stream_that_passes_ends_as_its_provider_ended_it() {
    let mut writer = writer();
    writer.pass(&Bytes::from_static(b"data: {\"type\":\"response.created\"}\n\n"));
    let last = Bytes::from_static(b"data: {\"type\":\"response.completed\"}\n\n");
    assert_eq!(writer.end(Some(last.clone())), last);
    assert_eq!(writer.end(None), "");
}

fn piece() -> impl Strategy<Value = Piece> {
    let word = || "[a-z\"\\\\ \né]{1,6}";
    prop_oneof![
        4 => word().prop_map(|text| Piece::Text { choice: 0, text }),
        1 => word().prop_map(|text| Piece::Refusal { choice: 0, text }),
        2 => word().prop_map(|text| Piece::Reasoning { choice: 0, text }),
        1 => "[a-z]{1,6}".prop_map(|data| Piece::Sealed {
            choice: 0,
            seal: Seal { maker: Api::OpenaiResponses, whole: true, data }
        }),
        2 => (0u32..3, word()).prop_map(|(index, arguments)| Piece::ToolCall {
            choice: 0, index, id: Some(format!("c{index}")), name: Some("f".into()), arguments, seal: None
        }),
        1 => Just(Piece::Ping),
    ]
}

/// Ids come once, and calls are numbered in the order in which they begin.
fn put_right(pieces: &mut [Piece]) {
    let mut begun: Vec<u32> = Vec::new();
    for piece in pieces {
        if let Piece::ToolCall { index, id, name, .. } = piece {
            match begun.iter().position(|known| known == index) {
                Some(place) => (*index, *id, *name) = (place as u32, None, None),
                None => {
                    begun.push(*index);
                    *index = begun.len() as u32 - 1;
                }
            }
        }
    }
}

fn seals(pieces: &[Piece]) -> Vec<&Piece> {
    pieces
        .iter()
        .filter(|piece| matches!(piece, Piece::Sealed { .. }))
        .collect()
}

proptest! {
    #[test]
    fn what_is_written_says_the_same_when_it_is_read_again(
        mut pieces in prop::collection::vec(piece(), 1..20),
        usage in (0u64..99, 0u64..99, 0u64..99),
    ) {
        put_right(&mut pieces);
        pieces.insert(0, begin());
        let usage = Usage { input: usage.0, output: usage.1, reasoning: usage.2, ..Usage::default() };
        pieces.push(Piece::Usage(usage));
        let calls = pieces.iter().any(|piece| matches!(piece, Piece::ToolCall { .. }));
        pieces.push(finish(if calls { Finish::ToolCalls } else { Finish::Stop }));
        let mut writer = writer();
        let mut bytes: Vec<u8> = Vec::new();
        for piece in &pieces {
            bytes.extend_from_slice(&writer.pieces(vec![piece.clone()]));
        }
        bytes.extend_from_slice(&writer.end(None));
        numbered_from(&events(&bytes), 0);

        let (mut frames, mut decoder, mut machine) = (SseDecoder::default(), Decoder::default(), StreamMachine::default());
        let mut read = Vec::new();
        frames.push(bytes.into());
        while let Some(frame) = frames.next_frame().expect("small") {
            let told = decoder.read(&frame, Some(&mut read));
            prop_assert!(told.error.is_none());
            machine.frame(told.signal, frame.raw.len());
        }
        let (mut expected, mut answer) = (Answer::default(), Answer::default());
        pieces.iter().for_each(|piece| expected.add(piece));
        read.iter().for_each(|piece| answer.add(piece));
        if expected.says_something {
            prop_assert_eq!(machine.end(BodyEnd::Clean), Ok(()));
            prop_assert_eq!(&answer, &expected);
        }
        prop_assert_eq!(seals(&read), seals(&pieces));

        let body = self::writer().whole(pieces.clone());
        let mut whole = Vec::new();
        crate::openai::responses::answer::read(&body, Some(&mut whole)).expect("an answer");
        let mut answer = Answer::default();
        whole.iter().for_each(|piece| answer.add(piece));
        if !expected.reasoning.contains('\n') {
            // between two items of reasoning
            answer.reasoning = answer.reasoning.replace("\n\n", "");
        }
        prop_assert_eq!(answer.text, expected.text);
        prop_assert_eq!(answer.tool_calls, expected.tool_calls);
    }

    #[test]
    fn frames_of_any_kind_can_be_gone_on_from(frames in prop::collection::vec(any::<Vec<u8>>(), 0..5)) {
        let mut writer = writer();
        let sent: Vec<Bytes> = frames.into_iter().map(Bytes::from).collect();
        sent.iter().for_each(|frame| writer.pass(frame));
        writer.seam(&seam(sent));
        writer.pieces(vec![text("x")]);
        writer.end(None);
        prop_assert!(writer.kept().is_some());
    }
}
