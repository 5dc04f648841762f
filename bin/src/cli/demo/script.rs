//! What each simulated upstream does.

use serde_json::{Value, json};

/// The key that cassini refuses.
pub(super) const DEAD_KEY: &str = "sk-dead";
/// What a torn stream says before it breaks.
pub(super) const TORN: &str = "It was a dark and stormy";
/// The tool that clients offer and the guarded lead wants to call.
pub(super) const TOOL: &str = "shell";
/// How long the flapping lead is down.
const OUTAGE_MS: u64 = 1500;

/// The scripts, by target.
pub(super) fn plan() -> Value {
    let calls = |calls: &[Value]| json!({ "calls": calls });
    let answer = || json!({ "answer": { "text": "{model} heard: {last}", "chunks": 6, "every_ms": 2 } });
    let refuse = |status: u16, kind: &str, code: Value| {
        json!({ "status": status, "headers": { "content-type": "application/json" },
            "body": { "error": { "message": "simulated", "type": kind, "code": code, "param": null } } })
    };
    let overloaded = || refuse(503, "service_unavailable_error", json!("server_is_overloaded"));
    let limited = || refuse(429, "rate_limit_error", json!("rate_limit_exceeded"));
    let broken = || refuse(500, "server_error", Value::Null);
    let mut limited_for_a_second = limited();
    limited_for_a_second["headers"]["retry-after"] = json!("1");
    let refused_key = refuse(401, "invalid_request_error", json!("invalid_api_key"));
    let (first, rest) = TORN.split_at(TORN.len() / 2);
    let chunk = |text: &str| {
        let data = json!({ "id": "torn", "object": "chat.completion.chunk", "created": 1, "model": "torn",
            "choices": [{ "index": 0, "delta": { "content": text }, "finish_reason": null }] });
        json!([1, format!("data: {data}\n\n")])
    };
    json!({
        "aurora/steady": calls(&[answer()]),
        "borealis/second": calls(&[answer()]),
        "aurora/crowded": calls(&[overloaded()]),
        "aurora/limited": calls(&[limited()]),
        "doria/patient": calls(&[limited_for_a_second, answer()]),
        "cassini/keyed": { "calls": [answer()], "credentials": { DEAD_KEY: { "calls": [refused_key] } } },
        "aurora/mute": calls(&[json!({ "head": false, "body": "", "then": "reset" })]),
        "aurora/torn": calls(&[json!({ "headers": { "content-type": "text/event-stream" },
            "frames": [chunk(first), chunk(rest)], "then": "reset" })]),
        "aurora/flapping": { "schedule": [
            { "for_ms": OUTAGE_MS, "call": overloaded() },
            { "for_ms": 86_400_000, "call": answer() },
        ]},
        "aurora/hopeless": calls(&[broken()]),
        "borealis/hopeless": calls(&[broken()]),
        "aurora/kept": calls(&[overloaded()]),
        "borealis/kept": calls(&[answer()]),
        "aurora/guarded": calls(&[json!({ "answer": { "text": "", "tool_calls": [
            { "name": TOOL, "arguments": { "command": "rm -rf /" } },
        ] } })]),
    })
}
