//! Plays a case: the real app, simulated upstreams and real clients on one clock.
//!
//! The clock runs in real time and is moved where only time could change anything: to the next step when nothing is
//! under way, else in small steps while gateway and upstreams provably wait. The proof is that nothing moves during
//! several round trips through the one thread that serves the API and every upstream connection, while clients and
//! upstreams share the other thread with the player.

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use understudy::AppOptions;
use understudy::config::{ConfigError, Problem, ServerConfig};
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::events::SharedEvent;
use understudy_messages::ids::ModelRef;
use understudy_providers::sim::{SimOptions, Simulator};
use understudy_tests::gateway::{Gateway, client};

use crate::case::{Action, Case, Step};
use crate::client::Clients;
use crate::log::Log;
use crate::seen::{self, Page, Seen};
use crate::windows;

/// Round trips without any change that prove that only time is waited for.
const ROUND_TRIPS: u32 = 3;
/// The first step of a wait; later ones grow with it.
const FIRST_STEP: Duration = Duration::from_millis(20);
/// The longest step of a wait.
const LONGEST_STEP: Duration = Duration::from_millis(250);
/// How long after the last step requests may still be under way.
const PATIENCE: Duration = Duration::from_secs(700);

/// Plays the case; an error when it could not be played to its end.
pub(crate) fn play(case: &Case, log: &Log) -> Result<Seen, String> {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let clock = Clock::movable();
    let options = SimOptions {
        clock: clock.clone(),
        recordings: Some(understudy_tests::shared().join("recordings")),
        ..SimOptions::default()
    };
    let simulator = runtime.block_on(Simulator::start(case.upstreams.clone(), options));
    let simulator = simulator.map_err(|error| error.to_string())?;
    let yaml = case.config.to_yaml(|provider| base_url(case, &simulator, provider));
    let config = ServerConfig::parse(&yaml, &|_| None).map_err(|error| refused(&error))?;
    // one thread, see above
    let options = AppOptions {
        clock: clock.clone(),
        arbiters: 1,
    };
    let gateway = Gateway::start_with(&yaml, options);
    let seen = watch(&runtime, case, &gateway, &simulator, clock, log);
    // clients and upstreams first: a gateway waits for open connections when it stops
    runtime.block_on(simulator.stop());
    drop(runtime);
    seen.map(|seen| Seen {
        config_debug: format!("{config:?}"),
        ..seen
    })
}

/// Where a provider is: on the own port of a target that plays with connects, if it has one.
fn base_url(case: &Case, simulator: &Simulator, provider: &str) -> String {
    let shared = simulator.base_url(provider);
    let targets = case.config.models.values().flat_map(|model| &model.chain);
    let of_provider = targets
        .filter_map(|target| ModelRef::parse(target))
        .filter(|target| &*target.provider == provider);
    let mut urls = of_provider.map(|target| simulator.base_url_of(&target));
    urls.find(|url| *url != shared).unwrap_or(shared)
}

fn refused(error: &ConfigError) -> String {
    let problems: &[Problem] = match error {
        ConfigError::Invalid(problems) => problems,
        ConfigError::Unreadable(_) => &[],
    };
    let told: Vec<_> = problems
        .iter()
        .map(|problem| format!("{} {}", problem.path, problem.message))
        .collect();
    format!("the configuration is refused: {}", told.join("; "))
}

fn watch(
    runtime: &Runtime,
    case: &Case,
    gateway: &Gateway,
    simulator: &Simulator,
    clock: Clock,
    log: &Log,
) -> Result<Seen, String> {
    runtime.block_on(async {
        let mut player = Player::new(gateway, simulator, clock);
        player.settle().await;
        let before = player.page("/metrics").await;
        player.play(case).await?;
        let (after, ledger) = (player.page("/metrics").await, player.page("/admin/v1/providers").await);
        let (replies, leaves) = player.clients.finish();
        let journal = simulator.journal();
        Ok(Seen {
            replies,
            leaves,
            calls: seen::calls(journal),
            open_connections: seen::open_connections(journal),
            violations: simulator
                .violations()
                .iter()
                .map(|violation| violation.target.to_string())
                .collect(),
            fired: seen::fired(&player.events),
            events_missed: player.events_missed,
            event_texts: serde_json::to_string(&player.events.iter().map(|event| &**event).collect::<Vec<_>>())
                .expect("events are JSON"),
            before: Page::new(before),
            after: Page::new(after),
            windows: windows::read(&ledger),
            config_debug: String::new(),
            log: log.clone(),
        })
    })
}

struct Player<'a> {
    gateway: &'a Gateway,
    simulator: &'a Simulator,
    clock: Clock,
    clients: Clients,
    /// Makes the round trips.
    probe: reqwest::Client,
    tap: Receiver<SharedEvent>,
    events: Vec<SharedEvent>,
    events_missed: u64,
}

/// Changes whenever a client, an upstream or the event tap sees anything.
#[derive(Clone, Copy, PartialEq)]
struct Stamp {
    clients: (u64, usize),
    events: usize,
    calls: u64,
    written: u64,
    ended: usize,
    connections: u64,
}

impl<'a> Player<'a> {
    fn new(gateway: &'a Gateway, simulator: &'a Simulator, clock: Clock) -> Self {
        Self {
            clients: Clients::new(gateway, simulator.journal().clone()),
            tap: gateway.events(),
            gateway,
            simulator,
            clock,
            probe: client(),
            events: Vec::new(),
            events_missed: 0,
        }
    }

    async fn play(&mut self, case: &Case) -> Result<(), String> {
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
                Action::Load { .. }
                | Action::ActivatePlugin { .. }
                | Action::ReloadPlugin { .. }
                | Action::ReloadConfig { .. } => {
                    return Err(format!("a step that no player knows: {action:?}"));
                }
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
    async fn settle(&mut self) -> bool {
        let began = self.stamp();
        let mut stamp = began;
        let mut still = 0;
        while still < ROUND_TRIPS {
            let _any_status = self.probe.get(self.gateway.api("/v1/models")).send().await;
            let now = self.stamp();
            still = if now == stamp { still + 1 } else { 0 };
            stamp = now;
        }
        stamp != began
    }

    fn stamp(&mut self) -> Stamp {
        self.clients.collect();
        self.listen();
        self.simulator.journal().read(|entries| Stamp {
            clients: self.clients.stamp(),
            events: self.events.len(),
            calls: entries.tallies().values().map(|tally| tally.calls).sum(),
            written: entries.records().map(|record| record.bytes_written).sum(),
            ended: entries.records().filter(|record| record.end.is_some()).count(),
            connections: entries.open_connections(),
        })
    }

    fn listen(&mut self) {
        loop {
            match self.tap.try_recv() {
                Ok(event) => self.events.push(event),
                Err(TryRecvError::Lagged(missed)) => self.events_missed += missed,
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Whether no client waits and no upstream call is open.
    fn is_idle(&self) -> bool {
        let calls_are_over = self
            .simulator
            .journal()
            .read(|entries| entries.records().all(|record| record.end.is_some()));
        self.clients.under_way() == 0 && calls_are_over
    }

    async fn page(&self, path: &str) -> String {
        let response = self
            .probe
            .get(self.gateway.admin(path))
            .send()
            .await
            .expect("the admin listener answers");
        response.text().await.expect("text")
    }
}
