use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn script(json: Value) -> Script {
    serde_json::from_value(json).expect("parses")
}

fn key(name: &str) -> Credential {
    serde_json::from_value(json!(name)).expect("parses")
}

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The statuses that the next requests get; `None` past the end.
fn statuses<const N: usize>(cursor: &mut Cursor, script: &Script) -> [Option<u16>; N] {
    std::array::from_fn(|_| status(cursor.draw(script, Duration::ZERO, None)))
}

fn status(draw: Draw) -> Option<u16> {
    draw.call.and_then(|call| call.status)
}

#[test]
fn calls_are_played_in_order_and_the_last_repeats() {
    let script = script(json!({ "calls": [{ "status": 500, "times": 2 }, { "status": 200 }] }));
    let drawn = statuses(&mut Cursor::default(), &script);
    assert_eq!(drawn, [500, 500, 200, 200].map(Some));
}

#[test]
fn past_the_end_of_a_list_that_does_not_repeat_there_is_no_call() {
    let script = script(json!({ "calls": [{ "status": 200 }], "repeat_last": false }));
    let drawn = statuses(&mut Cursor::default(), &script);
    assert_eq!(drawn, [Some(200), None, None]);
}

#[test]
fn a_schedule_follows_the_time_and_its_last_phase_holds() {
    let script = script(json!({ "schedule": [
        { "for_ms": 100, "call": { "status": 503 } },
        { "for_ms": 50, "call": { "status": 429, "connect": "refuse" } },
        { "for_ms": 1, "call": { "status": 200 } },
    ] }));
    let mut cursor = Cursor::default();
    for (ms, expected) in [(0, 503), (99, 503), (100, 429), (149, 429), (150, 200), (9_999, 200)] {
        let drawn = status(cursor.draw(&script, at(ms), None));
        assert_eq!(drawn, Some(expected), "at {ms}");
    }
    let stance = |ms| cursor.stance(&script, at(ms));
    assert_eq!(
        stance(0),
        Stance {
            connect: Connect::Accept,
            until: Some(at(100))
        }
    );
    assert_eq!(
        stance(100),
        Stance {
            connect: Connect::Refuse,
            until: Some(at(150))
        }
    );
    assert_eq!(
        stance(150),
        Stance {
            connect: Connect::Accept,
            until: None
        }
    );
}

#[test]
fn a_credential_with_a_list_of_its_own_leaves_the_others_calls_alone() {
    let script = script(json!({
        "calls": [{ "status": 500 }, { "status": 200 }],
        "credentials": { "k1": { "calls": [{ "status": 401 }, { "status": 403 }] } },
    }));
    let mut cursor = Cursor::default();
    let mut ask = |name: &str| status(cursor.draw(&script, Duration::ZERO, Some(&key(name))));
    assert_eq!(ask("k1"), Some(401));
    assert_eq!(ask("k2"), Some(500));
    assert_eq!(ask("k1"), Some(403));
    assert_eq!(ask("k2"), Some(200));
}

#[test]
fn each_credential_has_its_own_window_and_it_reopens() {
    let script = script(json!({
        "calls": [{ "status": 200 }],
        "key_limit": { "requests": 2, "per_ms": 1000, "call": { "status": 429 } },
    }));
    let mut cursor = Cursor::default();
    let mut ask = |name: &str, ms| status(cursor.draw(&script, at(ms), Some(&key(name))));
    let first: Vec<_> = [0, 500, 999].map(|ms| ask("k1", ms)).into();
    assert_eq!(first, [Some(200), Some(200), Some(429)]);
    assert_eq!(ask("k2", 999), Some(200));
    assert_eq!(ask("k1", 1000), Some(200));
}

#[test]
fn a_limited_request_takes_no_call() {
    let script = script(json!({
        "calls": [{ "status": 200 }, { "status": 201 }], "repeat_last": false,
        "key_limit": { "requests": 1, "per_ms": 10, "call": { "status": 429 } },
    }));
    let mut cursor = Cursor::default();
    let drawn = [0, 1, 10].map(|ms| status(cursor.draw(&script, at(ms), None)));
    assert_eq!(drawn, [Some(200), Some(429), Some(201)]);
}

#[test]
fn windows_are_bounded() {
    let script = script(json!({
        "calls": [{ "status": 200 }],
        "key_limit": { "requests": 1, "per_ms": 10, "call": { "status": 429 } },
    }));
    let mut cursor = Cursor::default();
    for number in 0..MAX_WINDOWS {
        cursor.draw(&script, at(0), Some(&key(&number.to_string())));
    }
    let mut ask = |ms| status(cursor.draw(&script, at(ms), Some(&key("one more"))));
    assert_eq!(ask(9), Some(429));
    assert_eq!(ask(10), Some(200));
    assert_eq!(cursor.windows.len(), 1);
}

#[test]
fn the_port_follows_the_next_call() {
    let script = script(json!({ "calls": [
        {}, { "connect": "refuse" }, { "connect": "blackhole" }, {},
    ] }));
    let mut cursor = Cursor::default();
    let connect = |cursor: &Cursor| cursor.stance(&script, Duration::ZERO).connect;
    assert_eq!(connect(&cursor), Connect::Accept);
    cursor.draw(&script, Duration::ZERO, None);
    assert_eq!(connect(&cursor), Connect::Refuse);
    cursor.pass();
    assert_eq!(connect(&cursor), Connect::Blackhole);
    cursor.pass();
    assert_eq!(connect(&cursor), Connect::Accept);
    assert_eq!(cursor.drawn(), 3);
}

proptest! {
    #[test]
    fn a_list_plays_as_if_it_were_written_out(
        times in prop::collection::vec(1_u64..5, 1..6),
        repeat_last: bool,
    ) {
        let calls: Vec<Value> = times
            .iter()
            .zip(200..)
            .map(|(times, status)| json!({ "status": status, "times": times }))
            .collect();
        let script = script(json!({ "calls": calls, "repeat_last": repeat_last }));
        let written_out = times
            .iter()
            .zip(200_u16..)
            .flat_map(|(times, status)| std::iter::repeat_n(status, *times as usize));
        let mut cursor = Cursor::default();
        let mut last = 0;
        for expected in written_out {
            prop_assert_eq!(status(cursor.draw(&script, Duration::ZERO, None)), Some(expected));
            last = expected;
        }
        let beyond = status(cursor.draw(&script, Duration::ZERO, None));
        prop_assert_eq!(beyond, repeat_last.then_some(last));
    }
}
