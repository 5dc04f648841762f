//! What upstreams saw: `upstream_*`, `order`, `timing`.

use std::time::Duration;

use serde_json::{Value, json};
use understudy_providers::sim::entries::EndedBy;

use super::{call, sample, tells_apart};
use crate::expect::Expect;

#[test]
fn a_false_number_of_calls_is_refused() {
    tells_apart(
        &[
            json!({ "upstream_calls": { "a/m1": 1, "b/m2": [1, 2], "c/m9": 0 } }),
            json!({ "upstream_calls_total": 3 }),
        ],
        &[
            json!({ "upstream_calls": { "a/m1": 0 } }),
            json!({ "upstream_calls": { "b/m2": [3, 9] } }),
            json!({ "upstream_calls_total": [0, 2] }),
        ],
    );
}

#[test]
fn a_false_order_is_refused() {
    tells_apart(
        &[json!({ "order": ["a/m1", "b/m2"] })],
        &[json!({ "order": ["b/m2", "a/m1"] }), json!({ "order": ["a/m1"] })],
    );
}

#[test]
fn a_request_past_the_end_of_a_script_is_refused() {
    let mut seen = sample();
    seen.violations.push("a/m1".to_owned());
    assert!(!Expect::default().check(&seen).is_empty());
}

#[test]
fn a_false_body_is_refused() {
    let first = |rule: Value| json!({ "upstream_bodies": { "a/m1": [rule] } });
    tells_apart(
        &[
            first(json!({ "contains": "canon", "model": "m1" })),
            first(json!({ "not_contains": "memory" })),
        ],
        &[
            first(json!({ "contains": "memory" })),
            first(json!({ "not_contains": "canon" })),
            first(json!({ "model": "m2" })),
            json!({ "upstream_bodies": { "a/m1": [{}, {}] } }),
        ],
    );
}

#[test]
fn a_false_header_upstream_is_refused() {
    let first = |name: &str, rule: Value| json!({ "upstream_headers": { "a/m1": [{ name: rule }] } });
    tells_apart(
        &[
            first("authorization", json!("Bearer sk-1")),
            first("cookie", Value::Null),
            first("accept", json!("text/event-stream")),
        ],
        &[
            first("authorization", Value::Null),
            first("authorization", json!("Bearer sk-2")),
            first("accept", json!("*/*")),
            first("cookie", json!("x")),
        ],
    );
}

#[test]
fn an_upstream_left_too_late_or_never_is_refused() {
    let within = |target: &str, ms: u64| json!({ "upstream_cancelled_within_ms": { target: ms } });
    tells_apart(
        &[within("a/m1", 600)],
        &[within("a/m1", 599), within("b/m2", 5000), within("c/m9", 5000)],
    );
}

#[test]
fn the_time_to_leave_counts_from_when_the_client_left() {
    let expect = |ms: u64| -> Expect {
        serde_json::from_value(json!({ "upstream_cancelled_within_ms": { "a/m1": ms } })).expect("an expectation")
    };
    let mut seen = sample();
    seen.calls = vec![call("a/m1", 0, Some((600, EndedBy::Peer)), "")];
    seen.leaves = vec![Duration::from_millis(550), Duration::from_millis(900)];
    assert!(expect(50).check(&seen).is_empty());
    assert!(!expect(49).check(&seen).is_empty());
}

#[test]
fn a_connection_left_open_is_refused() {
    let open = |target: &str, number: u64| json!({ "upstream_connections_open_after": { target: number } });
    tells_apart(&[open("a/m1", 0), open("b/m2", 1)], &[open("a/m1", 1), open("b/m2", 0)]);
}

#[test]
fn what_took_too_long_or_not_long_enough_is_refused() {
    let timing = |key: &str, ms: u64| json!({ "timing": { key: ms } });
    tells_apart(
        &[
            timing("r1_max_ms", 700),
            timing("min_total_ms", 3100),
            timing("median_max_ms", 100),
            timing("r_p99_max_ms", 700),
        ],
        &[
            timing("r1_max_ms", 699),
            timing("r9_max_ms", 9999),
            timing("min_total_ms", 3101),
            timing("median_max_ms", 99),
            timing("r_p99_max_ms", 699),
            timing("x_p99_max_ms", 9999),
            timing("a_new_key", 1),
        ],
    );
}

#[test]
fn a_gap_that_is_too_short_is_refused() {
    let gaps = |gaps: Value| json!({ "timing": { "min_gaps_ms": { "b/m2": gaps } } });
    tells_apart(&[gaps(json!([2390]))], &[gaps(json!([2391])), gaps(json!([1, 1]))]);
}
