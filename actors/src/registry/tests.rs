//! Arbiters that come and go while settings change.

use std::sync::OnceLock;

use actix::Message;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use understudy_messages::ports::ShardPort;
use understudy_messages::ports::Slot;
use understudy_messages::settings::PluginEntry;
use understudy_plugins::capture::Captures;
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{AsyncHandler, NativeApi, NativePlugin};
use understudy_plugins::registration::HookOptions;

use super::testing::{comer, no_plugins, no_plugins_of, settings};
use super::*;
use crate::state::State;
use crate::supervision::{Supervision, Tasks};

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"))
}

fn registry() -> RegistryActor {
    let context = context(settings(), no_plugins(), Hosts::default());
    RegistryActor::new(context, EndOfLife::unwatched())
}

fn context(settings: Settings, inventory: Arc<Inventory>, hosts: Hosts) -> RegistryContext {
    let (clock, telemetry) = (Clock::movable(), Telemetry::new().expect("sound"));
    let loader = Loader {
        hosts,
        captures: Arc::new(Captures::below(std::env::temp_dir().join("understudy-registry"))),
        supervision: Supervision {
            tasks: Tasks::new(),
            clock: clock.clone(),
            telemetry: telemetry.clone(),
        },
        state: State::in_memory().expect("state"),
        runtime,
    };
    RegistryContext {
        settings: Arc::new(settings),
        loader,
        inventory: inventory.into(),
        shards_expected: 1,
        published: Arc::default(),
        clock,
        telemetry,
        tap: EventTap::default(),
        ledgers: Arc::default(),
        port: 0,
    }
}

/// An arbiter whose shard answers nobody: it counts as gone.
fn shard(settings: &Settings) -> Arc<Shard> {
    Arc::new(Shard {
        sessions: Arc::new(Slot::<ShardPort>::default()),
        pool: Arc::default(),
        providers: settings.providers.iter().map(|_| Arc::default()).collect(),
    })
}

fn fewer() -> Settings {
    let mut fewer = settings();
    fewer.providers.remove("open");
    fewer
}

fn swap(settings: &Settings, shards: Vec<Arc<Shard>>) -> Swap {
    Swap {
        inventory: no_plugins_of(settings),
        shards: Some(shards),
    }
}

fn beside(shard: &Shard, settings: &Settings) -> Arc<Shard> {
    Arc::new(Shard {
        sessions: shard.sessions.clone(),
        pool: shard.pool.clone(),
        providers: settings.providers.iter().map(|_| Arc::default()).collect(),
    })
}

#[test]
fn an_arbiter_that_comes_back_with_providers_of_other_settings_begins_again() {
    let mut registry = registry();
    let first = shard(&settings());
    assert_eq!(registry.register(first.clone(), &settings()), Ok(ShardIndex(0)));
    let swapped = registry.swap(swap(&fewer(), vec![beside(&first, &fewer())]));
    assert_eq!(swapped.ok(), Some(GenerationId(2)));
    let outdated = registry.register(shard(&settings()), &settings());
    assert_eq!(outdated, Err(RegisterShardError::Outdated));
    assert_eq!(registry.register(shard(&fewer()), &fewer()), Ok(ShardIndex(0)));
    let serving = registry.context.published.load().expect("published");
    assert_eq!(serving.providers(ShardIndex(0)).len(), 2);
}

#[test]
fn settings_for_an_arbiter_that_came_anew_meanwhile_are_not_published() {
    let mut registry = registry();
    let first = shard(&settings());
    assert_eq!(registry.register(first.clone(), &settings()), Ok(ShardIndex(0)));
    let prepared = beside(&first, &fewer());
    assert_eq!(registry.register(shard(&settings()), &settings()), Ok(ShardIndex(0)));
    assert!(registry.swap(swap(&fewer(), vec![prepared])).is_err());
    let serving = registry.context.published.load().expect("published");
    assert_eq!(
        (serving.id, serving.roster.settings().providers.len()),
        (GenerationId(1), 3)
    );
}

