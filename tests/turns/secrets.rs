//! Keys and providers' words appear nowhere they must not: not in answers, scrapes, events or logs.
//!
//! Every log line of this process passes a watch, at the level `trace`, whatever library wrote it.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tracing::level_filters::LevelFilter;

use crate::stage::{Reply, Stage, finish, question, stream, text};

/// What the configuration holds, for the lead and the second.
const KEY: &str = "canary-key-of-";
/// What the provider says.
const WORDS: &str = "canary-words";
/// What the client says.
const QUESTION: &str = "canary-question";
/// What the client's own key is.
const CLIENT_KEY: &str = "canary-client-key";

/// Reads the log and keeps the lines with a canary in them.
struct Watch {
    lines: AtomicU64,
    found: Mutex<Vec<String>>,
}

static WATCH: Watch = Watch {
    lines: AtomicU64::new(0),
    found: Mutex::new(Vec::new()),
};

impl io::Write for &Watch {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.lines.fetch_add(1, Ordering::Relaxed);
        let text = String::from_utf8_lossy(line);
        if text.contains("canary") {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            found.push(text.into_owned());
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Watch {
    /// Begins to watch, once for the process.
    fn begin() {
        static BEGUN: Once = Once::new();
        BEGUN.call_once(|| {
            let watched = tracing_subscriber::fmt()
                .with_max_level(LevelFilter::TRACE)
                .with_ansi(false);
            watched.with_writer(|| &WATCH).init();
        });
    }

    /// Checks that lines came by and none had a canary in it.
    fn saw_nothing() {
        assert!(WATCH.lines.load(Ordering::Relaxed) > 0, "no log came by");
        let found = WATCH.found.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(found.is_empty(), "{found:?}");
    }
}

/// An error in which a provider says everything it should not.
fn indiscreet(provider: &str, status: u16, code: &str) -> Value {
    let key = format!("{KEY}{provider}");
    let message = format!("{WORDS}: the key {key} was refused ({key})");
    json!({ "status": status, "headers": { "content-type": "application/json", "x-canary": key, "x-request-id": "r1" },
        "body": { "error": { "message": message, "type": code, "code": code, "param": key } } })
}

/// Plays a turn between indiscreet providers; checks all that can be read but the reply.
async fn plays(calls: [Value; 2], streams: bool) -> Reply {
    Watch::begin();
    let [lead, second] = calls.map(|call| json!({ "calls": [call] }));
    let plan = json!({ "a/m": lead, "b/m": second });
    let stage = Stage::set_with(plan, &format!("client_keys: [{CLIENT_KEY}]\n")).await;
    let mut events = stage.gateway.events();
    let mut question = question(streams);
    question["messages"][0]["content"] = json!(QUESTION);
    let asked = stage.ask_as(&question, |request| request.bearer_auth(CLIENT_KEY));
    let reply = stage.in_time(Duration::from_millis(100), asked).await;
    stage.told().await;
    let mut told = Vec::new();
    while let Ok(event) = events.try_recv() {
        told.push(serde_json::to_string(&*event).expect("JSON"));
    }
    assert!(!told.is_empty());
    assert!(!told.iter().any(|event| event.contains("canary")), "{told:?}");
    for path in ["/metrics", "/admin/v1/status"] {
        let read = stage.admin(path).await.text();
        assert!(!read.contains("canary"), "{read}");
    }
    Watch::saw_nothing();
    assert!(
        !format!("{:?}", reply.headers).contains("canary"),
        "{:?}",
        reply.headers
    );
    reply
}

#[tokio::test]
async fn an_exhausted_chain_says_nothing_that_providers_said() {
    for streams in [false, true] {
        let calls = [
            indiscreet("a", 500, "server_error"),
            indiscreet("b", 401, "invalid_api_key"),
        ];
        let reply = plays(calls, streams).await;
        assert_eq!(reply.status, 503);
        assert!(!reply.text().contains("canary"), "{}", reply.text());
    }
}

#[tokio::test]
async fn what_was_wrong_with_the_clients_request_is_told_to_it_alone_and_without_keys() {
    let calls = ["a", "b"].map(|provider| indiscreet(provider, 400, "invalid_value"));
    let reply = plays(calls, false).await;
    assert_eq!(reply.status, 400);
    assert!(reply.text().contains(WORDS), "{}", reply.text());
    assert!(!reply.text().contains(KEY), "{}", reply.text());
}

#[tokio::test]
async fn an_error_in_mid_stream_says_nothing_that_the_provider_said() {
    let error = format!("data: {}\n\n", indiscreet("a", 500, "overloaded_error")["body"]);
    let begun = text("once");
    let calls = [
        stream([&*begun, &error], "close"),
        indiscreet("b", 400, "invalid_value"),
    ];
    let reply = plays(calls, true).await;
    let ending = reply.text().split_off(begun.len());
    assert!(ending.contains("\"error\"") && !ending.contains("canary"), "{ending}");
}

#[tokio::test]
async fn odd_frames_and_pages_are_quoted_nowhere() {
    let odd = format!("data: {{\"choices\": {KEY} {WORDS}\n\n");
    let page = json!({ "headers": { "content-type": "text/html" }, "body": format!("<p>{WORDS} {KEY}a") });
    let calls = [page, stream([&*odd, &text("once"), &finish()], "close")];
    let reply = plays(calls, true).await;
    assert_eq!(reply.status, 200);
    assert!(!reply.text().contains("canary"), "{}", reply.text());
}
