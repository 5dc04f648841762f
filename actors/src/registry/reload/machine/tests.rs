use std::time::Duration;

use proptest::prelude::*;
use understudy_messages::clock::Clock;

use super::*;

fn now() -> Instant {
    Clock::movable().now()
}

fn plan(exclusive: bool, watched: bool) -> Plan {
    Plan {
        changes: true,
        exclusive,
        drain_until: now() + Duration::from_secs(60),
        watched,
    }
}

/// Plays events and gives every effect, in order.
fn play(events: &[Event]) -> (State, Vec<Effect>) {
    let (mut machine, mut effects) = (Machine::default(), Vec::new());
    for event in events {
        effects.extend(
            machine
                .step(*event, now())
                .unwrap_or_else(|_| panic!("{event:?} in {machine:?}")),
        );
    }
    (machine.state(), effects)
}

fn outcome(events: &[Event]) -> ReloadOutcome {
    match play(events) {
        (State::Done(outcome), _) => outcome,
        (state, _) => panic!("not over: {state:?}"),
    }
}

const DRAINED: [Event; 3] = [
    Event::Empty,
    Event::Stopped(Cleanup::Done),
    Event::Disposed(Cleanup::Done),
];

fn exclusive(rest: &[Event]) -> Vec<Event> {
    [&[Event::Prepared(plan(true, false))], rest].concat()
}

fn drained(rest: &[Event]) -> Vec<Event> {
    exclusive(&[&DRAINED, rest].concat())
}

#[test]
fn an_exclusive_one_drains_stops_disposes_registers_starts_and_publishes_in_this_order() {
    let (state, effects) = play(&drained(&[
        Event::Registered,
        Event::Started,
        Event::Published,
        Event::Settled,
    ]));
    assert_eq!(state, State::Done(ReloadOutcome::Applied));
    assert!(matches!(effects[0], Effect::HoldGate(_)));
    assert_eq!(
        effects[1..],
        [
            Effect::Quiesce,
            Effect::StopServices,
            Effect::Dispose,
            Effect::Register,
            Effect::Start,
            Effect::Publish,
            Effect::OpenGate,
            Effect::Settle,
        ]
    );
}

#[test]
fn a_shared_one_touches_neither_gate_nor_old_instances() {
    let (state, effects) = play(&[
        Event::Prepared(plan(false, false)),
        Event::Registered,
        Event::Started,
        Event::Published,
        Event::Settled,
    ]);
    assert_eq!(state, State::Done(ReloadOutcome::Applied));
    assert_eq!(
        effects,
        [
            Effect::Register,
            Effect::Start,
            Effect::Publish,
            Effect::OpenGate,
            Effect::Settle
        ]
    );
}

#[test]
fn a_drain_that_takes_too_long_fails_once_and_the_old_generation_serves_case_t3() {
    let (state, effects) = play(&exclusive(&[Event::Deadline]));
    assert_eq!(state, State::Done(ReloadOutcome::DrainTimeout));
    assert_eq!(effects[1..], [Effect::DropObservers, Effect::Resume, Effect::OpenGate]);
}

#[test]
fn one_of_the_watcher_is_deferred_case_t19() {
    let (state, effects) = play(&[Event::Prepared(plan(true, true)), Event::Deadline]);
    assert_eq!(state, State::Done(ReloadOutcome::Deferred));
    assert_eq!(effects.last(), Some(&Effect::RetryWhenIdle));
}

#[test]
fn what_asks_for_what_it_would_wait_for_is_put_off_and_touches_nothing_case_t10() {
    let (state, effects) = play(&[Event::FromInside]);
    assert_eq!(state, State::Done(ReloadOutcome::Deferred));
    assert_eq!(effects, [Effect::RetryWhenIdle]);
}

