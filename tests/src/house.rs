//! Real registry, sessions and conductors on this thread, on a paused clock; only the attempts are played.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, Context, Handler, Recipient, ResponseFuture};
use bytes::Bytes;
use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::CancellationToken;
use understudy::config::ServerConfig;
use understudy_actors::capacity::Capacities;
use understudy_actors::hooks::{HookTable, Hooks, LoadedPlugin};
use understudy_actors::inventory::{Inventory, Loader};
use understudy_actors::provider::ledger::{CandidateState, LedgerBook, Ledgers};
use understudy_actors::provider::{ProviderActor, ProviderContext};
use understudy_actors::registry::{Admission, Published, RegistryActor, RegistryContext};
use understudy_actors::session::{SessionContext, SessionShardActor, SessionShardSettings, TranscriptRoom};
use understudy_actors::supervision::{ActorKind, Supervision, Tasks};
use understudy_actors::tap::EventTap;
use understudy_actors::telemetry::Telemetry;
use understudy_actors::tools::Tools;
use understudy_messages::answer::Progress;
use understudy_messages::cancel::TurnCancel;
use understudy_messages::client::{AnswerHead, ClientChannel, ClientFrame, ClientGone};
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::events::{Event, SharedEvent};
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::ids::{SessionKey, ShardIndex, TurnId};
use understudy_messages::lease::TurnPermit;
use understudy_messages::ports::{ProviderPort, ProviderPorts, ShardPort, Slot};
use understudy_messages::provider::{Answered, Attempt, AttemptError, Perform};
use understudy_messages::registry::RegisterShard;
use understudy_messages::session::RunTurn;
use understudy_messages::settings::Settings;
use understudy_messages::terminal::TurnFailure;
use understudy_messages::turn::{Performance, TurnRequest};
use understudy_plugins::capture::Captures;
use understudy_plugins::hosts::Hosts;
use understudy_providers::Upstream;
use understudy_providers::openai::chat;

thread_local! {
    /// Whether this thread's clock is paused already: a test may open several houses, one after the other.
    static PAUSED: Cell<bool> = const { Cell::new(false) };
}

/// How many turns may run at once.
const TURNS: usize = 20_000;

/// What becomes of one attempt: how long it takes, and how it fails if it does.
pub struct Play {
    /// How long it takes.
    pub takes: Duration,
    /// How it fails.
    pub failure: Option<Failure>,
}

impl Play {
    /// An answer at once.
    pub fn answer() -> Self {
        Self {
            takes: Duration::ZERO,
            failure: None,
        }
    }

    /// A failure at once.
    pub fn fail(failure: Failure) -> Self {
        Self {
            takes: Duration::ZERO,
            failure: Some(failure),
        }
    }

    /// A failure of this reason, as an answer of the provider.
    pub fn refuse(reason: Reason) -> Self {
        Self::fail(Failure::observed(reason, Cut::Answered))
    }
}

/// What is played in one attempt.
pub enum Act {
    /// An answer of no matter what, or a failure.
    Play(Play),
    /// These frames.
    Frames(Frames),
}

/// Frames as an attempt sends them.
pub struct Frames {
    /// When each goes, and how far it brings the answer.
    pub frames: Vec<(Duration, Progress, ClientFrame)>,
    /// How the attempt ends.
    pub result: Result<Answered, AttemptError>,
    /// And when.
    pub takes: Duration,
}

impl From<Play> for Act {
    fn from(play: Play) -> Self {
        Self::Play(play)
    }
}

impl From<Frames> for Act {
    fn from(frames: Frames) -> Self {
        Self::Frames(frames)
    }
}

/// An attempt as it is asked for.
pub struct Asked<'a> {
    /// As the provider's actor gets it.
    pub attempt: &'a Attempt,
    /// `provider/model`.
    pub target: String,
    /// Since the house was opened.
    pub since: Duration,
    /// The time.
    pub now: Instant,
    /// What is known of candidates.
    pub ledgers: &'a Ledgers,
}

impl Asked<'_> {
    /// Whether the candidate is on probation.
    pub fn is_probe(&self) -> bool {
        let candidate = &self.attempt.candidate;
        let ledger = self.ledgers.get(candidate.provider);
        let view = ledger.map(|ledger| ledger.candidate(&candidate.model.model, self.now));
        view.is_some_and(|view| view.state == CandidateState::Probing)
    }
}

type Script = dyn Fn(&Asked<'_>) -> Act;
/// Told when an attempt is over, and whether it was a probe.
type Done = dyn Fn(bool);

/// Plays attempts.
struct Scripted {
    clock: Clock,
    ledgers: Arc<LedgerBook>,
    started: Instant,
    script: Rc<Script>,
    done: Rc<Done>,
    log: Rc<RefCell<Vec<Call>>>,
}

/// One attempt that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `provider/model`.
    pub target: String,
    /// Which of the credentials was used.
    pub credential: usize,
    /// Since the house was opened.
    pub since: Duration,
}

