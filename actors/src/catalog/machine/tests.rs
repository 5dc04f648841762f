use proptest::prelude::*;
use understudy_messages::clock::Clock;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

struct Play {
    machine: Machine,
    now: Instant,
}

impl Play {
    fn new() -> Self {
        let now = Clock::movable().now();
        let machine = Machine::new(HOUR, Some("lab".into()), 0, now);
        Self { machine, now }
    }

    fn step(&mut self, event: Event) -> Option<Effect> {
        self.machine.step(event, false, self.now)
    }

    fn held(&mut self, event: Event) -> Option<Effect> {
        self.machine.step(event, true, self.now)
    }

    fn wait(&mut self, seconds: u64) -> Option<Effect> {
        self.now += Duration::from_secs(seconds);
        self.step(Event::Tick)
    }

    fn moved(&mut self, run: u64, stage: Stage) -> Option<Effect> {
        self.step(Event::Moved { run, stage })
    }
}

fn found(run: u64) -> Event {
    let found = Ok(Arc::default());
    Event::Ended { run, found }
}

fn lost(run: u64) -> Event {
    let found = Err(CatalogError::Lost);
    Event::Ended { run, found }
}

fn adopted(version: u64) -> Option<Effect> {
    let listing = Arc::default();
    Some(Effect::Adopt { version, listing })
}

#[test]
fn a_list_is_looked_at_at_once_and_again_when_it_is_no_longer_good() {
    let mut play = Play::new();
    assert_eq!(play.step(Event::Tick), Some(Effect::Begin { run: 1 }));
    assert_eq!(play.moved(1, Stage::Discovery), Some(Effect::Tell(Stage::Discovery)));
    assert_eq!(play.step(found(1)), adopted(1));
    assert_eq!(play.wait(3599), None);
    assert_eq!(play.wait(1), Some(Effect::Begin { run: 2 }));
}

#[test]
fn without_progress_it_fails_after_180_s_and_names_who_and_where_case_t49() {
    let mut play = Play::new();
    assert_eq!(play.step(Event::Tick), Some(Effect::Begin { run: 1 }));
    assert_eq!(play.wait(179), None);
    let stalled = CatalogError::Stalled {
        plugin: Some("lab".into()),
        stage: Stage::Admission,
    };
    assert_eq!(play.wait(1), Some(Effect::End(stalled)));
    for _ in 0..24 {
        assert_eq!(play.wait(3600), None, "it is not tried again by itself");
    }
    assert_eq!(play.step(Event::Ask), None);
    assert_eq!(play.step(Event::Tick), Some(Effect::Begin { run: 2 }));
}

#[test]
fn with_progress_every_100_s_it_does_not_fail_in_10_minutes_case_t49() {
    let mut play = Play::new();
    play.step(Event::Tick);
    for _ in 0..6 {
        assert_eq!(play.wait(100), None);
        play.moved(1, Stage::Admission);
    }
    play.moved(1, Stage::Discovery);
    assert_eq!(play.wait(179), None, "the list has its own time, from where it begins");
    assert_eq!(play.step(found(1)), adopted(1));
}

#[test]
fn a_list_that_is_too_late_is_given_up_whatever_moves_and_tried_again_after_a_wait() {
    let mut play = Play::new();
    play.step(Event::Tick);
    play.moved(1, Stage::Discovery);
    assert_eq!(play.wait(100), None);
    play.moved(1, Stage::Discovery);
    assert_eq!(play.wait(80), Some(Effect::End(CatalogError::Deadline)));
    assert_eq!(play.step(found(1)), None, "it comes too late");
    assert_eq!(play.wait(29), None);
    assert_eq!(play.wait(1), Some(Effect::Begin { run: 2 }));
}

