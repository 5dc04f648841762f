//! Ten thousand turns at once against a lead that dies and returns: real registry, sessions and conductors on a paused
//! clock; only the attempts are played.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Context, Handler, ResponseFuture};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use understudy::config::ServerConfig;
use understudy_actors::provider::ledger::{CandidateState, Ledgers};
use understudy_actors::provider::{ProviderActor, ProviderContext};
use understudy_actors::registry::{Admission, Published, RegistryActor, RegistryContext, listed_models};
use understudy_actors::session::{SessionContext, SessionShardActor, SessionShardSettings};
use understudy_actors::supervision::{ActorKind, Supervision, Tasks};
use understudy_actors::tap::EventTap;
use understudy_actors::telemetry::Telemetry;
use understudy_messages::cancel::TurnCancel;
use understudy_messages::client::{AnswerHead, ClientChannel, ClientFrame};
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::ids::{SessionKey, ShardIndex, TurnId};
use understudy_messages::ports::{ProviderPort, ShardPort, Slot};
use understudy_messages::provider::{Answered, Attempt, AttemptError};
use understudy_messages::registry::RegisterShard;
use understudy_messages::session::RunTurn;
use understudy_messages::settings::Settings;
use understudy_messages::turn::TurnRequest;
use understudy_providers::Upstream;
use understudy_providers::openai::chat;

