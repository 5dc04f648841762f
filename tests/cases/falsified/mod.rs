//! One sample of what can be seen, right expectations of it, and false ones.

mod formats;
mod gateway;
mod harness;
mod responses;
mod upstreams;

use std::io::Write;
use std::time::Duration;

use serde_json::{Value, json};
use understudy_providers::sim::entries::{End, EndedBy};
use understudy_providers::sim::headers::RequestHeaders;

use crate::case::ClientApi;
use crate::expect::Expect;
use crate::expect::events::Hook;
use crate::hooks::Fired;
use crate::log::Log;
use crate::plugins::OBSERVER;
use crate::reply::Reply;
use crate::seen::{Call, Loads, Page, Reloaded, Seen};
use crate::windows::{Scope, Window};

/// Asserts that a sample meets an expectation, and that it does not meet any of those falsified.
#[track_caller]
fn tells_apart(right: &[Value], falsified: &[Value]) {
    tells_apart_in(&sample(), right, falsified);
}

/// The same for another sample.
#[track_caller]
fn tells_apart_in(seen: &Seen, right: &[Value], falsified: &[Value]) {
    for expected in right {
        let told = complaints(expected, seen);
        assert!(told.is_empty(), "{expected} is right, yet: {told:?}");
    }
    for expected in falsified {
        assert!(!complaints(expected, seen).is_empty(), "{expected} is false and passes");
    }
}

fn complaints(expected: &Value, seen: &Seen) -> Vec<String> {
    let expect: Expect = serde_json::from_value(expected.clone()).expect("an expectation");
    expect.check(seen).iter().map(ToString::to_string).collect()
}

