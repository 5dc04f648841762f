//! Plugins of every host replaced under load, over real HTTP and on the real clock. `cargo bench -p understudy-tests --bench
//! recast` does the same at length.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use understudy_tests::recast::{Code, EXCLUSIVE, JS, PLUGINS, Stage, Turn};

const SESSIONS: usize = 40;
/// So long does a session rest between two turns.
const REST: Duration = Duration::from_millis(800);
/// So long after one reload the next one begins.
const PAUSE: Duration = Duration::from_millis(100);
const ROUNDS: usize = 3;

/// The instances of a plugin that turns have seen; a turn that was not whole fails the test.
fn instances<'a>(turns: &'a [Turn], plugin: &str) -> BTreeSet<&'a str> {
    let seen = turns.iter().map(|turn| turn.seen.as_ref().expect("a whole turn"));
    seen.map(|instances| &*instances[plugin]).collect()
}

#[actix_web::test]
async fn no_turn_is_lost_and_none_sees_two_instances_while_every_plugin_is_replaced_case_t37() {
    let stage = Stage::set().await;
    let reloads = async {
        for _ in 0..ROUNDS {
            stage.reload_all(PLUGINS, PAUSE).await;
        }
        // whoever was replaced last is seen by somebody
        stage.pause(REST).await;
    };
    let (turns, ()) = stage.crowd(SESSIONS, REST, reloads).await;
    assert!(turns.len() >= SESSIONS, "{} turns", turns.len());
    for plugin in PLUGINS {
        let seen = instances(&turns, plugin).len();
        assert!((2..=ROUNDS + 1).contains(&seen), "{plugin}: {seen} instances");
    }
    let scrape = stage.gateway.scrape().await;
    let applied = [("trigger", "api"), ("outcome", "applied")];
    let reloads = (ROUNDS * PLUGINS.len()) as u64;
    assert_eq!(scrape.count("understudy_registry_reloads_total", &applied), reloads);
}

/// Gives `plugin` broken code under load, again and again, then sound code.
async fn break_and_mend(plugin: &'static str, outcome: &str) -> Vec<Turn> {
    let stage = Stage::set().await;
    let attempts = async {
        for code in [Code::Unreadable, Code::Throws, Code::Hangs, Code::Guardless] {
            stage.write(plugin, code);
            let refused = stage.reload(plugin).await;
            let error = &refused.told["error"];
            assert_eq!(
                (refused.status, &error["outcome"]),
                (409, &json!(outcome)),
                "{code:?}: {error}"
            );
            stage.pause(PAUSE).await;
        }
        stage.pause(REST).await;
    };
    let (turns, ()) = stage.crowd(SESSIONS, REST, attempts).await;
    stage.write(plugin, Code::Sound);
    assert_eq!(stage.reload(plugin).await.status, 200);
    assert_eq!(stage.ask(0).await.seen.err(), None);
    turns
}

#[actix_web::test]
async fn a_guard_that_is_given_broken_code_goes_on_and_lets_no_call_pass() {
    let turns = break_and_mend(JS, "rolled_back").await;
    for plugin in PLUGINS {
        assert_eq!(instances(&turns, plugin).len(), 1, "{plugin} was not replaced");
    }
}

#[actix_web::test]
async fn an_exclusive_guard_that_is_given_broken_code_is_put_back_and_lets_no_call_pass() {
    let turns = break_and_mend(EXCLUSIVE, "restored").await;
    for plugin in PLUGINS {
        let seen = instances(&turns, plugin).len();
        match plugin {
            EXCLUSIVE => assert!((2..=5).contains(&seen), "{seen} instances"),
            _ => assert_eq!(seen, 1, "{plugin} was not replaced"),
        }
    }
}
