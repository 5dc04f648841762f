//! Arbiters that come and go while settings change.

use std::sync::OnceLock;

use tokio::runtime::Runtime;
use understudy_messages::ports::ShardPort;
use understudy_messages::ports::Slot;
use understudy_messages::settings::PluginEntry;
use understudy_plugins::capture::Captures;
use understudy_plugins::hosts::Hosts;
use understudy_plugins::native::{AsyncHandler, NativeApi, NativePlugin};
use understudy_plugins::registration::HookOptions;

use super::testing::{no_plugins, no_plugins_of, settings};
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

#[actix::test]
async fn a_failed_start_and_providers_that_cannot_be_started_again_are_both_told_case_t31() {
    let mut settings = settings();
    let on = PluginEntry {
        enabled: Some(true),
        ..PluginEntry::default()
    };
    settings.plugins.entries.insert("shop".into(), on);
    let hosts = Hosts {
        native: vec![Arc::new(StartsBadly)],
        ..Hosts::default()
    };
    let empty = context(settings.clone(), no_plugins_of(&settings), hosts);
    let loaded = empty.loader.load(&Arc::new(settings.clone())).await;
    let inventory = loaded.into();
    let registry = RegistryActor::new(RegistryContext { inventory, ..empty }, EndOfLife::unwatched()).start();
    // an arbiter that has no pool of providers any longer
    let listing = RegisterShard {
        shard: Arc::default(),
        pool: Arc::default(),
        providers: settings.providers.iter().map(|_| Arc::default()).collect(),
        settings: Arc::new(settings),
    };
    assert_eq!(registry.send(listing).await.expect("answers"), Ok(ShardIndex(0)));
    let ask = Reload {
        plugins: vec!["shop".into()],
        digests: Default::default(),
        settings: None,
        wait: false,
        origin: None,
        trigger: understudy_messages::registry::Trigger::Api,
        requester: CancellationToken::new(),
        superseded: CancellationToken::new(),
    };
    let error = registry.send(ask).await.expect("answers").expect_err("its start fails");
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