/// Two requests: one was rescued by the second target, one failed after content.
fn sample() -> Seen {
    Seen {
        replies: [("r1".to_owned(), rescued()), ("r2".to_owned(), broken())].into(),
        calls: vec![
            call(
                "a/m1",
                0,
                Some((600, EndedBy::Peer)),
                r#"{"model":"m1","text":"canon"}"#,
            ),
            call("b/m2", 610, Some((700, EndedBy::Sim)), r#"{"model":"m2"}"#),
            call("b/m2", 3000, Some((3100, EndedBy::Sim)), r#"{"model":"m2"}"#),
        ],
        open_connections: [("a/m1".to_owned(), 0), ("b/m2".to_owned(), 1)].into(),
        violations: Vec::new(),
        leaves: Vec::new(),
        fired: vec![
            fired(
                Hook::ModelFailover,
                "r1",
                json!({ "from": "a/m1", "to": "b/m2", "reason": "timeout", "status": null }),
            ),
            fired(Hook::AgentEnd, "r1", json!({ "success": true })),
            fired(Hook::AgentEnd, "r2", json!({ "success": false })),
            Fired {
                plugin: "guard".to_owned(),
                ..fired(Hook::BeforeToolCall, "r1", json!({ "toolName": "add" }))
            },
        ],
        reloads: vec![reloaded(false, 200), reloaded(true, 409)],
        transcripts: [("s1".to_owned(), vec!["user:hi".to_owned(), "assistant:ok".to_owned()])].into(),
        loads: Loads {
            sent: 2,
            answered: 2,
            failed: Vec::new(),
        },
        peaks: vec![100 << 20, 110 << 20],
        events_missed: 0,
        event_texts: "[{\"event\":\"turn_ended\"}]".to_owned(),
        before: Page::new(metrics(0, 1)),
        after: Page::new(metrics(2, 0)),
        windows: Ok(vec![Window {
            scope: Scope::Model("a/m1".to_owned()),
            reason: "rate_limit".to_owned(),
            remaining: Duration::from_secs(30),
        }]),
        config_debug: "ServerConfig { .. }".to_owned(),
        log: logged("a line of the log"),
    }
}

fn logged(line: &str) -> Log {
    let log = Log::default();
    (&log).write_all(line.as_bytes()).expect("a log takes everything");
    log
}

fn metrics(turns: u32, in_flight: u32) -> String {
    use understudy_actors::telemetry::{
        GENERATION, HOOK_CALLS, RELOADS, SESSIONS, TOKENS_TOTAL, TURNS, TURNS_IN_FLIGHT,
    };
    let (tokens, turns_total, turns_in_flight) = (TOKENS_TOTAL.name, TURNS.name, TURNS_IN_FLIGHT.name);
    let (hooks, reloads, generation, sessions) = (HOOK_CALLS.name, RELOADS.name, GENERATION.name, SESSIONS.name);
    let rare = if turns > 0 { "rare 1\n" } else { "" };
    format!(
        "# HELP gpt-junk\n{turns_total}{{outcome=\"ok\"}} {turns}\n{tokens}{{provider=\"b\",model=\"m2\",kind=\"output\"}} {turns}\n\
         {turns_in_flight}{{agent=\"default\"}} {in_flight}\n{rare}\
         {hooks}{{plugin=\"logger\",outcome=\"error\"}} {turns}\n{hooks}{{plugin=\"logger\",outcome=\"ok\"}} {turns}\n\
         {reloads}{{trigger=\"api\",outcome=\"applied\"}} {turns}\n{reloads}{{trigger=\"api\",outcome=\"rolled_back\"}} 0\n\
         {sessions}{{state=\"active\"}} 1\n{sessions}{{state=\"idle\"}} 2\n{sessions}{{state=\"passivated\"}} 4\n\
         {generation} {}\n",
        turns + 1
    )
}

fn rescued() -> Reply {
    let chunk =
        |delta: Value, finish: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] });
    let call = json!({ "index": 0, "id": "call_a", "function": { "name": "add", "arguments": "{\"x\"" } });
    let rest = json!({ "index": 0, "function": { "arguments": ":1}" } });
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": 9, "completion_tokens": 2 } });
    let events = [
        chunk(json!({ "role": "assistant", "content": "" }), Value::Null),
        chunk(json!({ "content": "ok" }), Value::Null),
        chunk(json!({ "tool_calls": [call] }), Value::Null),
        chunk(json!({ "tool_calls": [rest] }), json!("stop")),
        usage,
    ];
    let events: String = events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect();
    let headers = [
        ("content-type", "text/event-stream"),
        ("x-understudy-served-by", "b/m2"),
        ("retry-after", "24"),
    ];
    Reply {
        api: ClientApi::OpenaiChat,
        status: Some(200),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        body: format!("{events}data: [DONE]\n\n").into_bytes(),
        whole: true,
        sent: Duration::ZERO,
        ended: Duration::from_millis(700),
    }
}

fn broken() -> Reply {
    let error = json!({ "error": { "code": "upstream_error", "reason": "server_error" } });
    Reply {
        api: ClientApi::OpenaiChat,
        status: Some(200),
        headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
        body: format!("data: {error}\n\n").into_bytes(),
        whole: true,
        sent: Duration::from_secs(3),
        ended: Duration::from_millis(3100),
    }
}

fn call(target: &str, started: u64, end: Option<(u64, EndedBy)>, body: &str) -> Call {
    let headers = [("Authorization", "Bearer sk-1"), ("accept", "text/event-stream")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Call {
        target: target.to_owned(),
        started: Duration::from_millis(started),
        end: end.map(|(at, by)| End {
            at: Duration::from_millis(at),
            by,
        }),
        headers: RequestHeaders::from_iter(headers),
        body: body.to_owned(),
    }
}

fn reloaded(fails: bool, status: u16) -> Reloaded {
    Reloaded {
        step: "reload of p".to_owned(),
        fails,
        status,
        told: String::new(),
    }
}

fn fired(hook: Hook, request: &str, payload: Value) -> Fired {
    Fired {
        plugin: OBSERVER.to_owned(),
        hook,
        request: Some(request.to_owned()),
        payload,
    }
}
