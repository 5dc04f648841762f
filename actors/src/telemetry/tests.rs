use std::time::{Duration, UNIX_EPOCH};

use understudy_messages::registry::{ReloadOutcome, Trigger};

use super::*;

#[test]
fn every_metric_has_a_row_of_its_own_and_a_help_text() {
    let mut names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), METRICS.len());
    assert!(METRICS.iter().all(|metric| !metric.help.is_empty()));
}

#[test]
fn counters_end_in_total_and_nothing_else_does() {
    for metric in METRICS {
        let counter = matches!(metric.kind, Kind::Counter);
        assert_eq!(metric.name.ends_with("_total"), counter, "{}", metric.name);
    }
}

#[test]
fn a_scrape_holds_no_summary() {
    let telemetry = Telemetry::new().expect("table is sound");
    telemetry.turns().overhead(std::time::Duration::from_millis(1));
    let scrape = telemetry.render();
    assert!(!scrape.contains(" summary"), "{scrape}");
    assert!(scrape.contains("understudy_gateway_overhead_seconds_bucket"));
}

#[test]
fn two_apps_in_one_process_share_no_series() {
    let (one, two) = (Telemetry::new().expect("sound"), Telemetry::new().expect("sound"));
    one.http_request(Route::Models, "GET", 418);
    assert!(one.render().contains("code=\"418\""));
    assert!(!two.render().contains("code=\"418\""));
}

#[test]
fn a_reload_that_is_tried_again_by_itself_says_nothing_of_success() {
    let telemetry = Telemetry::new().expect("sound");
    for (outcome, shown) in [
        (ReloadOutcome::Deferred, 1),
        (ReloadOutcome::Degraded, 0),
        (ReloadOutcome::Deferred, 0),
        (ReloadOutcome::Applied, 1),
        (ReloadOutcome::Rejected, 0),
    ] {
        telemetry.reloaded(Trigger::ConfigWatch, outcome, Duration::ZERO, UNIX_EPOCH);
        let line = format!("{} {shown}\n", RELOAD_SUCCEEDED.name);
        assert!(telemetry.render().contains(&line), "{outcome:?}");
    }
}