impl Actor for Scripted {
    type Context = Context<Self>;
}

impl Handler<Attempt> for Scripted {
    type Result = ResponseFuture<Result<Answered, AttemptError>>;

    fn handle(&mut self, attempt: Attempt, _: &mut Context<Self>) -> Self::Result {
        let began = self.clock.now();
        let ledgers = self.ledgers.of(attempt.turn.lease.generation());
        let asked = Asked {
            target: attempt.candidate.model.to_string(),
            since: began.duration_since(self.started),
            now: began,
            attempt: &attempt,
            ledgers: &ledgers,
        };
        let act = (self.script)(&asked);
        let probe = asked.is_probe();
        let call = Call {
            target: asked.target,
            credential: attempt.credential,
            since: asked.since,
        };
        self.log.borrow_mut().push(call);
        let (clock, done) = (self.clock.clone(), self.done.clone());
        Box::pin(async move {
            let play = match act {
                Act::Play(play) => play,
                Act::Frames(frames) => {
                    let result = send(&attempt, &clock, began, frames).await;
                    done(probe);
                    return result;
                }
            };
            let cancelled = tokio::select! {
                () = attempt.cancel.cancelled() => true,
                () = clock.sleep_until(began + play.takes) => false,
            };
            done(probe);
            if cancelled {
                return Err(AttemptError::Cancelled);
            }
            match play.failure {
                Some(failure) => Err(AttemptError::Failed {
                    failure,
                    malformed: 0,
                    usage: None,
                    delivered: None,
                }),
                None => answer(&attempt).await,
            }
        })
    }
}

/// Sends frames in their time, the head first.
async fn send(attempt: &Attempt, clock: &Clock, began: Instant, frames: Frames) -> Result<Answered, AttemptError> {
    let client = &attempt.turn.client;
    let sending = async {
        for (at, progress, frame) in frames.frames {
            clock.sleep_until(began + at).await;
            if client.progress() == Progress::Nothing {
                client.note(Progress::Head);
                client
                    .send(ClientFrame::Head(head(attempt, attempt.turn.request.facts.stream)))
                    .await?;
            }
            client.note(progress);
            client.send(frame).await?;
        }
        clock.sleep_until(began + frames.takes).await;
        Ok::<_, ClientGone>(())
    };
    tokio::select! {
        () = attempt.cancel.cancelled() => Err(AttemptError::Cancelled),
        sent = sending => sent.map_err(|_| AttemptError::Cancelled).and(frames.result),
    }
}

fn head(attempt: &Attempt, streaming: bool) -> AnswerHead {
    AnswerHead {
        served_by: attempt.candidate.model.clone(),
        attempts: attempt.number,
        streaming,
        headers: Vec::new(),
        dropped: Vec::new(),
    }
}

async fn answer(attempt: &Attempt) -> Result<Answered, AttemptError> {
    let client = &attempt.turn.client;
    let head = head(attempt, false);
    for frame in [ClientFrame::Head(head), ClientFrame::Data(Bytes::from_static(b"{}"))] {
        client.send(frame).await.map_err(|_| AttemptError::Cancelled)?;
    }
    Ok(Answered::default())
}

/// How a turn ended for its client: who answered, or what it was told.
pub type Ending = Result<String, TurnFailure>;

/// The actors of one arbiter, on this thread.
pub struct House {
    /// Its clock.
    pub clock: Clock,
    /// When it was opened.
    pub started: Instant,
    tap: EventTap,
    events: RefCell<broadcast::Receiver<SharedEvent>>,
    shard: Arc<Slot<ShardPort>>,
    permits: Arc<Semaphore>,
    log: Rc<RefCell<Vec<Call>>>,
    providers: RefCell<ProviderPorts>,
}

/// A conductor that ends before it has taken anything.
struct Gone;

impl Actor for Gone {
    type Context = Context<Self>;

    fn started(&mut self, context: &mut Context<Self>) {
        context.stop();
    }
}

impl Handler<Perform> for Gone {
    type Result = ResponseFuture<Performance>;

    fn handle(&mut self, _: Perform, _: &mut Context<Self>) -> Self::Result {
        Box::pin(std::future::pending())
    }
}