#[test]
fn whoever_asked_may_leave_before_anything_was_stopped_and_not_after_case_t6_t7_t28() {
    assert_eq!(outcome(&exclusive(&[Event::RequesterGone])), ReloadOutcome::Cancelled);
    let gone_late = drained(&[
        Event::RequesterGone,
        Event::Registered,
        Event::Started,
        Event::RequesterGone,
        Event::Published,
        Event::RequesterGone,
        Event::Settled,
    ]);
    assert_eq!(outcome(&gone_late), ReloadOutcome::Applied);
    let recovering = drained(&[
        Event::RegistrationFailed,
        Event::RequesterGone,
        Event::CleanedUp,
        Event::Restored,
    ]);
    assert_eq!(outcome(&recovering), ReloadOutcome::Restored);
}

#[test]
fn what_failed_after_a_stop_is_put_back_once_the_old_cleanup_ended_case_t24_t25() {
    let late_stop = [
        Event::Empty,
        Event::Stopped(Cleanup::Late),
        Event::CleanedUp,
        Event::Restored,
    ];
    for events in [
        exclusive(&late_stop),
        drained(&[Event::RegistrationFailed, Event::CleanedUp, Event::Restored]),
        drained(&[Event::Registered, Event::StartFailed, Event::CleanedUp, Event::Restored]),
        drained(&[
            Event::Registered,
            Event::Started,
            Event::NotPublished,
            Event::CleanedUp,
            Event::Restored,
        ]),
    ] {
        let (state, effects) = play(&events);
        assert_eq!(state, State::Done(ReloadOutcome::Restored));
        assert_eq!(effects[effects.len() - 2..], [Effect::Restore, Effect::OpenGate]);
    }
}

#[test]
fn a_changed_configuration_waits_for_a_late_stop_and_takes_its_place_then() {
    let late = [
        Event::Prepared(plan(true, true)),
        Event::Empty,
        Event::Stopped(Cleanup::Late),
    ];
    let goes_on = [
        Event::CleanedUp,
        Event::Disposed(Cleanup::Done),
        Event::Registered,
        Event::Started,
        Event::Published,
        Event::Settled,
    ];
    assert_eq!(outcome(&[&late[..], &goes_on].concat()), ReloadOutcome::Applied);
    // nothing of it is put back by a late stop alone, and what does not end bars all
    let (_, effects) = play(&[&late[..], &goes_on[..3]].concat());
    assert!(!effects.contains(&Effect::Restore), "{effects:?}");
    assert_eq!(
        outcome(&[&late[..], &[Event::Deadline]].concat()),
        ReloadOutcome::Failed
    );
}

#[test]
fn a_cleanup_that_failed_bars_recovery_case_t26_t27() {
    for events in [
        exclusive(&[Event::Empty, Event::Stopped(Cleanup::Rejected)]),
        exclusive(&[
            Event::Empty,
            Event::Stopped(Cleanup::Done),
            Event::Disposed(Cleanup::Late),
        ]),
        exclusive(&[Event::Empty, Event::Stopped(Cleanup::Late), Event::Deadline]),
        drained(&[Event::RegistrationFailed, Event::RestoreFailed]),
    ] {
        let (state, effects) = play(&events);
        assert_eq!(state, State::Done(ReloadOutcome::Failed));
        assert_eq!(effects[effects.len() - 2..], [Effect::MarkUnready, Effect::OpenGate]);
    }
}

#[test]
fn a_failed_start_of_a_shared_one_changes_nothing() {
    for fails in [
        &[Event::RegistrationFailed][..],
        &[Event::Registered, Event::StartFailed],
    ] {
        let events = [&[Event::Prepared(plan(false, false))], fails].concat();
        let (state, effects) = play(&events);
        assert_eq!(state, State::Done(ReloadOutcome::RolledBack));
        assert_eq!(effects.last(), Some(&Effect::Discard));
        assert!(!effects.contains(&Effect::Publish));
    }
}

#[test]
fn one_that_could_not_be_published_is_not_told_as_published() {
    let shared = [
        Event::Prepared(plan(false, false)),
        Event::Registered,
        Event::Started,
        Event::NotPublished,
    ];
    let (state, effects) = play(&shared);
    assert_eq!(state, State::Done(ReloadOutcome::RolledBack));
    assert_eq!(effects[effects.len() - 2..], [Effect::Publish, Effect::Discard]);
}

