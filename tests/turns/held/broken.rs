//! Answers that break off, outgrow a bound or cannot be judged while calls are held, and what the policies for streams mean then.

use serde_json::{Value, json};
use understudy_messages::answer::{Piece, Progress};
use understudy_messages::client::ClientFrame;
use understudy_messages::conversation::Part;
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::provider::{AttemptError, Delivered};
use understudy_messages::request::Endpoint;
use understudy_messages::session::Continuation;
use understudy_messages::settings::Api;

use super::asking::{Asking, CLIENTS, How, Outcome, question};
use super::{arguments, is_secret_free};
use crate::stage::{DONE, delta, frame, stream, text};

fn named(mut data: Value, kind: &str) -> String {
    data["type"] = json!(kind);
    format!("event: {kind}\ndata: {data}\n\n")
}

fn unnamed(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn chat_call(arguments: &str) -> String {
    delta(&json!({ "tool_calls": [{ "index": 0, "id": "c1", "type": "function",
        "function": { "name": "look", "arguments": arguments } }] }))
}

/// A stream that says `Let me` and begins to call a tool.
fn begun(api: Api) -> Vec<String> {
    match api {
        Api::OpenaiChat => vec![
            delta(&json!({ "role": "assistant" })),
            text("Let me"),
            chat_call("{\"secret\""),
        ],
        Api::OpenaiResponses => vec![
            named(
                json!({ "response": { "id": "resp_1", "model": "m" } }),
                "response.created",
            ),
            named(
                json!({ "output_index": 0, "item": { "id": "msg_1", "type": "message", "role": "assistant", "content": [] } }),
                "response.output_item.added",
            ),
            named(
                json!({ "output_index": 0, "item_id": "msg_1", "content_index": 0, "delta": "Let me" }),
                "response.output_text.delta",
            ),
            named(
                json!({ "output_index": 1, "item": { "id": "fc_1", "type": "function_call", "call_id": "c1", "name": "look", "arguments": "" } }),
                "response.output_item.added",
            ),
            named(
                json!({ "output_index": 1, "item_id": "fc_1", "delta": "{\"secret\"" }),
                "response.function_call_arguments.delta",
            ),
        ],
        Api::AnthropicMessages => vec![
            named(
                json!({ "message": { "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [],
                "usage": { "input_tokens": 5, "output_tokens": 1 } } }),
                "message_start",
            ),
            named(
                json!({ "index": 0, "content_block": { "type": "text", "text": "" } }),
                "content_block_start",
            ),
            named(
                json!({ "index": 0, "delta": { "type": "text_delta", "text": "Let me" } }),
                "content_block_delta",
            ),
            named(json!({ "index": 0 }), "content_block_stop"),
            named(
                json!({ "index": 1, "content_block": { "type": "tool_use", "id": "c1", "name": "look", "input": {} } }),
                "content_block_start",
            ),
            named(
                json!({ "index": 1, "delta": { "type": "input_json_delta", "partial_json": "{\"secret\"" } }),
                "content_block_delta",
            ),
        ],
        Api::Gemini => vec![
            unnamed(&json!({ "responseId": "r", "candidates": [{ "content": { "parts": [{ "text": "Let me" }] } }] })),
            unnamed(
                &json!({ "candidates": [{ "content": { "parts": [{ "functionCall": { "name": "look", "args": { "secret": 1 } } }] } }] }),
            ),
        ],
    }
}

fn plays(frames: &[String], then: &str) -> Value {
    stream(frames.iter().map(|frame| &**frame), then)
}

fn failed(outcome: &Outcome) -> (&Failure, Option<&Delivered>) {
    match outcome.result.as_ref().expect_err("must fail") {
        AttemptError::Failed { failure, delivered, .. } => (failure, delivered.as_deref()),
        AttemptError::Cancelled => panic!("cancelled"),
    }
}

fn continuable() -> How {
    How {
        continuable: true,
        ..How::default()
    }
}

#[actix::test]
async fn of_a_stream_that_breaks_in_a_call_the_text_before_it_was_delivered_and_nothing_else() {
    for client in CLIENTS {
        for api in Api::ALL {
            for then in ["close", "reset"] {
                let asking = Asking::set(api, &[plays(&begun(api), then)], "", "").await;
                let mut turn = asking.turn(client, &question(client, true));
                let outcome = asking.attempt(&mut turn, continuable()).await;
                let what = format!("{client:?} {} {then}", api.as_label());
                let (_, delivered) = failed(&outcome);
                let delivered = delivered.unwrap_or_else(|| panic!("{what}: somebody may go on"));
                assert_eq!(delivered.text, "Let me", "{what}");
                assert_eq!(delivered.sent.concat(), outcome.bytes(), "{what}");
                assert_eq!(turn.context.client.attempt_progress(), Progress::Content, "{what}");
                is_secret_free(&outcome);
            }
        }
    }
}

#[actix::test]
async fn calls_of_more_than_the_bound_are_passed_on_to_nobody() {
    const PIECE: usize = 1 << 20;
    for (client, pieces, fits) in [
        (Endpoint::Chat, 7, true),
        (Endpoint::Chat, 8, false),
        (Endpoint::Messages, 7, true),
        (Endpoint::Messages, 8, false),
    ] {
        let mut call = plays(&[text("Let me"), chat_call("")], "close");
        let more = delta(&json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "s".repeat(PIECE) } }] }));
        let frames = call["frames"].as_array_mut().expect("frames");
        frames.push(json!([0, more, pieces]));
        frames.extend([json!([0, ended()]), json!([0, DONE])]);
        let asking = Asking::set(Api::OpenaiChat, &[call], "", "").await;
        let outcome = asking.ask(client, true, continuable()).await;
        is_secret_free(&outcome);
        if fits {
            assert_eq!(arguments(&outcome.held().pieces)[0].len(), pieces * PIECE);
            continue;
        }
        let (failure, delivered) = failed(&outcome);
        assert_eq!((failure.reason, failure.cut), (Reason::Unclassified, Cut::TooLarge));
        assert_eq!(delivered.map(|it| &*it.text), Some("Let me"));
    }
}

