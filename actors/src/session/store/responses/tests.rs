//! Responses in a state file: each has all that it goes on from, whatever has become of that.

use std::time::Duration;

use super::super::stored::tests::{House, Place};
use super::*;
use crate::session::store::room::{self, Reached};

fn transcript(parent: Option<Arc<Node>>, input: &str, output: &str) -> Transcript {
    Transcript {
        parent,
        input: input.into(),
        response: format!("<{output}>").into(),
        output: 1..1 + output.len(),
        // the whole output is one item, named by what it says
        items: vec![(output.into(), 0..output.len())],
    }
}

async fn find(house: &House, id: &str) -> Option<Arc<Node>> {
    house.store.response(None, &id.into()).await.expect("sound")
}

async fn keep(house: &House, id: &str, parent: Option<Arc<Node>>, (input, output): (&str, &str)) {
    let id = Name::from(id);
    let kept = house.store.keep_response(None, &id, transcript(parent, input, output));
    kept.await.expect("kept");
}

async fn history(house: &House, id: &str) -> Option<String> {
    Some(find(house, id).await?.history().join(","))
}

/// `a`, and `b` and `c` that go on from it.
async fn fork(house: &House) {
    keep(house, "a", None, ("q1", "r1")).await;
    keep(house, "b", find(house, "a").await, ("q2", "r2")).await;
    keep(house, "c", find(house, "a").await, ("", "r3")).await;
}

fn is_empty(house: &House) {
    house.meddle(|write| {
        assert_eq!((tables::count(write)?, room::bytes(write)?), (0, 0), "nothing is left");
        Ok(())
    });
}

#[tokio::test]
async fn what_was_kept_is_found_after_a_restart_with_all_that_it_goes_on_from() {
    for interval in [None, Some(Duration::from_secs(1))] {
        let place = Place::new(if interval.is_some() {
            "said-interval"
        } else {
            "said-turn"
        });
        let house = House::of(place.open(), interval, &[]);
        fork(&house).await;
        house.state.close();
        drop(house);
        let house = House::of(place.open(), interval, &[]);
        assert_eq!(history(&house, "b").await.as_deref(), Some("q1,r1,q2,r2"));
        assert_eq!(history(&house, "c").await.as_deref(), Some("q1,r1,r3"));
        let b = find(&house, "b").await.expect("found");
        assert_eq!((b.response(), b.input().join(",")), ("<r2>", "q1,r1,q2".to_owned()));
        let items = ["r1", "r3", "r9"].map(Name::from).into();
        let found = house.store.items(None, items, 1 << 20).await.expect("sound");
        let expected = [("r1", "r1"), ("r3", "r3")].map(|(id, item)| (Name::from(id), item.to_owned()));
        assert_eq!(found, expected.into());
        keep(&house, "d", Some(b), ("q4", "r4")).await;
        assert_eq!(history(&house, "d").await.as_deref(), Some("q1,r1,q2,r2,q4,r4"));
    }
}

#[tokio::test]
async fn a_parent_that_is_deleted_or_too_old_takes_no_beginning_away_and_goes_with_its_last_child() {
    let house = House::in_memory();
    fork(&house).await;
    assert_eq!(house.store.forget_response(None, &"a".into()).await, Ok(true));
    assert_eq!(house.store.forget_response(None, &"a".into()).await, Ok(false));
    assert!(find(&house, "a").await.is_none());
    assert_eq!(history(&house, "b").await.as_deref(), Some("q1,r1,q2,r2"));
    assert_eq!(house.store.forget_response(None, &"b".into()).await, Ok(true));
    assert_eq!(history(&house, "c").await.as_deref(), Some("q1,r1,r3"));
    assert_eq!(house.store.forget_response(None, &"c".into()).await, Ok(true));
    is_empty(&house);

    fork(&house).await;
    house.clock.advance(Duration::from_secs(3_000));
    keep(&house, "d", find(&house, "b").await, ("q4", "r4")).await;
    house.clock.advance(Duration::from_secs(1_000));
    house.store.expire_all().await;
    assert!(find(&house, "a").await.is_none() && find(&house, "c").await.is_none());
    assert_eq!(
        history(&house, "b").await.as_deref(),
        Some("q1,r1,q2,r2"),
        "it was gone on from"
    );
    assert_eq!(history(&house, "d").await.as_deref(), Some("q1,r1,q2,r2,q4,r4"));
    house.clock.advance(Duration::from_secs(4_000));
    house.store.expire_all().await;
    is_empty(&house);
    house.shows("understudy_session_events_total{event=\"expired\"} 4");
}

