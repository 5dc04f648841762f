//! Arbiters that come and go while settings change.

use std::sync::OnceLock;

use tokio::runtime::Runtime;
use understudy_messages::ports::ShardPort;
use understudy_messages::ports::Slot;
use understudy_plugins::capture::Captures;
use understudy_plugins::hosts::Hosts;

use super::testing::{no_plugins, no_plugins_of, settings};
use super::*;
use crate::supervision::{Supervision, Tasks};

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().expect("a runtime"))
}

fn registry() -> RegistryActor {
    let (clock, telemetry) = (Clock::movable(), Telemetry::new().expect("sound"));
    let loader = Loader {
        hosts: Hosts::default(),
        captures: Arc::new(Captures::below(std::env::temp_dir().join("understudy-registry"))),
        supervision: Supervision {
            tasks: Tasks::new(),
            clock: clock.clone(),
            telemetry: telemetry.clone(),
        },
        runtime,
    };
    let context = RegistryContext {
        settings: Arc::new(settings()),
        loader,
        inventory: no_plugins().into(),
        shards_expected: 1,
        published: Arc::default(),
        clock,
        telemetry,
        tap: EventTap::default(),
        ledgers: Arc::default(),
        port: 0,
    };
    RegistryActor::new(context, EndOfLife::unwatched())
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
