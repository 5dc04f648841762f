//! Every recorded error, and every failing call of a settled case, must be classified as its file says.

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

/// The JSON files of a shared folder; says so plainly when it is not there.
fn files(folder: &str) -> Vec<Value> {
    let shared = std::env::var_os("UNDERSTUDY_SHARED").map_or_else(|| "../../shared".into(), PathBuf::from);
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(shared).join(folder);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("no folder {}: nothing checked", folder.display());
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("entry reads").path());
    let json = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    json.map(|path| {
        let text = std::fs::read_to_string(&path).expect("file reads");
        serde_json::from_str(&text).expect("file is JSON")
    })
    .collect()
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

/// The reason of a response as the files write it: status, headers and body.
fn reason_of(provider: &str, response: &Value, body: &str) -> &'static str {
    let headers = |name: &str| response["headers"][name].as_str();
    let failure = classify(&Signal {
        provider,
        status: response["status"]
            .as_u64()
            .and_then(|status| u16::try_from(status).ok()),
        headers: &headers,
        body: body.as_bytes(),
        secrets: &[],
        now: SystemTime::UNIX_EPOCH,
    });
    failure.reason.as_label()
}

#[test]
fn every_recorded_error_has_the_reason_of_its_file() {
    let mut wrong = Vec::new();
    for recording in files("recordings/errors") {
        let id = recording["id"].as_str().expect("recording has an id");
        let Some(expected) = recording["reason"].as_str().filter(|_| !ENDINGS.contains(&id)) else {
            continue;
        };
        let provider = recording["request"]["host"].as_str().unwrap_or_default();
        let response = &recording["response"];
        let found = reason_of(provider, response, &body(response));
        if found != expected {
            wrong.push(format!("{id}: {found} instead of {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_failing_call_of_a_case_has_the_reason_of_its_event() {
    let mut wrong = Vec::new();
    for case in files("cases") {
        let events = case["expect"]["events"].as_array().into_iter().flatten();
        let payloads = events.flat_map(|event| {
            event["payloads"]
                .as_array()
                .into_iter()
                .flatten()
                .chain(event.get("payload"))
        });
        for payload in payloads {
            let (Some(target), Some(expected)) = (payload["from"].as_str(), payload["reason"].as_str()) else {
                continue;
            };
            let call = &case["upstreams"][target]["calls"][0];
            if call["status"].as_u64().is_none_or(|status| status < 400) {
                continue;
            }
            let provider = target.split('/').next().unwrap_or_default();
            let found = reason_of(provider, call, &call["body"].to_string());
            if found != expected {
                wrong.push(format!("{}: {found} instead of {expected}", case["id"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
