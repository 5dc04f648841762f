//! Nobody can answer: one walk along the chain, one cause, one status, and clients that do not make it worse.

use std::time::Duration;

use serde_json::{Value, json};
use understudy_messages::events::Decision;
use understudy_messages::failure::Reason;
use understudy_messages::ids::ModelRef;
use understudy_messages::turn::TurnOutcome;

use crate::stage::{DONE, Reply, Stage, delta, lead, question, refusal, second, stream};

/// A turn of which nobody could make anything.
struct Exhausted {
    stage: Stage,
    reply: Reply,
}

/// Plays a turn whose lead and second do this.
async fn exhaust(calls: [Value; 2], streams: bool) -> Exhausted {
    let [lead, second] = calls.map(|call| json!({ "calls": [call] }));
    let stage = Stage::set(json!({ "a/m": lead, "b/m": second })).await;
    let question = question(streams);
    let reply = stage.in_time(Duration::from_millis(100), stage.ask(&question)).await;
    Exhausted { stage, reply }
}

impl Exhausted {
    /// Checks what the client is told; `reason` is the one cause, or `mixed`.
    async fn told(self, status: u16, code: &str, reason: &str) -> Reply {
        let (reply, stage) = (self.reply, &self.stage);
        let error = &reply.json()["error"];
        assert_eq!(
            (reply.status, &error["code"], &error["reason"]),
            (status, &json!(code), &json!(reason))
        );
        assert!(error["message"].is_string() && error["type"].is_string() && error["param"].is_null());
        assert_eq!(reply.header("content-type"), "application/json");
        assert_eq!(reply.header("x-should-retry"), "false");
        assert_eq!(one_walk(stage), [lead(), second()]);

        let told = stage.told().await;
        assert_eq!(
            reply.header("x-understudy-attempts"),
            told.end.attempts.len().to_string()
        );
        assert!(
            matches!(
                told.end.outcome,
                TurnOutcome::Failed {
                    after_content: false,
                    ..
                }
            ),
            "{told:?}"
        );
        assert_eq!(told.decided(Decision::FallbackModel).len(), 1);
        assert_eq!(told.decided(Decision::SurfaceError).len(), 1);
        let scrape = stage.gateway.scrape().await;
        let failed = [("outcome", "error"), ("served_by", "none")];
        assert_eq!(scrape.count("understudy_turns_total", &failed), 1);
        assert_eq!(scrape.count("understudy_streams_total", &[]), 0, "no stream had begun");
        reply
    }
}

/// Who was asked, tries in a row as one.
fn one_walk(stage: &Stage) -> Vec<ModelRef> {
    let journal = stage.simulator.journal();
    let mut asked: Vec<_> = journal.read(|entries| entries.records().map(|call| call.target.clone()).collect());
    asked.dedup();
    asked
}

async fn one_cause(call: Value, status: u16, code: &str, reason: Reason) {
    let exhausted = exhaust([call.clone(), call], false).await;
    exhausted.told(status, code, reason.as_label()).await;
}

#[tokio::test]
async fn rate_limits_everywhere_are_a_429() {
    one_cause(
        refusal(429, "rate_limit_exceeded"),
        429,
        "rate_limit_exceeded",
        Reason::RateLimit,
    )
    .await;
}

#[tokio::test]
async fn unpaid_accounts_are_a_402() {
    one_cause(
        refusal(429, "insufficient_quota"),
        402,
        "insufficient_quota",
        Reason::Billing,
    )
    .await;
}

#[tokio::test]
async fn overload_everywhere_is_a_503() {
    one_cause(
        refusal(503, "server_is_overloaded"),
        503,
        "server_is_overloaded",
        Reason::Overloaded,
    )
    .await;
}

#[tokio::test]
async fn broken_providers_are_a_502() {
    one_cause(refusal(500, "server_error"), 502, "upstream_error", Reason::ServerError).await;
}

#[tokio::test]
async fn refused_credentials_are_ours_and_so_a_502() {
    one_cause(
        refusal(401, "invalid_api_key"),
        502,
        "upstream_credentials_refused",
        Reason::Auth,
    )
    .await;
}

#[tokio::test]
async fn models_that_nobody_serves_are_a_404() {
    one_cause(
        refusal(404, "model_not_found"),
        404,
        "model_not_found",
        Reason::ModelNotFound,
    )
    .await;
}

#[tokio::test]
async fn lost_connections_are_a_504() {
    let lost = json!({ "head": false, "body": "", "then": "reset" });
    one_cause(lost, 504, "upstream_timeout", Reason::Timeout).await;
}

#[tokio::test]
async fn several_causes_are_a_503() {
    let calls = [refusal(503, "server_is_overloaded"), refusal(401, "invalid_api_key")];
    exhaust(calls, false)
        .await
        .told(503, "all_models_failed", "mixed")
        .await;
}

#[tokio::test]
async fn a_stream_that_never_began_is_refused_like_a_whole_answer() {
    let preamble = delta(&json!({ "role": "assistant" }));
    let error = "data: {\"error\":{\"message\":\"busy\",\"type\":\"overloaded_error\"}}\n\n";
    let call = stream([&*preamble, error], "close");
    exhaust([call.clone(), call], true)
        .await
        .told(503, "server_is_overloaded", "overloaded")
        .await;
    let empty = stream([&*preamble, DONE], "close");
    exhaust([empty.clone(), empty], true)
        .await
        .told(502, "empty_response", "empty_response")
        .await;
}

#[tokio::test]
async fn the_provider_that_was_asked_last_says_what_was_wrong_with_the_request() {
    let mut call = refusal(400, "invalid_value");
    call["body"]["error"]["message"] = json!("'temperature' must be at most 2");
    let stage = Stage::set(json!({ "a/m": { "calls": [call] } })).await;
    let reply = stage.ask(&question(false)).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["error"]["message"], "'temperature' must be at most 2");
    assert_eq!(reply.json()["error"]["code"], "invalid_value");
    assert_eq!(reply.json()["error"]["reason"], "format");
}

#[tokio::test]
async fn a_client_is_told_when_the_first_limit_ends() {
    let limited = |seconds: &str| {
        let mut call = refusal(429, "rate_limit_exceeded");
        call["headers"]["retry-after"] = json!(seconds);
        call
    };
    let reply = exhaust([limited("40"), limited("20")], false).await;
    let reply = reply.told(429, "rate_limit_exceeded", "rate_limit").await;
    let seconds: u64 = reply.header("retry-after").parse().expect("whole seconds");
    assert!((1..=20).contains(&seconds), "{seconds}");
}