#[test]
fn what_fails_after_publication_leaves_it_published_case_t30() {
    assert_eq!(
        outcome(&drained(&[
            Event::Registered,
            Event::Started,
            Event::Published,
            Event::Unsettled
        ])),
        ReloadOutcome::Degraded
    );
}

fn event() -> impl Strategy<Value = Event> {
    let cleanup = prop_oneof![Just(Cleanup::Done), Just(Cleanup::Late), Just(Cleanup::Rejected)];
    let until = now() + Duration::from_secs(60);
    let plan = any::<(bool, bool, bool)>().prop_map(move |(changes, exclusive, watched)| {
        Event::Prepared(Plan {
            changes,
            exclusive,
            drain_until: until,
            watched,
        })
    });
    prop_oneof![
        2 => plan,
        1 => Just(Event::Refused),
        1 => Just(Event::FromInside),
        1 => Just(Event::Superseded),
        1 => Just(Event::RequesterGone),
        4 => Just(Event::Empty),
        1 => Just(Event::Deadline),
        4 => cleanup.clone().prop_map(Event::Stopped),
        4 => cleanup.prop_map(Event::Disposed),
        4 => Just(Event::Registered),
        1 => Just(Event::RegistrationFailed),
        4 => Just(Event::Started),
        1 => Just(Event::StartFailed),
        4 => Just(Event::Published),
        1 => Just(Event::NotPublished),
        2 => Just(Event::Settled),
        1 => Just(Event::Unsettled),
        2 => Just(Event::CleanedUp),
        2 => Just(Event::Restored),
        1 => Just(Event::RestoreFailed),
        1 => Just(Event::Shutdown),
    ]
}

proptest! {
    /// Whatever happens in whatever order: what was held is let go, what was published stays, nothing is disposed of before
    /// it was empty, nothing registers beside an old instance that is exclusive and still there.
    #[test]
    fn no_order_of_events_leaves_a_gate_closed_or_two_holders_of_one_resource(
        first in any::<(bool, bool)>(),
        events in prop::collection::vec(event(), 0..60),
    ) {
        let (mut machine, mut effects) = (Machine::default(), Vec::new());
        let first = Event::Prepared(plan(first.0, first.1));
        let mut stopped_by_shutdown = false;
        for event in [first].into_iter().chain(events) {
            let before = machine;
            match machine.step(event, now()) {
                Ok(more) => {
                    stopped_by_shutdown |= event == Event::Shutdown && machine.state() == State::Done(ReloadOutcome::Cancelled);
                    effects.extend(more);
                }
                Err(Unexpected) => prop_assert_eq!(before, machine, "a refused event changes nothing"),
            }
        }
        let place = |wanted: Effect| effects.iter().position(|effect| *effect == wanted);
        let holds = effects.iter().any(|effect| matches!(effect, Effect::HoldGate(_)));
        if let (State::Done(_), true, false) = (machine.state(), holds, stopped_by_shutdown) {
            prop_assert!(place(Effect::OpenGate).is_some(), "the gate is open again: {:?}", effects);
        }
        if let Some(dispose) = place(Effect::Dispose) {
            prop_assert!(place(Effect::Quiesce).is_some_and(|quiesce| quiesce < dispose));
        }
        if holds && let Some(register) = place(Effect::Register) {
            prop_assert!(place(Effect::Dispose).is_some_and(|dispose| dispose < register));
        }
        if let (Some(drop), Some(resume)) = (place(Effect::DropObservers), place(Effect::Resume)) {
            prop_assert!(drop < resume);
        }
        prop_assert!(effects.iter().filter(|effect| **effect == Effect::Publish).count() <= 1);
        prop_assert!(effects.iter().filter(|effect| **effect == Effect::Dispose).count() <= 1);
        if place(Effect::Settle).is_some() {
            let served = matches!(
                machine.state(),
                State::Published | State::Done(ReloadOutcome::Applied | ReloadOutcome::Degraded)
            );
            prop_assert!(served, "{:?}", machine);
        }
    }
}
