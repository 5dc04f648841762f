//! A stream that breaks after content under the policy `error`: a protocol-right error ending, never a truncated success,
//! and no second voice.

use std::time::Duration;

use serde_json::{Value, json};
use understudy_messages::events::Decision;
use understudy_messages::failure::Reason;
use understudy_messages::turn::TurnOutcome;

use crate::stage::{DONE, Reply, Stage, delta, finish, question, read, second, stream, text};

const ERROR: &str = "agents: { default: { model: main, on_broken_stream: error } }\n";

/// Checks an ending: what had come, one error frame, nothing else; booked as `end`.
async fn ends_in_an_error(stage: &Stage, reply: &Reply, begun: &str, reason: Reason, end: &str) {
    let body = reply.text();
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("x-understudy-served-by"), "a/m");
    let rest = body
        .strip_prefix(begun)
        .unwrap_or_else(|| panic!("what had come is not whole in {body}"));
    let data = rest.strip_prefix("data: ").and_then(|rest| rest.strip_suffix("\n\n"));
    let error: Value = serde_json::from_str(data.expect("one frame")).expect("JSON");
    assert_eq!(error["error"]["reason"], reason.as_label());
    assert!(error["error"]["message"].is_string() && error["error"]["code"].is_string());
    assert!(!body.contains("[DONE]"), "a broken answer must not look whole");

    let told = stage.told().await;
    let after_content = true;
    assert_eq!(told.end.outcome, TurnOutcome::Failed { reason, after_content });
    assert_eq!(told.decided(Decision::SurfaceError).len(), 1);
    assert_eq!(told.failovers.len(), 1, "nothing is tried again after content");
    assert_eq!(stage.calls(&second()), 0);
    let scrape = stage.gateway.scrape().await;
    assert_eq!(scrape.count("understudy_streams_total", &[("end", end)]), 1);
    assert_eq!(scrape.count("understudy_streams_total", &[]), 1);
    let failed = [("outcome", "error"), ("served_by", "none")];
    assert_eq!(scrape.count("understudy_turns_total", &failed), 1);
}

async fn breaks(frames: &[&str], begun: usize, then: &str, reason: Reason, end: &str) {
    let stage = Stage::with_second(stream(frames.iter().copied(), then), ERROR).await;
    let reply = stage.ask(&question(true)).await;
    ends_in_an_error(&stage, &reply, &frames[..begun].concat(), reason, end).await;
}

#[tokio::test]
async fn a_stream_that_ends_in_mid_answer_is_no_success() {
    breaks(
        &[&text("once"), &text(" upon")],
        2,
        "close",
        Reason::Timeout,
        "truncated",
    )
    .await;
}

#[tokio::test]
async fn a_stream_that_is_reset_in_mid_answer_is_no_success() {
    breaks(
        &[&text("once"), &text(" upon")],
        2,
        "reset",
        Reason::Timeout,
        "truncated",
    )
    .await;
}

#[tokio::test]
async fn a_tool_call_that_breaks_off_is_no_success() {
    let call = json!({ "tool_calls": [{ "index": 0, "id": "t1", "type": "function",
        "function": { "name": "look", "arguments": "{\"at" } }] });
    breaks(&[&delta(&call)], 1, "reset", Reason::Timeout, "truncated").await;
}

#[tokio::test]
async fn a_providers_error_in_mid_answer_is_told_in_our_words() {
    let error = "data: {\"error\":{\"message\":\"secret words\",\"type\":\"overloaded_error\",\"code\":null}}\n\n";
    for named in ["", "event: error\n"] {
        let error = [named, error].concat();
        let frames = [&*text("once"), &error];
        let stage = Stage::with_second(stream(frames, "close"), ERROR).await;
        let reply = stage.ask(&question(true)).await;
        let ending = "error_after_content";
        ends_in_an_error(&stage, &reply, frames[0], Reason::Overloaded, ending).await;
        assert!(!reply.text().contains("secret words"));
    }
}

#[tokio::test]
async fn a_stream_that_falls_silent_ends_at_the_idle_limit_whatever_comments_say() {
    let comments = json!([[0, text("once")], [20_000, ": still here\n\n", 6]]);
    let call = json!({ "headers": { "content-type": "text/event-stream" }, "frames": comments, "then": "hang" });
    let stage = Stage::with_second(call, ERROR).await;
    let response = stage.gateway.chat(&question(true), |request| request).await;
    let began = stage.clock.now();
    let reply = stage.in_time(Duration::from_millis(100), read(response)).await;
    let took = stage.clock.now() - began;
    assert!((55..70).contains(&took.as_secs()), "60 s of silence, not {took:?}");
    let comments = reply.text().matches(": still here\n\n").count();
    let begun = text("once") + &": still here\n\n".repeat(comments);
    ends_in_an_error(&stage, &reply, &begun, Reason::Timeout, "idle_timeout").await;
    stage.all_ended().await;
}

#[tokio::test]
async fn a_malformed_frame_is_left_out_and_counted() {
    let frames = [
        &*text("once"),
        "data: {\"choices\":[{\"in\n\n",
        &text(" upon"),
        &finish(),
        DONE,
    ];
    let stage = Stage::with_second(stream(frames, "close"), "").await;
    let reply = stage.ask(&question(true)).await;
    assert_eq!(reply.text(), [frames[0], frames[2], frames[3], frames[4]].concat());
    assert_eq!(stage.told().await.end.outcome, TurnOutcome::Completed);
    let scrape = stage.gateway.scrape().await;
    assert_eq!(
        scrape.count("understudy_stream_parse_faults_total", &[("provider", "a")]),
        1
    );
    assert_eq!(scrape.count("understudy_streams_total", &[("end", "ok")]), 1);
}

#[tokio::test]
async fn a_reset_after_the_finish_reason_harms_nobody() {
    let frames = [&*text("once"), &finish()];
    let stage = Stage::with_second(stream(frames, "reset"), "").await;
    let reply = stage.ask(&question(true)).await;
    assert_eq!(reply.text(), [frames[0], frames[1], DONE].concat());
    assert_eq!(stage.told().await.end.outcome, TurnOutcome::Completed);
}

#[tokio::test]
async fn reasoning_is_no_answer_yet_so_the_turn_still_moves_on() {
    let reasoning = delta(&json!({ "reasoning_content": "let me see" }));
    let stage = Stage::with_second(stream([&*reasoning], "reset"), "").await;
    let reply = stage.ask(&question(true)).await;
    assert!(
        reply.text().starts_with(&reasoning) && reply.text().ends_with(DONE),
        "{}",
        reply.text()
    );
    assert_eq!(reply.header("x-understudy-served-by"), "a/m", "who opened the stream");
    let told = stage.told().await;
    assert_eq!(told.end.outcome, TurnOutcome::Completed);
    assert_eq!(told.end.served_by, Some(second()));
}

#[tokio::test]
async fn an_idle_limit_shorter_than_the_first_content_limit_is_kept() {
    let call = stream([&*text("hello")], "hang");
    let limits = "defaults: { timeouts: { first_content_last: 120s, idle: 2s } }\n";
    let stage = Stage::set_with(json!({ "a/m": { "calls": [call] } }), limits).await;
    let response = stage.gateway.chat(&question(true), |request| request).await;
    let began = stage.clock.now();
    let reply = stage.in_time(Duration::from_millis(100), read(response)).await;
    assert!(reply.text().contains("timeout"), "{}", reply.text());
    let waited = stage.clock.now() - began;
    assert!(waited < Duration::from_secs(20), "{waited:?}");
}