#[tokio::test]
async fn a_child_whose_parent_went_while_it_was_made_has_the_beginning_in_itself() {
    let house = House::in_memory();
    keep(&house, "a", None, ("q1", "r1")).await;
    let parent = find(&house, "a").await;
    house.store.forget_response(None, &"a".into()).await.expect("forgotten");
    is_empty(&house);
    keep(&house, "b", parent, ("q2", "r2")).await;
    assert_eq!(history(&house, "b").await.as_deref(), Some("q1,r1,q2,r2"));
    assert_eq!(find(&house, "b").await.expect("kept").input().join(","), "q1,r1,q2");
}

#[tokio::test]
async fn a_node_that_is_not_the_one_that_was_read_is_nobodys_beginning() {
    let (house, other) = (House::in_memory(), House::in_memory());
    keep(&house, "a", None, ("q1", "r1")).await;
    let parent = find(&house, "a").await;
    // another one has its number
    keep(&other, "z", None, ("wrong", "one")).await;
    keep(&other, "b", parent, ("q2", "r2")).await;
    assert_eq!(history(&other, "b").await.as_deref(), Some("q1,r1,q2,r2"));
}

#[tokio::test]
async fn whoever_goes_on_from_a_response_holds_of_the_earlier_ones_what_was_asked_and_their_items() {
    let house = House::in_memory();
    let mut last = None;
    for id in ["a", "b", "c"] {
        let transcript = Transcript {
            response: format!("<r1>{}", "x".repeat(10_000)).into(),
            ..transcript(last, "q1", "r1")
        };
        let kept = house.store.keep_response(None, &id.into(), transcript).await;
        kept.expect("kept");
        last = find(&house, id).await;
    }
    let c = last.expect("found");
    let own = c.input().join(",").len() - "q1,r1,q1,r1,".len() + c.response().len();
    assert_eq!((c.held(), c.response().len()), (own + 8, 10_004));
    let new = NewNode::new(b"\0d".to_vec(), 0, transcript(Some(c.clone()), "q2", "r2"));
    assert_eq!(new.len(), c.held() + 6, "the writer's bound counts it");
}

#[tokio::test]
async fn responses_are_found_by_the_key_that_was_given_them_and_by_no_other() {
    let house = House::of(crate::state::State::in_memory().expect("state"), None, &["one", "two"]);
    let id = Name::from("a");
    for (owner, said) in [(Some(0), "zero"), (Some(1), "one"), (None, "none")] {
        let kept = house.store.keep_response(owner, &id, transcript(None, "q", said)).await;
        kept.expect("kept");
    }
    let said = async |owner| {
        house
            .store
            .response(owner, &id)
            .await
            .expect("sound")
            .map(|it| it.response().to_owned())
    };
    assert_eq!(said(Some(0)).await.as_deref(), Some("<zero>"));
    assert_eq!(said(Some(1)).await.as_deref(), Some("<one>"));
    let items = async |owner| {
        house
            .store
            .items(owner, ["zero".into()].into(), 99)
            .await
            .expect("sound")
            .len()
    };
    assert_eq!(
        (items(Some(0)).await, items(Some(1)).await, items(None).await),
        (1, 0, 0)
    );
    assert_eq!(house.store.forget_response(Some(1), &id).await, Ok(true));
    assert_eq!(
        (said(Some(0)).await.as_deref(), said(Some(1)).await),
        (Some("<zero>"), None)
    );
    assert_eq!(said(None).await.as_deref(), Some("<none>"));
    assert!(
        house.store.response(Some(7), &id).await.is_err(),
        "there is no such key"
    );
}

