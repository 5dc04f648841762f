//! What operators see of a reload while it goes on and once it has ended.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use understudy_messages::events::Event;

use super::{Probe, exclusive, reload, stage, until_held};
use crate::stage::{Stage, lead, question};

const GENERATIONS: &str = "understudy_registry_generations";
const LEASES: &str = "understudy_registry_leases";

#[tokio::test]
async fn a_reload_that_waits_tells_for_whom_and_for_how_long() {
    let (_probe, stage, _folder) = exclusive(Duration::from_secs(20)).await;
    assert_eq!(stage.admin("/admin/v1/plugins/reload").await.json(), json!(null));
    let asked = question(false);
    let turn = stage.ask_as(&asked, |request| request.header("x-session-id", "holder"));
    let during = async {
        stage.called(&lead(), 1).await;
        let ask = json!({ "plugins": ["probe"], "wait": true });
        let replaced = reload(&stage, &ask);
        let look = async {
            until_held(&stage).await;
            let status = stage.admin("/admin/v1/plugins/reload").await.json();
            assert_eq!(
                (&status["phase"], &status["pluginIds"]),
                (&json!("reloading"), &json!(["probe"]))
            );
            assert_eq!(status["holders"][0]["session"], "holder");
            let left = status["deadlineInMs"].as_u64().expect("a deadline");
            assert!(left > 590_000 && left <= 600_000, "{left}");
            let ready = stage.admin("/readyz").await.json();
            assert_eq!(ready["pluginReload"]["phase"], "reloading", "{ready}");
            assert!(
                ready["pluginReload"]["deadlineAtMs"].as_u64() > Some(600_000),
                "{ready}"
            );
            let generations = stage.admin("/admin/v1/generations").await.json();
            let serving = &generations["generations"][0];
            assert_eq!((&serving["state"], &serving["turns"]), (&json!("draining"), &json!(1)));
            assert_eq!(serving["holders"][0]["session"], "holder");
            let scrape = stage.gateway.scrape().await;
            assert_eq!(scrape.count(GENERATIONS, &[("state", "draining")]), 1);
            assert_eq!(scrape.count(GENERATIONS, &[("state", "serving")]), 0);
            assert_eq!(scrape.count(LEASES, &[("generation", "draining"), ("kind", "turn")]), 1);
            assert_eq!(scrape.count("understudy_registry_drain_budget_seconds", &[]), 600);
            assert!(scrape.count("understudy_registry_drain_remaining_seconds", &[]) > 590);
            stage.clock.advance(Duration::from_secs(20));
        };
        tokio::join!(replaced, look).0
    };
    let (_, replaced) = tokio::join!(turn, during);
    assert_eq!(
        (replaced.status, &replaced.json()["ok"]),
        (200, &json!(true)),
        "{}",
        replaced.text()
    );
    let scrape = stage.gateway.scrape().await;
    assert_eq!(scrape.count("understudy_registry_drain_budget_seconds", &[]), 0);
    assert!(scrape.count("understudy_registry_last_reload_success_timestamp_seconds", &[]) > 0);
}

#[tokio::test]
async fn a_generation_that_a_turn_still_holds_is_shown_until_it_lets_go() {
    let probe = Probe::new("probe");
    let stage = stage(&[&probe], "", Duration::from_secs(20)).await;
    let asked = question(false);
    let turn = stage.ask(&asked);
    let during = async {
        stage.called(&lead(), 1).await;
        assert_eq!(reload(&stage, &json!({ "plugins": ["probe"] })).await.status, 200);
        let shown = stage.admin("/admin/v1/generations").await.json();
        let states: Vec<_> = shown["generations"].as_array().expect("a list").iter().collect();
        assert_eq!(
            (&states[0]["generation"], &states[0]["state"]),
            (&json!(2), &json!("serving"))
        );
        assert_eq!(
            (&states[1]["generation"], &states[1]["state"]),
            (&json!(1), &json!("retiring"))
        );
        assert_eq!(
            (&states[1]["turns"], &states[1]["holders"][0]["kind"]),
            (&json!(1), &json!("turn"))
        );
        let scrape = stage.gateway.scrape().await;
        assert_eq!(scrape.count(LEASES, &[("generation", "retiring"), ("kind", "turn")]), 1);
        stage.clock.advance(Duration::from_secs(20));
    };
    assert_eq!(tokio::join!(turn, during).0.status, 200);
    while stage
        .gateway
        .scrape()
        .await
        .count(GENERATIONS, &[("state", "retiring")])
        > 0
    {}
    let shown = stage.admin("/admin/v1/generations").await.json();
    assert_eq!(shown["generations"].as_array().map(Vec::len), Some(1), "{shown}");
}

/// The counters of reloads, admissions and forced retirements that are not zero.
pub(crate) async fn counted(stage: &Stage) -> BTreeMap<String, u64> {
    let url = stage.gateway.admin("/metrics");
    let text = stage
        .gateway
        .client()
        .get(url)
        .send()
        .await
        .expect("a scrape")
        .text()
        .await;
    let text = text.expect("text");
    let ours = [
        "understudy_registry_reloads_total{",
        "understudy_registry_admissions_total{",
        "understudy_plugin_forced_retirements_total{",
    ];
    let lines = text
        .lines()
        .filter(|line| ours.iter().any(|name| line.starts_with(name)));
    let read = |line: &str| {
        let (series, value) = line.rsplit_once(' ').expect("a sample");
        (series.to_owned(), value.parse().expect("a count"))
    };
    lines.map(read).filter(|(_, count)| *count > 0).collect()
}

