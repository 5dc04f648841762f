//! What ends a turn from outside: the caller's deadline and the turn's own budget. Neither is a provider's fault.

use std::time::Duration;

use serde_json::{Value, json};
use understudy_messages::failure::{CancelCause, Reason};
use understudy_messages::turn::{AttemptOutcome, TurnOutcome};
use understudy_providers::sim::entries::EndedBy;

use crate::stage::{DONE, Reply, Stage, lead, question, read, second, stream, text};

fn silent() -> Value {
    json!({ "delay_ms": 600_000 })
}

/// Asks, and moves the clock by `after` once the lead has the request.
async fn out_of_time(stage: &Stage, streams: bool, after: Duration, deadline: Option<&str>) -> Reply {
    let question = question(streams);
    let asked = stage.ask_as(&question, |request| match deadline {
        Some(deadline) => request.header("x-understudy-timeout-ms", deadline),
        None => request,
    });
    let passes = async {
        stage.called(&lead(), 1).await;
        stage.clock.advance(after);
    };
    tokio::join!(asked, passes).0
}

/// Checks that the turn ended at once, at the lead, with this outcome, and that nobody was blamed.
async fn ended(stage: &Stage, outcome: TurnOutcome, result: &str) {
    let told = stage.told().await;
    assert_eq!(told.end.outcome, outcome);
    assert_eq!(told.failovers.len(), 0);
    let attempts: Vec<_> = told.end.attempts.iter().map(|attempt| &attempt.outcome).collect();
    assert_eq!(attempts, [&AttemptOutcome::Cancelled]);
    stage.all_ended().await;
    let journal = stage.simulator.journal();
    let by = journal.read(|entries| {
        entries
            .records()
            .map(|call| call.end.map(|end| end.by))
            .collect::<Vec<_>>()
    });
    assert_eq!(by, [Some(EndedBy::Peer)], "the provider is left at once");
    stage.calls_are(&second(), 0);
    let scrape = stage.gateway.scrape().await;
    let labels = [("outcome", result), ("served_by", "none")];
    assert_eq!(scrape.count("understudy_turns_total", &labels), 1);
    assert_eq!(scrape.count("understudy_failover_total", &[]), 0);
}

fn is_a_timeout(reply: &Reply) {
    let error = &reply.json()["error"];
    assert_eq!((reply.status, &error["reason"]), (504, &json!("timeout")));
    assert_eq!(reply.header("x-should-retry"), "false");
    assert_eq!(reply.header("x-understudy-attempts"), "1");
}

#[tokio::test]
async fn the_callers_deadline_ends_the_turn_as_cancelled() {
    for streams in [false, true] {
        let stage = Stage::with_second(silent(), "").await;
        let reply = out_of_time(&stage, streams, Duration::from_secs(20), Some("20000")).await;
        is_a_timeout(&reply);
        assert!(reply.text().contains("caller's deadline"));
        let cause = CancelCause::CallerDeadline;
        ended(&stage, TurnOutcome::Cancelled { cause }, "cancelled").await;
    }
}

#[tokio::test]
async fn the_turns_budget_ends_it_as_failed() {
    let stage = Stage::with_second(silent(), "defaults: { timeouts: { turn: 100s } }\n").await;
    let reply = out_of_time(&stage, false, Duration::from_secs(100), None).await;
    is_a_timeout(&reply);
    let after_content = false;
    let reason = Reason::Timeout;
    ended(&stage, TurnOutcome::Failed { reason, after_content }, "error").await;
}

#[tokio::test]
async fn a_callers_deadline_beyond_the_budget_does_not_stretch_it() {
    let stage = Stage::with_second(silent(), "defaults: { timeouts: { turn: 100s } }\n").await;
    let reply = out_of_time(&stage, false, Duration::from_secs(100), Some("4000000")).await;
    is_a_timeout(&reply);
    let outcome = stage.told().await.end.outcome;
    assert!(
        matches!(
            outcome,
            TurnOutcome::Failed {
                reason: Reason::Timeout,
                ..
            }
        ),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_deadline_in_mid_answer_ends_the_stream_with_an_error() {
    let stage = Stage::with_second(stream([&*text("once")], "hang"), "").await;
    let question = question(true);
    let deadline = |request: reqwest::RequestBuilder| request.header("x-understudy-timeout-ms", "20000");
    let response = stage.gateway.chat(&question, deadline).await;
    stage.clock.advance(Duration::from_secs(20));
    let reply = read(response).await;
    assert!(
        reply.text().starts_with(&text("once")) && reply.text().contains("caller's deadline"),
        "{}",
        reply.text()
    );
    assert!(!reply.text().contains(DONE));
    let cause = CancelCause::CallerDeadline;
    ended(&stage, TurnOutcome::Cancelled { cause }, "cancelled").await;
    let scrape = stage.gateway.scrape().await;
    assert_eq!(scrape.count("understudy_streams_total", &[("end", "cancelled")]), 1);
}

#[tokio::test]
async fn a_deadline_also_counts_while_the_session_is_busy() {
    let stage = Stage::with_second(silent(), "").await;
    let question = question(false);
    let first = stage.ask_as(&question, |request| request.header("x-session-id", "s"));
    let second = async {
        stage.called(&lead(), 1).await;
        let waits = stage.ask_as(&question, |request| {
            request
                .header("x-session-id", "s")
                .header("x-understudy-timeout-ms", "20000")
        });
        let passes = async {
            stage.counts("understudy_turns_in_flight", &[], 2).await;
            stage.clock.advance(Duration::from_secs(20));
        };
        tokio::join!(waits, passes).0
    };
    tokio::select! {
        _ = first => panic!("it is silent"),
        reply = second => assert_eq!((reply.status, &reply.json()["error"]["code"]), (504, &json!("timeout"))),
    }
}

#[tokio::test]
async fn a_deadline_that_is_no_number_is_refused() {
    let stage = Stage::with_second(silent(), "").await;
    for odd in ["0", "soon", "1.5"] {
        let reply = stage
            .ask_as(&question(false), |request| {
                request.header("x-understudy-timeout-ms", odd)
            })
            .await;
        assert_eq!(
            (reply.status, &reply.json()["error"]["code"]),
            (400, &json!("invalid_header"))
        );
    }
}
