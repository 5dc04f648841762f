//! Sessions: one turn at a time, in order, bounded; each behind the client key that named it.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use understudy_messages::ids::SessionKey;

use crate::stage::{Reply, Stage, lead};

const IN_FLIGHT: &str = "understudy_turns_in_flight";

/// How long the lead takes for each answer: longer than any test runs.
const ANSWER: Duration = Duration::from_secs(150);
/// A configuration in which nobody waits too long.
const PATIENT: &str = "defaults: { session: { queue_wait: 1h } }\n";

async fn slow(configuration: &str) -> Stage {
    let call = json!({ "answer": { "text": "{n}: {last}", "first_ms": 150_000 } });
    Stage::set_with(json!({ "a/m": { "calls": [call] } }), configuration).await
}

fn says(text: &str) -> Value {
    json!({ "model": "main", "messages": [{ "role": "user", "content": text }] })
}

async fn in_session(stage: &Stage, session: &str, text: &str) -> Reply {
    stage
        .ask_as(&says(text), |request| request.header("x-session-id", session))
        .await
}

fn answer(reply: &Reply) -> String {
    reply.json()["choices"][0]["message"]["content"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test]
async fn turns_of_one_session_run_one_after_the_other_in_order() {
    let stage = slow(PATIENT).await;
    let asked_in_order = async {
        stage.called(&lead(), 1).await;
        for turns in 1..=3 {
            stage.counts(IN_FLIGHT, &[], turns).await;
            stage.calls_are(&lead(), 1);
        }
        for turns in 2..=3 {
            stage.clock.advance(ANSWER);
            stage.called(&lead(), turns).await;
            stage.calls_are(&lead(), turns);
        }
        stage.clock.advance(ANSWER);
    };
    let after = |turns, text| {
        let stage = &stage;
        async move {
            stage.counts(IN_FLIGHT, &[], turns).await;
            in_session(stage, "s", text).await
        }
    };
    let turns = join_all([after(0, "one"), after(1, "two"), after(2, "three")]);
    let (replies, ()) = tokio::join!(turns, asked_in_order);
    let answers: Vec<String> = replies.iter().map(answer).collect();
    assert_eq!(answers, ["1: one", "2: two", "3: three"]);
    assert!(replies.iter().all(|reply| reply.header("x-session-id") == "s"));
}

#[tokio::test]
async fn turns_of_two_sessions_run_at_the_same_time() {
    let stage = slow(PATIENT).await;
    let both = async {
        stage.called(&lead(), 2).await;
        stage.clock.advance(ANSWER);
    };
    let (one, two, ()) = tokio::join!(in_session(&stage, "s1", "x"), in_session(&stage, "s2", "y"), both);
    assert_eq!((one.status, two.status), (200, 200));
}

#[tokio::test]
async fn a_session_goes_by_either_header() {
    let stage = slow(PATIENT).await;
    let (one, two) = (says("x"), says("y"));
    let second_waits = async {
        stage.called(&lead(), 1).await;
        stage.counts(IN_FLIGHT, &[], 2).await;
        stage.calls_are(&lead(), 1);
        stage.clock.advance(ANSWER);
        stage.called(&lead(), 2).await;
        stage.clock.advance(ANSWER);
    };
    let (one, two, ()) = tokio::join!(
        stage.ask_as(&one, |request| request.header("x-session-id", "s")),
        stage.ask_as(&two, |request| request.header("x-understudy-session", "s")),
        second_waits
    );
    assert_eq!((one.status, two.status), (200, 200));
}

#[tokio::test]
async fn who_waits_too_long_behind_its_own_session_is_told_that_it_is_busy() {
    let stage = slow("defaults: { session: { queue_wait: 100s } }\n").await;
    let waits_and_leaves = async {
        stage.called(&lead(), 1).await;
        let too_long = async {
            stage.counts(IN_FLIGHT, &[], 2).await;
            stage.clock.advance(Duration::from_secs(100));
        };
        let (refused, ()) = tokio::join!(in_session(&stage, "s", "two"), too_long);
        stage.clock.advance(ANSWER);
        refused
    };
    let (first, refused) = tokio::join!(in_session(&stage, "s", "one"), waits_and_leaves);
    assert_eq!(first.status, 200);
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (429, &json!("session_busy"))
    );
    stage.calls_are(&lead(), 1);
    let scrape = stage.gateway.scrape().await;
    assert_eq!(scrape.count("understudy_turns_total", &[("outcome", "rejected")]), 1);
}

#[tokio::test]
async fn the_queue_of_a_session_is_bounded() {
    const QUEUE: u64 = 64;
    let stage = slow(PATIENT).await;
    let full = async {
        stage.counts(IN_FLIGHT, &[], QUEUE).await;
        let refused = in_session(&stage, "s", "one too many").await;
        assert_eq!(
            (refused.status, &refused.json()["error"]["code"]),
            (429, &json!("session_queue_full"))
        );
        let elsewhere = in_session(&stage, "another", "x");
        let goes_on = stage.in_time(ANSWER / 10, elsewhere).await;
        assert_eq!(goes_on.status, 200, "another session is not held up");
    };
    let turns = join_all((0..QUEUE).map(|_| in_session(&stage, "s", "x")));
    tokio::select! {
        () = full => {}
        _ = turns => panic!("they wait"),
    }
}

#[tokio::test]
async fn two_client_keys_that_choose_one_session_name_do_not_meet() {
    let stage = slow("client_keys: [one, two]\n").await;
    let (one, two) = (says("x"), says("y"));
    let both = async {
        stage.called(&lead(), 2).await;
        stage.clock.advance(ANSWER);
    };
    let (one, two, ()) = tokio::join!(
        stage.ask_as(&one, |request| request.bearer_auth("one").header("x-session-id", "s")),
        stage.ask_as(&two, |request| request.bearer_auth("two").header("x-session-id", "s")),
        both
    );
    assert_eq!((one.status, two.status), (200, 200));
}

#[tokio::test]
async fn turns_without_a_session_wait_for_nobody_and_are_given_no_name() {
    let stage = slow(PATIENT).await;
    let one = says("x");
    let both = async {
        stage.called(&lead(), 2).await;
        stage.clock.advance(ANSWER);
    };
    let (one, two, ()) = tokio::join!(stage.ask(&one), stage.ask(&one), both);
    assert_eq!((one.header("x-session-id"), two.header("x-session-id")), ("", ""));
    assert_eq!(stage.told().await.end.session, SessionKey::Ephemeral);
    while stage.gateway.scrape().await.count(IN_FLIGHT, &[]) > 0 {}
}
