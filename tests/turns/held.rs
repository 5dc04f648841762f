//! Calls of tools that an attempt holds back: what goes out before them, what is held, what becomes of it.

use bytes::Bytes;
use serde_json::{Value, json};
use understudy_messages::answer::{Finish, Piece, Progress};
use understudy_messages::client::{ClientFrame, Seam};
use understudy_messages::conversation::{Part, ToolResult};
use understudy_messages::ids::ModelRef;
use understudy_messages::request::Endpoint;
use understudy_messages::session::Continuation;
use understudy_messages::settings::Api;
use understudy_messages::tools::{RemovedCall, ToolRound, TurnNote};
use understudy_tests::protocol::{Ending, check, text};

use self::asking::{Asking, CLIENTS, How, Outcome, question, write};

mod asking;
mod broken;

const TEXT: &str = "Let me see what is there.";

/// Text and two calls.
fn calling() -> Value {
    json!({ "answer": { "text": TEXT, "reasoning": "hm", "usage": { "prompt_tokens": 5, "completion_tokens": 7 },
        "tool_calls": [{ "name": "look", "arguments": { "at": "secret-1" } }, { "name": "look", "arguments": { "at": "secret-2" } }] } })
}

/// Two calls and nothing before them.
fn only_calling() -> Value {
    let mut call = calling();
    call["answer"]["text"] = json!("");
    call["answer"]["reasoning"] = Value::Null;
    call
}

fn ungated() -> How {
    How {
        ungated: true,
        ..How::default()
    }
}

/// The arguments of each call in these pieces, in the order in which the calls began.
fn arguments(pieces: &[Piece]) -> Vec<String> {
    let mut calls: Vec<String> = Vec::new();
    for piece in pieces {
        if let Piece::ToolCall { index, arguments, .. } = piece {
            calls.resize(calls.len().max(*index as usize + 1), String::new());
            calls[*index as usize].push_str(arguments);
        }
    }
    calls
}

fn is_secret_free(outcome: &Outcome) {
    let shown = outcome.shown();
    assert!(!shown.contains("secret") && !shown.contains("look"), "{shown}");
}

/// A seam behind these bytes, with the same candidate on both sides.
fn changed(sent: Vec<Bytes>) -> ClientFrame {
    ClientFrame::Seam(Seam {
        sent,
        served_by: ModelRef::new("a", "m"),
        continued: false,
    })
}

#[actix::test]
async fn calls_that_are_let_through_come_out_byte_by_byte() {
    for client in CLIENTS {
        for stream in [true, false] {
            for call in [calling(), only_calling()] {
                // one simulator each: it numbers its answers
                let plain = Asking::set(client.api(), std::slice::from_ref(&call), "", "").await;
                let plain = plain.ask(client, stream, ungated()).await;
                let gated = Asking::set(client.api(), &[call], "", "").await;
                let gated = gated.ask(client, stream, How::default()).await;
                let held = gated.held();
                let all = [gated.bytes(), held.raw.concat()].concat();
                assert_eq!(all, plain.bytes(), "{client:?} {stream}");
                assert_eq!(gated.answered().last, plain.answered().last);
                assert_eq!(gated.answered().usage, plain.answered().usage);
                assert_eq!(held.sent.concat(), gated.bytes());
                is_secret_free(&gated);
            }
        }
    }
}

