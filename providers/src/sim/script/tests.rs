use std::path::PathBuf;

use serde_json::json;

use super::*;

fn call(json: Value) -> Result<Call, serde_json::Error> {
    serde_json::from_value(json)
}

fn refusal<T: serde::de::DeserializeOwned + std::fmt::Debug>(json: Value) -> String {
    let refused = serde_json::from_value::<T>(json);
    refused.expect_err("is refused").to_string()
}

#[test]
fn an_empty_call_is_an_empty_200_that_closes() {
    let call = call(json!({})).expect("parses");
    assert_eq!((call.status, call.then), (None, None));
    assert_eq!((call.connect, call.times.get()), (Connect::Accept, 1));
    assert!(call.head && call.delay.is_zero());
    assert!(matches!(call.content, Content::Body(body) if body.is_empty()));
}

#[test]
fn frames_and_writes_become_timed_pieces() {
    let frames = call(json!({ "frames": [[5, "a"], [6, "b", 3]] })).expect("parses");
    let writes = call(json!({ "writes": [[5, { "text": "é" }], [0, { "base64": "w6k=" }]] }));
    let pieces = |call: Call| match call.content {
        Content::Timed(pieces) => pieces,
        other => panic!("{other:?}"),
    };
    let frames = pieces(frames);
    assert_eq!(frames[0], Piece::once(Duration::from_millis(5), "a"));
    assert_eq!((frames[1].count, &frames[1].bytes[..]), (3, &b"b"[..]));
    let writes = pieces(writes.expect("parses"));
    assert_eq!(writes[0].bytes, writes[1].bytes);
}

#[test]
fn a_text_body_stays_as_it_is_and_a_json_body_is_written_out() {
    let text = call(json!({ "body": "<html>" })).expect("parses");
    let json = call(json!({ "body": { "a": [1] } })).expect("parses");
    assert!(matches!(text.content, Content::Body(body) if body == "<html>"));
    assert!(matches!(json.content, Content::Body(body) if body == r#"{"a":[1]}"#));
}

#[test]
fn unknown_keys_are_refused_at_every_level() {
    let wrong = [
        json!({ "a/m": { "calls": [], "cals": [] } }),
        json!({ "a/m": { "calls": [{ "stat": 1 }] } }),
        json!({ "a/m": { "calls": [{ "answer": { "text": "x", "n": 1 } }] } }),
        json!({ "a/m": { "schedule": [{ "for_ms": 1, "call": {}, "x": 1 }] } }),
        json!({ "a/m": { "calls": [], "key_limit": { "requests": 1, "per_ms": 1, "call": {}, "x": 1 } } }),
        json!({ "a/m": { "calls": [], "credentials": { "k": { "calls": [], "x": 1 } } } }),
    ];
    for json in wrong {
        let why = refusal::<Plan>(json);
        assert!(why.contains("unknown field"), "{why}");
    }
}

#[test]
fn a_call_with_two_contents_is_refused() {
    let why = refusal::<Call>(json!({ "body": "x", "frames": [] }));
    assert!(why.contains("one of"), "{why}");
}

#[test]
fn a_script_takes_calls_or_a_schedule() {
    for json in [
        json!({}),
        json!({ "schedule": [] }),
        json!({ "calls": [], "schedule": [{ "for_ms": 1, "call": {} }] }),
    ] {
        let why = refusal::<Script>(json);
        assert!(why.contains("either"), "{why}");
    }
}

#[test]
fn what_would_break_the_wire_is_refused() {
    for json in [
        json!({ "status": 99 }),
        json!({ "status": 1000 }),
        json!({ "headers": { "a": "b\r\nc: d" } }),
        json!({ "headers": { "": "b" } }),
        json!({ "writes": [[0, { "base64": "?" }]] }),
        json!({ "times": 0 }),
    ] {
        assert!(call(json.clone()).is_err(), "{json}");
    }
}

#[test]
fn a_plan_names_targets_or_the_default() {
    let plan = json!({ "openrouter/meta/llama": { "calls": [] }, "default": { "calls": [] } });
    let plan: Plan = serde_json::from_value(plan).expect("parses");
    assert!(plan.default.is_some());
    let names: Vec<String> = plan.upstreams.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["openrouter/meta/llama"]);
    let why = refusal::<Plan>(json!({ "gpt": { "calls": [] } }));
    assert!(why.contains("`gpt`"), "{why}");
}

#[test]
fn the_keys_of_a_plan_do_not_print() {
    let plan =
        json!({ "a/m": { "calls": [], "credentials": { "sk-secret-1234": { "calls": [] } } } });
    let plan: Plan = serde_json::from_value(plan).expect("parses");
    let printed = format!("{plan:?}");
    assert!(!printed.contains("secret") && printed.contains("234"));
}

#[test]
fn every_script_of_the_shared_cases_is_understood() {
    let folder = std::env::var_os("UNDERSTUDY_SHARED").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared")),
        PathBuf::from,
    );
    let Ok(files) = std::fs::read_dir(folder.join("cases")) else {
        eprintln!("skipped: no cases in {}", folder.display());
        return;
    };
    let paths = files.map(|file| file.expect("reads").path());
    let mut scripts = 0;
    for path in paths.filter(|path| path.extension().is_some_and(|it| it == "json")) {
        let text = std::fs::read(&path).expect("reads");
        let mut case: Value = serde_json::from_slice(&text).expect("is JSON");
        let plan: Plan = serde_json::from_value(case["upstreams"].take())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        scripts += plan.upstreams.len();
    }
    assert!(scripts > 0, "no script in {}", folder.display());
}
