//! What the gateway told: `events`, `metrics`, `metrics_shape`, `state`, and texts found anywhere.

use serde_json::{Value, json};

use super::{reloaded, sample, tells_apart, tells_apart_in};
use crate::expect::Expect;
use crate::memory;
use crate::seen::Loads;
use crate::windows::{self, Scope};

fn event(rule: Value) -> Value {
    json!({ "events": [rule] })
}

#[test]
fn a_false_count_of_a_hook_is_refused() {
    tells_apart(
        &[
            event(json!({ "hook": "model_failover", "count": 1 })),
            event(json!({ "hook": "model_failover" })),
            event(json!({ "hook": "model_failure_terminal", "count": 0 })),
            event(json!({ "hook": "model_failover", "request": "r2", "count": 0 })),
            event(json!({ "hook": "before_tool_call", "plugin": "guard", "request": "r1", "count": 1 })),
            event(json!({ "hook": "before_tool_call", "count": 0 })),
        ],
        &[
            event(json!({ "hook": "model_failover", "count": 0 })),
            event(json!({ "hook": "model_failover", "count": [2, 3] })),
            event(json!({ "hook": "model_failure_terminal" })),
            event(json!({ "hook": "model_failover", "request": "r2", "count": 1 })),
            event(json!({ "hook": "model_failover", "request": "r9", "count": 0 })),
            event(json!({ "hook": "before_tool_call", "plugin": "guard", "count": 0 })),
            event(json!({ "hook": "before_tool_call", "plugin": "other" })),
            event(json!({ "hook": "model_failover", "plugin": "guard" })),
        ],
    );
}

#[test]
fn a_false_payload_is_refused() {
    let first = |payload: Value| event(json!({ "hook": "model_failover", "count": 1, "payload": payload }));
    let all = |payloads: Value| event(json!({ "hook": "agent_end", "payloads": payloads }));
    tells_apart(
        &[
            first(json!({ "from": "a/m1", "status": null })),
            all(json!([{ "success": true }, { "success": false }])),
        ],
        &[
            first(json!({ "from": "b/m2" })),
            first(json!({ "kind": "x" })),
            all(json!([{ "success": false }, { "success": true }])),
            all(json!([{ "success": true }])),
        ],
    );
}

#[test]
fn a_false_number_of_executed_tools_is_refused() {
    let executed = |number: u64| json!({ "tools_executed": number });
    tells_apart(&[executed(1)], &[executed(0), executed(2)]);
    let mut cut = sample();
    let body = |reply: &crate::reply::Reply| String::from_utf8_lossy(&reply.body).into_owned();
    for reply in cut.replies.values_mut() {
        reply.body = body(reply).replace("\"stop\"", "\"length\"").into_bytes();
    }
    tells_apart_in(&cut, &[executed(0)], &[executed(1)]);
}

#[test]
fn a_false_transcript_is_refused() {
    let kept = |session: &str, lines: Value| json!({ "session_transcript": { session: lines } });
    tells_apart(
        &[kept("s1", json!(["user:hi", "assistant:ok"]))],
        &[
            kept("s1", json!(["user:hi"])),
            kept("s1", json!(["user:hi", "user:hi", "assistant:ok"])),
            kept("s1", json!(["assistant:ok", "user:hi"])),
            kept("s2", json!([])),
        ],
    );
}

#[test]
fn events_that_were_missed_are_refused() {
    let mut seen = sample();
    seen.events_missed = 1;
    assert!(!Expect::default().check(&seen).is_empty());
}

#[test]
fn a_reload_that_ends_otherwise_than_its_script_says_is_refused() {
    for (fails, status) in [(false, 409), (false, 202), (true, 200), (true, 503)] {
        let mut seen = sample();
        seen.reloads.push(reloaded(fails, status));
        assert!(!Expect::default().check(&seen).is_empty(), "{fails} {status}");
    }
}

#[test]
fn a_false_metric_is_refused() {
    let metric = |rule: Value| json!({ "metrics": [rule] });
    tells_apart(
        &[
            metric(json!({ "role": "requests", "labels": { "outcome": "ok" }, "delta": 2 })),
            metric(json!({ "role": "tokens", "labels": { "target": "b/m2" }, "delta": 2 })),
            metric(json!({ "role": "in_flight", "value": 0 })),
            metric(json!({ "role": "sessions_live", "value": 3 })),
            metric(json!({ "role": "reloads", "labels": { "result": "ok" }, "delta": 2 })),
            metric(json!({ "role": "reloads", "labels": { "result": "rolled_back" }, "delta": 0 })),
            metric(json!({ "role": "registry_generation", "delta": 2 })),
            metric(json!({ "role": "hook_failures", "labels": { "plugin": "logger" }, "delta": 2 })),
            metric(json!({ "role": "hook_failures", "labels": { "plugin": "logger", "kind": "error" }, "delta": 2 })),
        ],
        &[
            metric(json!({ "role": "requests", "labels": { "outcome": "ok" }, "delta": 1 })),
            metric(json!({ "role": "requests", "labels": { "outcome": "new" }, "delta": 0 })),
            metric(json!({ "role": "tokens", "labels": { "target": "a/m1" }, "delta": 0 })),
            metric(json!({ "role": "in_flight", "value": 1 })),
            metric(json!({ "role": "sessions_live", "value": 0 })),
            metric(json!({ "role": "sessions_live", "value": 1 })),
            metric(json!({ "role": "sessions_live", "value": 7 })),
            metric(json!({ "role": "reloads", "labels": { "result": "ok" }, "delta": 1 })),
            metric(json!({ "role": "reloads", "labels": { "result": "rolled_back" }, "delta": 1 })),
            metric(json!({ "role": "reloads", "labels": { "result": "new" }, "delta": 0 })),
            metric(json!({ "role": "registry_generation", "delta": 0 })),
            metric(json!({ "role": "hook_failures", "labels": { "plugin": "logger" }, "delta": 4 })),
            metric(json!({ "role": "hook_failures", "labels": { "plugin": "logger", "kind": "timeout" }, "delta": 2 })),
            metric(json!({ "role": "hook_failures", "labels": { "plugin": "other" }, "delta": 2 })),
        ],
    );
}

