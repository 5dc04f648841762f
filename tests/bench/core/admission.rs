//! Entering and leaving: an open gate, and a bound on how many turns there are.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Context, Handler, Recipient};
use bytes::Bytes;
use criterion::Criterion;
use futures::FutureExt;
use understudy::config::ServerConfig;
use understudy_actors::capacity::{Capacities, CapacityPermit, Whose};
use understudy_actors::hooks::Hooks;
use understudy_actors::inventory::{Inventory, Loader};
use understudy_actors::registry::{Admission, AdmitTurn, Held, Published, RegistryActor, RegistryContext};
use understudy_actors::state::State;
use understudy_actors::supervision::{ActorKind, Supervision, Tasks};
use understudy_actors::tap::EventTap;
use understudy_actors::telemetry::Telemetry;
use understudy_actors::tools::Tools;
use understudy_messages::clock::Clock;
use understudy_messages::ids::{GenerationId, Name, SessionKey, TurnId};
use understudy_messages::ports::{ProviderPorts, RegistryPort, Slot};
use understudy_messages::registry::{RegisterShard, Reload, StartProviders, StartProvidersError, Trigger};
use understudy_messages::request::Endpoint;
use understudy_messages::settings::{Bound, Settings};
use understudy_messages::turn::TurnRequest;
use understudy_plugins::capture::Captures;
use understudy_plugins::hosts::Hosts;
use understudy_providers::wire;

const CONFIG: &str = "providers:\n  none: { api: openai-chat, base_url: \"http://127.0.0.1:9\", models: [m] }\n";
/// How many generations are many: each of them is held by a turn.
const MANY: u64 = 64;
const BOUND: Bound = Bound {
    most: 2_000,
    queue: 2_000,
    wait: Duration::from_secs(1),
};

pub fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("admission, in and out");
    let turn = turn();
    for generations in [1, MANY] {
        let system = actix::System::with_tokio_rt(understudy::shared_runtime);
        let (admission, _held) = system.block_on(open(generations));
        let name = match generations {
            1 => "open gate, first generation".to_owned(),
            _ => format!("open gate, {generations} generations held"),
        };
        group.bench_function(name, |bencher| bencher.iter(|| enter(&admission, &turn)));
    }
    let clock = Clock::real();
    let capacities = Capacities::new(clock, Telemetry::new().expect("a sound table"));
    let lane = Name::from("main");
    let enter = || -> CapacityPermit {
        let entered = capacities.enter(&Whose::Gateway, &BOUND, &lane, None);
        entered.now_or_never().expect("no wait").expect("a place")
    };
    group.bench_function("place in the gateway, nobody inside", |bencher| bencher.iter(enter));
    let _inside: Vec<CapacityPermit> = (0..1_000).map(|_| enter()).collect();
    group.bench_function("place in the gateway, 1000 inside", |bencher| bencher.iter(enter));
    group.finish();
}

fn enter(admission: &Admission, turn: &Arc<TurnRequest>) -> Held {
    let admitted = admission.admit(turn, None, None).now_or_never();
    admitted.expect("no wait at an open gate").expect("a place")
}

fn turn() -> Arc<TurnRequest> {
    let body = Bytes::from_static(br#"{"model":"none/m","messages":[{"role":"user","content":"hi"}]}"#);
    Arc::new(TurnRequest {
        id: TurnId::new(),
        request_id: "r".into(),
        session: SessionKey::Ephemeral,
        agent: None,
        endpoint: Endpoint::Chat,
        facts: wire::scan(Endpoint::Chat, &body).expect("a good body"),
        body,
        headers: Vec::new(),
    })
}

/// A registry that has published so many generations, and turns that hold all but the last.
async fn open(generations: u64) -> (Admission, Vec<Held>) {
    let settings = ServerConfig::parse(CONFIG, &|_| None).expect("a good config").settings;
    let settings = Arc::new(settings);
    let supervision = Supervision {
        tasks: Tasks::new(),
        clock: Clock::real(),
        telemetry: Telemetry::new().expect("a sound table"),
    };
    let published = Arc::new(Published::default());
    let (registry, asked) = registry(&settings, &published, &supervision);
    let admission = Admission::new(published.clone(), asked, &supervision);
    let shard = RegisterShard {
        shard: Arc::default(),
        pool: Arc::default(),
        providers: Arc::new([]),
        settings: settings.clone(),
    };
    shard.pool.set(Nobody.start().recipient());
    registry.register.send(shard).await.expect("alive").expect("a place");
    let mut held = Vec::new();
    for number in 1..generations {
        held.push(enter(&admission, &turn()));
        let reload = reload(&settings, number);
        registry.reload.send(reload).await.expect("alive").expect("a reload");
    }
    let serving = published.load().map(|serving| serving.id);
    assert_eq!(serving, Some(GenerationId(generations)), "each reload publishes one");
    (admission, held)
}

fn registry(
    settings: &Arc<Settings>,
    published: &Arc<Published>,
    supervision: &Supervision,
) -> (RegistryPort, Arc<Slot<Recipient<AdmitTurn>>>) {
    let Supervision {
        tasks,
        clock,
        telemetry,
    } = supervision.clone();
    let hooks = Hooks::nobody(clock.clone(), tasks, telemetry.clone());
    let inventory = Inventory::of(settings.clone(), Arc::new(hooks), Arc::new(Tools::none(clock.clone())));
    let context = RegistryContext {
        settings: settings.clone(),
        inventory: Arc::new(inventory).into(),
        loader: Loader {
            hosts: Hosts::default(),
            captures: Arc::new(Captures::below(std::env::temp_dir().join("understudy-bench"))),
            supervision: supervision.clone(),
            state: State::in_memory().expect("state"),
            runtime: understudy::shared_runtime,
        },
        clock,
        shards_expected: 1,
        published: published.clone(),
        telemetry,
        ledgers: Arc::default(),
        tap: EventTap::default(),
        port: 0,
    };
    let (public, asked) = (Rc::new(RefCell::new(None)), Arc::new(Slot::default()));
    let (port, slot) = (public.clone(), asked.clone());
    supervision.supervise(
        ActorKind::Registry,
        move |end| RegistryActor::new(context.clone(), end),
        move |addr| {
            let (public, admission) = RegistryActor::ports(&addr);
            slot.set(admission);
            *port.borrow_mut() = Some(public);
        },
    );
    let public = public.borrow().clone();
    (public.expect("started"), asked)
}

/// Settings of their own for each generation.
fn reload(settings: &Settings, number: u64) -> Reload {
    let mut settings = settings.clone();
    settings.session.idle += Duration::from_secs(number);
    Reload {
        plugins: Vec::new(),
        digests: Default::default(),
        settings: Some(Arc::new(settings)),
        wait: false,
        trigger: Trigger::Api,
        origin: None,
        requester: Default::default(),
        superseded: Default::default(),
    }
}

/// Starts no provider: no turn gets that far.
struct Nobody;

impl Actor for Nobody {
    type Context = Context<Self>;
}

impl Handler<StartProviders> for Nobody {
    type Result = Result<ProviderPorts, StartProvidersError>;

    fn handle(&mut self, _: StartProviders, _: &mut Context<Self>) -> Self::Result {
        Ok(Arc::new([]))
    }
}
