use understudy_messages::ids::GenerationId;

use super::super::roster::Roster;
use super::super::testing::settings;
use super::*;

fn generation(number: u64) -> Arc<Generation> {
    Arc::new(Generation::new(
        GenerationId(number),
        Roster::new(Arc::new(settings())),
        crate::registry::testing::no_plugins(),
        Vec::new(),
    ))
}

fn open() -> (Turnstile, Arc<Generation>) {
    let (mut turnstile, serving) = (Turnstile::default(), generation(1));
    turnstile.open(&serving);
    (turnstile, serving)
}

#[test]
fn before_the_first_generation_a_turn_is_told_that_the_gateway_is_starting() {
    let mut answer = Turnstile::default().ask(None);
    assert_eq!(
        answer.try_recv().expect("answered").expect_err("refused"),
        AdmitError::Starting
    );
}

#[test]
fn turns_that_waited_are_let_in_in_order_when_the_gate_opens() {
    let (mut turnstile, serving) = open();
    turnstile.hold(&serving);
    assert!(Held::enter(serving.clone()).is_none(), "the fast path is closed");
    let mut waiting: Vec<_> = (0..3).map(|_| turnstile.ask(Some(&serving))).collect();
    assert!(waiting[0].try_recv().is_err(), "must wait");
    turnstile.open(&serving);
    let held: Vec<Held> = waiting
        .iter_mut()
        .map(|turn| turn.try_recv().expect("answered").expect("in"))
        .collect();
    assert_eq!(serving.leases(), held.len() as u64);
}

#[test]
fn those_who_waited_get_the_generation_that_was_published_meanwhile() {
    let (mut turnstile, old) = open();
    turnstile.hold(&old);
    let mut turn = turnstile.ask(Some(&old));
    let new = generation(2);
    turnstile.open(&new);
    let held = turn.try_recv().expect("answered").expect("in");
    assert_eq!(held.generation().id, GenerationId(2));
}

#[test]
fn a_gate_closed_for_good_refuses_those_who_wait_and_those_who_come() {
    let (mut turnstile, serving) = open();
    turnstile.hold(&serving);
    let mut waiting = turnstile.ask(Some(&serving));
    turnstile.close(Some(&serving));
    turnstile.open(&serving);
    let mut late = turnstile.ask(Some(&serving));
    for turn in [&mut waiting, &mut late] {
        assert_eq!(
            turn.try_recv().expect("answered").expect_err("refused"),
            AdmitError::ShuttingDown
        );
    }
    assert!(Held::enter(serving).is_none());
}

#[test]
fn the_queue_at_the_gate_is_bounded_and_forgets_who_left() {
    let (mut turnstile, serving) = open();
    turnstile.capacity = 2;
    turnstile.hold(&serving);
    let (one, _two) = (turnstile.ask(Some(&serving)), turnstile.ask(Some(&serving)));
    let mut three = turnstile.ask(Some(&serving));
    assert_eq!(
        three.try_recv().expect("answered").expect_err("refused"),
        AdmitError::QueueFull
    );
    drop(one);
    let mut four = turnstile.ask(Some(&serving));
    assert!(four.try_recv().is_err(), "there is a place again");
    assert_eq!(turnstile.waiting(), 2);
}

#[tokio::test]
async fn a_closed_generation_is_empty_when_the_last_lease_of_its_last_clone_drops() {
    let serving = generation(1);
    let held = Held::enter(serving.clone()).expect("open");
    let lease = held.lease();
    drop(held);
    serving.gate.close();
    assert_eq!(serving.leases(), 1);
    let empty = serving.empty();
    tokio::pin!(empty);
    assert!(futures::poll!(&mut empty).is_pending());
    drop(lease);
    empty.await;
}
