//! The app: config → build → serve → drain.
//!
//! actix-web's workers are the session arbiters: each starts its shard, its provider actors and its HTTP client, and the
//! app is up when the registry has listed them all. The registry lives on an arbiter of its own.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use actix::{Arbiter, Recipient};
use actix_web::dev::{Server, ServerHandle};
use actix_web::{HttpServer, web};
use anyhow::Context;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use understudy_actors::capacity::{Capacities, Whose};
use understudy_actors::catalog::CatalogKeeper;
use understudy_actors::inventory::Loader;
use understudy_actors::provider::ledger::{LedgerBook, LedgerKeeper};
use understudy_actors::registry::{Admission, AdmitTurn, Published, RegistryActor, RegistryContext};
use understudy_actors::session::TranscriptRoom;
use understudy_actors::session::store::SessionStore;
use understudy_actors::state::State;
use understudy_actors::supervision::{ActorKind, Supervision, Tasks};
use understudy_actors::tap::EventTap;
use understudy_actors::telemetry::Telemetry;
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::hooks::HookEvent;
use understudy_messages::ports::{RegistryPort, Slot};
use understudy_messages::registry::{CloseAdmission, Trigger};
use understudy_messages::settings::Settings;
use understudy_plugins::hosts::Hosts;
use understudy_plugins::listeners::Listeners;

use crate::arbiter::SessionArbiter;
use crate::config::ServerConfig;
use crate::config::compiled::Compiled;
use crate::configuration::beginning::Beginning;
use crate::configuration::{self, Configuration, Order, Revision, memory};
use crate::http;
use crate::{plugins, sessions};

/// How often recorded samples are moved into their buckets.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);
/// How often it is asked whether there is room for state again, while there was none.
const STATE_PROBE: Duration = Duration::from_secs(1);
/// How long a client's idle connection is kept, before its first request as well as after one: clients open some in advance.
/// Longer than usual clients keep theirs (90 s), so that they close first. A connection that the client asks on while it
/// is closed here is a request without an answer, or with a 408 that was meant for nobody.
const CLIENT_IDLE: Duration = Duration::from_secs(120);

/// How long the ending of a turn may take once it has been cancelled: as long as its session waits for it.
const ENDING_GRACE: Duration = Duration::from_secs(10);
/// How long a connection may take to write what is left of its response, once all turns have ended.
const CONNECTION_GRACE: Duration = Duration::from_secs(5);

/// Everything that the arbiters of one app share.
pub struct Shared {
    /// What the app was started with.
    pub(crate) config: ServerConfig,
    /// What its first generation serves, once that is known.
    pub(crate) first: OnceLock<Arc<Settings>>,
    /// What it is configured with by now.
    pub(crate) configuration: Configuration,
    /// What outlives the process.
    pub(crate) state: State,
    /// The one source of time.
    pub(crate) clock: Clock,
    /// Tasks and restarts.
    pub(crate) supervision: Supervision,
    /// The serving generation.
    pub(crate) published: Arc<Published>,
    /// The registry, wherever it lives now.
    pub(crate) registry: Arc<Slot<RegistryPort>>,
    /// The way to a lease.
    pub(crate) admission: Admission,
    /// Where events go.
    pub(crate) tap: EventTap,
    /// How the candidates are, by generation.
    pub(crate) ledgers: Arc<LedgerBook>,
    /// How many turns there may be.
    pub(crate) capacities: Arc<Capacities>,
    /// What of that outlives the process.
    pub(crate) ledger_keeper: Arc<LedgerKeeper>,
    /// Room for request bodies that are still arriving, in KiB.
    pub(crate) arriving: Semaphore,
    /// Responses that later requests may go on from.
    pub(crate) responses: Arc<http::Responses>,
    /// The room that the transcripts of all sessions share.
    pub(crate) transcripts: TranscriptRoom,
    /// Where sessions are while nobody works on them; `None`: in memory.
    pub(crate) sessions: Option<Arc<dyn SessionStore>>,
    /// Leave to make a copy of the state.
    pub(crate) backups: Semaphore,
    /// Ends the turns that a shutdown does not wait for any longer.
    pub(crate) abort: CancellationToken,
    /// When the app started, in seconds since 1970.
    pub(crate) started: u64,
    /// The same, as durations are counted from it.
    pub(crate) began: Instant,
}

/// How an app runs, beside its configuration.
#[derive(Clone, Debug)]
pub struct AppOptions {
    /// The one source of time.
    pub clock: Clock,
    /// The number of session arbiters.
    pub arbiters: usize,
}

