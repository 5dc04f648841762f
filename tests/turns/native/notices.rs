//! Who answers in whose place is told once for each change.

use std::time::Duration;

use serde_json::{Value, json};

use super::{answers, events, session, turn, types};
use crate::stage::{Stage, refusal};

/// The notices of one turn.
async fn notices(stage: &Stage, stream: bool) -> Vec<Value> {
    let reply = turn(stage, "s1", json!({ "input": "hi", "model": "main", "stream": stream })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    if !stream {
        return reply.json().get("fallback").cloned().into_iter().collect();
    }
    let mut events = events(&reply);
    assert_eq!(
        types(&events).last(),
        Some(&"turn.completed"),
        "a notice comes before the end"
    );
    events.retain(|event| event["type"].as_str().is_some_and(|name| name.starts_with("model.")));
    events
}

async fn failing(times: usize) -> Stage {
    let refused = vec![refusal(429, "rate_limit_exceeded"); times];
    let lead: Vec<Value> = refused.into_iter().chain([answers("a")]).collect();
    let plan = json!({ "a/m": { "calls": lead }, "b/m": { "calls": [answers("b")] } });
    Stage::set_with(plan, "defaults:\n  retry: { max_per_target: 0 }\n").await
}

#[tokio::test]
async fn three_turns_with_one_fallback_are_one_notice_and_its_end_another_case_57() {
    for stream in [true, false] {
        let stage = failing(1).await;
        let first = notices(&stage, stream).await;
        assert_eq!(first.len(), 1);
        assert_eq!(
            (&first[0]["selected"], &first[0]["active"]),
            (&json!("a/m"), &json!("b/m"))
        );
        assert_eq!(first[0]["text"], "↪️ Fallback: b/m answers (selected a/m; rate_limit)");
        for _ in 0..2 {
            assert_eq!(notices(&stage, stream).await, [Value::Null; 0]);
        }
        assert_eq!(session(&stage, "s1").await["fallback"]["active"], "b/m");
        stage.clock.advance(Duration::from_secs(60));
        let over = notices(&stage, stream).await;
        assert_eq!(over.len(), 1);
        assert_eq!(over[0]["text"], "↪️ Fallback over: a/m answers again (was b/m)");
        match stream {
            true => assert_eq!(over[0]["type"], "model.fallback_cleared"),
            false => assert_eq!(over[0]["cleared"], true),
        }
        assert_eq!(notices(&stage, stream).await, [Value::Null; 0]);
        assert_eq!(session(&stage, "s1").await["fallback"], Value::Null);
    }
}

#[tokio::test]
async fn a_turn_that_nobody_answered_is_no_change() {
    let fails = json!({ "calls": [refusal(429, "rate_limit_exceeded")] });
    let retry = "defaults:\n  retry: { max_per_target: 0 }\n";
    let stage = Stage::set_with(json!({ "a/m": fails, "b/m": fails }), retry).await;
    let reply = turn(&stage, "s1", json!({ "input": "hi", "model": "main" })).await;
    assert_eq!(reply.status, 429);
    assert!(!reply.text().contains("↪"));
    assert_eq!(session(&stage, "s1").await["fallback"], Value::Null);
}
