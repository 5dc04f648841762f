//! The clients of a case: requests under way, and those that were left.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use understudy_providers::sim::journal::Journal;
use understudy_tests::gateway::Gateway;

use crate::case::{Load, Request};
use crate::reply::Reply;
use crate::seen::Loads;

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
    /// The clients of loads.
    crowd: JoinSet<Loads>,
    loads: Loads,
    /// Loads that have begun: each brings sessions of its own.
    begun: u64,
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
            crowd: JoinSet::new(),
            loads: Loads::default(),
            begun: 0,
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

    /// Sends the requests of a load, each of which asks for this model; the first clients take one more where it does not come out
    /// even.
    pub(crate) fn load(&mut self, model: &str, load: Load) {
        self.begun += 1;
        let crowd = Crowd {
            http: self.http.clone(),
            url: format!("{}/v1/chat/completions", self.api),
            name: format!("load-{}", self.begun),
            model: model.to_owned(),
            load,
            received: self.received.clone(),
        };
        let crowd = Arc::new(crowd);
        for client in 0..load.concurrency.get() {
            self.crowd.spawn(crowd.clone().ask(client));
        }
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

    /// Waits until the clients of all loads have ended.
    pub(crate) async fn crowd(&mut self) {
        while let Some(ended) = self.crowd.join_next().await {
            self.loads.add(ended.expect("a client does not panic"));
        }
    }

    /// Takes in what has ended.
    pub(crate) fn collect(&mut self) {
        while let Some(ended) = self.under_way.try_join_next() {
            let (id, reply) = ended.expect("a client does not panic");
            self.replies.insert(id, reply);
        }
        while let Some(ended) = self.crowd.try_join_next() {
            self.loads.add(ended.expect("a client does not panic"));
        }
    }

    /// The number of requests under way.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len() + self.crowd.len()
    }

    /// A number that changes whenever a client gets anything.
    pub(crate) fn stamp(&self) -> (u64, usize) {
        (self.received.load(Ordering::Relaxed), self.replies.len())
    }

    /// What clients got, when they left, and how loads went.
    pub(crate) fn finish(self) -> (BTreeMap<String, Reply>, Vec<Duration>, Loads) {
        (self.replies, self.leaves, self.loads)
    }
}

/// What the clients of one load share.
struct Crowd {
    http: reqwest::Client,
    url: String,
    name: String,
    model: String,
    load: Load,
    received: Arc<AtomicU64>,
}

impl Crowd {
    /// What one client does: request after request, each read to its end before the next.
    async fn ask(self: Arc<Self>, client: u64) -> Loads {
        let mut loads = Loads::default();
        let mut number = client;
        while number < self.load.requests {
            let mut reply = Reply::default();
            // a connection that breaks leaves a reply that is not whole
            let _broken = exchange(self.request(number), &mut reply, &self.received).await;
            loads.note(reply);
            number += self.load.concurrency.get();
        }
        loads
    }

    fn request(&self, number: u64) -> RequestBuilder {
        let text = format!("{number:x<width$}", width = self.load.body_text_bytes);
        let body = json!({ "model": self.model, "stream": true, "messages": [{ "role": "user", "content": text }] });
        let request = self.http.post(&self.url).body(body.to_string());
        request.header(
            "x-session-id",
            format!("{}-{}", self.name, number % self.load.distinct_sessions),
        )
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
