//! The simulator: upstreams that speak the provider wire formats and misbehave by script, over real sockets (design §10).
//!
//! For tests, the demo, the load generator and `understudy sim`. It plays what it is told and judges nothing.
//!
//! One request: `http1` reads it, `choice` picks the call, `response` makes it into timed bytes, `player` sends them and
//! watches the client, `journal` notes it all.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use understudy_messages::clock::Clock;
use understudy_messages::ids::ModelRef;

use connect::Port;
use journal::{Journal, JournalLimits, Violation};
use listen::{OwnPort, Tasks, serve_shared};
use recording::RecordingError;
use script::Plan;
use stage::{MAX_CONNECTIONS, Stage, Upstream};

mod answer;
mod asked;
pub mod call;
mod choice;
mod connect;
mod connection;
pub mod entries;
pub mod headers;
mod http1;
pub mod journal;
mod listen;
mod player;
pub mod recording;
mod response;
pub mod script;
mod stage;

/// Where and how a simulator runs.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The shared port; ports of single upstreams are free ones on the same address.
    pub bind: SocketAddr,
    /// Drives delays, schedules and limits.
    pub clock: Clock,
    /// The folder in which `recording: "folder/id"` finds its files.
    pub recordings: Option<PathBuf>,
    /// How much the journal remembers.
    pub journal: JournalLimits,
}

impl Default for SimOptions {
    /// A free port on the loopback interface, the real clock, no recordings.
    fn default() -> Self {
        Self {
            bind: (Ipv4Addr::LOCALHOST, 0).into(),
            clock: Clock::real(),
            recordings: None,
            journal: JournalLimits::default(),
        }
    }
}

/// Why a simulator did not start.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A port cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The plan names a recording that cannot be played.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

/// Scripted upstreams that are being played. Dropping it ends them all, see [`Simulator::stop`].
#[derive(Debug)]
pub struct Simulator {
    stage: Arc<Stage>,
    shared: SocketAddr,
    own: BTreeMap<ModelRef, SocketAddr>,
    tasks: Tasks,
}

impl Simulator {
    /// Plays the plan from now on; ports already do what first calls say when it returns.
    ///
    /// # Errors
    /// When a port cannot be had or a recording cannot be read.
    pub async fn start(mut plan: Plan, options: SimOptions) -> Result<Self, SimError> {
        plan.resolve(options.recordings.as_deref())?;
        let upstream = |script| Arc::new(Upstream::new(script));
        let upstreams = plan.upstreams.into_iter();
        let stage = Arc::new(Stage {
            journal: Journal::new(options.journal, options.clock.clone()),
            clock: options.clock,
            upstreams: upstreams.map(|(name, it)| (name, upstream(it))).collect(),
            default: plan.default.map(upstream),
            room: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        });
        let at = |address| move |source| SimError::Listen { address, source };
        let listener = TcpListener::bind(options.bind).await;
        let listener = listener.map_err(at(options.bind))?;
        let shared = listener.local_addr().map_err(at(options.bind))?;
        let mut simulator = Self {
            stage,
            shared,
            own: BTreeMap::new(),
            tasks: Tasks::default(),
        };
        simulator.open_own_ports().await.map_err(at(shared))?;
        let serving = serve_shared(simulator.stage.clone(), listener, simulator.tasks.clone());
        simulator.tasks.spawn(serving);
        Ok(simulator)
    }

    /// The base URL of a provider on the shared port.
    pub fn base_url(&self, provider: &str) -> String {
        url(self.shared, provider)
    }

    /// The base URL of a target: on its own port if its script plays with connects, else on the shared one.
    pub fn base_url_of(&self, target: &ModelRef) -> String {
        let address = self.own.get(target).copied().unwrap_or(self.shared);
        url(address, &target.provider)
    }

    /// What has happened so far. The journal outlives the simulator.
    pub fn journal(&self) -> &Journal {
        &self.stage.journal
    }

    /// Requests that came past the end of a script that does not repeat.
    pub fn violations(&self) -> Vec<Violation> {
        self.journal().read(|it| it.violations().to_vec())
    }

    /// Tells that somebody has tried to connect to a target whose port refuses or swallows.
    ///
    /// The kernel plays such a call, and nothing here can see it: with `calls`, a `refuse` or `blackhole` stands until
    /// this is called (a `schedule` moves on by itself). The port plays the next call when it returns. Does nothing
    /// for a target without a script.
    pub async fn connect_was_tried(&self, target: &ModelRef) {
        if let Some(upstream) = self.stage.upstreams.get(target) {
            upstream.pass().await;
        }
    }

    /// Ends every connection where it stands, frees all ports, and returns when all tasks are gone.
    pub async fn stop(self) {
        self.tasks.stop();
        self.tasks.ended().await;
    }

    async fn open_own_ports(&mut self) -> io::Result<()> {
        for (target, upstream) in &self.stage.upstreams {
            if upstream.door().is_some() {
                let port = Port::reserve(self.shared.ip())?;
                self.own.insert(target.clone(), port.address);
                let (stage, upstream) = (Arc::clone(&self.stage), Arc::clone(upstream));
                let port = OwnPort::open(stage, upstream, port).await?;
                self.tasks.spawn(port.serve(self.tasks.clone()));
            }
        }
        Ok(())
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

/// The base URL of a provider at this address; somewhere to connect to, also when bound to every interface.
fn url(address: SocketAddr, provider: &str) -> String {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
    };
    let address = SocketAddr::new(ip, address.port());
    format!("http://{address}/{provider}/v1")
}

#[cfg(test)]
mod tests;
