use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;
use understudy_messages::ids::{ModelRef, SessionKey, TurnId};
use understudy_messages::request::Endpoint;
use understudy_messages::turn::TurnRequest;

use super::*;
use crate::answer::Answer;
use crate::openai::chat::{answer, decode, request};
use crate::sse::{Frame, SseDecoder};

fn style(body: &str) -> Style {
    let body = Bytes::copy_from_slice(body.as_bytes());
    Style {
        request: Arc::new(TurnRequest {
            id: TurnId::new(),
            request_id: "r".into(),
            session: SessionKey::Ephemeral,
            agent: None,
            endpoint: Endpoint::Chat,
            facts: request::scan(&body).expect("a good body"),
            body,
            headers: Vec::new(),
        }),
        served_by: ModelRef::new("lead", "one"),
        created: 7,
    }
}

fn writer() -> Writer {
    Writer::new(style(r#"{"model":"m","stream":true,"messages":[{"role":"user"}]}"#))
}

fn counting_writer() -> Writer {
    Writer::new(style(
        r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user"}]}"#,
    ))
}

fn text(text: &str) -> Piece {
    Piece::Text {
        choice: 0,
        text: text.to_owned(),
    }
}

fn finish(choice: u32, finish: Finish) -> Piece {
    Piece::Finish {
        choice,
        finish,
        stop_sequence: None,
    }
}

fn tokens(input: u64, output: u64) -> Piece {
    Piece::Usage(Usage {
        input,
        output,
        ..Usage::default()
    })
}

fn frames(bytes: &[u8]) -> Vec<Frame> {
    let mut decoder = SseDecoder::default();
    decoder.push(Bytes::copy_from_slice(bytes));
    std::iter::from_fn(|| decoder.next_frame().expect("small")).collect()
}

/// The JSON of each chunk.
fn chunks(bytes: &[u8]) -> Vec<Value> {
    let data = frames(bytes).into_iter().filter_map(|frame| frame.data);
    let json = data.filter(|data| &data[..] != b"[DONE]");
    json.map(|data| serde_json::from_slice(&data).expect("JSON")).collect()
}

/// What a chat client reads.
fn read_back(bytes: &[u8]) -> Vec<Piece> {
    let (mut decoder, mut pieces) = (decode::Decoder::default(), Vec::new());
    for frame in frames(bytes) {
        decoder.read(&frame, Some(&mut pieces));
    }
    pieces
}

#[test]
fn a_stream_introduces_its_speaker_and_ends_with_reason_and_done() {
    let mut writer = writer();
    let mut stream = writer.pieces(vec![text("a"), text("b"), tokens(3, 2)]).to_vec();
    stream.extend(writer.pieces(vec![finish(0, Finish::Length)]));
    stream.extend(writer.end(None));
    let chunks = chunks(&stream);
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    assert_eq!(chunks[1]["choices"][0]["delta"], serde_json::json!({"content": "b"}));
    assert_eq!(chunks[2]["choices"][0]["finish_reason"], "length");
    assert_eq!(chunks.len(), 3, "nobody asked for usage");
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["model"] == "one" && chunk["created"] == 7)
    );
    assert!(stream.ends_with(b"data: [DONE]\n\n"));
}

#[test]
fn usage_is_a_chunk_of_its_own_for_a_client_that_asked() {
    let mut writer = counting_writer();
    let mut stream = writer.pieces(vec![text("a"), tokens(1, 1), tokens(3, 2)]).to_vec();
    stream.extend(writer.end(None));
    let last = chunks(&stream).pop().expect("a chunk");
    assert_eq!(last["choices"], serde_json::json!([]));
    assert_eq!(
        (&last["usage"]["prompt_tokens"], &last["usage"]["total_tokens"]),
        (&3.into(), &5.into())
    );
}

#[test]
fn an_answer_that_was_only_passed_on_ends_as_its_provider_ended_it() {
    let last = Bytes::from_static(b"data: [DONE]\r\n\r\n");
    assert_eq!(writer().end(Some(last.clone())), last);
    assert_eq!(writer().end(None), "data: [DONE]\n\n");
}

