//! What goes wrong before content moves the turn on to the second, unseen by the client but for the headers.

use std::time::Duration;

use serde_json::{Value, json};
use understudy_messages::events::Decision;
use understudy_messages::failure::{Cut, Reason};
use understudy_messages::turn::TurnOutcome;

use crate::stage::{DONE, Reply, SECOND_SAYS, Stage, delta, lead, question, refusal, second, stream};

/// What the failed attempt is to be booked as.
type Cause = (Reason, Option<u16>, Cut);

/// Plays a turn whose lead does `call`, and checks that the second answers and everyone tells the same story.
async fn moves_on(call: Value, streams: bool, cause: Cause) {
    let stage = Stage::with_second(call, "defaults: { timeouts: { connect: 1s } }\n").await;
    let reply = stage.ask(&question(streams)).await;
    tells_of_the_second(&stage, &reply, cause).await;
}

async fn tells_of_the_second(stage: &Stage, reply: &Reply, (reason, status, cut): Cause) {
    assert_eq!(reply.status, 200, "{}", reply.text());
    let told = stage.told().await;
    let attempts = told.end.attempts.len();
    assert_eq!(reply.header("x-understudy-served-by"), "b/m");
    assert_eq!(reply.header("x-understudy-attempts"), attempts.to_string());
    assert_eq!(spoken(reply), SECOND_SAYS);
    assert_eq!(told.end.outcome, TurnOutcome::Completed);
    assert_eq!(told.end.served_by, Some(second()));
    assert_eq!(stage.calls(&second()), 1);
    let [moved] = told.decided(Decision::FallbackModel)[..] else {
        panic!("one move, not {:?}", told.failovers);
    };
    assert_eq!((&moved.from, moved.to.as_ref()), (&lead(), Some(&second())));
    assert_eq!((moved.reason, moved.status, moved.cut), (reason, status, cut));
    assert_eq!(told.decided(Decision::SurfaceError).len(), 0);
    assert_eq!(
        told.failovers.len() + 1,
        attempts,
        "one decision for each failed attempt"
    );
    counted(stage, reason, attempts as u64).await;
}

async fn counted(stage: &Stage, reason: Reason, attempts: u64) {
    let scrape = stage.gateway.scrape().await;
    let moved = [
        ("from_provider", "a"),
        ("from_model", "m"),
        ("to_provider", "b"),
        ("to_model", "m"),
        ("reason", reason.as_label()),
        ("decision", "fallback_model"),
    ];
    assert_eq!(scrape.count("understudy_failover_total", &moved), 1);
    assert_eq!(scrape.count("understudy_failover_total", &moved[5..]), 1);
    let rescued = [("outcome", "ok"), ("served_by", "fallback")];
    assert_eq!(scrape.count("understudy_turns_total", &rescued), 1);
    assert_eq!(scrape.count("understudy_turns_total", &[]), 1);
    let failed = [("provider", "a"), ("outcome", "error")];
    assert_eq!(scrape.count("understudy_model_attempts_total", &failed), attempts - 1);
    assert_eq!(scrape.count("understudy_model_attempts_total", &[]), attempts);
    assert_eq!(scrape.count("understudy_failover_delay_seconds_count", &[]), 1);
}

/// The text of an answer, whole or streamed.
fn spoken(reply: &Reply) -> String {
    if !reply.header("content-type").starts_with("text/event-stream") {
        return reply.json()["choices"][0]["message"]["content"]
            .as_str()
            .expect("text")
            .to_owned();
    }
    let body = reply.text();
    assert!(body.ends_with(DONE), "{body}");
    let chunks = body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]");
    let chunks = chunks.map(|data| serde_json::from_str::<Value>(data).expect("JSON"));
    chunks
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn an_overloaded_lead_is_replaced() {
    let cause = (Reason::Overloaded, Some(503), Cut::Answered);
    moves_on(refusal(503, "server_is_overloaded"), false, cause).await;
    moves_on(refusal(503, "server_is_overloaded"), true, cause).await;
}

#[tokio::test]
async fn a_rate_limited_lead_is_replaced() {
    let cause = (Reason::RateLimit, Some(429), Cut::Answered);
    moves_on(refusal(429, "rate_limit_exceeded"), true, cause).await;
}

#[tokio::test]
async fn a_lead_that_refuses_the_credential_is_replaced() {
    let cause = (Reason::Auth, Some(401), Cut::Answered);
    moves_on(refusal(401, "invalid_api_key"), false, cause).await;
}

