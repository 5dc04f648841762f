//! However a turn ends, it ends exactly once.

use std::collections::HashMap;

use serde_json::{Value, json};
use understudy_messages::events::Event;
use understudy_messages::ids::ModelRef;
use understudy_messages::turn::TurnOutcome;
use understudy_providers::sim::{SimOptions, Simulator};
use understudy_tests::gateway::Gateway;

/// How many turns of each kind run at the same time.
const EACH: usize = 3;

fn plan() -> Value {
    let error = |status: u16, code: &str| {
        json!({ "calls": [{ "status": status, "headers": { "content-type": "application/json" },
            "body": { "error": { "message": "no", "type": "invalid_request_error", "code": code } } }] })
    };
    let data = json!({ "choices": [{ "index": 0, "delta": { "content": "once upon" }, "finish_reason": null }] });
    json!({
        "a/well": { "calls": [{ "answer": { "text": "hello" } }] },
        "a/gone": error(404, "model_not_found"),
        "a/strict": error(400, "invalid_value"),
        "a/torn": { "calls": [{ "headers": { "content-type": "text/event-stream" },
            "frames": [[0, format!("data: {data}\n\n")]], "then": "reset" }] },
        "a/silent": { "calls": [{ "delay_ms": 600_000, "body": {} }] },
        "a/patient": { "calls": [{ "delay_ms": 600_000, "body": {} }] },
    })
}

async fn ask(gateway: &Gateway, model: &str) {
    let body = json!({ "model": model, "stream": model == "torn", "messages": [{ "role": "user", "content": "hi" }] });
    let timeout = if model == "patient" { "50" } else { "60000" };
    let response = gateway.chat(&body, |request| request.header("x-understudy-timeout-ms", timeout));
    let _torn_streams_break = response.await.bytes().await;
}

/// Asks a provider that says nothing, and leaves once it has been asked.
async fn ask_and_leave(gateway: &Gateway, simulator: &Simulator) {
    let target = ModelRef::new("a", "silent");
    tokio::select! {
        () = ask(gateway, "silent") => panic!("nobody answers"),
        () = simulator.journal().wait_until(|entries| entries.calls(&target) == EACH as u64) => {}
    }
}

#[tokio::test]
async fn every_admitted_turn_ends_exactly_once() {
    let plan = serde_json::from_value(plan()).expect("a plan");
    let simulator = Simulator::start(plan, SimOptions::default())
        .await
        .expect("a simulator");
    let gateway = Gateway::start(&format!(
        "providers: {{ a: {{ api: openai-chat, base_url: \"{}\" }} }}\nmodels:\n  \
         well: {{ chain: [a/well] }}\n  rescued: {{ chain: [a/gone, a/well] }}\n  strict: {{ chain: [a/strict] }}\n  \
         torn: {{ chain: [a/torn] }}\n  silent: {{ chain: [a/silent] }}\n  patient: {{ chain: [a/patient] }}\n",
        simulator.base_url("a")
    ));
    let mut events = gateway.events();
    let kinds = ["well", "rescued", "strict", "torn", "patient"];
    let turns = kinds.iter().flat_map(|model| (0..EACH).map(|_| ask(&gateway, model)));
    let leaving = (0..EACH).map(|_| ask_and_leave(&gateway, &simulator));
    futures::join!(futures::future::join_all(turns), futures::future::join_all(leaving));
    let mut ends: HashMap<_, Vec<TurnOutcome>> = HashMap::new();
    while ends.len() < 6 * EACH {
        if let Event::TurnEnded(ended) = &*events.recv().await.expect("an event") {
            ends.entry(ended.turn).or_default().push(ended.outcome);
        }
    }
    drop(gateway);
    while let Ok(event) = events.try_recv() {
        assert!(!matches!(*event, Event::TurnEnded(_)), "a turn ended twice: {event:?}");
    }
    assert!(ends.values().all(|outcomes| outcomes.len() == 1), "{ends:?}");
    let count = |is: fn(&TurnOutcome) -> bool| ends.values().flatten().filter(|outcome| is(outcome)).count();
    assert_eq!(count(|outcome| matches!(outcome, TurnOutcome::Completed)), 2 * EACH);
    assert_eq!(count(|outcome| matches!(outcome, TurnOutcome::Failed { .. })), 2 * EACH);
    assert_eq!(
        count(|outcome| matches!(outcome, TurnOutcome::Cancelled { .. })),
        2 * EACH
    );
    simulator.stop().await;
}