#[test]
fn a_generation_finds_its_own_ledgers_by_its_number() {
    let mut registry = registry();
    let first = shard(&settings());
    assert_eq!(registry.register(first.clone(), &settings()), Ok(ShardIndex(0)));
    let old = registry.context.published.load().expect("published");
    assert!(registry.swap(swap(&fewer(), vec![beside(&first, &fewer())])).is_ok());
    let count = |id| registry.context.ledgers.of(GenerationId(id)).iter().count();
    assert_eq!((count(1), count(2)), (3, 2));
    drop(old);
    assert_eq!((count(1), count(2)), (0, 2), "nobody holds the first any more");
}

#[test]
fn a_publication_that_is_asked_for_again_is_the_same_one() {
    let mut registry = registry();
    let first = shard(&settings());
    assert_eq!(registry.register(first.clone(), &settings()), Ok(ShardIndex(0)));
    let swap = swap(&fewer(), vec![beside(&first, &fewer())]);
    for _again in 0..2 {
        assert_eq!(registry.swap(swap.clone()).ok(), Some(GenerationId(2)));
    }
}

/// It serves, and fails when it is told so.
struct StartsBadly;

impl NativePlugin for StartsBadly {
    fn id(&self) -> &str {
        "shop"
    }

    fn register(&self, api: &mut NativeApi, _: &serde_json::Value) -> Result<(), String> {
        let fail: AsyncHandler = Arc::new(|_, _, _| Box::pin(std::future::ready(Err("no power".to_owned()))));
        api.on("gateway_start", HookOptions::default(), fail);
        Ok(())
    }
}

/// A registry that serves `plugin` alone, on one arbiter that has no pool of providers any longer.
async fn serving(plugin: Arc<dyn NativePlugin>) -> (RegistryContext, Addr<RegistryActor>) {
    let mut settings = settings();
    let on = PluginEntry {
        enabled: Some(true),
        ..PluginEntry::default()
    };
    settings.plugins.entries.insert(plugin.id().into(), on);
    let hosts = Hosts {
        native: vec![plugin],
        ..Hosts::default()
    };
    let empty = context(settings.clone(), no_plugins_of(&settings), hosts);
    let inventory = empty.loader.load(&Arc::new(settings.clone())).await.into();
    let context = RegistryContext { inventory, ..empty };
    let registry = RegistryActor::new(context.clone(), EndOfLife::unwatched()).start();
    let listing = RegisterShard {
        shard: Arc::default(),
        pool: Arc::default(),
        providers: settings.providers.iter().map(|_| Arc::default()).collect(),
        settings: Arc::new(settings),
    };
    assert_eq!(registry.send(listing).await.expect("answers"), Ok(ShardIndex(0)));
    (context, registry)
}

fn ask_for(plugin: &str) -> Reload {
    Reload {
        plugins: vec![plugin.into()],
        digests: Default::default(),
        settings: None,
        wait: false,
        origin: None,
        trigger: understudy_messages::registry::Trigger::Api,
        requester: CancellationToken::new(),
        superseded: CancellationToken::new(),
    }
}

#[actix::test]
async fn a_failed_start_and_providers_that_cannot_be_started_again_are_both_told_case_t31() {
    let (_context, registry) = serving(Arc::new(StartsBadly)).await;
    let error = registry
        .send(ask_for("shop"))
        .await
        .expect("answers")
        .expect_err("its start fails");
    let told = (error.outcome, error.phase, error.committed, error.generation);
    let expected = (ReloadOutcome::Degraded, Phase::Activate, true, Some(GenerationId(2)));
    assert_eq!(told, expected, "{error}");
    for words in [
        "gateway_start of shop failed: no power",
        "session arbiter",
        "reload what failed",
    ] {
        assert!(error.message.contains(words), "{words}: {}", error.message);
    }
}

/// It cannot be there twice: a reload waits for those who use it.
struct Keeps;

impl NativePlugin for Keeps {
    fn id(&self) -> &str {
        "shop"
    }

    fn register(&self, api: &mut NativeApi, _: &serde_json::Value) -> Result<(), String> {
        api.service("stock", Arc::new(|_| Box::pin(std::future::ready(Ok(())))));
        Ok(())
    }
}

