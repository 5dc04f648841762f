//! Plays the steps of a case, on the one clock of gateway, upstreams and clients, which is moved by hand.
//!
//! The clock stands still while anything moves. It goes to the next step when nothing is under way, else forward in
//! small steps, once gateway and upstreams provably wait for time alone. The proof is that nothing moves during several
//! round trips through the one thread that serves the API and every upstream connection; clients and upstreams share
//! the other thread with the player.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::events::SharedEvent;
use understudy_providers::sim::Simulator;
use understudy_providers::sim::entries::Tally;
use understudy_tests::gateway::Gateway;

use crate::case::{Action, Case, Load, Step};
use crate::client::Clients;
use crate::memory;
use crate::operator::Operator;
use crate::plugins::Heard;

/// Round trips without any change that prove that only time is waited for.
const ROUND_TRIPS: u32 = 3;
/// How long a round trip may take, in real time.
const PROBE: Duration = Duration::from_secs(30);
/// The first step of a wait; later ones grow with it.
const FIRST_STEP: Duration = Duration::from_millis(20);
/// The longest step of a wait.
const LONGEST_STEP: Duration = Duration::from_millis(250);
/// How long a load is left to itself, in real time.
const PAUSE: Duration = Duration::from_secs(1);
/// How long after the last step requests may still be under way.
const PATIENCE: Duration = Duration::from_secs(700);

/// A client for round trips. It keeps its connection, so that they lead to one thread only.
fn probe() -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).timeout(PROBE);
    client.build().expect("a client")
}

/// Who plays in a case.
#[derive(Clone)]
pub(crate) struct Stage<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) simulator: &'a Simulator,
    pub(crate) clock: Clock,
    pub(crate) heard: Heard,
    pub(crate) operator: Operator<'a>,
}

/// A case under way.
pub(crate) struct Player<'a> {
    stage: Stage<'a>,
    clock: Clock,
    pub(crate) clients: Clients,
    pub(crate) operator: Operator<'a>,
    /// Makes the round trips.
    probe: reqwest::Client,
    /// None where nothing may be kept.
    tap: Option<Receiver<SharedEvent>>,
    pub(crate) events: Vec<SharedEvent>,
    pub(crate) events_missed: u64,
    /// The most memory that this process has held until the end of each load, in bytes.
    pub(crate) peaks: Vec<u64>,
}

/// Changes whenever a client, an upstream, a plugin or the event tap sees anything.
#[derive(Clone, Copy, PartialEq)]
struct Stamp {
    clients: (u64, usize),
    events: usize,
    hooks: usize,
    calls: u64,
    written: u64,
    ended: u64,
    connections: u64,
}

impl<'a> Player<'a> {
    /// A `lean` one keeps no events.
    pub(crate) fn new(stage: &Stage<'a>, lean: bool) -> Self {
        Self {
            clients: Clients::new(stage.gateway, stage.simulator.journal().clone()),
            tap: (!lean).then(|| stage.gateway.events()),
            operator: stage.operator.clone(),
            stage: stage.clone(),
            clock: stage.clock.clone(),
            probe: probe(),
            events: Vec::new(),
            events_missed: 0,
            peaks: Vec::new(),
        }
    }

    /// Plays all steps, and on until nothing is under way.
    ///
    /// # Errors
    /// When something never ends.
    pub(crate) async fn play(&mut self, case: &Case) -> Result<(), String> {
        let mut start = self.clock.now();
        for Step { at, action } in &case.steps {
            self.run_until(start + *at).await;
            match action {
                Action::Request(request) => self.clients.send(request),
                Action::ClientDisconnect { request } => self.clients.leave(request),
                Action::AdvanceClock { ms } => {
                    let by = Duration::from_millis(*ms);
                    self.clock.advance(by);
                    start += by;
                }
                Action::ActivatePlugin { plugin } => self.operator.reload(plugin, None).await?,
                Action::ReloadPlugin { plugin, script } => self.operator.reload(plugin, *script).await?,
                Action::ReloadConfig { set } => self.operator.set(set).await?,
                Action::Load(load) => self.load(case, load).await?,
            }
        }
        self.run_out().await?;
        let end = self.clock.now() + Duration::from_millis(case.expect.wait_ms_after);
        while self.clock.now() < end {
            self.wait(end).await;
        }
        self.settle().await;
        Ok(())
    }

