//! Every recorded error must be classified as its file says.

use std::path::PathBuf;
use std::time::SystemTime;

use serde_json::Value;

use super::super::{Signal, classify};

/// Files about how an exchange ended: nothing in them is an error to classify.
const ENDINGS: [&str; 5] = [
    "200-chat-cut-before-finish",
    "200-chat-reset-after-40-tokens",
    "200-json-empty-content",
    "200-stream-only-done",
    "200-stream-zero-bytes",
];

fn folder() -> PathBuf {
    let shared = std::env::var_os("UNDERSTUDY_SHARED").map_or_else(|| "../../shared".into(), PathBuf::from);
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(shared)
        .join("recordings/errors")
}

/// The body, or of a stream the frame that holds the error.
fn body(response: &Value) -> String {
    let frames = response["sse"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let error = frames
        .filter(|frame| frame.contains("\"error\""))
        .find_map(|frame| frame.split_once("data: "));
    let whole = response["body"].as_str().unwrap_or_default();
    error.map_or(whole, |(_, data)| data).to_owned()
}

fn reason_of(recording: &Value) -> String {
    let response = &recording["response"];
    let headers = |name: &str| response["headers"][name].as_str();
    let failure = classify(&Signal {
        provider: recording["request"]["host"].as_str().unwrap_or_default(),
        status: response["status"]
            .as_u64()
            .and_then(|status| u16::try_from(status).ok()),
        headers: &headers,
        body: body(response).as_bytes(),
        secret: None,
        now: SystemTime::UNIX_EPOCH,
    });
    failure.reason.as_label().to_owned()
}

#[test]
fn every_recorded_error_has_the_reason_of_its_file() {
    let folder = folder();
    let Ok(files) = std::fs::read_dir(&folder) else {
        println!("no recordings in {}: nothing checked", folder.display());
        return;
    };
    let (mut checked, mut wrong) = (0, Vec::new());
    for file in files.map(|file| file.expect("entry reads").path()) {
        let text = std::fs::read_to_string(&file).expect("file reads");
        let recording: Value = serde_json::from_str(&text).expect("file is JSON");
        let id = recording["id"].as_str().expect("recording has an id");
        let Some(expected) = recording["reason"].as_str().filter(|_| !ENDINGS.contains(&id)) else {
            continue;
        };
        checked += 1;
        let found = reason_of(&recording);
        if found != expected {
            wrong.push(format!("{id}: {found} instead of {expected}"));
        }
    }
    assert!(checked > 0, "no recording names a reason");
    assert!(wrong.is_empty(), "{checked} checked; wrong:\n{}", wrong.join("\n"));
}