fn ended() -> String {
    frame(&json!({ "index": 0, "delta": {}, "finish_reason": "tool_calls" }))
}

#[actix::test]
async fn a_client_hears_that_somebody_is_at_work_while_a_call_takes_long_to_make() {
    let more = delta(&json!({ "tool_calls": [{ "index": 0, "function": { "arguments": " " } }] }));
    let mut call = plays(&[], "close");
    call["frames"] = json!([
        [0, format!("{}{}", text("Let me"), chat_call("{}"))],
        [25_000, more],
        [4_000, more],
        [25_000, more],
        [0, ended()],
        [0, DONE]
    ]);
    let asking = Asking::set(Api::OpenaiChat, &[call], "", "").await;
    let how = How {
        hurried: true,
        ..How::default()
    };
    let outcome = asking.ask(Endpoint::Chat, true, how).await;
    let alive = outcome
        .frames
        .iter()
        .filter(|frame| matches!(frame, ClientFrame::KeepAlive));
    assert_eq!(alive.count(), 2);
    assert_eq!(arguments(&outcome.held().pieces), ["{}   "]);
}

/// A whole stream with text and a call.
fn whole() -> Vec<String> {
    let call = chat_call("{\"secret\":1}");
    vec![text("Let me"), call, text("Done."), ended(), DONE.to_owned()]
}

#[actix::test]
async fn where_answers_are_held_until_they_are_whole_those_that_call_tools_stay_held() {
    let asking = Asking::set(
        Api::OpenaiChat,
        &[plays(&whole(), "close")],
        "",
        "on_broken_stream: hold",
    )
    .await;
    let outcome = asking.ask(Endpoint::Chat, true, How::default()).await;
    assert!(outcome.frames.is_empty());
    let held = outcome.held();
    assert!(held.head.is_some() && held.sent.is_empty());
    assert_eq!(held.raw.concat(), whole()[..4].concat().as_bytes());
    let texts = held.pieces.iter().filter(|piece| matches!(piece, Piece::Text { .. }));
    assert_eq!(texts.count(), 2, "{:?}", held.pieces);
}

#[actix::test]
async fn what_comes_behind_a_call_is_held_with_it() {
    let asking = Asking::set(Api::OpenaiChat, &[plays(&whole(), "close")], "", "").await;
    let outcome = asking.ask(Endpoint::Chat, true, How::default()).await;
    assert_eq!(outcome.bytes(), whole()[0].as_bytes());
    assert_eq!(outcome.held().raw.concat(), whole()[1..4].concat().as_bytes());
    assert_eq!(outcome.answered().last.as_deref(), Some(DONE.as_bytes()));
}

