//! A client that does not read: reading upstream stops, others go on, and the turn still ends when its time is over.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use understudy_messages::failure::{CancelCause, Reason};
use understudy_messages::turn::TurnOutcome;
use understudy_providers::sim::entries::EndedBy;

use crate::stage::{Stage, lead, question, text};

/// What the provider has to say: half a gigabyte, far more than sockets and channels hold.
const FRAME: usize = 64 << 10;
const FRAMES: usize = 8192;
/// What sockets and channels may hold, all together.
const HELD: u64 = 64 << 20;

/// A stage with this configuration, and a client in the middle of a stream of which it reads no more.
async fn begun(configuration: &str) -> (Stage, TcpStream) {
    let frames = json!([[0, text(&"x".repeat(FRAME)), FRAMES]]);
    let call = json!({ "headers": { "content-type": "text/event-stream" }, "frames": frames });
    let other = json!({ "calls": [{ "answer": { "text": "yes" } }] });
    let stage = Stage::set_with(json!({ "a/m": { "calls": [call] }, "b/m": other }), configuration).await;
    let body = question(true).to_string();
    let length = body.len();
    let request = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}");
    let address = stage.gateway.api("").replace("http://", "");
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    socket.write_all(request.as_bytes()).await.expect("sent");
    socket.read_exact(&mut [0; 1024]).await.expect("the answer begins");
    (stage, socket)
}

/// The same, once nothing of it is read upstream any more.
async fn unread() -> (Stage, TcpStream) {
    let (stage, socket) = begun("").await;
    let mut before = 0;
    while written(&stage) != before {
        before = written(&stage);
        others_go_on(&stage).await;
    }
    (stage, socket)
}

fn written(stage: &Stage) -> u64 {
    let journal = stage.simulator.journal();
    journal.read(|entries| entries.records_of(&lead()).map(|call| call.bytes_written).sum())
}

/// Twenty turns of others, one after the other.
async fn others_go_on(stage: &Stage) {
    let mut question = question(false);
    question["model"] = json!("b/m");
    for _ in 0..20 {
        assert_eq!(stage.ask(&question).await.status, 200);
        assert_eq!(stage.told().await.end.outcome, TurnOutcome::Completed);
    }
}

/// Checks that the turn ends so while its client still does not read.
async fn ends(stage: &Stage, outcome: TurnOutcome) {
    // small steps: a slow machine must not see the grace of an ending pass in one of them
    let told = stage.in_time(Duration::from_millis(200), stage.told()).await;
    assert_eq!(told.end.outcome, outcome);
    assert_eq!(told.end.attempts.len(), 1);
    stage.all_ended().await;
    let journal = stage.simulator.journal();
    let end = journal.read(|entries| entries.records_of(&lead()).next().and_then(|call| call.end));
    assert_eq!(end.map(|end| end.by), Some(EndedBy::Peer));
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_reading_upstream_until_the_budget_ends() {
    let (stage, _unread) = unread().await;
    let held = written(&stage);
    assert!(held < HELD, "{held} bytes were read for a client that reads none");
    stage.clock.advance(Duration::from_secs(595));
    let (reason, after_content) = (Reason::Timeout, true);
    ends(&stage, TurnOutcome::Failed { reason, after_content }).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_no_shutdown() {
    let (mut stage, _unread) = unread().await;
    stage.gateway.begin_stop(Duration::from_secs(5));
    let cause = CancelCause::Shutdown;
    ends(&stage, TurnOutcome::Cancelled { cause }).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_that_takes_in_nothing_loses_its_connection() {
    // the system keeps this time, whatever our clock says
    let (stage, _unread) = begun("defaults: { limits: { unread: 1s } }\n").await;
    stage.clock.hold();
    let told = stage.told().await;
    let cause = CancelCause::Client;
    assert_eq!(told.end.outcome, TurnOutcome::Cancelled { cause });
}

#[tokio::test]
async fn large_bodies_that_are_still_arriving_are_bounded_together() {
    const LARGEST: usize = 20_000_000;
    const FIT: usize = (512 << 10) / LARGEST.div_ceil(1024);
    let stage = Stage::set(json!({ "a/m": { "calls": [{ "answer": { "text": "yes" } }] } })).await;
    let address = stage.gateway.api("").replace("http://", "");
    let head = format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {LARGEST}\r\n\r\n{{");
    let mut arriving = FuturesUnordered::new();
    for _ in 0..FIT + 4 {
        let mut socket = TcpStream::connect(&address).await.expect("a connection");
        socket.write_all(head.as_bytes()).await.expect("sent");
        arriving.push(async move {
            let mut status = [0; 12];
            socket.read_exact(&mut status).await.expect("an answer");
            String::from_utf8_lossy(&status).into_owned()
        });
    }
    for _ in 0..4 {
        assert_eq!(
            arriving.next().await.as_deref(),
            Some("HTTP/1.1 503"),
            "there is no room for it"
        );
    }
    assert_eq!(stage.ask(&question(false)).await.status, 200, "a small one still fits");
}
