//! What a restart finds, and what keeps a second process out.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::place::{Place, remove_capture};

#[tokio::test]
async fn a_second_process_is_refused_and_told_who_holds_the_folder() {
    let place = Place::new().await;
    place.write(&place.configuration("one", 1));
    let gateway = place.serve();
    let refused = place.run(&["serve"]);
    assert!(!refused.status.success());
    let told = String::from_utf8_lossy(&[refused.stdout, refused.stderr].concat()).into_owned();
    assert!(told.contains(&format!("process {} on ", gateway.pid())), "{told}");
    assert!(
        told.contains("admin 127.0.0.1:") && told.contains("state.dir"),
        "{told}"
    );
    gateway.serves(&place, &place.text(), "one").await;
    gateway.kill();
    // the system has let go of the lock
    place.serve().serves(&place, &place.text(), "one").await;
}

#[tokio::test]
async fn one_step_back_is_possible_after_a_restart() {
    let place = Place::new().await;
    let (one, two) = (place.configuration("one", 1), place.configuration("two", 2));
    place.write(&one);
    let gateway = place.serve();
    let (status, told) = gateway.put(&two).await.expect("no panic").expect("answered");
    assert_eq!(status, StatusCode::OK, "{told}");
    gateway.end();
    let gateway = place.serve();
    let (status, told) = gateway.post("/admin/v1/config/rollback", &json!({})).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    gateway.serves(&place, &one, "one").await;
    gateway.kill();
    place.serve().serves(&place, &one, "one").await;
}

#[tokio::test]
async fn a_secret_that_is_written_out_is_not_kept_and_the_step_back_says_so() {
    let place = Place::new().await;
    let one = place.configured("one", "", "client_keys: []\n");
    let secret = one.replace("models: [one, two]", "models: [one, two], api_key: sk-canary-1234");
    place.write(&secret);
    let gateway = place.serve();
    let (status, told) = gateway.put(&one).await.expect("no panic").expect("answered");
    assert_eq!(status, StatusCode::OK, "{told}");
    // while this process knows it, it can be gone back to
    let (status, told) = gateway.post("/admin/v1/config/rollback", &json!({})).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    gateway.post("/admin/v1/config/rollback", &json!({})).await;
    gateway.end();
    let kept = fs::read(place.state().join("state.redb")).expect("a file");
    assert!(!kept.windows(9).any(|it| it == b"sk-canary"), "no secret is stored");
    let gateway = place.serve();
    let (status, told) = gateway.post("/admin/v1/config/rollback", &json!({})).await;
    assert_eq!(status, StatusCode::CONFLICT);
    let why = told["error"]["message"].as_str().expect("why");
    assert!(why.contains("secret"), "{why}");
    gateway.serves(&place, &one, "one").await;
}

#[tokio::test]
async fn a_file_that_is_gone_or_broken_gives_way_to_what_was_published_until_it_is_mended() {
    let place = Place::new().await;
    let (one, two) = (place.configuration("one", 1), place.configuration("two", 2));
    place.write(&one);
    place.serve().end();
    for broken in [None, Some("providers: [")] {
        match broken {
            None => fs::remove_file(place.file()).expect("removed"),
            Some(text) => place.write(text),
        }
        let gateway = place.serve();
        let (_, status) = gateway.get("/admin/v1/status").await;
        let fault = &status["configuration"]["fault"]["message"];
        assert!(
            fault.as_str().is_some_and(|fault| fault.contains("understudy.yaml")),
            "{status}"
        );
        assert_eq!(gateway.get("/readyz").await.0, StatusCode::OK);
        assert_eq!(gateway.turn().await.1, "up/one");
        gateway.kill();
    }
    let gateway = place.serve();
    place.write(&two);
    let hung_up = std::process::Command::new("kill")
        .args(["-HUP", &gateway.pid().to_string()])
        .status();
    assert!(hung_up.expect("kill runs").success());
    while gateway.get("/admin/v1/config").await.1["fault"] != Value::Null || gateway.turn().await.1 != "up/two" {}
    gateway.serves(&place, &two, "two").await;
}

