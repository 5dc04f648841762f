//! What is around sessions: windows that outlive the process, sessions that are carried away and brought back, copies of the
//! state, and a disk that has room again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::place::{Gateway, Place};

impl Place {
    /// A configuration in which a provider that wants money answers for `main`.
    fn poor(&self, key: &str) -> String {
        let text = self.configured("poor", "", "");
        text.replace(
            "models: [one, two]",
            &format!("models: [one, two, poor], api_keys: [{key}]"),
        )
    }

    /// What a command says as JSON.
    fn told(&self, arguments: &[&str]) -> (Option<i32>, Value) {
        told(&self.run(arguments))
    }
}

fn told(output: &Output) -> (Option<i32>, Value) {
    let said = if output.stdout.is_empty() {
        &output.stderr
    } else {
        &output.stdout
    };
    let value = serde_json::from_slice(said);
    (
        output.status.code(),
        value.unwrap_or_else(|_| json!(String::from_utf8_lossy(said))),
    )
}

/// Why the one credential of `up` rests.
async fn rests(gateway: &Gateway) -> Value {
    let (_, told) = gateway.get("/admin/v1/providers").await;
    let up = told["providers"]
        .as_array()
        .expect("providers")
        .iter()
        .find(|it| it["name"] == "up");
    up.expect("there")["credentials"][0]["reason"].clone()
}

#[tokio::test]
async fn a_provider_without_money_rests_after_a_restart_until_it_is_reset_or_has_another_key() {
    let place = Place::new().await;
    place.write(&place.poor("sk-canary-1"));
    let gateway = place.serve();
    assert_ne!(gateway.turn().await.0, StatusCode::OK);
    assert_eq!(rests(&gateway).await, "billing");
    gateway.end();
    let kept = fs::read(place.state().join("state.redb")).expect("a file");
    assert!(!kept.windows(9).any(|it| it == b"sk-canary"), "no secret is stored");
    let gateway = place.serve();
    assert_eq!(rests(&gateway).await, "billing", "after a restart");
    gateway.end();
    place.write(&place.poor("sk-canary-2"));
    let gateway = place.serve();
    assert_eq!(rests(&gateway).await, Value::Null, "another key");
    assert_ne!(gateway.turn().await.0, StatusCode::OK);
    gateway.end();
    let gateway = place.serve();
    assert_eq!(rests(&gateway).await, "billing");
    let (status, told) = gateway.post("/admin/v1/providers/up/reset", &json!({})).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    // acknowledged is kept
    gateway.kill();
    assert_eq!(rests(&place.serve()).await, Value::Null, "an operator's word");
}

#[tokio::test]
async fn a_session_is_carried_away_and_brought_back_over_a_running_gateway() {
    let place = Place::new().await;
    place.write(&place.configured("one", "", ""));
    let gateway = place.serve();
    for input in ["first", "second"] {
        assert_eq!(gateway.whole_turn("s 1", input).await.0, StatusCode::OK);
    }
    let admin = gateway.admin();
    let run = |arguments: &[&str]| place.told(&[arguments, &["--admin", &admin]].concat());
    let (code, page) = run(&["sessions", "list"]);
    assert_eq!(
        (code, &page["data"][0]["id"], &page["data"][0]["turns"]),
        (Some(0), &json!("s 1"), &json!(2))
    );
    let file = place.home().join("s.jsonl");
    let path = file.to_str().expect("UTF-8");
    let (code, told) = run(&["sessions", "export", "s 1", "--out", path]);
    assert_eq!((code, &told["items"]), (Some(0), &json!(4)), "{told}");
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    let (code, told) = run(&["sessions", "import", path]);
    assert_eq!(code, Some(1), "it is there already: {told}");
    assert!(
        told["error"].as_str().is_some_and(|why| why.contains("force")),
        "{told}"
    );
    let (_, before) = run(&["sessions", "show", "s 1"]);
    assert_eq!(gateway.whole_turn("s 1", "third").await.0, StatusCode::OK);
    let (code, told) = run(&["sessions", "import", path, "--force"]);
    assert_eq!((code, &told["turns"]), (Some(0), &json!(2)), "{told}");
    let (_, after) = run(&["sessions", "show", "s 1"]);
    assert_eq!(after["messages"], before["messages"], "to the letter");
    assert_eq!(gateway.whole_turn("s 1", "on").await.0, StatusCode::OK);
    assert_eq!(run(&["sessions", "import", path, "--as", "copy"]).0, Some(0));
    assert_eq!(gateway.whole_turn("copy", "on").await.0, StatusCode::OK);
    assert_eq!(run(&["sessions", "delete", "s 1"]).0, Some(0));
    assert_eq!(run(&["sessions", "show", "s 1"]).0, Some(1));
    let text = fs::read_to_string(&file).expect("there").replace("second", "another");
    fs::write(&file, text).expect("written");
    let (code, told) = run(&["sessions", "import", path, "--as", "x"]);
    assert_eq!(code, Some(1));
    assert!(
        told["error"].as_str().is_some_and(|why| why.contains("line 4")),
        "{told}"
    );
}