#[actix::test]
async fn frames_that_nobody_is_sent_are_not_held_either() {
    let mut frames = whole();
    frames.insert(2, "data: {nonsense\n\n".to_owned());
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12 } });
    frames.insert(5, unnamed(&usage));
    let asking = Asking::set(Api::OpenaiChat, &[plays(&frames, "close")], "ask_usage: true", "").await;
    let outcome = asking.ask(Endpoint::Chat, true, How::default()).await;
    assert_eq!(outcome.held().raw.concat(), whole()[1..4].concat().as_bytes());
    let answered = outcome.answered();
    assert_eq!((answered.malformed, answered.usage.map(|it| it.input)), (1, Some(5)));
    let asking = Asking::set(
        Api::OpenaiChat,
        &[plays(&frames, "close")],
        "",
        "on_malformed_frame: fail",
    )
    .await;
    let outcome = asking.ask(Endpoint::Chat, true, continuable()).await;
    assert_eq!(failed(&outcome).1.map(|it| &*it.text), Some("Let me"));
    is_secret_free(&outcome);
}

#[actix::test]
async fn a_call_in_any_choice_is_held_with_all_that_follows() {
    let says = |choice: u32, delta: Value| frame(&json!({ "index": choice, "delta": delta, "finish_reason": null }));
    let call = json!({ "tool_calls": [{ "index": 0, "id": "c1", "function": { "name": "look", "arguments": "{\"secret\":1}" } }] });
    let ends = |choice: u32, why: &str| frame(&json!({ "index": choice, "delta": {}, "finish_reason": why }));
    let frames = [
        says(0, json!({ "content": "One" })),
        says(1, call.clone()),
        says(0, json!({ "content": " and" })),
        ends(0, "stop"),
        ends(1, "tool_calls"),
        DONE.to_owned(),
    ];
    let message = json!({ "role": "assistant", "content": null, "tool_calls": call["tool_calls"] });
    let body = json!({ "id": "c", "object": "chat.completion", "choices": [
        { "index": 0, "message": { "role": "assistant", "content": "One" }, "finish_reason": "stop" },
        { "index": 1, "message": message, "finish_reason": "tool_calls" }] });
    let whole = json!({ "headers": { "content-type": "application/json" }, "body": body });
    for (stream, call) in [(true, plays(&frames, "close")), (false, whole)] {
        let asking = Asking::set(Api::OpenaiChat, &[call], "", "").await;
        let mut body = question(Endpoint::Chat, stream);
        body["n"] = json!(2);
        let mut turn = asking.turn(Endpoint::Chat, &body);
        let outcome = asking.attempt(&mut turn, How::default()).await;
        is_secret_free(&outcome);
        let calls = outcome.held().pieces.iter();
        let mut calls = calls.filter(|piece| matches!(piece, Piece::ToolCall { .. }));
        assert!(matches!(calls.next(), Some(Piece::ToolCall { choice: 1, .. })));
        let said = if stream { "One and" } else { "One" };
        assert_eq!(outcome.answered().said, [Part::Text(said.to_owned())]);
    }
}

#[actix::test]
async fn a_call_that_no_piece_tells_of_is_passed_on_to_nobody() {
    let errand = json!({ "id": "ls_1", "type": "local_shell_call", "call_id": "c1", "status": "completed",
        "action": { "type": "exec", "command": ["secret"] } });
    let response =
        json!({ "id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [errand] });
    let streamed = [
        named(
            json!({ "response": { "id": "resp_1", "model": "m" } }),
            "response.created",
        ),
        named(
            json!({ "output_index": 0, "item": errand }),
            "response.output_item.done",
        ),
        named(json!({ "response": response }), "response.completed"),
    ];
    let whole = |body: Value| json!({ "headers": { "content-type": "application/json" }, "body": body });
    let nameless =
        json!({ "tool_calls": [{ "index": 0, "id": "c1", "type": "custom", "custom": { "input": "secret" } }] });
    let message = json!({ "role": "assistant", "content": null, "tool_calls": nameless["tool_calls"] });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "tool_calls" });
    for (client, stream, call) in [
        (Endpoint::Responses, true, plays(&streamed, "close")),
        (Endpoint::Responses, false, whole(response)),
        (
            Endpoint::Chat,
            true,
            plays(&[delta(&nameless), ended(), DONE.to_owned()], "close"),
        ),
        (Endpoint::Chat, false, whole(json!({ "id": "c", "choices": [choice] }))),
    ] {
        let asking = Asking::set(client.api(), &[call], "", "").await;
        let outcome = asking.ask(client, stream, How::default()).await;
        assert_eq!(failed(&outcome).0.reason, Reason::Format, "{client:?} {stream}");
        assert!(outcome.frames.is_empty(), "{client:?} {stream}");
    }
}