#[tokio::test]
async fn without_anything_kept_a_broken_file_is_refused_and_nothing_is_made() {
    let place = Place::new().await;
    place.write("providers: [");
    let refused = place.run(&["serve"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(!place.state().exists());
}

#[tokio::test]
async fn a_file_edited_while_nobody_served_is_the_operator_s_word() {
    let place = Place::new().await;
    let (one, two) = (place.configuration("one", 1), place.configuration("two", 2));
    place.write(&one);
    place.serve().kill();
    place.write(&two);
    place.serve().serves(&place, &two, "two").await;
}

#[tokio::test]
async fn a_guard_whose_folder_went_away_over_a_restart_blocks_until_it_is_switched_off() {
    let place = Place::new().await;
    place.gate();
    let with = |entry: &str| place.configured("one", entry, "");
    place.write(&with(
        "gate: { enabled: true, hooks: { allowConversationAccess: true } }",
    ));
    let gateway = place.serve();
    gateway.serves(&place, &place.text(), "one").await;
    gateway.kill();
    fs::remove_dir_all(place.plugins().join("gate")).expect("removed");
    // whether somebody still names it or nobody does
    for entry in ["gate: { enabled: true }", ""] {
        place.write(&with(entry));
        let gateway = place.serve();
        let (status, ready) = gateway.get("/readyz").await;
        assert_eq!(
            (status, &ready["failing"]),
            (StatusCode::SERVICE_UNAVAILABLE, &json!(["plugin:gate"]))
        );
        let (status, _, body) = gateway.turn().await;
        assert!(!status.is_success() && body.contains("gate"), "{status} {body}");
        gateway.kill();
    }
    let off = with("gate: { enabled: false }");
    place.write(&off);
    let gateway = place.serve();
    gateway.serves(&place, &off, "one").await;
    gateway.end();
    // it is forgotten
    let without = with("");
    place.write(&without);
    place.serve().serves(&place, &without, "one").await;
}

#[tokio::test]
async fn a_guard_that_guards_nothing_after_a_restart_blocks_until_it_is_said_that_it_need_not() {
    let place = Place::new().await;
    place.gate();
    let with = |required: &str| {
        let entry = format!("gate: {{ enabled: true{required}, hooks: {{ allowConversationAccess: true }} }}");
        place.configured("one", &entry, "")
    };
    place.write(&with(""));
    let gateway = place.serve();
    gateway.serves(&place, &place.text(), "one").await;
    place.guardless();
    let reloaded = gateway.reload("gate").await.expect("no panic");
    assert_eq!(reloaded, Some(StatusCode::CONFLICT));
    gateway.serves(&place, &place.text(), "one").await;
    gateway.kill();
    let gateway = place.serve();
    let (status, ready) = gateway.get("/readyz").await;
    assert_eq!(
        (status, &ready["failing"]),
        (StatusCode::SERVICE_UNAVAILABLE, &json!(["plugin:gate"]))
    );
    let (status, _, body) = gateway.turn().await;
    assert!(!status.is_success() && body.contains("gate"), "{status} {body}");
    gateway.kill();
    let meant = with(", required: false");
    place.write(&meant);
    place.serve().serves(&place, &meant, "one").await;
}

#[tokio::test]
async fn status_and_doctor_say_where_state_lies_and_how_it_is() {
    let place = Place::new().await;
    place.write(&place.configured("one", "", ""));
    let state = || -> String {
        let said = place.run(&["doctor"]);
        let said: Value = serde_json::from_slice(&said.stdout).expect("JSON");
        said["state"].as_str().expect("a place").to_owned()
    };
    assert!(
        state().contains("nothing yet") && !place.state().exists(),
        "{}",
        state()
    );
    let gateway = place.serve();
    let (_, status) = gateway.get("/admin/v1/status").await;
    assert_eq!(status["state"]["store"], "file");
    assert!(
        status["state"]["dir"]
            .as_str()
            .is_some_and(|dir| dir.ends_with("/state")),
        "{status}"
    );
    // it does not answer where the doctor asks
    let held = format!("held by process {}", gateway.pid());
    assert!(state().contains(&held), "{}", state());
    gateway.kill();
    assert!(state().contains("not closed in order"), "{}", state());
    place.serve().end();
    assert!(state().contains("sound"), "{}", state());
    let mode = |name: &str| {
        let facts = fs::metadata(place.state().join(name)).expect("there");
        facts.permissions().mode() & 0o777
    };
    assert_eq!(
        (mode(""), mode("state.redb"), mode("gateway.lock")),
        (0o700, 0o600, 0o600)
    );
    fs::write(place.state().join("state.redb"), "nothing of ours").expect("written");
    assert!(state().contains("unusable"), "{}", state());
    let refused = place.run(&["serve"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("state.redb"), "{told}");
}

#[tokio::test]
async fn without_a_gateway_plugins_are_compared_with_what_served_last() {
    let place = Place::new().await;
    place.write(&place.configuration("one", 1));
    let differs = || -> Value {
        let said = place.run(&["plugins", "registry"]);
        let said: Value = serde_json::from_slice(&said.stdout).expect("JSON");
        assert_eq!(said["state"], "cold");
        said["differences"].clone()
    };
    place.serve().end();
    assert_eq!(differs(), json!([]));
    fs::write(place.plugins().join("stage/more"), "edited").expect("written");
    let found = differs();
    assert_eq!(
        (&found[0]["id"], &found[0]["difference"]),
        (&json!("stage"), &json!("its source has changed"))
    );
}

#[tokio::test]
async fn state_in_memory_leaves_nothing_behind_and_without_a_word_it_lies_with_its_user() {
    let place = Place::new().await;
    let usual = place.home().join(".local/state/understudy");
    let at_home = || {
        let mut command = place.command(&["serve"]);
        for variable in ["UNDERSTUDY_STATE", "STATE_DIRECTORY", "XDG_STATE_HOME"] {
            command.env_remove(variable);
        }
        command.env("HOME", place.home());
        command
    };
    place.write(&place.configured("one", "", "state: { store: memory }\n"));
    place.start(at_home()).end();
    assert!(!usual.exists() && !place.state().exists());
    place.write(&place.configured("one", "", ""));
    place.start(at_home()).end();
    assert!(usual.join("state.redb").exists());
    place.write(&place.configured("one", "", "state: { dir: ./kept-here }\n"));
    place.start(at_home()).end();
    assert!(place.home().join("kept-here/state.redb").exists());
}

#[tokio::test]
async fn what_cannot_be_put_back_stays_away_and_the_others_come_back_case_t29() {
    let place = Place::new().await;
    place.another("other", true);
    let entries = format!("{}, {}", place.entry("stage"), place.entry("other"));
    place.write(&place.configured("one", &entries, ""));
    let gateway = place.serve();
    remove_capture(&place.state(), "stage");
    // the installed files of the one are as they were, the other's new code does not start
    place.another("other", false);
    let both = json!({ "plugins": ["stage", "other"] });
    let (status, told) = gateway.post("/admin/v1/plugins/reload", &both).await;
    let error = &told["error"];
    assert_eq!(
        (status, &error["outcome"]),
        (StatusCode::CONFLICT, &json!("restored")),
        "{told}"
    );
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("stage could not be put back"), "{message}");
    let (_, report) = gateway.get("/admin/v1/plugins").await;
    let status_of = |id: &str| -> Value {
        let all = report["plugins"].as_array().expect("plugins");
        all.iter().find(|it| it["id"] == id).expect("it is there")["status"].clone()
    };
    assert_eq!(
        (status_of("other"), status_of("stage")),
        (json!("loaded"), json!("error"))
    );
    let (_, ready) = gateway.get("/readyz").await;
    assert_eq!(ready["pluginReload"]["pluginIds"], json!(["stage"]), "{ready}");
    // by name it comes anew, from what is installed
    let (status, told) = gateway
        .post("/admin/v1/plugins/reload", &json!({ "plugins": ["stage"] }))
        .await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert_eq!(gateway.get("/readyz").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_receipt_warns_that_what_was_replaced_could_not_have_been_put_back_case_t29() {
    let place = Place::new().await;
    place.write(&place.configured("one", &place.entry("stage"), ""));
    let gateway = place.serve();
    remove_capture(&place.state(), "stage");
    let (status, told) = gateway
        .post("/admin/v1/plugins/reload", &json!({ "plugins": ["stage"] }))
        .await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert!(told["warnings"].to_string().contains("cannot be put back"), "{told}");
}