/// These, and the one of the start.
pub(crate) fn moved(expected: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let name = |series: &str| format!("understudy_{series}");
    let started = ("registry_reloads_total{trigger=\"startup\",outcome=\"applied\"}", 1);
    let expected = [&[started], expected].concat();
    expected.iter().map(|(series, count)| (name(series), *count)).collect()
}

#[tokio::test]
async fn every_ending_of_a_reload_moves_its_own_counter_and_no_other_case_t50() {
    let probe = Probe::new("probe");
    let stage = stage(&[&probe], "", Duration::ZERO).await;
    assert_eq!(counted(&stage).await, moved(&[]));
    let applied = "registry_reloads_total{trigger=\"api\",outcome=\"applied\"}";
    let rejected = "registry_reloads_total{trigger=\"api\",outcome=\"rejected\"}";
    let rolled_back = "registry_reloads_total{trigger=\"api\",outcome=\"rolled_back\"}";
    reload(&stage, &json!({ "plugins": ["probe"] })).await;
    assert_eq!(counted(&stage).await, moved(&[(applied, 1)]));
    reload(&stage, &json!({ "plugins": ["nobody"] })).await;
    assert_eq!(counted(&stage).await, moved(&[(applied, 1), (rejected, 1)]));
    probe.fails.store(1, std::sync::atomic::Ordering::SeqCst);
    reload(&stage, &json!({ "plugins": ["probe"] })).await;
    assert_eq!(
        counted(&stage).await,
        moved(&[(applied, 1), (rejected, 1), (rolled_back, 1)])
    );
}

#[tokio::test]
async fn a_drain_in_vain_moves_its_own_counter_and_those_of_the_gate_case_t50() {
    let (_probe, stage, _folder) = exclusive(Duration::from_secs(100)).await;
    let asked = question(false);
    let turn = stage.ask(&asked);
    let during = async {
        stage.called(&lead(), 1).await;
        let ask = json!({ "plugins": ["probe"] });
        let late = async {
            until_held(&stage).await;
            let asked = question(false);
            let held = stage.ask(&asked);
            let gone = async {
                stage
                    .counts("understudy_registry_admissions_total", &[("result", "held")], 1)
                    .await;
                stage.clock.advance(Duration::from_secs(60));
            };
            tokio::join!(held, gone).0
        };
        let (replaced, held) = tokio::join!(reload(&stage, &ask), late);
        assert_eq!(replaced.status, 504, "{}", replaced.text());
        stage.clock.advance(Duration::from_secs(40));
        held
    };
    let (first, second) = tokio::join!(turn, during);
    assert_eq!(first.status, 200);
    let counted = counted(&stage).await;
    let of = |series: &str| counted.get(&format!("understudy_registry_{series}")).copied();
    assert_eq!(of("reloads_total{trigger=\"api\",outcome=\"drain_timeout\"}"), Some(1));
    assert_eq!(of("admissions_total{result=\"held\"}"), Some(1), "{counted:?}");
    // the turn that was held goes on with the old generation, and is counted once
    assert_eq!(second.status, 200, "{}", second.text());
    assert_eq!(of("admissions_total{result=\"refused\"}").unwrap_or_default(), 0);
    assert_eq!(of("admissions_total{result=\"admitted\"}"), Some(2));
    assert_eq!(
        stage
            .gateway
            .scrape()
            .await
            .count("understudy_registry_admission_wait_seconds_count", &[]),
        1
    );
}

#[tokio::test]
async fn a_reload_is_told_on_the_tap_and_so_is_what_it_has_changed() {
    let probe = Probe::new("probe");
    let stage = stage(&[&probe], "", Duration::ZERO).await;
    let mut events = stage.gateway.events();
    let receipt = reload(&stage, &json!({ "plugins": ["probe"] })).await.json();
    let mut changed = 0;
    loop {
        match &*events.recv().await.expect("told") {
            Event::PluginsChanged { generation } => {
                assert_eq!(generation.0, 2);
                changed += 1;
            }
            Event::ReloadProgress(progress) => {
                assert_eq!(receipt["operationId"], *progress.operation);
                if let Some(outcome) = progress.outcome {
                    assert_eq!(outcome.as_label(), "applied");
                    break;
                }
            }
            _ => {}
        }
    }
    assert_eq!(changed, 1);
}

#[tokio::test]
async fn a_refusal_has_the_facts_of_its_reload() {
    let probe = Probe::new("probe");
    let stage = stage(&[&probe], "", Duration::ZERO).await;
    let error = reload(&stage, &json!({ "plugins": ["nobody"] })).await.json();
    let runtime = &error["error"]["details"]["runtime"];
    let facts = (
        &runtime["phase"],
        &runtime["committed"],
        &runtime["generation"],
        &runtime["pluginIds"],
    );
    assert_eq!(facts, (&json!("prepare"), &json!(false), &json!(1), &json!(["nobody"])));
    assert!(runtime["operationId"].is_string(), "{error}");
}