#[tokio::test]
async fn there_are_no_more_responses_than_there_may_be_and_new_ones_are_kept() {
    let house = House::bounded(
        crate::state::State::in_memory().expect("state"),
        None,
        &[],
        (3, u64::MAX),
    );
    for number in 0..5_u64 {
        keep(&house, &number.to_string(), None, ("q", "r")).await;
        house.clock.advance(Duration::from_secs(60));
    }
    assert!(find(&house, "1").await.is_none());
    assert_eq!(history(&house, "2").await.as_deref(), Some("q,r"));
    assert_eq!(history(&house, "4").await.as_deref(), Some("q,r"));
    // 2 goes for the one that goes on from it
    keep(&house, "x", find(&house, "2").await, ("q", "r")).await;
    for id in ["y", "z"] {
        house.clock.advance(Duration::from_secs(60));
        keep(&house, id, find(&house, "x").await, ("q", "r")).await;
    }
    house.shows("understudy_session_events_total{event=\"displaced\"} 5");
    house.meddle(|write| {
        assert_eq!(tables::count(write)?, 3);
        Ok(())
    });
    assert_eq!(history(&house, "z").await.as_deref(), Some("q,r,q,r,q,r"));
}

#[tokio::test]
async fn another_response_of_the_same_id_takes_its_place_and_the_same_one_is_kept_once() {
    let house = House::in_memory();
    keep(&house, "a", None, ("q1", "r1")).await;
    keep(&house, "b", find(&house, "a").await, ("q2", "r2")).await;
    keep(&house, "a", None, ("other", "one")).await;
    assert_eq!(history(&house, "a").await.as_deref(), Some("other,one"));
    assert_eq!(history(&house, "b").await.as_deref(), Some("q1,r1,q2,r2"));
    keep(&house, "a", None, ("other", "one")).await;
    house.meddle(|write| {
        assert_eq!(tables::count(write)?, 3);
        Ok(())
    });
}

#[tokio::test]
async fn a_damaged_response_fails_those_that_go_on_from_it_and_nobody_else() {
    let house = House::in_memory();
    fork(&house).await;
    keep(&house, "other", None, ("q", "r")).await;
    house.meddle(|write| tables::damage(write, 1));
    let fault = house.store.response(None, &"b".into()).await.expect_err("damaged");
    assert!(matches!(fault, SessionFault::Damaged(_)), "{fault}");
    assert_eq!(history(&house, "c").await.as_deref(), Some("q1,r1,r3"));
    assert_eq!(history(&house, "other").await.as_deref(), Some("q,r"));
    let read = house.state.file().read().expect("a read");
    let found = crate::session::store::check(&read).expect("readable");
    assert_eq!((found.responses, found.damaged), (4, 1));
    drop(read);
    assert_eq!(house.store.forget_response(None, &"b".into()).await, Ok(true));
    assert!(find(&house, "b").await.is_none());
}

#[tokio::test]
async fn a_conversation_of_thousands_of_turns_is_found_and_goes_as_one() {
    let house = House::bounded(
        crate::state::State::in_memory().expect("state"),
        None,
        &[],
        (9_000, u64::MAX),
    );
    house.meddle(|write| {
        let mut last: Option<Arc<Node>> = None;
        for number in 0..5_000_u64 {
            let parent = last.take();
            let key = [&[0][..], number.to_string().as_bytes()].concat();
            let new = NewNode::new(key.clone(), 0, transcript(parent, "q", "r"));
            assert_eq!(new.apply(write, &house.store.room(Reached::default()))?, Outcome::Made);
            last = Some(Arc::new(Node::stored(transcript(None, "q", "r"), (number, key.into()))));
        }
        Ok(())
    });
    let tip = find(&house, "4999").await.expect("found");
    assert_eq!(tip.history().len(), 10_000);
    house.clock.advance(Duration::from_secs(4_000));
    house.store.expire_all().await;
    is_empty(&house);
}
