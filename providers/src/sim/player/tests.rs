use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio::io::ReadBuf;
use understudy_messages::clock::Instant;
use understudy_messages::ids::ModelRef;

use super::super::asked::Asked;
use super::super::call::Call;
use super::super::entries::EndedBy;
use super::super::headers::RequestHeaders;
use super::super::http1::Request;
use super::super::journal::{Journal, JournalLimits};
use super::*;

/// A client that takes every write whole and notes when, and leaves at a time if it has one.
struct Client {
    started: Instant,
    writes: Vec<(u128, Bytes)>,
}

/// The client's own end: silent, then gone.
struct Leaving(Pin<Box<dyn Future<Output = ()> + Send>>);

impl AsyncWrite for Client {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let at = (Clock::real().now() - self.started).as_millis();
        self.writes.push((at, Bytes::copy_from_slice(bytes)));
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Leaving {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.0.as_mut().poll(context).map(Ok)
    }
}

struct Performance {
    played: Played,
    writes: Vec<(u128, Bytes)>,
    journal: Journal,
}

async fn perform(call: serde_json::Value, leaves_ms: Option<u64>) -> Performance {
    let call: Call = serde_json::from_value(call).expect("parses");
    let response = Response::new(&call, &Asked::read("/a/v1/chat/completions", b"{}"), 1);
    let clock = Clock::real();
    let journal = Journal::new(JournalLimits::default(), clock.clone());
    let request = Request {
        method: "POST".into(),
        path: "/a/v1".into(),
        headers: RequestHeaders::default(),
        body: Bytes::new(),
        keep_alive: true,
    };
    let mut open = journal.begin(ModelRef::new("a", "m"), 1, &request, response.then);
    let mut client = Client {
        started: clock.now(),
        writes: Vec::new(),
    };
    let leaving = clock.clone();
    let mut leaving = Leaving(Box::pin(async move {
        match leaves_ms {
            Some(ms) => leaving.sleep(Duration::from_millis(ms)).await,
            None => std::future::pending().await,
        }
    }));
    let ends = (&mut leaving, &mut client);
    let played = play(ends, &mut BytesMut::new(), &response, &clock, &mut open).await;
    open.ended(played);
    Performance {
        played,
        writes: client.writes,
        journal,
    }
}

#[tokio::test(start_paused = true)]
async fn each_write_waits_for_its_time_after_the_one_before() {
    let call = json!({
        "delay_ms": 1000, "headers": { "content-type": "text/event-stream" },
        "frames": [[0, "a"], [250, "b", 2], [3000, "c"]],
    });
    let performance = perform(call, None).await;
    let times: Vec<u128> = performance.writes.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [1000, 1000, 1250, 1500, 4500, 4500]);
    assert_eq!(performance.writes[2].1, "1\r\nb\r\n");
    assert_eq!(performance.played, Played::Whole);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_is_noticed_in_every_phase() {
    let frames = json!([[0, "a"], [100, "b"]]);
    for (leaves_ms, writes) in [(50, 0), (150, 2), (99_999, 3)] {
        let call = json!({
            "delay_ms": 100, "headers": { "content-type": "text/event-stream" },
            "frames": frames, "then": "hang",
        });
        let performance = perform(call, Some(leaves_ms)).await;
        assert_eq!(performance.played, Played::PeerLeft);
        assert_eq!(performance.writes.len(), writes, "left after {leaves_ms}");
        let end = performance.journal.read(|it| it.records().next()?.end);
        let end = end.expect("has ended");
        assert_eq!((end.by, end.at), (EndedBy::Peer, Duration::from_millis(leaves_ms)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_follows_the_last_write() {
    let performance = perform(json!({ "body": "abc", "then": "reset" }), None).await;
    assert_eq!(performance.played, Played::Reset);
    let written: u64 = performance.writes.iter().map(|(_, it)| it.len() as u64).sum();
    let noted = performance
        .journal
        .read(|it| it.records().next().map(|it| it.bytes_written));
    assert_eq!(noted, Some(written));
}