#[test]
fn memory_that_grows_more_than_it_may_is_refused() {
    let most = |percent: u64| json!({ "rss": { "second_load_growth_max_percent": percent } });
    tells_apart(&[most(10), most(11)], &[most(0), most(9)]);
    for peaks in [vec![], vec![100], vec![100, 100, 100], vec![100, 111]] {
        let mut seen = sample();
        seen.peaks = peaks;
        tells_apart_in(&seen, &[], &[most(10)]);
    }
}

#[test]
fn the_most_that_was_held_is_read_whatever_is_held_now() {
    let status = "Name:\tcases\nVmPeak:\t 9000 kB\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
    assert_eq!(memory::peak_in(status), Some(2 << 20));
    assert_eq!(memory::peak_in("VmRSS:\t    1024 kB\n"), None);
    assert!(memory::peak().is_ok_and(|held| held > 0));
}

#[test]
fn a_request_of_a_load_that_has_no_whole_answer_is_refused() {
    let mut loads = Loads::default();
    let whole = || sample().replies.remove("r1").expect("a reply");
    loads.note(whole());
    assert_eq!((loads.sent, loads.answered), (1, 1));
    let left = crate::reply::Reply {
        whole: false,
        ..whole()
    };
    let refused = crate::reply::Reply {
        status: Some(503),
        ..whole()
    };
    let broken = sample().replies.remove("r2").expect("a reply");
    for reply in [left, refused, broken, crate::reply::Reply::default()] {
        loads.note(reply);
    }
    assert_eq!((loads.sent, loads.answered, loads.failed.len()), (5, 1, 3));
    let mut seen = sample();
    seen.loads = loads;
    assert!(!Expect::default().check(&seen).is_empty());
}

#[test]
fn metrics_of_a_false_shape_are_refused() {
    let shape = |rule: Value| json!({ "metrics_shape": rule });
    tells_apart(
        &[
            shape(json!({ "series_growth_max": 1 })),
            shape(json!({ "label_values_never_match": "gpt-junk|user-" })),
        ],
        &[
            shape(json!({ "series_growth_max": 0 })),
            shape(json!({ "label_values_never_match": "user-|m2" })),
            shape(json!({ "label_values_never_match": "no.*pattern" })),
        ],
    );
}

#[test]
fn a_false_window_is_refused() {
    let cooldown = |rule: Value| json!({ "state": { "cooldown": rule } });
    tells_apart(
        &[
            cooldown(json!({ "a/m1": { "reason": "rate_limit", "max_ms": 60000 }, "b/m2": null })),
            cooldown(json!({ "a/m1": "model scope only" })),
        ],
        &[
            cooldown(json!({})),
            cooldown(json!({ "a/m1": null })),
            cooldown(json!({ "a/m1": { "reason": "billing" } })),
            cooldown(json!({ "a/m1": { "reason": "rate_limit", "max_ms": 29999 } })),
            cooldown(json!({ "b/m2": "model scope only" })),
        ],
    );
}

#[test]
fn a_window_of_a_credential_is_no_window_of_one_model() {
    let page = json!({ "providers": [
        { "name": "a", "candidates": [], "credentials": [{ "reason": "billing", "until_seconds": 600 }] },
        { "name": "b", "candidates": [{ "model": "m2", "state": "available", "until_seconds": 0 }], "credentials": [] },
    ] });
    let windows = windows::read(&page.to_string()).expect("a ledger");
    let scopes: Vec<_> = windows.iter().map(|window| window.scope.clone()).collect();
    assert_eq!(scopes, [Scope::Credential("a".to_owned())]);
    let expect: Expect = serde_json::from_value(json!({ "state": { "cooldown": { "a/m1": "model scope only" } } }))
        .expect("an expectation");
    let mut seen = sample();
    seen.windows = Ok(windows);
    assert!(!expect.check(&seen).is_empty());
    seen.windows = windows::read("{}");
    assert!(!expect.check(&seen).is_empty(), "without a ledger nothing is known");
}

#[test]
fn a_text_that_must_not_be_found_is_refused_wherever_it_is() {
    tells_apart(
        &[
            json!({ "never": ["prompt too large"], "never_delivered": ["served-by"], "never_anywhere": ["CANARY"] }),
            json!({ "logs_contain": ["line of the log"] }),
        ],
        &[
            json!({ "never": ["served-by"] }),
            json!({ "never_delivered": ["upstream_error"] }),
            json!({ "never_anywhere": ["upstream_error"] }),
            json!({ "never_anywhere": ["outcome=\"ok\""] }),
            json!({ "never_anywhere": ["turn_ended"] }),
            json!({ "never_anywhere": ["ServerConfig"] }),
            json!({ "never_anywhere": ["line of the log"] }),
            json!({ "logs_contain": ["another line"] }),
        ],
    );
}