const CROWD: usize = 10_000;
/// How long every attempt takes.
const TAKES: Duration = Duration::from_secs(5);
const DIES: Duration = Duration::from_secs(4);
const RETURNS: Duration = Duration::from_secs(20);
const ENDS: Duration = Duration::from_secs(48);
const CONFIG: &str = "
providers:
  a: { api: openai-chat, base_url: \"http://127.0.0.1:1\", models: [lead] }
  b: { api: openai-chat, base_url: \"http://127.0.0.1:1\", models: [second] }
models:
  main: { chain: [a/lead, b/second] }
";

/// What is seen of the lead.
#[derive(Default)]
struct Seen {
    probes_out: Cell<u32>,
    most_probes_out: Cell<u32>,
    /// Attempts at a lead that rests.
    intrusions: Cell<u32>,
    calls_while_down: Cell<u32>,
    first_answer_after: Cell<Option<Instant>>,
}

/// Plays attempts: the lead is down for a while, the second always answers.
struct Scripted {
    clock: Clock,
    ledgers: Arc<Ledgers>,
    started: Instant,
    seen: Rc<Seen>,
}

impl Actor for Scripted {
    type Context = Context<Self>;
}

impl Handler<Attempt> for Scripted {
    type Result = ResponseFuture<Result<Answered, AttemptError>>;

    fn handle(&mut self, attempt: Attempt, _: &mut Context<Self>) -> Self::Result {
        let (clock, seen) = (self.clock.clone(), self.seen.clone());
        let began = clock.now();
        let since = began.duration_since(self.started);
        let lead = &*attempt.candidate.model.model == "lead";
        let down = lead && (DIES..RETURNS).contains(&since);
        let probe = lead && self.watch_lead(&attempt, down);
        Box::pin(async move {
            clock.sleep_until(began + TAKES).await;
            if probe {
                seen.probes_out.set(seen.probes_out.get() - 1);
            }
            if down {
                let failure = Failure::observed(Reason::ServerError, Cut::Answered);
                return Err(AttemptError::Failed { failure, malformed: 0 });
            }
            if lead && since >= RETURNS && seen.first_answer_after.get().is_none() {
                seen.first_answer_after.set(Some(clock.now()));
            }
            answer(&attempt).await
        })
    }
}

impl Scripted {
    /// Notes who comes to the lead, and whether as a probe.
    fn watch_lead(&self, attempt: &Attempt, down: bool) -> bool {
        let ledger = self.ledgers.get(attempt.candidate.provider).expect("the lead's ledger");
        let state = ledger.candidate(&attempt.candidate.model.model, self.clock.now()).state;
        let seen = &self.seen;
        seen.calls_while_down.set(seen.calls_while_down.get() + u32::from(down));
        match state {
            CandidateState::Available => false,
            CandidateState::Probing => {
                seen.probes_out.set(seen.probes_out.get() + 1);
                seen.most_probes_out
                    .set(seen.most_probes_out.get().max(seen.probes_out.get()));
                true
            }
            CandidateState::Resting | CandidateState::Open | CandidateState::Disabled => {
                seen.intrusions.set(seen.intrusions.get() + 1);
                false
            }
        }
    }
}

async fn answer(attempt: &Attempt) -> Result<Answered, AttemptError> {
    let head = AnswerHead {
        served_by: attempt.candidate.model.clone(),
        attempts: attempt.number,
        streaming: false,
        headers: Vec::new(),
    };
    let client = &attempt.turn.client;
    for frame in [ClientFrame::Head(head), ClientFrame::Data(Bytes::from_static(b"{}"))] {
        client.send(frame).await.map_err(|_| AttemptError::Cancelled)?;
    }
    Ok(Answered::default())
}

/// The actors of one arbiter, on this thread.
struct House {
    clock: Clock,
    tap: EventTap,
    shard: Arc<Slot<ShardPort>>,
    permits: Arc<Semaphore>,
    seen: Rc<Seen>,
    started: Instant,
}

impl House {
    async fn open() -> Self {
        let clock = Clock::real();
        let settings = ServerConfig::parse(CONFIG, &|_| None).expect("a good config").settings;
        let telemetry = Telemetry::new().expect("a sound table");
        let ledgers = Arc::new(Ledgers::new(&settings, &listed_models(&settings), clock.now()));
        let supervision = Supervision {
            tasks: Tasks::new(),
            clock: clock.clone(),
            telemetry: telemetry.clone(),
        };
        let house = Self {
            tap: EventTap::default(),
            shard: Arc::default(),
            permits: Arc::new(Semaphore::new(CROWD)),
            seen: Rc::default(),
            started: clock.now(),
            clock,
        };
        let provider = ProviderContext {
            clock: house.clock.clone(),
            telemetry,
            tap: house.tap.clone(),
            ledgers,
        };
        house.start_sessions(&supervision, &settings, provider).await;
        house
    }

    async fn start_sessions(&self, supervision: &Supervision, settings: &Settings, provider: ProviderContext) {
        let (published, admit) = (Arc::new(Published::default()), Arc::new(Slot::default()));
        let registry = Rc::new(RefCell::new(None));
        let context = RegistryContext {
            settings: Arc::new(settings.clone()),
            shards_expected: 1,
            published: published.clone(),
            telemetry: provider.telemetry.clone(),
            tap: self.tap.clone(),
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
        let session = SessionContext {
            admission: Admission::new(published, admit, self.clock.clone()),
            clock: self.clock.clone(),
            tasks: supervision.tasks.clone(),
            telemetry: provider.telemetry.clone(),
            tap: self.tap.clone(),
            ledgers: provider.ledgers.clone(),
            abort: CancellationToken::new(),
        };
        let shard = self.shard.clone();
        let limits = SessionShardSettings {
            idle: settings.session.idle,
            capacity: CROWD,
        };
        supervision.supervise(
            ActorKind::SessionShard,
            move |end| SessionShardActor::new(session.clone(), limits, end),
            move |addr| shard.set(ShardPort { run: addr.recipient() }),
        );
        let providers = self.start_providers(supervision, settings, &provider);
        let registry = registry.borrow().clone().expect("started");
        let listed = registry
            .register
            .send(RegisterShard {
                shard: self.shard.clone(),
                providers,
            })
            .await;
        listed.expect("alive").expect("a place");
    }

    fn start_providers(
        &self,
        supervision: &Supervision,
        settings: &Settings,
        context: &ProviderContext,
    ) -> Arc<[Slot<ProviderPort>]> {
        let slots: Arc<[Slot<ProviderPort>]> = settings.providers.iter().map(|_| Slot::default()).collect();
        let scripted = Scripted {
            clock: self.clock.clone(),
            ledgers: context.ledgers.clone(),
            started: self.started,
            seen: self.seen.clone(),
        };
        let attempt = scripted.start().recipient();
        let client = understudy_providers::http_client(Duration::from_secs(1)).expect("a client");
        for (index, provider) in settings.providers.values().enumerate() {
            let upstream = Rc::new(Upstream::new(provider.clone(), client.clone(), self.clock.clone()));
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

    /// Turn after turn of one session until the end; how many there were.
    async fn session(&self, body: &Bytes) -> u32 {
        let facts = chat::request::scan(body).expect("a good body");
        let mut turns = 0;
        while self.clock.now() < self.started + ENDS {
            let (client, mut frames) = ClientChannel::open();
            let run = RunTurn {
                request: Arc::new(TurnRequest {
                    id: TurnId::new(),
                    request_id: "r".into(),
                    session: SessionKey::Ephemeral,
                    agent: None,
                    body: body.clone(),
                    facts: facts.clone(),
                    headers: Vec::new(),
                }),
                client,
                cancel: TurnCancel::new(),
                home: ShardIndex(0),
                received: self.clock.now(),
                deadline: None,
                permit: self
                    .permits
                    .clone()
                    .try_acquire_owned()
                    .expect("a permit for each session"),
            };
            let shard = self.shard.get().expect("a shard");
            shard.run.send(run).await.expect("alive").expect("taken");
            let mut ended = 0;
            while let Some(frame) = frames.recv().await {
                match frame {
                    ClientFrame::Head(_) | ClientFrame::Data(_) => {}
                    ClientFrame::End { .. } => ended += 1,
                    ClientFrame::Failed(failure) => panic!("the second candidate is well: {failure:?}"),
                }
            }
            assert_eq!(ended, 1, "a turn has exactly one ending");
            turns += 1;
        }
        turns
    }
}

#[actix::test]
async fn ten_thousand_turns_send_one_probe_at_a_time_lose_none_and_find_the_lead_again() {
    understudy::install_tls();
    tokio::time::pause();
    let house = House::open().await;
    let body = Bytes::from_static(br#"{"model":"main","messages":[{"role":"user","content":"hi"}]}"#);
    let crowd: FuturesUnordered<_> = (0..CROWD).map(|_| house.session(&body)).collect();
    let turns: u32 = crowd.collect::<Vec<u32>>().await.into_iter().sum();
    let seen = &house.seen;
    assert!(turns as usize >= 9 * CROWD, "{turns} turns");
    assert_eq!(seen.intrusions.get(), 0, "nobody asks a lead that rests");
    assert_eq!(seen.most_probes_out.get(), 1, "one probe at a time");
    let back = seen.first_answer_after.get().expect("the lead answers again") - (house.started + RETURNS);
    assert!(back <= Duration::from_secs(25), "{back:?}");
    // what was in flight when it died, the second wave that had begun meanwhile, and a probe for each rest
    let down = seen.calls_while_down.get() as usize;
    assert!(down <= 2 * CROWD + 3, "{down} calls while it was down");
}
