//! A session that is longer than its model's window, and one that is longer than a session may remember.

use serde_json::{Value, json};
use understudy_messages::events::Event;
use understudy_messages::hooks::Hook;

use super::{answers, code, events, said, turn, types, whole};
use crate::hooks::{Heard, Plugin};
use crate::stage::{Stage, lead, refusal, second};

/// A window of a thousand tokens: about 3,500 bytes beside an answer.
const SMALL: &str = "  a/m: { context: 1000 }\n";

fn long(word: &str) -> String {
    format!("{word} {}", "x".repeat(1000))
}

/// The first words of the messages in a request to a provider.
fn told(body: &[u8]) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).expect("JSON");
    let word = |message: &Value| {
        let content = &message["content"];
        let text = content.as_str().or(content[0]["text"].as_str());
        text.unwrap_or_default()
            .split(' ')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    body["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(word)
        .collect()
}

/// Takes a turn for each of these words.
async fn tell(stage: &Stage, words: &[&str]) {
    for word in words {
        let reply = whole(stage, "s1", &long(word)).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
}

#[actix::test]
async fn a_session_goes_on_beyond_its_models_window_and_forgets_nothing() {
    let heard = Heard::default();
    let observer = Plugin::new("observer")
        .hears(Hook::BeforeCompaction, &heard)
        .hears(Hook::AfterCompaction, &heard);
    let plan = json!({ "a/m": { "calls": [answers("yes")] } });
    let stage = Stage::set_guarded(plan, SMALL, vec![observer.loaded()]).await;
    let mut tap = stage.gateway.events();
    tell(&stage, &["one", "two", "three"]).await;
    assert!(heard.all().is_empty(), "so far it fits");
    let reply = turn(
        &stage,
        "s1",
        json!({ "input": long("four"), "instructions": "be kind" }),
    )
    .await;
    let events = events(&reply);
    assert_eq!(
        types(&events),
        [
            "turn.started",
            "text.delta",
            "context.fitted",
            "usage",
            "turn.completed"
        ]
    );
    let fitted = events
        .iter()
        .find(|event| event["type"] == "context.fitted")
        .expect("told");
    assert_eq!(
        (&fitted["droppedMessages"], &fitted["droppedToolResults"]),
        (&json!(2), &json!(0))
    );
    assert!(
        fitted["tokens"].as_u64().is_some_and(|tokens| tokens <= 875),
        "{fitted}"
    );
    assert_eq!(
        told(&stage.bodies(&lead())[3]),
        ["be", "two", "yes", "three", "yes", "four"]
    );
    assert_eq!(said(&stage, "s1").await.len(), 8);

    let before = heard.await_of(Hook::BeforeCompaction, 1).await;
    assert_eq!(
        (&before[0].facts["messageCount"], &before[0].facts["compactingCount"]),
        (&json!(7), &json!(2))
    );
    assert_eq!(
        before[0].event.conversation().map(|it| it.look().messages.len()),
        Some(7)
    );
    assert_eq!(before[0].context["modelId"], "m");
    let after = heard.await_of(Hook::AfterCompaction, 1).await;
    assert_eq!(
        (&after[0].facts["messageCount"], &after[0].facts["compactedCount"]),
        (&json!(5), &json!(2))
    );
    loop {
        if let Event::ContextFitted { model, fitted, .. } = &*tap.recv().await.expect("an event") {
            assert_eq!((model, fitted.dropped_messages), (&lead(), 2));
            break;
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_told_whole_says_what_was_left_out() {
    let stage = Stage::set_with(json!({ "a/m": { "calls": [answers("yes")] } }), SMALL).await;
    tell(&stage, &["one", "two", "three"]).await;
    let reply = whole(&stage, "s1", &long("four")).await.json();
    assert_eq!(reply["fitted"]["droppedMessages"], 2, "{reply}");
}

#[tokio::test]
async fn each_candidate_is_told_what_its_own_window_takes() {
    let plan = json!({ "a/m": { "calls": [answers("yes"), answers("yes"), answers("yes"), refusal(503, "overloaded")] },
        "b/m": { "calls": [answers("no")] } });
    let config = format!("{SMALL}defaults:\n  retry: {{ max_per_target: 0 }}\n");
    let stage = Stage::set_with(plan, &config).await;
    let ask = async |word: &str| {
        let reply = turn(&stage, "s1", json!({ "input": long(word), "model": "main" })).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply
    };
    for word in ["one", "two", "three"] {
        ask(word).await;
    }
    let events = events(&ask("four").await);
    assert_eq!(told(&stage.bodies(&lead())[3]).len(), 5);
    assert_eq!(told(&stage.bodies(&second())[0]).len(), 7);
    assert!(
        !types(&events).contains(&"context.fitted"),
        "whoever answered was told all"
    );
}

#[tokio::test]
async fn a_model_that_was_told_too_much_is_told_less_once() {
    let overflow = || refusal(400, "context_length_exceeded");
    for (second_try, status) in [(answers("now"), 200), (overflow(), 400)] {
        let calls = json!([
            answers("yes"),
            answers("yes"),
            answers("yes"),
            overflow(),
            second_try,
            overflow()
        ]);
        let stage = Stage::set(json!({ "a/m": { "calls": calls } })).await;
        tell(&stage, &["one", "two", "three"]).await;
        let reply = whole(&stage, "s1", &long("four")).await;
        assert_eq!(reply.status, status, "{}", reply.text());
        assert_eq!(stage.calls(&lead()), 5);
        let bodies = stage.bodies(&lead());
        assert_eq!((told(&bodies[3]).len(), told(&bodies[4]).len()), (7, 3));
        match status {
            200 => assert_eq!(reply.json()["fitted"]["droppedMessages"], 4),
            _ => assert_eq!(code(&reply).1, "context_length_exceeded"),
        }
    }
}

#[tokio::test]
async fn a_larger_window_is_asked_before_anybody_is_told_less() {
    let overflow = || refusal(400, "context_length_exceeded");
    let plan = json!({ "a/m": { "calls": [answers("yes"), overflow()] }, "b/m": { "calls": [answers("no")] } });
    let stage = Stage::set(plan).await;
    for word in ["one", "two"] {
        let reply = turn(&stage, "s1", json!({ "input": long(word), "model": "main" })).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    assert_eq!((stage.calls(&lead()), stage.calls(&second())), (2, 1));
    assert_eq!(told(&stage.bodies(&second())[0]), ["one", "yes", "two"]);
}

#[tokio::test]
async fn an_input_with_nothing_before_it_that_is_too_long_is_the_clients_to_shorten() {
    let plan = json!({ "a/m": { "calls": [refusal(400, "context_length_exceeded")] } });
    let stage = Stage::set(plan).await;
    let reply = whole(&stage, "s1", &long("one")).await;
    assert_eq!(code(&reply), (400, "context_length_exceeded".to_owned()));
    stage.calls_are(&lead(), 1);
}

#[tokio::test]
async fn a_session_that_has_said_more_than_it_may_remember_forgets_its_oldest_and_says_so() {
    let stage = Stage::set(json!({ "a/m": { "calls": [answers("yes")] } })).await;
    let mut tap = stage.gateway.events();
    let long = "x".repeat(3 << 20);
    assert_eq!(whole(&stage, "s1", &long).await.status, 200);
    assert_eq!(whole(&stage, "s1", "short").await.status, 200);
    assert_eq!(whole(&stage, "s1", &long).await.status, 200);
    let kept = said(&stage, "s1").await;
    assert_eq!((kept.len(), &*kept[0]), (4, "user: short"));
    loop {
        if let Event::TranscriptCut { forgotten, .. } = &*tap.recv().await.expect("an event") {
            assert_eq!(*forgotten, 2);
            break;
        }
    }
    let larger = whole(&stage, "s1", &"x".repeat((4 << 20) + 1)).await;
    assert_eq!(code(&larger), (413, "input_too_large".to_owned()));
    assert_eq!(said(&stage, "s1").await.len(), 4);
}
