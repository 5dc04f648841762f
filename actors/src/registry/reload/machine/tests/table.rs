//! Every event in every state of a reload: what is not in the table is refused and changes nothing.

use super::*;

fn until() -> Instant {
    now() + Duration::from_secs(60)
}

fn plans() -> Vec<Event> {
    let all = [false, true].into_iter();
    let pairs = all.flat_map(|changes| [false, true].map(|exclusive| (changes, exclusive)));
    let plans = pairs.map(|(changes, exclusive)| Plan {
        changes,
        exclusive,
        drain_until: until(),
        watched: false,
    });
    plans.map(Event::Prepared).collect()
}

fn events() -> Vec<Event> {
    let cleanups = [Cleanup::Done, Cleanup::Late, Cleanup::Rejected];
    let others = [
        Event::Refused,
        Event::FromInside,
        Event::Superseded,
        Event::RequesterGone,
        Event::Empty,
        Event::Deadline,
        Event::Registered,
        Event::RegistrationFailed,
        Event::Started,
        Event::StartFailed,
        Event::Published,
        Event::NotPublished,
        Event::Settled,
        Event::Unsettled,
        Event::CleanedUp,
        Event::Restored,
        Event::RestoreFailed,
        Event::Shutdown,
    ];
    let ended = cleanups
        .iter()
        .flat_map(|it| [Event::Stopped(*it), Event::Disposed(*it)]);
    plans().into_iter().chain(others).chain(ended).collect()
}

/// Each state, with whether it was the watcher that asked.
fn states() -> Vec<Machine> {
    let until = until();
    let open = [
        State::Candidate,
        State::Draining { until },
        State::Stopping,
        State::Disposing,
        State::Registering { stopped: false },
        State::Registering { stopped: true },
        State::Starting { stopped: false },
        State::Starting { stopped: true },
        State::Publishing { stopped: false },
        State::Publishing { stopped: true },
        State::Published,
        State::Recovering { until, forward: false },
        State::Recovering { until, forward: true },
    ];
    let all = open.into_iter().chain(ReloadOutcome::ALL.map(State::Done));
    all.flat_map(|state| [false, true].map(|watched| Machine { state, watched }))
        .collect()
}

type Row = Option<(State, Vec<Effect>)>;

const BACK: [Effect; 3] = [Effect::DropObservers, Effect::Resume, Effect::OpenGate];

fn ends(outcome: ReloadOutcome, effects: &[Effect]) -> Row {
    Some((State::Done(outcome), effects.to_vec()))
}

fn goes_on(state: State, effects: &[Effect]) -> Row {
    Some((state, effects.to_vec()))
}

fn waits(forward: bool, first: &[Effect]) -> Row {
    let until = until();
    let joins = [first, &[Effect::JoinCleanup(until)]].concat();
    Some((State::Recovering { until, forward }, joins))
}

fn barred() -> Row {
    ends(ReloadOutcome::Failed, &[Effect::MarkUnready, Effect::OpenGate])
}

/// The table.
fn row(Machine { state, watched }: Machine, event: Event) -> Row {
    match state {
        State::Candidate => of_a_candidate(event),
        State::Draining { .. } => of_one_that_drains(event, watched),
        State::Stopping | State::Disposing => of_one_that_clears(state, event, watched),
        State::Registering { stopped: false } | State::Starting { stopped: false } => {
            of_one_beside_the_old(state, event)
        }
        State::Registering { stopped: true } | State::Starting { stopped: true } => of_one_in_its_place(state, event),
        State::Publishing { stopped } => of_one_that_publishes(state, event, stopped),
        State::Published => of_what_is_published(event),
        State::Recovering { forward, .. } => of_one_that_recovers(state, event, forward),
        State::Done(_) => None,
    }
}

fn of_a_candidate(event: Event) -> Row {
    let until = until();
    match event {
        Event::Prepared(Plan { changes: false, .. }) => ends(ReloadOutcome::Unchanged, &[]),
        Event::Prepared(Plan { exclusive: true, .. }) => goes_on(State::Draining { until }, &[Effect::HoldGate(until)]),
        Event::Prepared(_) => goes_on(State::Registering { stopped: false }, &[Effect::Register]),
        Event::Refused | Event::Superseded => ends(ReloadOutcome::Rejected, &[]),
        Event::FromInside => ends(ReloadOutcome::Deferred, &[Effect::RetryWhenIdle]),
        Event::RequesterGone | Event::Shutdown => ends(ReloadOutcome::Cancelled, &[]),
        _ => None,
    }
}

fn of_one_that_drains(event: Event, watched: bool) -> Row {
    match event {
        Event::Empty => goes_on(State::Stopping, &[Effect::Quiesce, Effect::StopServices]),
        Event::Deadline if watched => ends(ReloadOutcome::Deferred, &[&BACK[..], &[Effect::RetryWhenIdle]].concat()),
        Event::Deadline => ends(ReloadOutcome::DrainTimeout, &BACK),
        Event::RequesterGone => ends(ReloadOutcome::Cancelled, &BACK),
        Event::Superseded => ends(ReloadOutcome::RolledBack, &BACK),
        Event::Shutdown => ends(ReloadOutcome::Cancelled, &[Effect::DropObservers]),
        _ => None,
    }
}

