//! Answers as events, and as one object.

use std::sync::Arc;

use serde_json::json;
use understudy_messages::answer::Finish;
use understudy_messages::failure::{CancelCause, Reason};
use understudy_messages::ids::{SessionKey, TurnId};
use understudy_messages::request::Endpoint;
use understudy_messages::turn::TurnRequest;

use super::*;
use crate::sse::SseDecoder;
use crate::wire;

fn writer(stream: bool) -> Writer {
    let body = Bytes::from(format!(r#"{{"model":"m","stream":{stream},"input":"hi"}}"#));
    Writer::new(Style {
        request: Arc::new(TurnRequest {
            id: TurnId::new(),
            request_id: "r".into(),
            session: SessionKey::Keyed {
                owner: None,
                key: "s1".into(),
            },
            agent: None,
            endpoint: Endpoint::Native,
            facts: wire::scan(Endpoint::Native, &body).expect("a good body"),
            body,
            headers: Vec::new(),
        }),
        served_by: ModelRef::new("a", "m"),
        created: 7,
    })
}

fn text(text: &str) -> Piece {
    Piece::Text {
        choice: 0,
        text: text.to_owned(),
    }
}

fn tokens(input: u64, output: u64) -> Piece {
    Piece::Usage(Usage {
        input,
        output,
        ..Usage::default()
    })
}

fn finish() -> Piece {
    Piece::Finish {
        choice: 0,
        finish: Finish::Stop,
        stop_sequence: None,
    }
}

fn seam(continued: bool) -> Seam {
    Seam {
        sent: Vec::new(),
        served_by: ModelRef::new("b", "m"),
        continued,
    }
}

fn notice(cleared: bool) -> TurnNote {
    TurnNote::Fallback(FallbackNotice {
        selected: "a/m".to_owned(),
        active: "b/m".to_owned(),
        cleared,
        text: "another one".to_owned(),
    })
}

fn tool_ran(writer: &mut Writer) -> Bytes {
    let mut params = Map::new();
    params.insert("at".to_owned(), json!(1));
    let started = writer.note(&TurnNote::ToolStarted {
        call_id: "c1".to_owned(),
        tool: "look".into(),
        params: Arc::new(params),
    });
    let ended = writer.note(&TurnNote::ToolEnded {
        call_id: "c1".to_owned(),
        tool: "look".into(),
        outcome: ToolOutcome::Ok,
        result: "a cat".to_owned(),
    });
    [started, ended].concat().into()
}

/// The events in `bytes`; each has its type as its name.
fn events(bytes: &[Bytes]) -> Vec<Value> {
    let mut decoder = SseDecoder::default();
    decoder.push(bytes.concat().into());
    let frames = std::iter::from_fn(|| decoder.next_frame().expect("small"));
    frames
        .map(|frame| {
            let event: Value = serde_json::from_slice(&frame.data.expect("data")).expect("JSON");
            let name = frame.event.expect("a name");
            assert_eq!(Some(&*name), event["type"].as_str().map(str::as_bytes));
            event
        })
        .collect()
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}

#[test]
fn an_answer_is_told_piece_by_piece_and_ends_once() {
    let mut writer = writer(true);
    let reasoning = Piece::Reasoning {
        choice: 0,
        text: "hm".to_owned(),
    };
    let told = events(&[
        writer.pieces(vec![Piece::Ping, reasoning, text("Hel"), text("lo")]),
        writer.pieces(vec![finish(), tokens(3, 2)]),
        writer.end(),
    ]);
    assert_eq!(
        types(&told),
        [
            "turn.started",
            "reasoning.delta",
            "text.delta",
            "text.delta",
            "usage",
            "turn.completed"
        ]
    );
    assert_eq!(told[0]["session"], "s1");
    let usage = json!({ "input": 3, "output": 2, "cacheRead": 0, "cacheWrite": 0, "reasoning": 0 });
    assert_eq!(
        told[5],
        json!({ "type": "turn.completed", "text": "Hello", "servedBy": "a/m", "usage": usage, "finish": "stop" })
    );
}

#[test]
fn after_a_seam_the_answer_goes_on_and_tokens_are_a_sum_unless_it_is_the_same_answer() {
    for (continued, input) in [(true, 7), (false, 4)] {
        let mut writer = writer(true);
        let told = events(&[
            writer.pieces(vec![text("Hel"), tokens(3, 1)]),
            writer.seam(&seam(continued)),
            writer.pieces(vec![text("lo"), tokens(4, 1)]),
            writer.end(),
        ]);
        assert_eq!(
            types(&told),
            ["turn.started", "text.delta", "text.delta", "usage", "turn.completed"]
        );
        let end = &told[4];
        assert_eq!((&end["text"], &end["servedBy"]), (&json!("Hello"), &json!("b/m")));
        assert_eq!(end["usage"]["input"], input);
    }
}

#[test]
fn tools_and_fallbacks_are_told_between() {
    let mut writer = writer(true);
    let told = events(&[
        tool_ran(&mut writer),
        writer.pieces(vec![text("A cat.")]),
        writer.note(&notice(false)),
        writer.note(&notice(true)),
        writer.end(),
    ]);
    assert_eq!(
        types(&told),
        [
            "turn.started",
            "tool.started",
            "tool.ended",
            "text.delta",
            "model.fallback",
            "model.fallback_cleared",
            "turn.completed"
        ]
    );
    let started = json!({ "type": "tool.started", "callId": "c1", "tool": "look", "params": { "at": 1 } });
    let ended = json!({ "type": "tool.ended", "callId": "c1", "tool": "look", "outcome": "ok", "result": "a cat" });
    assert_eq!((&told[1], &told[2]), (&started, &ended));
    let fallback = json!({ "type": "model.fallback", "selected": "a/m", "active": "b/m", "text": "another one" });
    assert_eq!(told[4], fallback);
    assert_eq!(told[6]["usage"], Value::Null);
}

#[test]
fn a_failure_says_whether_part_of_an_answer_was_told() {
    for (said, after_content) in [(vec![text("Hel")], true), (vec![], false)] {
        let mut writer = writer(true);
        let failure = TurnFailure {
            cause: Some(Reason::Timeout),
            retry_after: Some(3),
            ..TurnFailure::cancelled(CancelCause::RunBudget, 1)
        };
        let told = events(&[writer.pieces(said), writer.fail(&failure)]);
        let end = told.last().expect("an end");
        assert_eq!(end["type"], "turn.failed");
        assert_eq!(end["afterContent"], after_content);
        let error = &end["error"];
        assert_eq!(
            (&error["code"], &error["reason"], &error["retryAfter"]),
            (&json!("timeout"), &json!("timeout"), &json!(3))
        );
    }
}

#[test]
fn a_whole_answer_is_one_object() {
    let mut writer = writer(false);
    tool_ran(&mut writer);
    let refusal = Piece::Refusal {
        choice: 0,
        text: "no".to_owned(),
    };
    writer.note(&notice(false));
    let body = writer.whole(vec![text("A cat."), refusal, finish(), tokens(3, 2)]);
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!((&body["session"], &body["text"]), (&json!("s1"), &json!("A cat.")));
    assert_eq!((&body["refusal"], &body["finish"]), (&json!("no"), &json!("stop")));
    let tool = json!({ "callId": "c1", "tool": "look", "params": { "at": 1 }, "outcome": "ok", "result": "a cat" });
    assert_eq!(body["tools"], json!([tool]));
    assert_eq!(body["fallback"]["cleared"], false);
    assert_eq!(body["usage"]["output"], 2);
}

#[test]
fn what_outgrows_the_bound_is_left_out_at_the_end_and_said_so() {
    let mut text = "x".repeat(MOST_TEXT - 1);
    assert!(add(&mut text, "y") && !add(&mut text, "z"));
    assert_eq!(text.len(), MOST_TEXT);
    let mut writer = writer(true);
    writer.said.text = text;
    let told = events(&[writer.pieces(vec![self::text("z")])]);
    assert_eq!(told[1]["text"], "z", "it is sent all the same");
    let end = writer.end();
    assert!(end.windows(12).any(|part| part == b"\"isCut\":true"));
}