#[test]
fn the_wait_after_failures_doubles_up_to_half_an_hour_and_a_list_ends_it() {
    let mut play = Play::new();
    for (run, wait) in (1..).zip([30, 60, 120, 240, 480, 960, 1800, 1800]) {
        assert_eq!(play.step(Event::Tick), Some(Effect::Begin { run }));
        assert_eq!(play.step(lost(run)), Some(Effect::Fail(CatalogError::Lost)));
        assert_eq!(play.wait(wait - 1), None);
        play.now += Duration::from_secs(1);
    }
    assert_eq!(play.machine.failures(), 8);
    play.step(Event::Tick);
    play.step(found(9));
    assert_eq!(play.machine.failures(), 0);
}

#[test]
fn progress_is_told_once_a_second_and_a_new_stage_at_once() {
    let mut play = Play::new();
    play.step(Event::Tick);
    assert_eq!(play.moved(1, Stage::Admission), Some(Effect::Tell(Stage::Admission)));
    play.now += Duration::from_millis(999);
    assert_eq!(play.moved(1, Stage::Admission), None);
    assert_eq!(play.moved(1, Stage::Discovery), Some(Effect::Tell(Stage::Discovery)));
    play.now += Duration::from_secs(1);
    assert_eq!(play.moved(1, Stage::Discovery), Some(Effect::Tell(Stage::Discovery)));
    assert_eq!(play.moved(1, Stage::Admission), None, "there is no way back");
}

#[test]
fn while_a_reload_is_under_way_no_look_begins_and_no_list_is_taken_case_t15() {
    let mut play = Play::new();
    play.held(Event::Ask);
    assert_eq!(play.held(Event::Tick), None);
    assert_eq!(play.machine.wake(true, play.now), None, "nobody is woken for it");
    assert_eq!(play.step(Event::Tick), Some(Effect::Begin { run: 1 }));
    play.moved(1, Stage::Discovery);
    assert_eq!(play.held(found(1)), None);
    assert_eq!(play.held(Event::Tick), None);
    assert_eq!(play.step(Event::Tick), adopted(1));
}

#[test]
fn whoever_asks_while_a_look_is_under_way_joins_it() {
    let mut play = Play::new();
    play.step(Event::Tick);
    play.step(Event::Ask);
    play.step(found(1));
    assert_eq!(play.step(Event::Tick), None);
    play.step(Event::Ask);
    assert_eq!(play.step(Event::Tick), Some(Effect::Begin { run: 2 }));
}

/// What may happen, and how much time has passed since.
fn events() -> impl Strategy<Value = Vec<(u64, bool, u8, u64)>> {
    prop::collection::vec((0_u64..200, any::<bool>(), 0_u8..5, 0_u64..3), 0..200)
}

proptest! {
    #[test]
    fn at_most_one_look_is_under_way_and_versions_only_grow(events in events()) {
        let mut play = Play::new();
        let (mut under_way, mut newest, mut begun) = (None, 0, 0);
        for (seconds, held, kind, back) in events {
            play.now += Duration::from_secs(seconds);
            let run = u64::saturating_sub(begun, back);
            let event = match kind {
                0 => Event::Ask,
                1 => Event::Tick,
                2 => Event::Moved { run, stage: Stage::Discovery },
                3 => found(run),
                _ => lost(run),
            };
            match play.machine.step(event, held, play.now) {
                Some(Effect::Begin { run }) => {
                    prop_assert!(!held && under_way.is_none(), "{run}");
                    prop_assert_eq!(run, begun + 1);
                    (under_way, begun) = (Some(run), run);
                }
                Some(Effect::Adopt { version, .. }) => {
                    prop_assert!(!held && under_way == Some(version) && version > newest);
                    (under_way, newest) = (None, version);
                }
                Some(Effect::End(_) | Effect::Fail(_)) => under_way = None,
                Some(Effect::Tell(_)) => prop_assert!(under_way.is_some()),
                None => {}
            }
            let is_under_way = matches!(
                play.machine.state(),
                State::Admitting { .. } | State::Refreshing { .. } | State::Arrived(_)
            );
            prop_assert_eq!(is_under_way, under_way.is_some());
        }
    }
}
