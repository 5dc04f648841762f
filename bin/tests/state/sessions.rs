//! Sessions of a gateway that is killed, whose disk is full, or whose file is not what was written.

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::killed::{Dice, kills};
use super::place::{Gateway, Place};
use super::talk::Talk;

/// How many sessions speak at once.
const SESSIONS: usize = 4;

/// What the user has said in a session, as it is kept.
async fn said(gateway: &Gateway, session: &str) -> Vec<String> {
    let (status, told) = gateway.session(session).await;
    if status == StatusCode::NOT_FOUND {
        return Vec::new();
    }
    assert_eq!(status, StatusCode::OK, "{told}");
    let messages = told["messages"].as_array().expect("messages");
    let of_user = messages.iter().filter(|message| message["role"] == "user");
    let text = |message: &Value| message["content"][0]["text"].as_str().expect("text").to_owned();
    of_user.map(text).collect()
}

/// Speaks in a session until the gateway is gone; what was acknowledged.
async fn speak(talk: Talk, session: String, round: u32) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for number in 0_u32.. {
        let input = format!("{round}-{number}");
        match talk.turn(&session, &input, number % 2 == 0).await {
            Some(true) => acknowledged.push(input),
            Some(false) | None => break,
        }
    }
    acknowledged
}

/// What is kept is what was acknowledged, in order and once; the last turn of each life may be there unacknowledged.
fn agrees(kept: &[String], acknowledged: &[Vec<String>]) {
    let mut rest = kept;
    for (life, said) in acknowledged.iter().enumerate() {
        assert!(rest.starts_with(said), "life {life}: {said:?} in {kept:?}");
        rest = &rest[said.len()..];
        let open = format!("{}-{}", life + 1, said.len());
        rest = rest.strip_prefix(&[open][..]).unwrap_or(rest);
    }
    assert_eq!(rest, [""; 0], "nothing else");
}

#[tokio::test]
async fn every_acknowledged_turn_is_there_once_at_whatever_moment_the_gateway_is_killed() {
    let place = Place::new().await;
    place.write(&place.configured("one", "", ""));
    let mut dice = Dice::seeded();
    let mut acknowledged = vec![Vec::new(); SESSIONS];
    for round in 1..=kills() {
        let gateway = place.serve();
        let mut speakers = JoinSet::new();
        for session in 0..SESSIONS {
            let speaker = speak(gateway.talk(), format!("s{session}"), round);
            speakers.spawn(async move { (session, speaker.await) });
        }
        for _ in 0..dice.below(60) {
            gateway.get("/livez").await;
        }
        gateway.kill();
        while let Some(spoken) = speakers.join_next().await {
            let (session, said) = spoken.expect("no panic");
            acknowledged[session].push(said);
        }
    }
    let gateway = place.serve();
    for (session, acknowledged) in acknowledged.iter().enumerate() {
        agrees(&said(&gateway, &format!("s{session}")).await, acknowledged);
    }
    let all: usize = acknowledged.iter().flatten().map(Vec::len).sum();
    assert!(all > 0, "nobody came to speak");
}

#[tokio::test]
async fn what_nobody_waited_for_is_on_the_disk_a_little_later() {
    let place = Place::new().await;
    let soon = "defaults: { session: { durability: interval, interval: 50ms } }\n";
    place.write(&place.configured("one", "", soon));
    let gateway = place.serve();
    assert_eq!(gateway.whole_turn("s", "hi").await.0, StatusCode::OK);
    // the turn is one write, and what puts it on the disk is another
    while gateway.writes().await < 2 {}
    gateway.kill();
    assert_eq!(said(&place.serve(), "s").await, ["hi"]);
}

#[tokio::test]
async fn on_a_full_disk_a_turn_ends_as_an_error_and_what_was_acknowledged_stays() {
    let place = Place::new().await;
    place.write(&place.configured("one", "", ""));
    place.serve().end();
    let gateway = place.start(place.limited(&["serve"], &["-S -f 4096"]));
    let talk = gateway.talk();
    let (mut acknowledged, long) = (0, "x".repeat(100_000));
    while talk.turn("s", &long, acknowledged % 2 == 0).await == Some(true) {
        acknowledged += 1;
        assert!(acknowledged < 1_000, "the disk is never full");
    }
    let (status, told) = gateway.whole_turn("s", "hi").await;
    assert_eq!(
        (status, &told["error"]["code"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!("session_store_failed"))
    );
    let chat = gateway.turn().await;
    assert_eq!(chat.0, StatusCode::OK, "one that keeps nothing goes on: {}", chat.2);
    gateway.kill();
    let gateway = place.serve();
    let kept = said(&gateway, "s").await.len();
    assert!(kept >= acknowledged.min(40), "{kept} of {acknowledged}");
    assert_eq!(gateway.whole_turn("s", "on").await.0, StatusCode::OK);
}

#[tokio::test]
async fn what_was_visible_before_the_disk_was_full_is_on_it_once_there_is_room() {
    let place = Place::new().await;
    let soon = "defaults: { session: { durability: interval, interval: 20ms } }\n";
    place.write(&place.configured("one", "", soon));
    place.serve().end();
    let gateway = place.start(place.limited(&["serve"], &["-S -f 4096"]));
    let (talk, long, mut acknowledged) = (gateway.talk(), "x".repeat(50_000), 0);
    while talk.turn(&format!("s{acknowledged}"), &long, false).await == Some(true) {
        acknowledged += 1;
        assert!(acknowledged < 1_000, "the disk is never full");
    }
    while gateway.get("/readyz").await.0 == StatusCode::OK {}
    assert_eq!(gateway.get("/admin/v1/status").await.1["state"]["failing"], true);
    assert!(gateway.failed_writes().await > 0);
    gateway.has_room();
    while gateway.get("/readyz").await.0 != StatusCode::OK {}
    while gateway.get("/admin/v1/status").await.1["state"]["unwritten"] != 0 {}
    gateway.kill();
    let gateway = place.serve();
    for number in 0..acknowledged {
        assert_eq!(
            said(&gateway, &format!("s{number}")).await.len(),
            1,
            "{number} of {acknowledged}"
        );
    }
}

#[tokio::test]
async fn a_damaged_session_fails_its_own_turns_by_name_until_it_is_deleted() {
    let place = Place::new().await;
    place.write(&place.configured("one", "", ""));
    let gateway = place.serve();
    for session in ["good", "bad"] {
        assert_eq!(gateway.whole_turn(session, "hi").await.0, StatusCode::OK);
    }
    gateway.end();
    place.damage_turn("bad");
    let gateway = place.serve();
    let (status, told) = gateway.whole_turn("bad", "hi").await;
    assert_eq!(
        (status, &told["error"]["code"]),
        (StatusCode::INTERNAL_SERVER_ERROR, &json!("session_damaged"))
    );
    assert!(
        told["error"]["message"]
            .as_str()
            .is_some_and(|text| text.contains("`bad`")),
        "{told}"
    );
    assert_eq!(gateway.whole_turn("good", "again").await.0, StatusCode::OK);
    assert_eq!(said(&gateway, "good").await, ["hi", "again"]);
    assert_eq!(gateway.session("bad").await.0, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(gateway.delete("bad").await, StatusCode::OK);
    assert_eq!(gateway.whole_turn("bad", "anew").await.0, StatusCode::OK);
    assert_eq!(said(&gateway, "bad").await, ["anew"]);
    assert!(place.logged().contains("is not what was written"), "said in the log");
}