#[actix::test]
async fn nothing_of_a_call_goes_out_whoever_answers_whom() {
    for client in CLIENTS {
        for api in Api::ALL {
            for stream in [true, false] {
                let asking = Asking::set(api, &[calling()], "", "").await;
                let mut turn = asking.turn(client, &question(client, stream));
                let outcome = asking.attempt(&mut turn, How::default()).await;
                let what = format!("{client:?} {} {stream}", api.as_label());
                is_secret_free(&outcome);
                let seen = if stream { Progress::Content } else { Progress::Nothing };
                assert_eq!(turn.context.client.progress(), seen, "{what}");
                let (answered, held) = (outcome.answered(), outcome.held());
                assert_eq!(held.head.is_some(), !stream, "{what}");
                assert_eq!(held.raw.is_empty(), client.api() != api, "{what}");
                assert_eq!(
                    arguments(&held.pieces),
                    [r#"{"at":"secret-1"}"#, r#"{"at":"secret-2"}"#],
                    "{what}"
                );
                let finishes = |piece: &Piece| {
                    matches!(
                        piece,
                        Piece::Finish {
                            finish: Finish::ToolCalls,
                            ..
                        }
                    )
                };
                assert!(held.pieces.iter().any(finishes), "{what}: {:?}", held.pieces);
                said_all(&answered.said, &what);
            }
        }
    }
}

/// Thought, text and calls, in order.
fn said_all(said: &[Part], what: &str) {
    let [
        Part::Reasoning(thought),
        Part::Text(text),
        Part::ToolCall(one),
        Part::ToolCall(other),
    ] = said
    else {
        panic!("{what}: {said:?}");
    };
    assert_eq!((&*thought.text, &**text), ("hm", TEXT), "{what}");
    assert_eq!(
        (&*one.name, &*one.arguments),
        ("look", r#"{"at":"secret-1"}"#),
        "{what}"
    );
    assert!(!one.id.is_empty() && one.id != other.id, "{what}");
}

#[actix::test]
async fn an_answer_that_calls_no_tool_is_sent_as_ever_and_its_words_are_reported() {
    let call = json!({ "answer": { "text": TEXT } });
    for client in CLIENTS {
        for api in Api::ALL {
            for stream in [true, false] {
                let asking = Asking::set(api, &[call.clone(), call.clone()], "", "").await;
                let plain = asking.ask(client, stream, ungated()).await;
                let gated = asking.ask(client, stream, How::default()).await;
                assert_eq!(gated.frames.len(), plain.frames.len());
                assert_eq!(gated.bytes().len(), plain.bytes().len());
                assert_eq!(gated.answered().held, None);
                assert_eq!(gated.answered().said, [Part::Text(TEXT.to_owned())]);
                assert_eq!(plain.answered().said, []);
            }
        }
    }
}

#[actix::test]
async fn an_answer_that_calls_at_once_has_sent_nothing_and_comes_with_its_head() {
    for client in CLIENTS {
        for api in Api::ALL {
            let asking = Asking::set(api, &[only_calling()], "", "").await;
            let outcome = asking.ask(client, true, How::default()).await;
            let held = outcome.held();
            assert!(outcome.frames.is_empty(), "{:?}", outcome.frames);
            assert!(held.sent.is_empty());
            assert!(held.head.as_ref().is_some_and(|head| head.streaming));
            assert!(
                matches!(held.pieces.first(), Some(Piece::Begin { .. })),
                "{:?}",
                held.pieces
            );
        }
    }
}

/// One call of those that are held, with other arguments, and the end.
fn rewritten(pieces: &[Piece]) -> Vec<Piece> {
    let call = pieces.iter().find_map(|piece| match piece {
        Piece::ToolCall { id, name, index: 0, .. } => Some(Piece::ToolCall {
            choice: 0,
            index: 0,
            id: id.clone(),
            name: name.clone(),
            arguments: r#"{"at":"home"}"#.to_owned(),
            seal: None,
        }),
        _ => None,
    });
    let others = pieces.iter().filter(|piece| !matches!(piece, Piece::ToolCall { .. }));
    let (before, after): (Vec<&Piece>, Vec<&Piece>) = others.partition(|piece| matches!(piece, Piece::Begin { .. }));
    let all = before
        .into_iter()
        .cloned()
        .chain(call)
        .chain(after.into_iter().cloned());
    all.collect()
}

#[actix::test]
async fn calls_that_are_changed_make_a_proper_stream_behind_what_was_sent() {
    for client in CLIENTS {
        for api in Api::ALL {
            for call in [calling(), only_calling()] {
                let asking = Asking::set(api, &[call], "", "").await;
                let mut turn = asking.turn(client, &question(client, true));
                let mut outcome = asking.attempt(&mut turn, How::default()).await;
                let held = outcome.held().clone();
                let mut frames = std::mem::take(&mut outcome.frames);
                frames.extend((!held.sent.is_empty()).then(|| changed(held.sent.clone())));
                frames.push(ClientFrame::Pieces(rewritten(&held.pieces)));
                frames.push(ClientFrame::Note(TurnNote::CallRemoved(RemovedCall {
                    tool: "lo\r\nok".into(),
                    plugin: "guard".into(),
                    veto: true,
                })));
                frames.push(ClientFrame::End { last: None });
                let stream = write(&mut turn.writer(), frames);
                let shown = String::from_utf8_lossy(&stream).into_owned();
                let what = format!("{client:?} {}: {shown}", api.as_label());
                assert_eq!(check(client, &stream, Ending::Whole), Ok(()), "{what}");
                assert!(
                    shown.contains(r#"{\"at\":\"home\"}"#) && !shown.contains("secret"),
                    "{what}"
                );
                assert!(
                    shown.contains(": understudy removed the call of look, blocked by guard\n\n"),
                    "{what}"
                );
                assert!(!shown.contains("continued by"), "{what}");
                let said = if held.head.is_some() { "" } else { TEXT };
                assert_eq!(text(client, &stream, true), said, "{what}");
            }
        }
    }
}

/// What a model said and was told in a first round.
fn round(said: Vec<Part>) -> ToolRound {
    let results = said.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(ToolResult {
            id: call.id.clone(),
            name: Some(call.name.clone()),
            parts: vec![Part::Text("It was blocked.".to_owned())],
            is_error: true,
        }),
        _ => None,
    });
    let results = results.collect();
    ToolRound { said, results }
}

#[actix::test]
async fn a_second_round_goes_on_in_one_answer_behind_a_blank_line() {
    let second = json!({ "answer": { "text": "I may not.", "reasoning": "well",
        "usage": { "prompt_tokens": 30, "completion_tokens": 40 } } });
    for client in CLIENTS {
        for api in Api::ALL {
            let asking = Asking::set(api, &[calling(), second.clone()], "", "").await;
            let mut turn = asking.turn(client, &question(client, true));
            let mut first = asking.attempt(&mut turn, How::default()).await;
            let mut frames = std::mem::take(&mut first.frames);
            let outcome = asking.attempt(&mut turn, second_round(&first)).await;
            assert!(outcome.answered().held.is_none());
            let said = outcome.answered().said.last();
            assert_eq!(said, Some(&Part::Text("I may not.".to_owned())));
            frames.extend(outcome.frames);
            frames.push(ClientFrame::End { last: None });
            let stream = write(&mut turn.writer(), frames);
            let what = format!("{client:?} {}: {}", api.as_label(), String::from_utf8_lossy(&stream));
            assert_eq!(check(client, &stream, Ending::Whole), Ok(()), "{what}");
            assert_eq!(text(client, &stream, true), format!("{TEXT}\n\nI may not."), "{what}");
            let asked = asking.was_asked().to_string();
            assert!(
                asked.contains("secret-2") && asked.contains("It was blocked."),
                "{asked}"
            );
        }
    }
}

#[actix::test]
async fn a_second_round_may_call_at_once_or_think_first() {
    let mut thinking = only_calling();
    thinking["answer"]["reasoning"] = json!("well");
    for client in CLIENTS {
        for api in Api::ALL {
            for second in [only_calling(), thinking.clone()] {
                let asking = Asking::set(api, &[calling(), second], "", "").await;
                let mut turn = asking.turn(client, &question(client, true));
                let mut first = asking.attempt(&mut turn, How::default()).await;
                let mut frames = std::mem::take(&mut first.frames);
                let outcome = asking.attempt(&mut turn, second_round(&first)).await;
                let held = outcome.held().clone();
                assert!(held.raw.is_empty() && held.sent.is_empty() && held.head.is_none());
                frames.extend(outcome.frames);
                frames.push(ClientFrame::Pieces(held.pieces));
                frames.push(ClientFrame::End { last: None });
                let stream = write(&mut turn.writer(), frames);
                let what = format!("{client:?} {}: {}", api.as_label(), String::from_utf8_lossy(&stream));
                assert_eq!(check(client, &stream, Ending::Whole), Ok(()), "{what}");
                assert_eq!(text(client, &stream, true), TEXT, "{what}");
                assert!(what.contains("cret-1"), "{what}");
            }
        }
    }
}

/// All calls of the first round were blocked, and the model is asked again.
fn second_round(first: &Outcome) -> How {
    How {
        rounds: vec![round(first.answered().said.clone())],
        continuation: Some(Continuation {
            sent: first.held().sent.clone(),
            after_text: true,
            ..Continuation::default()
        }),
        ..How::default()
    }
}

#[actix::test]
async fn the_tokens_of_an_answer_that_is_changed_are_its_own_and_of_rounds_the_sum() {
    let client = Endpoint::Messages;
    let asking = Asking::set(client.api(), &[calling()], "", "").await;
    let mut turn = asking.turn(client, &question(client, true));
    let outcome = asking.attempt(&mut turn, How::default()).await;
    let held = outcome.held().clone();
    for (continued, input) in [(false, 5), (true, 10)] {
        let mut writer = turn.writer();
        let mut written = Vec::new();
        for raw in &held.sent {
            written.extend(write(&mut writer, vec![ClientFrame::Data(raw.clone())]));
        }
        let seam = Seam {
            sent: held.sent.clone(),
            served_by: ModelRef::new("a", "m"),
            continued,
        };
        let rest = vec![
            ClientFrame::Seam(seam),
            ClientFrame::Pieces(held.pieces.clone()),
            ClientFrame::End { last: None },
        ];
        written.extend(write(&mut writer, rest));
        let shown = String::from_utf8(written).expect("text");
        let ended = shown.split("event: message_delta\ndata: ").nth(1).expect("an end");
        let ended: Value = serde_json::from_str(ended.lines().next().expect("a line")).expect("JSON");
        assert_eq!(ended["usage"]["input_tokens"], input, "{shown}");
    }
}