#[tokio::test]
async fn a_lead_that_refuses_the_connection_is_replaced() {
    moves_on(
        json!({ "connect": "refuse" }),
        true,
        (Reason::Timeout, None, Cut::Refused),
    )
    .await;
}

#[tokio::test]
async fn a_lead_that_answers_no_connect_is_replaced() {
    moves_on(
        json!({ "connect": "blackhole" }),
        false,
        (Reason::Timeout, None, Cut::Refused),
    )
    .await;
}

#[tokio::test]
async fn a_connection_reset_before_the_first_byte_moves_on() {
    let call = json!({ "head": false, "body": "", "then": "reset" });
    moves_on(call, true, (Reason::Timeout, None, Cut::LostBeforeFirstByte)).await;
}

#[tokio::test]
async fn a_stream_cut_before_content_moves_on() {
    let preamble = delta(&json!({ "role": "assistant", "content": "" }));
    moves_on(stream([&*preamble], "reset"), true, (Reason::Timeout, None, Cut::Lost)).await;
}

#[tokio::test]
async fn a_stream_that_ends_without_content_moves_on() {
    let preamble = delta(&json!({ "role": "assistant" }));
    moves_on(
        stream([&*preamble, DONE], "close"),
        true,
        (Reason::EmptyResponse, None, Cut::CleanEnd),
    )
    .await;
}

#[tokio::test]
async fn truncated_json_moves_on() {
    let call = json!({ "headers": { "content-type": "application/json" }, "body": "{\"choices\":[{\"mess" });
    moves_on(call, false, (Reason::Timeout, None, Cut::CleanEnd)).await;
}

#[tokio::test]
async fn a_whole_answer_cut_on_its_way_moves_on() {
    let call =
        json!({ "headers": { "content-type": "application/json" }, "body": "{\"choices\":[{\"mess", "then": "reset" });
    moves_on(call, false, (Reason::Timeout, None, Cut::Lost)).await;
}

#[tokio::test]
async fn an_error_as_first_event_of_a_good_stream_moves_on() {
    let preamble = delta(&json!({ "role": "assistant" }));
    let error = "data: {\"error\":{\"message\":\"busy\",\"type\":\"service_unavailable_error\",\"code\":\"server_is_overloaded\"}}\n\n";
    let cause = (Reason::Overloaded, Some(503), Cut::Answered);
    moves_on(stream([error], "close"), true, cause).await;
    moves_on(stream([&*preamble, error], "close"), true, cause).await;
}

#[tokio::test]
async fn a_whole_answer_where_a_stream_was_asked_for_moves_on() {
    let answer = json!({ "choices": [{ "index": 0, "finish_reason": "stop", "message": { "content": "whole" } }] });
    let call = json!({ "headers": { "content-type": "application/json" }, "body": answer });
    moves_on(call, true, (Reason::Unknown, None, Cut::Answered)).await;
}

#[tokio::test]
async fn a_stream_where_a_whole_answer_was_asked_for_moves_on() {
    let call = stream(
        [&*crate::stage::text("streamed"), &crate::stage::finish(), DONE],
        "close",
    );
    moves_on(call, false, (Reason::Unknown, None, Cut::Answered)).await;
}

#[tokio::test]
async fn a_friendly_page_is_not_an_answer() {
    let call = json!({ "headers": { "content-type": "text/html" }, "body": "<h1>We will be back soon</h1>" });
    moves_on(call, false, (Reason::Unclassified, None, Cut::CleanEnd)).await;
}

#[tokio::test]
async fn a_stall_before_the_first_content_moves_on() {
    let comment = ": still here\n\n";
    for call in [json!({ "delay_ms": 600_000 }), stream([comment], "hang")] {
        let stage = Stage::with_second(call, "").await;
        let question = question(true);
        let asked = stage.ask(&question);
        let stalled = async {
            stage.called(&lead(), 1).await;
            stage.clock.advance(Duration::from_secs(31));
        };
        let (reply, ()) = tokio::join!(asked, stalled);
        let cause = (Reason::Timeout, None, Cut::FirstContentLimit);
        tells_of_the_second(&stage, &reply, cause).await;
        stage.all_ended().await;
    }
}

#[tokio::test]
async fn a_whole_answer_that_takes_too_long_moves_on() {
    let stage = Stage::with_second(json!({ "delay_ms": 600_000 }), "").await;
    let question = question(false);
    let stalled = async {
        stage.called(&lead(), 1).await;
        stage.clock.advance(Duration::from_secs(121));
    };
    let (reply, ()) = tokio::join!(stage.ask(&question), stalled);
    let cause = (Reason::Timeout, None, Cut::WholeLimit);
    tells_of_the_second(&stage, &reply, cause).await;
}