#[derive(Message)]
#[rtype(result = "()")]
struct Die;

impl Handler<Die> for RegistryActor {
    type Result = ();

    fn handle(&mut self, _: Die, _: &mut Context<Self>) {
        panic!("as its test wants");
    }
}

async fn until(so: impl Fn() -> bool) {
    while !so() {
        tokio::task::yield_now().await;
    }
}

#[actix::test]
async fn a_registry_that_dies_during_a_reload_is_replaced_by_one_that_goes_on_with_it() {
    let (context, first) = serving(Arc::new(Keeps)).await;
    let (published, now) = (context.published.clone(), context.clock.now());
    let serves = || published.load().expect("serves");
    let inside = Held::enter(serves(), &comer(None), now).expect("the gate is open");
    let reloading = first.send(ask_for("shop"));
    until(|| published.under_way().held().is_some()).await;
    assert!(first.send(Die).await.is_err());

    let second = RegistryActor::new(context.clone(), EndOfLife::unwatched()).start();
    let beside = second.send(ask_for("shop")).await.expect("answers");
    let beside = beside.expect_err("the first is under way");
    assert_eq!(
        (beside.retry_after_ms, beside.generation),
        (Some(1_000), Some(GenerationId(1)))
    );
    assert!(
        beside.message.contains("status --all"),
        "it says what to do: {}",
        beside.message
    );
    assert!(
        Held::enter(serves(), &comer(None), now).is_none(),
        "its gate is still closed"
    );
    let held = second.send(AdmitTurn(comer(None)));
    drop(inside);
    let held = held.await.expect("answers").expect("let in");
    assert_eq!((held.generation().id, serves().id), (GenerationId(2), GenerationId(2)));
    drop(held);
    let receipt = reloading.await.expect("answers").expect("it is finished");
    assert_eq!(receipt.generation, Some(GenerationId(2)));
    until(|| published.reload(now).is_none() && published.under_way().held().is_none()).await;
    while let Err(busy) = second.send(ask_for("shop")).await.expect("answers") {
        assert_eq!(busy.retry_after_ms, Some(1_000), "{busy}");
    }
    assert_eq!(serves().id, GenerationId(3));
}

#[actix::test]
async fn a_turn_that_waits_at_the_gate_of_a_registry_that_dies_waits_at_the_next_ones() {
    let (context, first) = serving(Arc::new(Keeps)).await;
    let slot: Arc<Slot<Recipient<AdmitTurn>>> = Arc::default();
    slot.set(first.clone().recipient());
    let admission = Admission::new(context.published.clone(), slot.clone(), &context.loader.supervision);
    assert_eq!(first.send(HoldFor(Agents::All)).await, Ok(()));
    let turn = super::testing::turn(None);
    let next = async {
        assert!(first.send(Die).await.is_err());
        let second = RegistryActor::new(context.clone(), EndOfLife::unwatched()).start();
        slot.set(second.clone().recipient());
        assert_eq!(second.send(ReopenAdmission).await, Ok(()));
        second
    };
    let (admitted, _second) = tokio::join!(admission.admit(&turn, None, None), next);
    assert!(admitted.is_ok(), "{admitted:?}");
}

#[actix::test]
async fn a_reload_that_panics_lets_in_whom_it_held_and_is_named() {
    let (context, registry) = serving(Arc::new(Keeps)).await;
    let published = &context.published;
    published.show(Some(operation::Progress {
        phase: "reloading",
        plugins: vec!["shop".into()],
        until: None,
        reason: None,
        waits_for: None,
        budget: None,
    }));
    assert_eq!(registry.send(HoldFor(Agents::All)).await, Ok(()));
    operation::abandoned(&context).await;
    let now = context.clock.now();
    let serving = published.load().expect("serves");
    assert!(Held::enter(serving, &comer(None), now).is_some(), "the gate is open");
    let told = published.reload(now).expect("it is told");
    assert_eq!((told.phase, told.plugin_ids), ("failed", vec!["shop".into()]));
}