impl House {
    /// Opens the house; tokio's clock is paused from now on.
    pub async fn open<A: Into<Act>>(config: &str, script: impl Fn(&Asked<'_>) -> A + 'static) -> Self {
        Self::open_with(config, script, |_| {}).await
    }

    /// Opens the house with these plugins at work.
    pub async fn open_guarded<A: Into<Act>>(
        config: &str,
        plugins: &[LoadedPlugin],
        script: impl Fn(&Asked<'_>) -> A + 'static,
    ) -> Self {
        Self::open_as(config, plugins, script, |_| {}).await
    }

    /// Opens the house; `done` is told when an attempt is over.
    pub async fn open_with<A: Into<Act>>(
        config: &str,
        script: impl Fn(&Asked<'_>) -> A + 'static,
        done: impl Fn(bool) + 'static,
    ) -> Self {
        Self::open_as(config, &[], script, done).await
    }

    async fn open_as<A: Into<Act>>(
        config: &str,
        plugins: &[LoadedPlugin],
        script: impl Fn(&Asked<'_>) -> A + 'static,
        done: impl Fn(bool) + 'static,
    ) -> Self {
        understudy::install_tls();
        if !PAUSED.replace(true) {
            tokio::time::pause();
        }
        let clock = Clock::real();
        let settings = ServerConfig::parse(config, &|_| None).expect("a good config").settings;
        let telemetry = Telemetry::new().expect("a sound table");
        let ledgers = Arc::new(LedgerBook::default());
        let supervision = Supervision {
            tasks: Tasks::new(),
            clock: clock.clone(),
            telemetry: telemetry.clone(),
        };
        let tap = EventTap::default();
        let house = Self {
            events: RefCell::new(tap.subscribe()),
            tap,
            shard: Arc::default(),
            permits: Arc::new(Semaphore::new(TURNS)),
            log: Rc::default(),
            providers: RefCell::new(Arc::new([])),
            started: clock.now(),
            clock,
        };
        let scripted = Scripted {
            clock: house.clock.clone(),
            ledgers: ledgers.clone(),
            started: house.started,
            script: Rc::new(move |asked| script(asked).into()),
            done: Rc::new(done),
            log: house.log.clone(),
        };
        let provider = ProviderContext {
            clock: house.clock.clone(),
            tasks: supervision.tasks.clone(),
            telemetry,
            tap: house.tap.clone(),
            ledgers,
            capacities: Arc::new(Capacities::new(house.clock.clone(), supervision.telemetry.clone())),
        };
        let attempt = scripted.start().recipient();
        house
            .start_actors(&supervision, &settings, provider, attempt, plugins)
            .await;
        house
    }

    async fn start_actors(
        &self,
        supervision: &Supervision,
        settings: &Settings,
        provider: ProviderContext,
        attempt: Recipient<Attempt>,
        plugins: &[LoadedPlugin],
    ) {
        let (table, _left_out) = HookTable::new(plugins, Vec::new());
        let (published, admit) = (Arc::new(Published::default()), Arc::new(Slot::default()));
        let registry = Rc::new(RefCell::new(None));
        let hooks = Hooks::new(
            Arc::new(table),
            self.clock.clone(),
            supervision.tasks.clone(),
            provider.telemetry.clone(),
        );
        let context = RegistryContext {
            settings: Arc::new(settings.clone()),
            inventory: Arc::new(Inventory::of(
                Arc::new(settings.clone()),
                Arc::new(hooks),
                Arc::new(Tools::new(plugins, self.clock.clone()).0),
            ))
            .into(),
            loader: Loader {
                hosts: Hosts::default(),
                captures: Arc::new(Captures::below(std::env::temp_dir().join("understudy-house"))),
                supervision: supervision.clone(),
                state: understudy_actors::state::State::in_memory().expect("state"),
                runtime: understudy::shared_runtime,
            },
            clock: self.clock.clone(),
            shards_expected: 1,
            published: published.clone(),
            telemetry: provider.telemetry.clone(),
            ledgers: provider.ledgers.clone(),
            tap: self.tap.clone(),
            port: 0,
        };
        let (port, slot) = (registry.clone(), admit.clone());
        supervision.supervise(
            ActorKind::Registry,
            move |end| RegistryActor::new(context.clone(), end),
            move |addr| {
                let (public, admission) = RegistryActor::ports(&addr);
                slot.set(admission);
                *port.borrow_mut() = Some(public);
            },
        );
        let session = Arc::new(SessionContext {
            admission: Admission::new(published, admit, supervision),
            clock: self.clock.clone(),
            tasks: supervision.tasks.clone(),
            telemetry: provider.telemetry.clone(),
            tap: self.tap.clone(),
            abort: CancellationToken::new(),
            transcripts: TranscriptRoom::of(64 << 20),
            store: None,
            capacities: provider.capacities.clone(),
        });
        let shard = self.shard.clone();
        let limits = SessionShardSettings {
            idle: settings.session.idle,
            capacity: TURNS,
        };
        supervision.supervise(
            ActorKind::SessionShard,
            move |end| SessionShardActor::new(session.clone(), limits, end),
            move |addr| shard.set(SessionShardActor::port(&addr)),
        );
        let providers = start_providers(&self.clock, supervision, settings, &provider, &attempt);
        *self.providers.borrow_mut() = providers.clone();
        let registry = registry.borrow().clone().expect("started");
        let listed = registry
            .register
            .send(RegisterShard {
                shard: self.shard.clone(),
                pool: Arc::default(),
                providers,
                settings: Arc::new(settings.clone()),
            })
            .await;
        listed.expect("alive").expect("a place");
    }

    /// Runs one turn and tells how it ended for its client. It has exactly one ending.
    pub async fn turn(&self, body: &str) -> Ending {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let request = TurnRequest {
            endpoint: Default::default(),
            id: TurnId::new(),
            request_id: "r".into(),
            session: SessionKey::Ephemeral,
            agent: None,
            facts: chat::request::scan(&body).expect("a good body"),
            body,
            headers: Vec::new(),
        };
        let (mut served_by, mut endings) = (String::new(), Vec::new());
        for frame in self.frames(Arc::new(request)).await {
            match frame {
                ClientFrame::Head(head) => served_by = head.served_by.to_string(),
                ClientFrame::Data(_)
                | ClientFrame::Pieces(_)
                | ClientFrame::Seam(_)
                | ClientFrame::Note(_)
                | ClientFrame::KeepAlive => {}
                ClientFrame::End { .. } => endings.push(Ok(served_by.clone())),
                ClientFrame::Failed(failure) => endings.push(Err(failure)),
            }
        }
        assert_eq!(endings.len(), 1, "{endings:?}");
        endings.remove(0)
    }

    /// Runs one turn and gives all that its client is sent.
    pub async fn frames(&self, request: Arc<TurnRequest>) -> Vec<ClientFrame> {
        let (client, mut receiver) = ClientChannel::open();
        let run = RunTurn {
            request,
            client,
            cancel: TurnCancel::new(),
            home: ShardIndex(0),
            received: self.clock.now(),
            deadline: None,
            permit: TurnPermit::new(self.permits.clone().try_acquire_owned().expect("a permit")),
            names_model: true,
            origin: None,
        };
        let shard = self.shard.get().expect("a shard");
        shard.run.send(run).await.expect("alive").expect("taken");
        let mut frames = Vec::new();
        while let Some(frame) = receiver.recv().await {
            frames.push(frame);
        }
        frames
    }

    /// Asks the alias `main`.
    pub async fn ask(&self) -> Ending {
        self.turn(r#"{"model":"main","messages":[{"role":"user","content":"hi"}]}"#)
            .await
    }

    /// From now on no conductor lives long enough to take a turn.
    pub fn lose_conductors(&self) {
        for slot in self.providers.borrow().iter() {
            if let Some(port) = slot.get() {
                let perform = Gone.start().recipient();
                let attempt = port.attempt.clone();
                slot.set(ProviderPort { perform, attempt });
            }
        }
    }

    /// Every attempt so far.
    pub fn calls(&self) -> Vec<Call> {
        self.log.borrow().clone()
    }

    /// The targets that were asked, in order.
    pub fn targets(&self) -> Vec<String> {
        self.calls().into_iter().map(|call| call.target).collect()
    }

    /// Every event since the last look.
    pub fn events(&self) -> Vec<SharedEvent> {
        let mut reader = self.events.borrow_mut();
        std::iter::from_fn(|| reader.try_recv().ok()).collect()
    }

    /// The candidates that were passed over since the last look, with the reason.
    pub fn skipped(&self) -> Vec<(String, Reason)> {
        let skipped = |event: &SharedEvent| match &**event {
            Event::CandidateSkipped(skipped) => Some((skipped.model.to_string(), skipped.reason)),
            _ => None,
        };
        self.events().iter().filter_map(skipped).collect()
    }
}

fn start_providers(
    clock: &Clock,
    supervision: &Supervision,
    settings: &Settings,
    context: &ProviderContext,
    attempt: &Recipient<Attempt>,
) -> ProviderPorts {
    let slots: ProviderPorts = settings.providers.iter().map(|_| Arc::default()).collect();
    let client = understudy_providers::http_client(Duration::from_secs(1)).expect("a client");
    for (index, provider) in settings.providers.values().enumerate() {
        let upstream = Rc::new(Upstream::new(provider.clone(), client.clone(), clock.clone()));
        let (context, slots, attempt) = (context.clone(), slots.clone(), attempt.clone());
        supervision.supervise(
            ActorKind::Provider,
            move |end| ProviderActor::new(upstream.clone(), context.clone(), end),
            move |addr| {
                slots[index].set(ProviderPort {
                    perform: addr.recipient(),
                    attempt: attempt.clone(),
                })
            },
        );
    }
    slots
}
