//! Sessions that leave memory, and gateways that are started again: what comes back.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use understudy_messages::ids::ModelRef;

use super::{answers, at, code, said, session, whole};
use crate::stage::{Stage, lead, question, second};

const CANON: &str = "Never promise a refund.";
const SESSIONS: &str = "understudy_sessions";
const EVENTS: &str = "understudy_session_events_total";

/// A folder for state, with a workspace beside it; gone when dropped.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("understudy-stored-{name}-{}", std::process::id()));
        let _old = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("workspace")).expect("a folder");
        std::fs::write(path.join("workspace/AGENTS.md"), CANON).expect("written");
        Self(path)
    }

    /// A gateway with this state, and two models that answer.
    async fn stage(&self, configuration: &str) -> Stage {
        let plan = json!({ "a/m": { "calls": [answers("of a {n}")] }, "b/m": { "calls": [answers("of b")] } });
        let state = json!({ "dir": self.0.join("state") });
        Stage::set_with(plan, &format!("state: {state}\n{configuration}")).await
    }

    fn canon(&self) -> String {
        let agent = json!({ "model": "main", "workspace": self.0.join("workspace") });
        let canon = json!({ "enabled": true, "config": { "mode": "selective" } });
        format!(
            "agents: {{ default: {agent} }}\nplugins: {{ entries: {{ canon: {canon} }} }}\n\
            defaults: {{ session: {{ idle: 1m }} }}\n"
        )
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _best_effort = std::fs::remove_dir_all(&self.0);
    }
}

/// How many messages each request had that a target got.
fn lengths(stage: &Stage, target: &ModelRef) -> Vec<usize> {
    let length = |body: &bytes::Bytes| {
        let body: Value = serde_json::from_slice(body).expect("JSON");
        body["messages"].as_array().expect("messages").len()
    };
    stage.bodies(target).iter().map(length).collect()
}

/// Waits until all sessions have left memory.
async fn passivated(stage: &Stage, sessions: u64) {
    stage.clock.advance(Duration::from_secs(61));
    stage.counts(SESSIONS, &[("state", "passivated")], sessions).await;
    let scrape = stage.gateway.scrape().await;
    assert_eq!(scrape.count(SESSIONS, &[("state", "idle")]), 0);
    assert_eq!(scrape.count(SESSIONS, &[("state", "active")]), 0);
}

#[tokio::test]
async fn a_gateway_that_is_started_again_goes_on_with_what_was_said_and_chosen() {
    let place = Place::new("restart");
    let stage = place.stage("").await;
    assert_eq!(whole(&stage, "s1", "one").await.status, 200);
    let chosen = at(&stage, Method::PATCH, "/v1/sessions/s1", json!({ "model": "b/m" })).await;
    assert_eq!(chosen.status, 200);
    assert_eq!(whole(&stage, "s1", "two").await.status, 200);
    let before = session(&stage, "s1").await;
    drop(stage);
    let stage = place.stage("").await;
    assert_eq!(session(&stage, "s1").await, before);
    assert_eq!((&before["turns"], &before["model"]), (&json!(2), &json!("b/m")));
    let listed = stage.get("/v1/sessions").await.json();
    assert_eq!(listed["data"][0]["id"], "s1");
    assert_eq!(whole(&stage, "s1", "three").await.status, 200);
    assert_eq!((lengths(&stage, &second()), stage.calls(&lead())), (vec![5], 0));
    assert_eq!(
        said(&stage, "s1").await,
        [
            "user: one",
            "assistant: of a 1",
            "user: two",
            "assistant: of b",
            "user: three",
            "assistant: of b"
        ]
    );
}

#[tokio::test]
async fn a_session_that_was_idle_leaves_memory_and_comes_back_with_the_next_turn_or_choice() {
    let place = Place::new("idle");
    for durability in ["turn", "interval"] {
        let name = |number: u32| format!("{durability}-{number}");
        let stage = place
            .stage(&format!(
                "defaults: {{ session: {{ idle: 1m, durability: {durability} }} }}\n"
            ))
            .await;
        let known = stage.gateway.scrape().await.count(SESSIONS, &[("state", "passivated")]);
        for number in 0..3 {
            assert_eq!(whole(&stage, &name(number), "one").await.status, 200);
        }
        passivated(&stage, known + 3).await;
        assert_eq!(
            said(&stage, &name(2)).await,
            ["user: one", "assistant: of a 3"],
            "shown from the store"
        );
        passivated(&stage, known + 3).await;
        assert_eq!(whole(&stage, &name(0), "two").await.status, 200);
        assert_eq!(lengths(&stage, &lead())[3], 3);
        let path = format!("/v1/sessions/{}", name(1));
        let chosen = at(&stage, Method::PATCH, &path, json!({ "model": "b/m" })).await;
        assert_eq!((chosen.status, &chosen.json()["model"]), (200, &json!("b/m")));
        let scrape = stage.gateway.scrape().await;
        let happened = |event| scrape.count(EVENTS, &[("event", event)]);
        assert_eq!(
            (happened("created"), happened("passivated"), happened("restored")),
            (3, 3, 2)
        );
        passivated(&stage, known + 3).await;
        let gone = at(&stage, Method::DELETE, &path, Value::Null).await;
        assert_eq!(gone.status, 200);
        let unknown = at(&stage, Method::DELETE, &path, Value::Null).await;
        assert_eq!(code(&unknown), (404, "session_not_found".to_owned()));
        assert_eq!(stage.get(&path).await.status, 404);
        let scrape = stage.gateway.scrape().await;
        assert_eq!(scrape.count(SESSIONS, &[("state", "passivated")]), known + 2);
    }
}