#[tokio::test]
async fn a_session_is_carried_away_and_brought_back_in_a_folder_that_nobody_has() {
    let place = Place::new().await;
    place.write(&place.configured("one", "", ""));
    let gateway = place.serve();
    assert_eq!(gateway.whole_turn("s", "hi").await.0, StatusCode::OK);
    let (code, told) = place.told(&["sessions", "list", "--offline"]);
    assert_eq!(code, Some(2), "a gateway has it: {told}");
    gateway.end();
    let exported = place.run(&["sessions", "export", "s", "--offline"]);
    assert!(exported.status.success());
    let file = place.home().join("s.jsonl");
    fs::write(&file, &exported.stdout).expect("written");
    let path = file.to_str().expect("UTF-8");
    assert_eq!(place.told(&["sessions", "delete", "s", "--offline"]).0, Some(0));
    assert_eq!(place.told(&["sessions", "show", "s", "--offline"]).0, Some(1));
    for (name, code) in [("s", 0), ("s", 1), ("t", 0)] {
        let imported = place.told(&["sessions", "import", path, "--as", name, "--offline"]);
        assert_eq!(imported.0, Some(code), "{name}: {}", imported.1);
    }
    let (_, page) = place.told(&["sessions", "list", "--offline", "--limit", "1"]);
    let next = page["nextCursor"].as_str().expect("more");
    let (_, page) = place.told(&["sessions", "list", "--offline", "--cursor", next]);
    assert_eq!(
        (&page["data"][0]["id"], &page["nextCursor"]),
        (&json!("t"), &Value::Null)
    );
    let gateway = place.serve();
    for name in ["s", "t"] {
        assert_eq!(gateway.whole_turn(name, "on").await.0, StatusCode::OK);
        assert_eq!(gateway.session(name).await.1["turns"], 2);
    }
}

#[tokio::test]
async fn a_copy_that_is_made_while_sessions_speak_is_whole_and_a_gateway_begins_from_it() {
    let place = Place::new().await;
    place.write(&place.poor("k"));
    let gateway = place.serve();
    assert_ne!(gateway.turn().await.0, StatusCode::OK);
    gateway.end();
    place.write(
        &place
            .configured("one", "", "")
            .replace("models: [one, two]", "models: [one, two, poor]"),
    );
    let gateway = place.serve();
    for session in 0..5 {
        assert_eq!(gateway.whole_turn(&format!("s{session}"), "hi").await.0, StatusCode::OK);
    }
    let (talk, admin) = (gateway.talk(), gateway.admin());
    let mut speaking = JoinSet::new();
    speaking.spawn(async move {
        let mut acknowledged = 0;
        while talk.turn("busy", "more", true).await == Some(true) {
            acknowledged += 1;
        }
        acknowledged
    });
    let file = place.home().join("copy.redb");
    let path = file.to_str().expect("UTF-8");
    let backup = place
        .command(&["state", "backup", path, "--admin", &admin])
        .stdout(Stdio::null())
        .spawn();
    let copied = tokio::task::spawn_blocking(move || backup.expect("it starts").wait());
    assert!(copied.await.expect("no panic").expect("waited").success());
    let (code, again) = place.told(&["state", "backup", path, "--admin", &admin]);
    assert_eq!(code, Some(2), "it is there: {again}");
    gateway.kill();
    assert!(
        speaking
            .join_next()
            .await
            .is_some_and(|said| said.is_ok_and(|count| count > 0)),
        "nobody came to speak"
    );
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    let (code, found) = place.told(&["state", "check", path]);
    assert_eq!((code, &found["damaged"]), (Some(0), &json!(0)), "{found}");
    fs::rename(&file, place.state().join("state.redb")).expect("put back");
    let gateway = place.serve();
    for session in 0..5 {
        let name = format!("s{session}");
        assert_eq!(gateway.whole_turn(&name, "on").await.0, StatusCode::OK);
        assert_eq!(gateway.session(&name).await.1["turns"], 2);
    }
    gateway.end();
    let file = place.home().join("still.redb");
    let (code, told) = place.told(&["state", "backup", file.to_str().expect("UTF-8"), "--offline"]);
    assert_eq!(code, Some(0), "{told}");
    let mut bytes = fs::read(&file).expect("there");
    bytes.truncate(bytes.len() / 2);
    fs::write(&file, bytes).expect("written");
    let (code, told) = place.told(&["state", "check", file.to_str().expect("UTF-8")]);
    assert_ne!(code, Some(0), "half of it is no copy: {told}");
}

#[tokio::test]
async fn a_disk_that_has_room_again_costs_no_restart() {
    let place = Place::new().await;
    place.write(&place.configured("one", "", ""));
    place.serve().end();
    let gateway = place.start(place.limited(&["serve"], &["-S -f 4096"]));
    let (talk, long) = (gateway.talk(), "x".repeat(100_000));
    let mut acknowledged = 0;
    while talk.turn("s", &long, false).await == Some(true) {
        acknowledged += 1;
        assert!(acknowledged < 1_000, "the disk is never full");
    }
    let ready = gateway.get("/readyz").await;
    assert_eq!(
        (ready.0, &ready.1["failing"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!(["state"]))
    );
    gateway.has_room();
    while gateway.get("/readyz").await.0 != StatusCode::OK {}
    assert_eq!(talk.turn("s", "on", false).await, Some(true));
    let (_, told) = gateway.session("s").await;
    assert!(
        told["turns"].as_u64().is_some_and(|turns| turns > acknowledged),
        "{}",
        told["turns"]
    );
}
