use understudy_messages::clock::{Clock, Instant};
use understudy_messages::ids::GenerationId;

use super::*;
use crate::registry::generation::Generation;
use crate::registry::held::{Agents, Comer, Held};
use crate::registry::roster::Roster;
use crate::registry::testing::{comer, no_plugins, settings, turn};

fn now() -> Instant {
    Clock::movable().now()
}

fn generation(origins: &Arc<Origins>) -> Arc<Generation> {
    let roster = Roster::new(Arc::new(settings()));
    let generation = Generation::new(GenerationId(1), roster, no_plugins(), Arc::default(), Vec::new());
    Arc::new(generation.known_to(origins))
}

fn inside(origins: &Arc<Origins>) -> Held {
    Held::enter(generation(origins), &comer(None), now()).expect("open")
}

fn named(held: &Held) -> OriginToken {
    held.origin().token().expect("a name")
}

/// A turn that asks from inside of what has this name.
fn from(origins: &Origins, token: OriginToken, agent: Option<&str>) -> (Parent, Comer) {
    let parent = origins.find(token).expect("it lives");
    let within = Within::of(Some(&parent)).expect("not too deep");
    let turn = turn(agent);
    (parent, Comer { turn, within })
}

#[test]
fn a_turn_has_one_name_from_when_it_is_asked_for_until_its_last_lease_ends() {
    let origins = Arc::default();
    let held = inside(&origins);
    assert_eq!(origins.known().len(), 0, "nobody was told");
    let token = named(&held);
    assert_eq!((named(&held), origins.known().len()), (token, 1));
    let lease = held.lease();
    drop(held);
    assert!(origins.find(token).is_some());
    drop(lease);
    assert!(origins.find(token).is_none());
    assert_eq!(origins.known().len(), 0);
}

#[test]
fn of_too_many_some_have_no_name_until_others_have_ended() {
    let origins: Arc<Origins> = Arc::default();
    let held = inside(&origins);
    for _ in 0..MOST {
        let nobody = Root::Call(Weak::new());
        origins.known().insert(OriginToken::random(), nobody);
    }
    assert_eq!(held.origin().token(), None);
    origins.known().clear();
    let next = inside(&origins);
    assert!(next.origin().token().is_some());
}

#[test]
fn a_turn_that_is_waited_for_comes_in_beside_its_parent_though_the_gate_is_closed_case_t11() {
    let origins = Arc::default();
    let held = inside(&origins);
    let (parent, child) = from(&origins, named(&held), Some("support"));
    held.generation().close(&Agents::All);
    let generation = held.generation().clone();
    assert!(
        Held::enter(generation.clone(), &child, now()).is_none(),
        "the gate is closed"
    );
    let lent = parent.turn().and_then(|parent| parent.lend(&child, now())).expect("in");
    assert_eq!(generation.leases(), 2, "who waits for the one waits for the other");
    let (rows, _) = generation.holders(&Agents::All, 64, now());
    let parents: Vec<_> = rows.iter().filter_map(|row| row.parent.clone()).collect();
    assert_eq!(parents, [parent.turn().expect("a turn").id().to_string()]);
    drop((held, parent));
    assert_eq!(generation.leases(), 1, "it goes on without its parent");
    drop(lent);
    assert_eq!(generation.leases(), 0);
}

#[test]
fn a_turn_of_another_agent_or_whose_model_another_provider_has_is_a_turn_as_any_case_t12() {
    let origins = Arc::default();
    let held = inside(&origins);
    let (parent, other) = from(&origins, named(&held), Some("second"));
    let lent = |comer: &Comer| parent.turn().and_then(|parent| parent.lend(comer, now()));
    assert!(lent(&other).is_none());
    let mut own = comer(None);
    assert!(lent(&own).is_some(), "the same agent, and `fast` is at `b` first");
    let mut asks = Arc::into_inner(own.turn).expect("nobody has it");
    asks.facts.model = "a/big".into();
    own.turn = Arc::new(asks);
    assert!(lent(&own).is_none());
}

#[test]
fn what_asks_from_inside_of_each_other_without_an_end_is_refused() {
    let origins: Arc<Origins> = Arc::default();
    let mut calls = vec![origins.call("p", None).expect("the first")];
    let token = |call: &Arc<Calling>| call.origin().token().expect("a name");
    for _ in 0..DEEPEST {
        let next = origins
            .call("p", Some(token(calls.last().expect("one"))))
            .expect("not too deep");
        calls.push(next);
    }
    let last = token(calls.last().expect("one"));
    assert_eq!(origins.call("p", Some(last)).expect_err("too deep"), TooDeep);
    drop(calls);
    assert!(origins.call("p", Some(last)).is_ok(), "what is over is no origin");
}

#[test]
fn a_call_uses_its_plugin_and_all_that_those_use_it_was_asked_from() {
    let origins: Arc<Origins> = Arc::default();
    let uses = |token, plugin: &str| origins.find(token).expect("it lives").uses(&[plugin.into()]);
    let outer = origins.call("outer", None).expect("the first");
    let token = outer.origin().token().expect("a name");
    let inner = origins.call("inner", Some(token)).expect("not too deep");
    let inner = (inner.origin().token().expect("a name"), inner);
    assert!(uses(inner.0, "INNER") && uses(inner.0, "outer") && !uses(inner.0, "other"));
    assert!(!uses(token, "inner"));
    drop(outer);
    assert!(!uses(inner.0, "outer"), "it waits for nothing any more");
    let held = inside(&origins);
    assert!(uses(named(&held), "any"), "its agent lists no plugins");
    assert!(!origins.find(named(&held)).expect("it lives").uses(&[]));
}