#[tokio::test]
async fn turns_that_come_at_once_for_a_session_that_left_memory_read_it_once() {
    let place = Place::new("at-once");
    let stage = place.stage("defaults: { session: { idle: 1m } }\n").await;
    assert_eq!(whole(&stage, "s1", "one").await.status, 200);
    passivated(&stage, 1).await;
    let turns = (0..8).map(|_| whole(&stage, "s1", "more"));
    for reply in futures::future::join_all(turns).await {
        assert_eq!(reply.status, 200);
    }
    assert_eq!(lengths(&stage, &lead()), [1, 3, 5, 7, 9, 11, 13, 15, 17]);
    stage.counts(EVENTS, &[("event", "restored")], 1).await;
    let scrape = stage.gateway.scrape().await;
    assert_eq!(scrape.count(EVENTS, &[("event", "restored")]), 1);
}

/// Whether each request that the lead got carried the canon.
fn told(stage: &Stage) -> Vec<bool> {
    let carries = |body: &bytes::Bytes| String::from_utf8_lossy(body).contains(CANON);
    stage.bodies(&lead()).iter().map(carries).collect()
}

async fn asks(stage: &Stage) {
    let question = question(true);
    let asked = stage.ask_as(&question, |request| request.header("x-session-id", "s"));
    assert_eq!(asked.await.status, 200);
}

#[tokio::test]
async fn the_canon_is_due_after_a_restart_and_not_because_a_session_left_memory() {
    let place = Place::new("canon");
    let stage = place.stage(&place.canon()).await;
    asks(&stage).await;
    asks(&stage).await;
    passivated(&stage, 1).await;
    asks(&stage).await;
    assert_eq!(told(&stage), [true, false, false]);
    drop(stage);
    let stage = place.stage(&place.canon()).await;
    asks(&stage).await;
    asks(&stage).await;
    assert_eq!(told(&stage), [true, false]);
    let reason = [("reason", "restart_or_idle")];
    stage.counts("understudy_canon_injections_total", &reason, 1).await;
}

#[tokio::test]
async fn sessions_that_are_not_kept_end_with_their_gateway() {
    let place = Place::new("off");
    let off = "defaults: { session: { durability: off, idle: 1m } }\n";
    let stage = place.stage(off).await;
    assert_eq!(whole(&stage, "s1", "one").await.status, 200);
    assert_eq!(whole(&stage, "s2", "one").await.status, 200);
    let listed = stage.get("/v1/sessions").await.json();
    assert_eq!(listed["data"].as_array().expect("sessions").len(), 2);
    stage.clock.advance(Duration::from_secs(61));
    stage.counts(EVENTS, &[("event", "expired")], 2).await;
    assert_eq!(stage.get("/v1/sessions/s1").await.status, 404);
    assert_eq!(whole(&stage, "s2", "two").await.status, 200);
    drop(stage);
    let stage = place.stage(off).await;
    assert_eq!(stage.get("/v1/sessions/s2").await.status, 404);
}

#[tokio::test]
async fn a_session_that_nobody_used_for_longer_than_it_is_kept_is_forgotten() {
    let place = Place::new("ttl");
    let stage = place.stage("defaults: { session: { idle: 1m, ttl: 10m } }\n").await;
    assert_eq!(whole(&stage, "s1", "one").await.status, 200);
    passivated(&stage, 1).await;
    stage.clock.advance(Duration::from_secs(12 * 60));
    stage.counts(EVENTS, &[("event", "expired")], 1).await;
    assert_eq!(stage.get("/v1/sessions/s1").await.status, 404);
    assert_eq!(whole(&stage, "s1", "anew").await.status, 200);
    assert_eq!(said(&stage, "s1").await, ["user: anew", "assistant: of a 2"]);
}

#[tokio::test]
async fn what_was_used_least_recently_leaves_memory_when_it_grows_full() {
    let place = Place::new("full");
    let stage = place.stage("defaults: { session: { resident: 100KB } }\n").await;
    for number in 0..10 {
        let reply = whole(&stage, &format!("s{number}"), &"x".repeat(20_000)).await;
        assert_eq!(reply.status, 200, "{number}");
    }
    stage.counts(EVENTS, &[("event", "evicted")], 6).await;
    assert_eq!(whole(&stage, "s0", "again").await.status, 200);
    assert_eq!(lengths(&stage, &lead())[10], 3, "it came back");
}
