use understudy_messages::ids::GenerationId;

use super::super::roster::Roster;
use super::super::testing::{comer, settings};
use super::*;

fn generation(number: u64) -> Arc<Generation> {
    Arc::new(Generation::new(
        GenerationId(number),
        Roster::new(Arc::new(settings())),
        crate::registry::testing::no_plugins(),
        Arc::default(),
        Vec::new(),
    ))
}

fn now() -> Instant {
    understudy_messages::clock::Clock::movable().now()
}

fn open() -> (Turnstile, Arc<Generation>) {
    let (mut turnstile, serving) = (Turnstile::default(), generation(1));
    turnstile.open(&serving, now());
    (turnstile, serving)
}

#[test]
fn before_the_first_generation_a_turn_is_told_that_the_gateway_is_starting() {
    let mut answer = Turnstile::default().ask(comer(None), None, now());
    assert_eq!(
        answer.try_recv().expect("answered").expect_err("refused"),
        AdmitError::Starting
    );
}

#[test]
fn turns_that_waited_are_let_in_in_order_when_the_gate_opens() {
    let (mut turnstile, serving) = open();
    turnstile.hold(&serving, &Agents::All);
    assert!(
        Held::enter(serving.clone(), &comer(None), now()).is_none(),
        "the fast path is closed"
    );
    let mut waiting: Vec<_> = (0..3)
        .map(|_| turnstile.ask(comer(None), Some(&serving), now()))
        .collect();
    assert!(waiting[0].try_recv().is_err(), "must wait");
    turnstile.open(&serving, now());
    let held: Vec<Held> = waiting
        .iter_mut()
        .map(|turn| turn.try_recv().expect("answered").expect("in"))
        .collect();
    assert_eq!(serving.leases(), held.len() as u64);
}

#[test]
fn those_who_waited_get_the_generation_that_was_published_meanwhile() {
    let (mut turnstile, old) = open();
    turnstile.hold(&old, &Agents::All);
    let mut turn = turnstile.ask(comer(None), Some(&old), now());
    let new = generation(2);
    turnstile.open(&new, now());
    let held = turn.try_recv().expect("answered").expect("in");
    assert_eq!(held.generation().id, GenerationId(2));
}

#[test]
fn a_gate_closed_for_good_refuses_those_who_wait_and_those_who_come() {
    let (mut turnstile, serving) = open();
    turnstile.hold(&serving, &Agents::All);
    let mut waiting = turnstile.ask(comer(None), Some(&serving), now());
    turnstile.close(Some(&serving));
    turnstile.open(&serving, now());
    let mut late = turnstile.ask(comer(None), Some(&serving), now());
    for turn in [&mut waiting, &mut late] {
        assert_eq!(
            turn.try_recv().expect("answered").expect_err("refused"),
            AdmitError::ShuttingDown
        );
    }
    assert!(Held::enter(serving, &comer(None), now()).is_none());
}

#[test]
fn the_queue_at_the_gate_is_bounded_and_forgets_who_left() {
    let (mut turnstile, serving) = open();
    turnstile.capacity = 2;
    turnstile.hold(&serving, &Agents::All);
    let (one, _two) = (
        turnstile.ask(comer(None), Some(&serving), now()),
        turnstile.ask(comer(None), Some(&serving), now()),
    );
    let mut three = turnstile.ask(comer(None), Some(&serving), now());
    assert_eq!(
        three.try_recv().expect("answered").expect_err("refused"),
        AdmitError::QueueFull
    );
    drop(one);
    let mut four = turnstile.ask(comer(None), Some(&serving), now());
    assert!(four.try_recv().is_err(), "there is a place again");
    assert_eq!(turnstile.waiting(), 2);
}

#[tokio::test]
async fn a_closed_generation_is_empty_when_the_last_lease_of_its_last_clone_drops() {
    let serving = generation(1);
    let held = Held::enter(serving.clone(), &comer(None), now()).expect("open");
    let lease = held.lease();
    drop(held);
    serving.close(&Agents::All);
    assert_eq!(serving.leases(), 1);
    let empty = serving.empty();
    tokio::pin!(empty);
    assert!(futures::poll!(&mut empty).is_pending());
    drop(lease);
    empty.await;
}

#[test]
fn only_those_wait_whose_agent_the_gate_concerns() {
    let (mut turnstile, serving) = open();
    let others = Agents::Some(vec![0]);
    turnstile.hold(&serving, &others);
    let mut concerned = turnstile.ask(comer(None), Some(&serving), now());
    let mut other = turnstile.ask(comer(Some("second")), Some(&serving), now());
    assert!(concerned.try_recv().is_err(), "must wait");
    let held = other.try_recv().expect("answered").expect("in");
    assert_eq!((serving.leases(), serving.leases_of(&others)), (1, 0));
    drop(held);
}

#[test]
fn whoever_holds_a_generation_is_named_the_oldest_first() {
    let (_, serving) = open();
    let since = now();
    let later = since + Duration::from_secs(5);
    let _turns = [
        Held::enter(serving.clone(), &comer(Some("second")), later).expect("open"),
        Held::enter(serving.clone(), &comer(None), since).expect("open"),
        Held::enter(serving.clone(), &comer(None), later).expect("open"),
    ];
    let (rows, omitted) = serving.holders(&Agents::All, 2, later);
    let ages: Vec<_> = rows
        .iter()
        .map(|row| (row.age.as_secs(), row.agent.as_deref()))
        .collect();
    assert_eq!((ages[0], rows.len(), omitted), ((5, Some("support")), 2, 1));
    let (rows, omitted) = serving.holders(&Agents::Some(vec![1]), 64, later);
    assert_eq!((rows.len(), omitted), (1, 0));
}

#[tokio::test]
async fn a_generation_is_in_use_as_long_as_an_earlier_one_is_held() {
    let settings = Arc::new(settings());
    let next = |number, before: Option<&Arc<Generation>>| {
        let (roster, plugins) = (Roster::new(settings.clone()), crate::registry::testing::no_plugins());
        Arc::new(Generation::new(GenerationId(number), roster, plugins, Arc::default(), Vec::new()).after(before))
    };
    let first = next(1, None);
    let held = Held::enter(first.clone(), &comer(Some("second")), now()).expect("open");
    let second = next(2, Some(&first));
    drop(first);
    let third = next(3, Some(&second));
    drop(second);
    let everybody = third.empty();
    tokio::pin!(everybody);
    assert!(futures::poll!(&mut everybody).is_pending());
    third.empty_of(&Agents::Some(vec![0])).await;
    assert_eq!(third.holders(&Agents::Some(vec![1]), 64, now()).0.len(), 1);
    held.generation().close(&Agents::All);
    drop(held);
    everybody.await;
}
