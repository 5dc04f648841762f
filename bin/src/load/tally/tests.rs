use std::time::Duration;

use super::*;
use crate::load::agenda::Turn;
use crate::load::receipt::Loss;

fn receipt(due: u64, took: u64, attempts: u32, ending: Ending) -> Receipt {
    Receipt {
        turn: Turn {
            due: Duration::from_secs(due),
            session: 0,
            turn: 0,
            step: 0,
        },
        first: Some(Duration::from_millis(took / 2)),
        took: Duration::from_millis(took),
        attempts,
        refusals: Refusals::default(),
        slow: false,
        ending,
    }
}

fn tally() -> Tally {
    Tally::new(2, Duration::from_secs(1)).expect("there is memory")
}

#[test]
fn each_turn_is_counted_once_where_it_belongs() {
    let mut tally = tally();
    for (ending, step) in [
        (Ending::Whole, Some(1)),
        (Ending::Refused(503), Some(0)),
        (Ending::Error, None),
        (Ending::Lost(Loss::TimedOut), None),
        (Ending::Left, None),
    ] {
        tally.begin(Duration::ZERO);
        tally.end(&receipt(1, 10, 1, ending), step);
    }
    assert_eq!((tally.begun, tally.whole, tally.failed_over), (5, 1, 0));
    assert_eq!((tally.left, tally.ended()), (1, 5));
    assert_eq!((tally.errors_in_all(), tally.lost_in_all()), (2, 1));
    assert_eq!(tally.errors.keys().collect::<Vec<_>>(), ["503", "in_stream"]);
    assert_eq!(tally.steps, [0, 1]);
}

#[test]
fn a_turn_of_the_warm_up_is_counted_and_not_measured() {
    let mut tally = tally();
    tally.end(&receipt(0, 500, 1, Ending::Whole), None);
    tally.end(&receipt(1, 10, 1, Ending::Whole), None);
    tally.end(&receipt(1, 80, 2, Ending::Whole), None);
    assert_eq!((tally.whole, tally.turn.count()), (3, 2));
    assert_eq!((tally.first.count(), tally.first_failed_over.count()), (1, 1));
    assert_eq!(tally.turn.percentile(100.0).map(|it| it.as_millis()), Some(80));
}

#[test]
fn statuses_beyond_a_few_are_one_kind() {
    let mut tally = tally();
    for status in 400..600 {
        tally.end(&receipt(1, 1, 1, Ending::Refused(status)), None);
    }
    assert_eq!(tally.errors.len(), MOST_KINDS + 1);
    assert_eq!(tally.errors_in_all(), 200);
}

#[test]
fn points_are_bounded_and_lose_no_turn() {
    let mut tally = tally();
    for second in 1..=2_000 {
        tally.begin(Duration::ZERO);
        tally.end(&receipt(1, second, 1, Ending::Whole), None);
        if tally.points.due() <= Duration::from_secs(second) {
            tally.points.close(Duration::from_secs(second), None);
        }
    }
    let points = tally.points.list();
    assert!((300..600).contains(&points.len()), "{}", points.len());
    assert_eq!(points.iter().map(|point| point.whole).sum::<u64>(), 2_000);
    assert!(points.windows(2).all(|pair| pair[0].at + pair[0].lasts == pair[1].at));
}

#[test]
fn usage_is_what_was_used_meanwhile() {
    let usage = |cpu, rss| {
        Some(Usage {
            cpu: Duration::from_secs(cpu),
            rss,
        })
    };
    let mut tally = tally();
    tally.used(usage(5, 900), usage(2, 1));
    tally.used(usage(7, 300), usage(2, 1));
    assert_eq!((tally.cpu, tally.rss), (Some(Duration::from_secs(5)), Some(900)));
    tally.used(None, usage(2, 1));
    assert_eq!((tally.cpu, tally.rss), (None, Some(900)));
}

/// Points of a second, with this memory in each.
fn points(rss: impl IntoIterator<Item = u64>) -> Points {
    let mut points = tally().points;
    for (second, rss) in (1..).zip(rss) {
        let cpu = Duration::ZERO;
        points.close(Duration::from_secs(second), Some(Usage { cpu, rss }));
    }
    points
}

#[test]
fn growth_is_from_when_it_was_warm_and_no_moment_makes_it() {
    let growth = |rss: &dyn Fn(u64) -> u64, from| points((0..100).map(rss)).rss_growth(Duration::from_secs(from));
    let close = |growth: Option<f64>, to: f64| growth.is_some_and(|growth| (growth - to).abs() < 0.05);
    // it starts up, and is level from then on
    let level = |second: u64| if second < 20 { 10 + second } else { 100 };
    assert!(close(growth(&level, 20), 1.0) && growth(&level, 0) > Some(3.0));
    assert!(close(growth(&|second| if second < 50 { 100 } else { 200 }, 20), 2.0));
    // one that is high for a moment, at the beginning or at the end
    for moment in [20, 99] {
        assert!(close(
            growth(&|second| if second == moment { 900 } else { 100 }, 20),
            1.0
        ));
    }
    assert_eq!(growth(&level, 101), None, "it was over by then");
    assert_eq!(Points::new().expect("there is memory").rss_growth(Duration::ZERO), None);
}