#[test]
fn after_a_seam_id_and_time_stay_and_the_model_is_who_goes_on() {
    let sent = [
        ": hello\n\n",
        "data: {\"id\":\"chatcmpl-1\",\"created\":3,\"model\":\"a\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1}}\n\n",
    ];
    let mut writer = counting_writer();
    let sign = writer.seam(&Seam {
        continued: true,
        sent: sent.map(Bytes::from).to_vec(),
        served_by: ModelRef::new("second", "two"),
    });
    assert_eq!(sign, ": understudy continued by second/two\n\n");
    let mut stream = writer.pieces(vec![text("b"), tokens(6, 2)]).to_vec();
    stream.extend(writer.seam(&Seam {
        continued: true,
        sent: Vec::new(),
        served_by: ModelRef::new("third", "three"),
    }));
    stream.extend(writer.pieces(vec![text("c"), finish(0, Finish::Stop), tokens(7, 3)]));
    stream.extend(writer.end(None));
    let chunks = chunks(&stream);
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["id"] == "chatcmpl-1" && chunk["created"] == 3)
    );
    assert_eq!(
        (&chunks[0]["model"], &chunks[1]["model"]),
        (&"two".into(), &"three".into())
    );
    assert_eq!(chunks[0]["choices"][0]["delta"].get("role"), None);
    assert_eq!(chunks[3]["usage"]["prompt_tokens"], 17);
    assert_eq!(chunks[3]["usage"]["completion_tokens"], 6);
}

