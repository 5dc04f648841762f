use std::time::Duration;

use super::*;
use crate::load::agenda::Turn;
use crate::load::receipt::{Ending, Loss, Receipt, Refusals};
use crate::load::scenario::parse;
use crate::load::tally::Tally;
use crate::load::verdict::Flaw;

/// A hundred turns of `took` each, two of which failed.
fn tally(took: u64) -> Tally {
    let mut tally = Tally::new(1, Duration::ZERO).expect("there is memory");
    for number in 0..100 {
        tally.begin(Duration::ZERO);
        let ending = match number {
            0 => Ending::Refused(503),
            1 => Ending::Lost(Loss::Wrong(Flaw::OtherSession)),
            _ => Ending::Whole,
        };
        let turn = Turn {
            due: Duration::ZERO,
            session: number,
            turn: 0,
            step: 0,
        };
        let receipt = Receipt {
            turn,
            first: Some(Duration::from_millis(took / 2)),
            took: Duration::from_millis(took),
            attempts: 1 + number / 90,
            refusals: Refusals::default(),
            slow: false,
            ending,
        };
        tally.end(&receipt, Some(0));
        if number % 50 == 49 {
            tally
                .points
                .close(Duration::from_secs(u64::from(number / 50) + 1), None);
        }
    }
    tally.took = Duration::from_secs(2);
    tally.driver_cpu = Duration::from_millis(10);
    tally.lag.add(Duration::from_micros(900));
    tally.cpu = Some(Duration::from_millis(50 + took));
    tally.rss = Some(30 << 20);
    tally
}

fn measured(name: &'static str, took: [u64; 3]) -> Measured {
    Measured {
        name,
        url: "http://gateway/v1".to_owned(),
        rounds: took.map(tally).to_vec(),
        reloads: None,
        left: None,
    }
}

fn report(expect: &str, sides: &[Measured]) -> Report {
    let text =
        format!("about: to be <told>\narrivals: {{ steps: [{{ rate: 50, lasts: 2s }}] }}\nexpect: {{ {expect} }}");
    let scenario = parse(&text, &|_| None).expect("is valid");
    Report::new("told.yaml".to_owned(), &scenario, sides, false).expect("there is memory")
}

#[test]
fn people_read_what_was_measured_and_what_held() {
    let told = report(
        "max_lost: 0, max_p99: 1s, max_rss: 1MiB",
        &[measured("gateway", [10, 10, 20])],
    );
    insta::assert_snapshot!(told.text(), @r"
    told.yaml: to be <told>

    gateway http://gateway/v1 (3 rounds, 6.0 s)
      turns    300 begun, 294 whole (49.0/s), 30 failed over
      errors   3 (503: 3)
      lost     3 (other_session: 3)
      turn     p50 10.0 ms  p90 20.0 ms  p95 20.0 ms  p99 20.0 ms  p99.9 20.0 ms  max 20.0 ms
      first    p50 5.0 ms  p90 10.0 ms  p95 10.0 ms  p99 10.0 ms  p99.9 10.0 ms  max 10.0 ms
      failover p50 0 ms  p90 5.0 ms  p95 5.0 ms  p99 5.0 ms  p99.9 5.0 ms  max 5.0 ms
      late     p50 0 ms  p90 0 ms  p95 0 ms  p99 0 ms  p99.9 0 ms  max 0 ms
      gateway  0.633 ms CPU per turn, 30.0 MiB at most
      driver   0 % of a core, 100 µs CPU per turn, wakes 0.9 ms late (p99)

    BROKEN max_lost 0: 3
    holds  max_p99 1000: 20.015
    BROKEN max_rss 1048576: 31457280
    Not everything holds.
    ");
}

#[test]
fn each_expectation_is_judged_and_what_is_unknown_does_not_hold() {
    let sides = [measured("gateway", [20, 40, 20]), measured("other", [10, 10, 20])];
    for (expect, holds) in [
        ("max_lost: 3, max_errors: 3", true),
        ("max_lost: 2", false),
        ("max_errors: 2", false),
        ("min_whole: 294, min_failed_over: 30", true),
        ("min_whole: 295", false),
        ("max_p50: 21ms, max_p99: 41ms", true),
        ("max_p99: 39ms", false),
        ("max_first_p99: 21ms", true),
        ("max_failover_p99: 1ms", false),
        ("min_goodput: 49", true),
        ("min_goodput: 50", false),
        ("min_goodput_ratio: 1", true),
        ("max_rss: 30MiB", true),
        ("max_p50_ratio: 2.1, max_p99_ratio: 2.1", true),
        ("max_p50_ratio: 1.9", false),
        ("max_cpu_ratio: 1.2", true),
        ("max_cpu_ratio: 1.1", false),
        ("min_reloads: 1", false),
        ("max_not_begun: 0", true),
        ("min_refused: 1", false),
        ("max_without_retry_after: 0", true),
        ("max_refused_p99: 1h", false),
        ("max_rss_growth: { from: 1ms, ratio: 9 }", false),
        ("max_left: { threads: 9 }", false),
    ] {
        assert_eq!(report(expect, &sides).holds(), holds, "{expect}");
    }
    assert!(
        !report("max_p99_ratio: 9", &sides[..1]).holds(),
        "there is no other gateway"
    );
}

#[test]
fn ratios_are_medians_of_rounds() {
    let sides = [measured("gateway", [20, 40, 20]), measured("other", [10, 10, 20])];
    let ratios = report("", &sides).ratios.expect("there are two");
    let p50 = ratios.p50.expect("is known");
    assert!((p50 - 2.0).abs() < 0.01, "{p50}");
}

#[test]
fn a_page_needs_nothing_else_and_shows_names_as_text() {
    let page = report("max_lost: 0", &[measured("gateway", [10, 10, 20])]).page();
    for needed in ["src=", "href=", "<script", "@import", "url("] {
        assert!(!page.contains(needed), "{needed}");
    }
    assert!(page.contains("to be &lt;told&gt;") && page.contains("<polyline") && page.contains("other_session: 3"));
}

#[test]
fn programs_get_every_figure() {
    let told = serde_json::to_value(report("max_lost: 0", &[measured("gateway", [10, 10, 20])])).expect("is JSON");
    assert_eq!(
        (&told["holds"], &told["expectations"][0]["value"]),
        (&false.into(), &3.0.into())
    );
    let gateway = &told["gateways"][0];
    assert_eq!(
        (&gateway["turns"], &gateway["lost"]["other_session"]),
        (&300.into(), &3.into())
    );
    assert!(gateway["turn_ms"]["p99.9"].is_number() && gateway["driver"]["lag_ms"]["p99"].is_number());
    assert_eq!(told["timelines"][0]["whole"].as_array().map(Vec::len), Some(6));
}

#[test]
fn a_run_that_was_stopped_does_not_hold() {
    let scenario = parse("turns: 1", &|_| None).expect("is valid");
    let told =
        Report::new("s".to_owned(), &scenario, &[measured("gateway", [1, 1, 1])], true).expect("there is memory");
    assert!(!told.holds() && told.text().ends_with("It was stopped before its end."));
}