    /// Plays a load to its end, and notes what it took.
    async fn load(&mut self, case: &Case, load: &Load) -> Result<(), String> {
        let model = case.config.models.keys().next().map_or("", String::as_str);
        self.clients.load(model, *load);
        let (real, deadline) = (Clock::real(), self.clock.now() + PATIENCE);
        // whether it waits for time is not asked again and again: the question takes longer than a request
        while real.timeout_at(real.now() + PAUSE, self.clients.crowd()).await.is_err() && self.clock.now() < deadline {
            self.wait(self.clock.now() + FIRST_STEP).await;
        }
        self.run_out().await?;
        self.peaks.push(memory::peak()?);
        Ok(())
    }

    /// Lets everything happen that happens before `deadline`.
    async fn run_until(&mut self, deadline: Instant) {
        while self.clock.now() < deadline {
            if self.settle().await {
                continue;
            }
            if self.is_idle() {
                self.clock.advance(deadline.saturating_duration_since(self.clock.now()));
            } else {
                self.wait(deadline).await;
            }
        }
    }

    /// Lets everything happen that is under way.
    async fn run_out(&mut self) -> Result<(), String> {
        let deadline = self.clock.now() + PATIENCE;
        loop {
            if self.settle().await {
                continue;
            }
            if self.is_idle() {
                return Ok(());
            }
            if self.clock.now() >= deadline {
                return Err(format!(
                    "{} requests and their upstream calls do not end",
                    self.clients.under_way()
                ));
            }
            self.wait(deadline).await;
        }
    }

    /// Moves the clock while nothing else moves; to `deadline` at most.
    async fn wait(&mut self, deadline: Instant) {
        let began = self.clock.now();
        while !self.settle().await {
            let now = self.clock.now();
            let step = (now.duration_since(began) / 40).clamp(FIRST_STEP, LONGEST_STEP);
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() {
                return;
            }
            self.clock.advance(step.min(left));
        }
    }

    /// Makes round trips until some in a row have seen nothing move; whether anything had moved before.
    pub(crate) async fn settle(&mut self) -> bool {
        let began = self.stamp();
        let mut stamp = began;
        let mut still = 0;
        while still < ROUND_TRIPS {
            self.round_trip().await;
            let now = self.stamp();
            still = if now == stamp { still + 1 } else { 0 };
            stamp = now;
        }
        stamp != began
    }

    /// Asks the API for anything; the answer is read, so that the connection can be used again.
    async fn round_trip(&self) {
        let response = self.probe.get(self.stage.gateway.api("/v1/models")).send().await;
        let _whole = response.expect("the API answers").bytes().await.expect("a body");
    }

    fn stamp(&mut self) -> Stamp {
        self.clients.collect();
        self.listen();
        self.stage.simulator.journal().read(|entries| Stamp {
            clients: self.clients.stamp(),
            events: self.events.len(),
            hooks: self.stage.heard.count(),
            calls: entries.tallies().values().map(|tally| tally.calls).sum(),
            written: entries.records().map(|record| record.bytes_written).sum(),
            ended: entries.tallies().values().map(Tally::ended).sum(),
            connections: entries.open_connections(),
        })
    }

    fn listen(&mut self) {
        while let Some(tap) = &mut self.tap {
            match tap.try_recv() {
                Ok(event) => self.events.push(event),
                Err(TryRecvError::Lagged(missed)) => self.events_missed += missed,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Whether no client waits and no upstream call is open.
    fn is_idle(&self) -> bool {
        let calls_are_over = self
            .stage
            .simulator
            .journal()
            .read(|entries| entries.tallies().values().all(|tally| tally.ended() == tally.calls));
        self.clients.under_way() == 0 && calls_are_over
    }

    /// What the sessions that a case asks for have kept: `user:hi`.
    pub(crate) async fn transcripts(&self, case: &Case) -> BTreeMap<String, Vec<String>> {
        let mut transcripts = BTreeMap::new();
        for session in case.expect.session_transcript.iter().flat_map(BTreeMap::keys) {
            let path = format!("/v1/sessions/{session}");
            let response = self.probe.get(self.stage.gateway.api(&path)).send().await;
            let told = response.expect("the API answers").bytes().await.expect("a body");
            let told: Value = serde_json::from_slice(&told).unwrap_or_default();
            let messages = told["messages"].as_array().into_iter().flatten();
            let line = |message: &Value| {
                let parts = message["content"].as_array().into_iter().flatten();
                let text: String = parts.filter_map(|part| part["text"].as_str()).collect();
                format!("{}:{text}", message["role"].as_str().unwrap_or("nobody"))
            };
            transcripts.insert(session.clone(), messages.map(line).collect());
        }
        transcripts
    }

    /// A page of the admin listener.
    pub(crate) async fn page(&self, path: &str) -> String {
        let response = self
            .probe
            .get(self.stage.gateway.admin(path))
            .send()
            .await
            .expect("the admin listener answers");
        response.text().await.expect("text")
    }
}