#[test]
fn calls_end_as_calls_whatever_the_provider_called_it() {
    let call = Piece::ToolCall {
        choice: 0,
        index: 0,
        id: Some("c".to_owned()),
        name: Some("f".to_owned()),
        arguments: "{}".to_owned(),
        seal: None,
    };
    let mut writer = writer();
    let mut stream = writer.pieces(vec![call, finish(0, Finish::Stop)]).to_vec();
    stream.extend(writer.end(None));
    assert_eq!(chunks(&stream)[1]["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn a_seal_comes_with_the_text_that_it_seals() {
    let think = |text: &str| Piece::Reasoning {
        choice: 0,
        text: text.to_owned(),
    };
    let sealed = |whole, data: &str| Piece::Sealed {
        choice: 0,
        seal: Seal {
            maker: Api::AnthropicMessages,
            whole,
            data: data.to_owned(),
        },
    };
    let pieces = vec![think("a"), think("b"), sealed(false, "s"), sealed(true, "e")];
    let body: Value = serde_json::from_slice(&writer().whole(pieces)).expect("JSON");
    let message = &body["choices"][0]["message"];
    assert_eq!(message["reasoning_content"], "ab");
    let expected = serde_json::json!([
        {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "anthropic-messages:s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "anthropic-messages:e"},
    ]);
    assert_eq!(message["reasoning_details"], expected);
}

#[test]
fn sealed_reasoning_is_read_back_once() {
    let pieces = || {
        let think = |text: &str| Piece::Reasoning {
            choice: 0,
            text: text.to_owned(),
        };
        let sealed = |whole| Piece::Sealed {
            choice: 0,
            seal: Seal {
                maker: Api::OpenaiChat,
                whole,
                data: "s".to_owned(),
            },
        };
        let [a, b, c] = ["a", "b", "c"].map(think);
        vec![a, b, sealed(false), c, sealed(true), sealed(true), text("d")]
    };
    let joined = |pieces: Vec<Piece>| {
        let said = pieces.into_iter().map(|piece| match piece {
            Piece::Reasoning { text, .. } | Piece::Text { text, .. } => text,
            Piece::Sealed { seal, .. } => if seal.whole { "#" } else { "." }.to_owned(),
            _ => String::new(),
        });
        said.collect::<String>()
    };
    let mut stream = writer();
    let frames = [stream.pieces(pieces()), stream.end(None)].concat();
    assert_eq!(joined(read_back(&frames)), "ab.c##d");
    let mut back = Vec::new();
    answer::read_whole(&writer().whole(pieces()), Some(&mut back)).expect("an answer");
    assert_eq!(joined(back), "ab.c##d");
}

#[test]
fn an_answer_without_content_still_has_a_choice() {
    let body: Value = serde_json::from_slice(&writer().whole(vec![finish(0, Finish::ContentFilter)])).expect("JSON");
    assert_eq!(body["choices"][0]["finish_reason"], "content_filter");
    assert_eq!(body["choices"][0]["message"]["content"], Value::Null);
}

/// Answers as a decoder may give them: a call begins before more of its arguments come.
fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let choice = 0u32..3;
    let piece = prop_oneof![
        (choice.clone(), ".{1,6}").prop_map(|(choice, text)| Piece::Text { choice, text }),
        (choice.clone(), ".{1,6}").prop_map(|(choice, text)| Piece::Refusal { choice, text }),
        (choice.clone(), ".{1,6}").prop_map(|(choice, text)| Piece::Reasoning { choice, text }),
        (choice, 0u32..3, ".{1,6}").prop_map(|(choice, index, arguments)| Piece::ToolCall {
            choice,
            index,
            id: None,
            name: None,
            arguments,
            seal: None,
        }),
        (1u64..99, 1u64..99).prop_map(|(input, output)| tokens(input, output)),
    ];
    prop::collection::vec(piece, 0..20).prop_map(|mut pieces| {
        let mut begun = [0u32; 3];
        for piece in &mut pieces {
            if let Piece::ToolCall {
                choice,
                index,
                id,
                name,
                ..
            } = piece
            {
                let begun = &mut begun[*choice as usize];
                *index = (*index).min(*begun);
                if *index == *begun {
                    *begun += 1;
                    *id = Some(format!("c{choice}.{index}"));
                    *name = Some("f".to_owned());
                }
            }
        }
        pieces
    })
}

/// An answer's text, refusal, reasoning, calls and usage, choice by choice.
fn said(pieces: &[Piece]) -> Vec<Answer> {
    let of = |wanted: u32| {
        let mut answer = Answer::default();
        for piece in pieces {
            let mut piece = piece.clone();
            match &mut piece {
                Piece::Text { choice, .. }
                | Piece::Refusal { choice, .. }
                | Piece::Reasoning { choice, .. }
                | Piece::ToolCall { choice, .. } => *choice = if *choice == wanted { 0 } else { 9 },
                _ => {}
            }
            if !matches!(piece, Piece::Finish { .. }) {
                answer.add(&piece);
            }
        }
        answer
    };
    (0..3).map(of).collect()
}

#[test]
fn a_call_without_an_id_gets_one_that_no_other_turn_has() {
    let call = |index| Piece::ToolCall {
        choice: 0,
        index,
        id: None,
        name: Some("f".to_owned()),
        arguments: String::new(),
        seal: None,
    };
    let ids = |mut writer: Writer| {
        let whole = writer.whole(vec![call(0), call(1)]);
        let whole: serde_json::Value = serde_json::from_slice(&whole).expect("JSON");
        let calls = whole["choices"][0]["message"]["tool_calls"]
            .as_array()
            .expect("calls")
            .clone();
        let ids = calls.iter().map(|call| call["id"].as_str().expect("an id").to_owned());
        ids.collect::<Vec<_>>()
    };
    let all: std::collections::HashSet<_> = ids(writer()).into_iter().chain(ids(writer())).collect();
    assert_eq!(all.len(), 4, "{all:?}");
    assert!(all.iter().all(|id| id.len() <= 40), "{all:?}");
}

proptest! {
    #[test]
    fn a_chat_client_reads_all_that_was_said(pieces in pieces()) {
        let mut writer = counting_writer();
        let mut stream = writer.pieces(pieces.clone()).to_vec();
        stream.extend(writer.end(None));
        prop_assert_eq!(said(&read_back(&stream)), said(&pieces));
        let whole = counting_writer().whole(pieces.clone());
        let mut back = Vec::new();
        answer::read_whole(&whole, Some(&mut back)).expect("an answer");
        prop_assert_eq!(said(&back), said(&pieces));
    }

    #[test]
    fn frames_of_any_bytes_are_gone_on_from(sent in prop::collection::vec(any::<Vec<u8>>(), 0..4)) {
        writer().seam(&Seam { continued: true,
            sent: sent.into_iter().map(Bytes::from).collect(),
            served_by: ModelRef::new("second", "two"),
        });
    }
}
