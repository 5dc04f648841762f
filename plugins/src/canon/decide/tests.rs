use std::time::UNIX_EPOCH;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn rules(interval: u64, idle: Duration) -> Rules {
    Rules {
        interval,
        idle,
        mode: Mode::default(),
    }
}

fn mark(model: &ModelRef, turn: u64) -> Mark<()> {
    Mark {
        model: model.clone(),
        canon: (),
        turn,
        at: at(1_000_000),
    }
}

/// The reason in `turn` for model `a`, `seconds` after the mark.
fn reason(
    rules: Rules,
    mark: Option<&Mark<()>>,
    candidate: Option<&ModelRef>,
    turn: u64,
    seconds: u64,
) -> Option<Reason> {
    let history = History {
        mark,
        candidate,
        restarted: false,
    };
    rules.reason(history, turn, &ModelRef::new("p", "a"), at(1_000_000 + seconds))
}

#[test]
fn reasons_by_what_went_before() {
    use Reason::{ModelSwitch, NewSession, Periodic, RestartOrIdle};
    let (a, b) = (ModelRef::new("p", "a"), ModelRef::new("p", "b"));
    let other_provider = ModelRef::new("q", "a");
    let usual = rules(50, 6 * HOUR);
    let idle = 6 * 3600;
    let rows = [
        (usual, None, None, 1, 0, Some(NewSession)),
        (usual, None, Some(&b), 1, 0, Some(ModelSwitch)),
        (usual, None, Some(&a), 1, 0, Some(NewSession)),
        (usual, Some(mark(&a, 1)), None, 2, 1, None),
        (usual, Some(mark(&b, 1)), None, 2, 1, Some(ModelSwitch)),
        (usual, Some(mark(&other_provider, 1)), None, 2, 1, Some(ModelSwitch)),
        (usual, Some(mark(&a, 1)), Some(&b), 2, 1, Some(ModelSwitch)),
        (usual, Some(mark(&a, 1)), None, 2, idle, None),
        (usual, Some(mark(&a, 1)), None, 2, idle + 1, Some(RestartOrIdle)),
        (rules(50, Duration::ZERO), Some(mark(&a, 1)), None, 2, idle + 1, None),
        (usual, Some(mark(&a, 1)), None, 49, 1, None),
        (usual, Some(mark(&a, 1)), None, 50, 1, Some(Periodic)),
        (usual, Some(mark(&a, 49)), None, 50, 1, Some(Periodic)),
        (usual, Some(mark(&a, 50)), None, 51, 1, None),
        // the answer of turn 50 never came: its injection does not count
        (usual, Some(mark(&a, 1)), None, 51, 1, Some(Periodic)),
        (rules(0, HOUR), Some(mark(&a, 1)), None, 50, 1, None),
        (rules(1, HOUR), Some(mark(&a, 1)), None, 2, 1, Some(Periodic)),
        (usual, Some(mark(&b, 1)), None, 50, idle + 1, Some(ModelSwitch)),
        (usual, Some(mark(&a, 1)), None, 50, idle + 1, Some(RestartOrIdle)),
    ];
    for (row, (rules, mark, candidate, turn, seconds, expected)) in rows.into_iter().enumerate() {
        let found = reason(rules, mark.as_ref(), candidate, turn, seconds);
        assert_eq!(found, expected, "row {row}");
    }
}

#[test]
fn a_clock_that_was_put_back_is_no_idle_time() {
    let a = ModelRef::new("p", "a");
    let mut later = mark(&a, 1);
    later.at += 100 * HOUR;
    assert_eq!(reason(rules(50, HOUR), Some(&later), None, 2, 0), None);
}

#[test]
fn a_reason_is_read_in_every_mode_and_the_modes_differ_without_one() {
    let step = |mode, reason| {
        Rules {
            mode,
            ..rules(50, HOUR)
        }
        .step(reason)
    };
    for mode in [Mode::Sticky, Mode::Selective, Mode::Always] {
        let due = Reason::Periodic;
        assert_eq!(step(mode, Some(due)), Step::Read(Cause::Due(due)));
    }
    assert_eq!(step(Mode::Sticky, None), Step::Repeat);
    assert_eq!(step(Mode::Selective, None), Step::Nothing);
    assert_eq!(step(Mode::Always, None), Step::Read(Cause::EveryTurn));
}
