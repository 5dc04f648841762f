//! The clients of a case: requests under way, and those that were left.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::RequestBuilder;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use understudy_providers::sim::journal::Journal;
use understudy_tests::gateway::Gateway;

use crate::case::Request;
use crate::reply::Reply;

/// Every client of a case.
pub(crate) struct Clients {
    http: reqwest::Client,
    api: String,
    journal: Journal,
    under_way: JoinSet<(String, Reply)>,
    leave: HashMap<String, CancellationToken>,
    received: Arc<AtomicU64>,
    replies: BTreeMap<String, Reply>,
    leaves: Vec<Duration>,
}

impl Clients {
    pub(crate) fn new(gateway: &Gateway, journal: Journal) -> Self {
        Self {
            http: gateway.client().clone(),
            api: gateway.api(""),
            journal,
            under_way: JoinSet::new(),
            leave: HashMap::new(),
            received: Arc::default(),
            replies: BTreeMap::new(),
            leaves: Vec::new(),
        }
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, request: &Request) {
        let (leave, received, journal) = (CancellationToken::new(), self.received.clone(), self.journal.clone());
        self.leave.insert(request.id.clone(), leave.clone());
        let (id, api, prepared) = (request.id.clone(), request.api, self.prepare(request));
        self.under_way.spawn(async move {
            let mut reply = Reply {
                api,
                sent: journal.elapsed(),
                ..Reply::default()
            };
            let exchange = exchange(prepared, &mut reply, &received);
            // a connection that breaks leaves a reply that is not whole
            let _left_or_broken = leave.run_until_cancelled(exchange).await;
            reply.ended = journal.elapsed();
            (id, reply)
        });
    }

    fn prepare(&self, request: &Request) -> RequestBuilder {
        let mut prepared = self.http.post(format!("{}{}", self.api, request.path()));
        prepared = prepared
            .header("x-request-id", &request.id)
            .body(request.sent().to_string());
        if let Some(session) = &request.session {
            prepared = prepared.header("x-session-id", session);
        }
        if let Some(deadline) = request.deadline_ms() {
            prepared = prepared.header("x-understudy-timeout-ms", deadline);
        }
        let headers = request.headers.iter();
        headers.fold(prepared, |prepared, (name, value)| prepared.header(name, value))
    }

    /// Closes a request's connection, whatever has come so far.
    pub(crate) fn leave(&mut self, request: &str) {
        if let Some(leave) = self.leave.get(request) {
            self.leaves.push(self.journal.elapsed());
            leave.cancel();
        }
    }

    /// Takes in what has ended.
    pub(crate) fn collect(&mut self) {
        while let Some(ended) = self.under_way.try_join_next() {
            let (id, reply) = ended.expect("a client does not panic");
            self.replies.insert(id, reply);
        }
    }

    /// The number of requests under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// A number that changes whenever a client gets anything.
    pub(crate) fn stamp(&self) -> (u64, usize) {
        (self.received.load(Ordering::Relaxed), self.replies.len())
    }

    /// What clients got, and when they left.
    pub(crate) fn finish(self) -> (BTreeMap<String, Reply>, Vec<Duration>) {
        (self.replies, self.leaves)
    }
}

async fn exchange(request: RequestBuilder, reply: &mut Reply, received: &AtomicU64) -> Result<(), reqwest::Error> {
    let mut response = request.send().await?;
    received.fetch_add(1, Ordering::Relaxed);
    reply.status = Some(response.status().as_u16());
    let headers = response.headers().iter();
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    reply.headers = headers
        .map(|(name, value)| (name.to_string(), text(value.as_bytes())))
        .collect();
    while let Some(bytes) = response.chunk().await? {
        received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        reply.body.extend_from_slice(&bytes);
    }
    reply.whole = true;
    Ok(())
}
