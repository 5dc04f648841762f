use std::path::PathBuf;

use serde_json::{Value, json};

use super::*;

fn refusal<T: serde::de::DeserializeOwned + std::fmt::Debug>(json: Value) -> String {
    let refused = serde_json::from_value::<T>(json);
    refused.expect_err("is refused").to_string()
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
    let plan = json!({ "a/m": { "calls": [], "credentials": { "sk-secret-1234": { "calls": [] } } } });
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