#[actix::test]
async fn a_call_that_only_the_response_at_the_end_has_is_passed_on_to_nobody() {
    let item = |at: u32, secret: &str| json!({ "id": format!("fc_{at}"), "type": "function_call", "call_id": format!("c{at}"), "name": "look", "arguments": secret });
    let streamed = [
        named(
            json!({ "response": { "id": "resp_1", "model": "m" } }),
            "response.created",
        ),
        named(
            json!({ "output_index": 0, "item": item(0, "{}") }),
            "response.output_item.done",
        ),
        named(
            json!({ "response": { "id": "resp_1", "status": "completed", "output": [item(0, "{}"), item(1, "secret")] } }),
            "response.completed",
        ),
    ];
    let asking = Asking::set(Api::OpenaiResponses, &[plays(&streamed, "close")], "", "").await;
    let outcome = asking.ask(Endpoint::Responses, true, How::default()).await;
    assert_eq!(failed(&outcome).0.reason, Reason::Format);
    assert!(outcome.frames.is_empty());
}

#[actix::test]
async fn a_call_without_an_id_is_given_one_that_everybody_sees() {
    let call = json!({ "tool_calls": [{ "index": 0, "function": { "name": "look", "arguments": "{}" } }] });
    let frames = [delta(&call), ended(), DONE.to_owned()];
    let asking = Asking::set(Api::OpenaiChat, &[plays(&frames, "close")], "", "").await;
    let outcome = asking.ask(Endpoint::Chat, true, How::default()).await;
    let [Part::ToolCall(said)] = &outcome.answered().said[..] else {
        panic!("{:?}", outcome.answered().said);
    };
    let ids = outcome.held().pieces.iter().filter_map(|piece| match piece {
        Piece::ToolCall { id, .. } => id.as_deref(),
        _ => None,
    });
    assert_eq!(ids.collect::<Vec<_>>(), [&*said.id]);
    assert!(said.id.starts_with("c1_0_") && said.id.len() <= 40, "{}", said.id);
}

#[actix::test]
async fn an_answer_that_is_gone_on_with_holds_what_is_new_and_reports_only_that() {
    for api in Api::ALL {
        let text = "Once upon a time there was a king";
        let call = json!({ "answer": { "text": format!("{text} who called."), "reasoning": "hm",
            "tool_calls": [{ "name": "look", "arguments": { "at": "secret" } }] } });
        let asking = Asking::set(api, &[call], "", "").await;
        let mut turn = asking.turn(Endpoint::Chat, &question(Endpoint::Chat, true));
        // the client has read the beginning
        turn.context.client.note(Progress::Content);
        let how = How {
            continuation: Some(Continuation {
                text: text.to_owned(),
                ..Continuation::default()
            }),
            ..How::default()
        };
        let outcome = asking.attempt(&mut turn, how).await;
        assert!(matches!(outcome.frames.first(), Some(ClientFrame::Seam(seam)) if seam.continued));
        let spoken: Vec<&Piece> = outcome
            .frames
            .iter()
            .filter_map(|frame| match frame {
                ClientFrame::Pieces(pieces) => Some(pieces),
                _ => None,
            })
            .flatten()
            .collect();
        assert!(
            !spoken
                .iter()
                .any(|piece| matches!(piece, Piece::ToolCall { .. } | Piece::Reasoning { .. }))
        );
        let [Part::Reasoning(thought), Part::Text(said), Part::ToolCall(_)] = &outcome.answered().said[..] else {
            panic!("{:?}", outcome.answered().said);
        };
        assert_eq!((&*thought.text, &**said), ("hm", " who called."));
        assert_eq!(outcome.held().head, None);
    }
}