impl Default for AppOptions {
    fn default() -> Self {
        Self {
            clock: Clock::real(),
            arbiters: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// The registry's own port for turns that ask for admission.
type Admit = Arc<Slot<Recipient<AdmitTurn>>>;

/// A running app.
pub struct App {
    shared: Arc<Shared>,
    api: (SocketAddr, ServerHandle),
    admin: (SocketAddr, ServerHandle),
    registry: Arbiter,
}

impl App {
    /// Binds both listeners, starts the actors and waits until the first generation serves. To be called in an actix
    /// system.
    ///
    /// # Errors
    /// A listener that cannot be bound, with its address; nothing is left running.
    pub async fn start(config: ServerConfig, options: AppOptions) -> anyhow::Result<Self> {
        Self::start_hosting(config, options, &plugins::standard_hosts()).await
    }

    /// As [`App::start`], with other hosts of plugins than this build's own.
    ///
    /// # Errors
    /// As [`App::start`]. A plugin that cannot be loaded is none: it is passed over.
    pub async fn start_hosting(config: ServerConfig, options: AppOptions, hosts: &Hosts) -> anyhow::Result<Self> {
        let beginning = Beginning::of(config, &options.clock)?;
        Self::begin(beginning, options, hosts).await
    }

    pub(crate) async fn begin(mut beginning: Beginning, options: AppOptions, hosts: &Hosts) -> anyhow::Result<Self> {
        // whoever has read it may not have known: what is read later is read with them
        beginning.config.source.compiled = Compiled::of(hosts);
        let (api, api_addr) = listen(beginning.config.api, "listen.api")?;
        let (admin, admin_addr) = listen(beginning.config.admin, "listen.admin")?;
        if let Some(dir) = beginning.state.dir() {
            dir.announce(api_addr, admin_addr);
        }
        let telemetry = Telemetry::new()?;
        let supervision = Supervision {
            tasks: Tasks::new(),
            clock: options.clock.clone(),
            telemetry,
        };
        let hosts = Hosts {
            listeners: Listeners::new([api_addr, admin_addr]),
            ..hosts.clone()
        };
        let loader = plugins::loader(&hosts, &supervision, beginning.state.clone());
        plugins::keep_swept(&loader).await;
        let (shared, admission, orders) = share(beginning, &options, supervision)?;
        start_upkeep(&shared);
        start_catalogs(&shared);
        start_ledger_keeper(&shared);
        start_state_probe(&shared);
        // plugins may take a while: whoever probes meanwhile is answered
        let admin = run(&shared, "admin server", serve_admin(shared.clone(), admin)?);
        let started = async {
            let registry = start_registry(&shared, &options, loader.clone(), (api_addr.port(), admission)).await?;
            Ok((registry, serve_api(shared.clone(), api, options.arbiters)?))
        };
        let (registry, api_server) = match started.await {
            Ok(started) => started,
            Err(error) => {
                admin.stop(false).await;
                return Err(error);
            }
        };
        configuration::start(&shared, orders);
        let app = Self {
            api: (api_addr, run(&shared, "api server", api_server)),
            admin: (admin_addr, admin),
            shared,
            registry,
        };
        app.wait_until_serving().await?;
        app.keep(&loader).await;
        app.tell_start();
        Ok(app)
    }

    /// Where the API listens.
    pub fn api(&self) -> SocketAddr {
        self.api.0
    }

    /// Where metrics, health and administration listen.
    pub fn admin(&self) -> SocketAddr {
        self.admin.0
    }

    /// What happens from now on.
    pub fn tap(&self) -> &EventTap {
        &self.shared.tap
    }

    /// Reads the configuration file again, and the folders of plugins: what has changed serves, or nothing changes.
    pub fn reload(&self) {
        self.shared.configuration.look(Trigger::Signal);
    }

    /// Turns that hold the serving generation.
    pub fn turns_in_flight(&self) -> u64 {
        self.shared.published.load().map_or(0, |serving| serving.leases())
    }

    /// What serves is what is known after a restart.
    async fn keep(&self, loader: &Loader) {
        if let Some(serving) = self.shared.published.load() {
            loader.settle(&serving.inventory, serving.id.0).await;
        }
        if let Err(error) = memory::keep(&self.shared).await {
            tracing::error!(%error, "the configuration is not kept over a restart");
        }
    }

    /// Tells plugins that the gateway serves.
    fn tell_start(&self) {
        if let Some(serving) = self.shared.published.load() {
            let port = self.api().port();
            serving
                .inventory
                .hooks()
                .fire(HookEvent::GatewayStart { port }, Arc::default(), None);
        }
    }

    /// Tells plugins that the gateway is about to stop, and waits for them: each has its deadline.
    async fn tell_stop(&self) {
        if let Some(serving) = self.shared.published.load() {
            let event = HookEvent::GatewayStop { reason: "shutdown" };
            let _logged = serving.inventory.hooks().observe(event, Arc::default()).await;
        }
    }

    /// Closes admission, waits up to `budget` for the turns in flight, ends those that are left, then stops.
    pub async fn stop(self, budget: Duration) {
        tracing::info!(?budget, turns = self.turns_in_flight(), "shutting down");
        if let Some(registry) = self.shared.registry.get() {
            let _registry_gone = registry.close.send(CloseAdmission).await;
        }
        self.shared.capacities.turn_away(&Whose::Gateway);
        tokio::join!(self.drain(budget), self.tell_stop());
        let clock = &self.shared.clock;
        let ended = self.last_turn_ended();
        let _lost = clock.timeout_at(clock.now() + ENDING_GRACE, ended).await;
        self.api.1.stop(true).await;
        self.admin.1.stop(true).await;
        let stopped = self.shared.supervision.tasks.stop();
        let _stuck_tasks_die_with_us = clock.timeout_at(clock.now() + ENDING_GRACE, stopped).await;
        if let Some(serving) = self.shared.published.load() {
            serving.inventory.stop().await;
        }
        self.registry.stop();
        self.shared.ledger_keeper.keep().await;
        let state = self.shared.state.clone();
        let _closed = tokio::task::spawn_blocking(move || state.close()).await;
    }

    /// Waits up to `budget` for the turns in flight, then ends those that are left.
    async fn drain(&self, budget: Duration) {
        let clock = &self.shared.clock;
        if let Some(serving) = self.shared.published.load() {
            let drained = clock.timeout_at(clock.now() + budget, serving.empty()).await;
            if drained.is_err() {
                tracing::warn!(turns = serving.leases(), "budget spent, ending the turns that are left");
                self.shared.abort.cancel();
                let _ended_or_lost = clock.timeout_at(clock.now() + ENDING_GRACE, serving.empty()).await;
            }
        }
    }

    /// Waits for every turn, also those that hold no lease: they wait for their session, perhaps on the arbiter of a
    /// worker that has no connection left and would stop at once.
    async fn last_turn_ended(&self) {
        self.shared.capacities.empty(&Whose::Gateway).await;
    }

    async fn wait_until_serving(&self) -> anyhow::Result<()> {
        const STARTUP: Duration = Duration::from_secs(30);
        const POLL: Duration = Duration::from_millis(2);
        let clock = &self.shared.clock;
        let deadline = clock.now() + STARTUP;
        while self.shared.published.load().is_none() {
            anyhow::ensure!(
                clock.now() < deadline,
                "the session arbiters did not come up within 30 s"
            );
            clock.sleep(POLL).await;
        }
        Ok(())
    }
}

fn listen(addr: SocketAddr, key: &str) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let bound = TcpListener::bind(addr).and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (addr, listener) = bound.with_context(|| format!("cannot listen on {addr} ({key})"))?;
    Ok((listener, addr))
}

/// What the arbiters share, and what its parts are driven by.
fn share(
    beginning: Beginning,
    options: &AppOptions,
    supervision: Supervision,
) -> anyhow::Result<(Arc<Shared>, Admit, mpsc::Receiver<Order>)> {
    let Beginning { config, state, fault } = beginning;
    let (published, admit) = (Arc::new(Published::default()), Admit::default());
    let first = Revision::of(config.clone());
    let (configuration, orders) = Configuration::new(memory::recall(first, fault, &state)?);
    let tap = EventTap::default();
    let ledger_keeper = LedgerKeeper::open(state.clone(), published.clone(), &supervision)?;
    let sessions = sessions::stored(&config, &state, &supervision, &tap)?;
    let shared = Arc::new(Shared {
        state,
        clock: options.clock.clone(),
        admission: Admission::new(published.clone(), admit.clone(), &supervision),
        capacities: Arc::new(Capacities::new(options.clock.clone(), supervision.telemetry.clone())),
        ledgers: Arc::new(LedgerBook::after(ledger_keeper.learnt())),
        ledger_keeper: Arc::new(ledger_keeper),
        arriving: Semaphore::new(http::arriving(config.settings.limits.body)),
        responses: Arc::new(match &sessions {
            Some(store) => http::Responses::stored(store.clone(), supervision.tasks.clone()),
            None => http::Responses::in_memory(options.clock.clone(), config.settings.session.idle),
        }),
        transcripts: TranscriptRoom::of(config.settings.session.resident),
        sessions: sessions.map(|store| store as Arc<dyn SessionStore>),
        backups: Semaphore::new(1),
        abort: CancellationToken::new(),
        started: crate::unix_seconds(&options.clock),
        began: options.clock.now(),
        supervision,
        registry: Arc::default(),
        published,
        tap,
        configuration,
        config,
        first: OnceLock::new(),
    });
    Ok((shared, admit, orders))
}

/// Loads the plugins and starts the registry, which lets them serve once every arbiter is listed.
async fn start_registry(
    shared: &Shared,
    options: &AppOptions,
    loader: Loader,
    (port, admit): (u16, Admit),
) -> anyhow::Result<Arbiter> {
    let configured = shared.configuration.known().serving.settings.clone();
    let inventory = loader.load(&configured).await;
    let settings = shared.first.get_or_init(|| inventory.serves().clone()).clone();
    let context = RegistryContext {
        inventory: inventory.into(),
        loader,
        settings,
        port,
        shards_expected: options.arbiters,
        published: shared.published.clone(),
        clock: options.clock.clone(),
        telemetry: shared.supervision.telemetry.clone(),
        tap: shared.tap.clone(),
        ledgers: shared.ledgers.clone(),
    };
    start_registry_actor(context, shared.supervision.clone(), shared.registry.clone(), admit).await
}

async fn start_registry_actor(
    context: RegistryContext,
    supervision: Supervision,
    registry: Arc<Slot<RegistryPort>>,
    admit: Admit,
) -> anyhow::Result<Arbiter> {
    let arbiter = Arbiter::with_tokio_rt(crate::shared_runtime);
    let (up, is_up) = oneshot::channel();
    arbiter.spawn_fn(move || {
        supervision.supervise(
            ActorKind::Registry,
            move |end| RegistryActor::new(context.clone(), end),
            move |addr| {
                let (port, admission) = RegistryActor::ports(&addr);
                admit.set(admission);
                registry.set(port);
            },
        );
        let _starter_gave_up = up.send(());
    });
    is_up.await.context("the registry did not start")?;
    Ok(arbiter)
}

fn start_upkeep(shared: &Arc<Shared>) {
    let (clock, telemetry) = (shared.clock.clone(), shared.supervision.telemetry.clone());
    shared.supervision.tasks.spawn_until_stop("metrics upkeep", async move {
        loop {
            clock.sleep(UPKEEP_EVERY).await;
            let telemetry = telemetry.clone();
            let _ran = tokio::task::spawn_blocking(move || telemetry.upkeep()).await;
        }
    });
}

/// Finds out when there is room for state again.
fn start_state_probe(shared: &Shared) {
    let (clock, state) = (shared.clock.clone(), shared.state.clone());
    shared.supervision.tasks.spawn_until_stop("state probe", async move {
        loop {
            clock.sleep(STATE_PROBE).await;
            if state.file().is_failing() {
                let _still_failing = state.file().probe().await;
            }
        }
    });
}

/// Keeps what is learnt of providers.
fn start_ledger_keeper(shared: &Arc<Shared>) {
    let keeper = shared.ledger_keeper.clone();
    let run = async move { keeper.run().await };
    shared.supervision.tasks.spawn_until_stop("ledgers", run);
}

/// Looks at the lists of models of those providers that are to be asked for one.
fn start_catalogs(shared: &Arc<Shared>) {
    let keeper = CatalogKeeper::new(shared.published.clone(), shared.supervision.clone());
    shared.supervision.tasks.spawn_until_stop("catalogs", keeper.run());
}

fn serve_api(shared: Arc<Shared>, listener: TcpListener, workers: usize) -> io::Result<Server> {
    let unread = shared.config.settings.limits.unread;
    let server = HttpServer::new(move || {
        let arbiter = SessionArbiter::start(&shared);
        actix_web::App::new()
            .app_data(web::Data::new(Rc::new(arbiter)))
            .configure(|routes| http::api(routes, &shared))
    });
    let server = server.workers(workers).tcp_nodelay(true).h1_allow_half_closed(false);
    let server = server.keep_alive(CLIENT_IDLE).client_request_timeout(CLIENT_IDLE);
    let server = server.on_connect(move |connection, _| http::bound_unread(connection, unread));
    let server = server.disable_signals().shutdown_timeout(CONNECTION_GRACE.as_secs());
    Ok(server.listen(listener)?.run())
}

fn serve_admin(shared: Arc<Shared>, listener: TcpListener) -> io::Result<Server> {
    let server = HttpServer::new(move || actix_web::App::new().configure(|routes| http::admin(routes, &shared)));
    let server = server.workers(1).tcp_nodelay(true).h1_allow_half_closed(false);
    let server = server.disable_signals().shutdown_timeout(1);
    Ok(server.listen(listener)?.run())
}

fn run(shared: &Shared, name: &'static str, server: Server) -> ServerHandle {
    let handle = server.handle();
    shared.supervision.tasks.spawn(name, async move {
        if let Err(error) = server.await {
            tracing::error!(server = name, %error, "server failed");
        }
    });
    handle
}
