//! Coming up and going down: probes tell the truth, running turns end well, new ones are refused.

use std::time::Duration;

use futures::future::join;
use serde_json::{Value, json};
use understudy_messages::failure::CancelCause;
use understudy_messages::turn::TurnOutcome;

use crate::stage::{DONE, Reply, Stage, finish, lead, question, read, text};

/// A lead that says something, goes on twenty seconds later, and then ends.
async fn streaming() -> Stage {
    let frames = json!([[0, text("once")], [20_000, text(" upon")], [0, finish()], [0, DONE]]);
    let call = json!({ "headers": { "content-type": "text/event-stream" }, "frames": frames });
    Stage::set(json!({ "a/m": { "calls": [call] } })).await
}

/// Asks for a stream and reads up to its first text.
async fn begun(stage: &Stage) -> reqwest::Response {
    let mut response = stage.gateway.chat(&question(true), |request| request).await;
    let first = response.chunk().await.expect("a stream").expect("a frame");
    assert_eq!(first, text("once"));
    response
}

/// Waits until the gateway has noticed that it is to stop.
async fn is_closing(stage: &Stage) -> Reply {
    loop {
        let ready = stage.admin("/readyz").await;
        if ready.status != 200 {
            return ready;
        }
    }
}

#[tokio::test]
async fn a_gateway_that_serves_is_live_started_and_ready() {
    let stage = streaming().await;
    for probe in ["/livez", "/startupz", "/readyz"] {
        assert_eq!(stage.admin(probe).await.status, 200, "{probe}");
    }
    assert_eq!(
        stage.admin("/livez").await.json(),
        json!({ "ok": true, "status": "live" })
    );
    assert_eq!(
        stage.admin("/startupz").await.json(),
        json!({ "ok": true, "status": "started" })
    );
    stage.clock.advance(Duration::from_secs(7));
    let ready = stage.admin("/readyz").await.json();
    assert_eq!((&ready["ready"], &ready["failing"]), (&json!(true), &json!([])));
    assert!(ready["uptimeMs"].as_u64() >= Some(7_000), "{ready}");
    let status = stage.admin("/admin/v1/status").await.json();
    assert_eq!(
        (&status["admission"], &status["generation"], &status["arbiters"]),
        (&json!("open"), &json!(1), &json!(2))
    );
    assert_eq!(
        (&status["turns_in_flight"], &status["providers"]),
        (&json!(0), &json!(["a"]))
    );
}

#[tokio::test]
async fn a_stop_lets_a_running_stream_finish_and_refuses_new_turns() {
    let mut stage = streaming().await;
    let response = begun(&stage).await;
    stage.gateway.begin_stop(Duration::from_secs(600));
    let ready = is_closing(&stage).await;
    assert_eq!((ready.status, &ready.json()["failing"]), (503, &json!(["draining"])));
    assert_eq!(
        stage.admin("/livez").await.status,
        200,
        "a gateway that drains is alive"
    );
    let started = stage.admin("/startupz").await;
    assert_eq!((started.status, &started.json()["status"]), (503, &json!("draining")));
    let refused = stage.ask(&question(true)).await;
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (503, &json!("shutting_down"))
    );

    stage.clock.advance(Duration::from_secs(20));
    let reply = read(response).await;
    assert_eq!(reply.text(), [text(" upon"), finish(), DONE.to_owned()].concat());
    assert_eq!(stage.told().await.end.outcome, TurnOutcome::Completed);
    stage.calls_are(&lead(), 1);
    stops_listening(&stage).await;
}

#[tokio::test]
async fn a_stream_that_outlasts_the_budget_ends_with_an_error() {
    let mut stage = streaming().await;
    let response = begun(&stage).await;
    stage.gateway.begin_stop(Duration::from_secs(5));
    is_closing(&stage).await;
    stage.clock.advance(Duration::from_secs(5));
    let reply = read(response).await;
    let body = reply.text();
    let data = body
        .strip_prefix("data: ")
        .and_then(|data| data.strip_suffix("\n\n"))
        .expect("one frame");
    let error: Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(error["error"]["code"], "shutting_down");
    let cause = CancelCause::Shutdown;
    assert_eq!(stage.told().await.end.outcome, TurnOutcome::Cancelled { cause });
    stage.all_ended().await;
}

#[tokio::test]
async fn a_turn_that_waits_behind_its_session_is_refused_when_the_gateway_stops() {
    // whichever worker the sessions live on, for one of them it is not the worker of the waiting connection
    for session in ["s0", "s1", "s2", "s3"] {
        let mut stage = streaming().await;
        let (url, client) = (
            stage.gateway.api("/v1/chat/completions"),
            stage.gateway.client().clone(),
        );
        let ask = || {
            let request = client.post(&url).header("x-session-id", session);
            let response = request.body(question(true).to_string()).send();
            async { response.await.expect("a response") }
        };
        let running = ask().await;
        let stops = async {
            stage.counts("understudy_turns_in_flight", &[], 2).await;
            stage.gateway.begin_stop(Duration::from_secs(600));
            is_closing(&stage).await;
            stage.clock.advance(Duration::from_secs(20));
            read(running).await
        };
        let (refused, finished) = join(ask(), stops).await;
        assert!(finished.text().ends_with(DONE));
        let refused = read(refused).await;
        assert_eq!(
            (refused.status, &refused.json()["error"]["code"]),
            (503, &json!("shutting_down"))
        );
        stage.calls_are(&lead(), 1);
    }
}

/// Waits until nobody answers on the API's port.
async fn stops_listening(stage: &Stage) {
    while stage
        .gateway
        .client()
        .get(stage.gateway.api("/v1/models"))
        .send()
        .await
        .is_ok()
    {}
}