fn of_one_that_clears(state: State, event: Event, watched: bool) -> Row {
    match (state, event) {
        (State::Stopping, Event::Stopped(Cleanup::Done)) => goes_on(State::Disposing, &[Effect::Dispose]),
        (State::Stopping, Event::Stopped(Cleanup::Late)) => waits(watched, &[]),
        (State::Stopping, Event::Stopped(Cleanup::Rejected)) => barred(),
        (State::Disposing, Event::Disposed(Cleanup::Done)) => {
            goes_on(State::Registering { stopped: true }, &[Effect::Register])
        }
        (State::Disposing, Event::Disposed(Cleanup::Late | Cleanup::Rejected)) => barred(),
        (_, Event::Shutdown) => ends(ReloadOutcome::Cancelled, &[]),
        (_, Event::RequesterGone | Event::Superseded) => goes_on(state, &[]),
        _ => None,
    }
}

/// Nothing was stopped: the old instances serve all along.
fn of_one_beside_the_old(state: State, event: Event) -> Row {
    let stopped = false;
    match (state, event) {
        (State::Registering { .. }, Event::Registered) => goes_on(State::Starting { stopped }, &[Effect::Start]),
        (State::Starting { .. }, Event::Started) => goes_on(State::Publishing { stopped }, &[Effect::Publish]),
        (State::Registering { .. }, Event::RegistrationFailed)
        | (State::Starting { .. }, Event::StartFailed)
        | (_, Event::Superseded) => ends(ReloadOutcome::RolledBack, &[Effect::Discard]),
        (_, Event::RequesterGone | Event::Shutdown) => ends(ReloadOutcome::Cancelled, &[Effect::Discard]),
        _ => None,
    }
}

/// The old instances are gone: it is finished, whoever has asked for it.
fn of_one_in_its_place(state: State, event: Event) -> Row {
    let stopped = true;
    match (state, event) {
        (State::Registering { .. }, Event::Registered) => goes_on(State::Starting { stopped }, &[Effect::Start]),
        (State::Starting { .. }, Event::Started) => goes_on(State::Publishing { stopped }, &[Effect::Publish]),
        (State::Registering { .. }, Event::RegistrationFailed) | (State::Starting { .. }, Event::StartFailed) => {
            waits(false, &[Effect::Discard])
        }
        (_, Event::Shutdown) => ends(ReloadOutcome::Cancelled, &[Effect::Discard]),
        (_, Event::RequesterGone | Event::Superseded) => goes_on(state, &[]),
        _ => None,
    }
}

fn of_one_that_publishes(state: State, event: Event, stopped: bool) -> Row {
    match event {
        Event::Published => goes_on(State::Published, &[Effect::OpenGate, Effect::Settle]),
        Event::NotPublished if stopped => waits(false, &[Effect::Discard]),
        Event::NotPublished => ends(ReloadOutcome::RolledBack, &[Effect::Discard]),
        Event::RequesterGone | Event::Superseded | Event::Shutdown => goes_on(state, &[]),
        _ => None,
    }
}

fn of_what_is_published(event: Event) -> Row {
    match event {
        Event::Settled => ends(ReloadOutcome::Applied, &[]),
        Event::Unsettled => ends(ReloadOutcome::Degraded, &[]),
        Event::RequesterGone | Event::Superseded | Event::Shutdown => goes_on(State::Published, &[]),
        _ => None,
    }
}

fn of_one_that_recovers(state: State, event: Event, forward: bool) -> Row {
    match event {
        Event::CleanedUp if forward => goes_on(State::Disposing, &[Effect::Dispose]),
        Event::CleanedUp => goes_on(state, &[Effect::Restore]),
        Event::Restored => ends(ReloadOutcome::Restored, &[Effect::OpenGate]),
        Event::RestoreFailed | Event::Deadline => barred(),
        Event::Shutdown => ends(ReloadOutcome::Cancelled, &[]),
        Event::RequesterGone | Event::Superseded => goes_on(state, &[]),
        _ => None,
    }
}

#[test]
fn every_event_in_every_state_does_what_the_table_says() {
    for before in states() {
        for event in events() {
            let mut machine = before;
            let stepped = machine.step(event, until());
            let what = format!("{event:?} in {before:?}");
            match row(before, event) {
                Some((state, effects)) => assert_eq!((stepped, machine.state), (Ok(effects), state), "{what}"),
                None => assert_eq!((stepped, machine), (Err(Unexpected), before), "{what}"),
            }
        }
    }
    assert_eq!((states().len(), events().len()), (46, 28));
}
