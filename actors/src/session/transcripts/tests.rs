use understudy_messages::clock::Clock;

use super::*;

const IDLE: Duration = Duration::from_secs(60);

fn store(count: usize, bytes: usize) -> (Transcripts, Instant) {
    let limits = TranscriptLimits {
        count,
        bytes,
        idle: IDLE,
    };
    (Transcripts::new(limits), Clock::movable().now())
}

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

#[test]
fn a_response_is_found_by_the_key_that_was_given_it_and_by_no_other() {
    let (mut store, now) = store(9, 1 << 20);
    store.keep(Some(1), "a", transcript(None, "q", "r"), now);
    assert_eq!(store.find(Some(1), "a", now).expect("found").response(), "<r>");
    assert!(store.find(Some(2), "a", now).is_none());
    assert!(store.find(None, "a", now).is_none());
    assert!(!store.forget(Some(2), "a"));
    assert!(store.forget(Some(1), "a"));
    assert!(store.find(Some(1), "a", now).is_none() && store.is_empty());
}

#[test]
fn forks_share_what_came_before_them() {
    let (mut store, now) = store(9, 1 << 20);
    store.keep(None, "a", transcript(None, "q1", "r1"), now);
    let root = store.find(None, "a", now);
    store.keep(None, "b", transcript(root.clone(), "q2", "r2"), now);
    store.keep(None, "c", transcript(root, "", "r3"), now);
    let (b, c) = (
        store.find(None, "b", now).expect("kept"),
        store.find(None, "c", now).expect("kept"),
    );
    assert_eq!(b.history(), ["q1", "r1", "q2", "r2"]);
    assert_eq!(b.input(), ["q1", "r1", "q2"]);
    assert_eq!(c.history(), ["q1", "r1", "r3"]);
    assert!(b.history_len() >= b.history().join(",").len());
}

#[test]
fn what_is_not_used_for_too_long_is_forgotten() {
    let (mut store, now) = store(9, 1 << 20);
    store.keep(None, "a", transcript(None, "q", "r"), now);
    store.keep(None, "b", transcript(None, "q", "r"), now);
    assert!(store.find(None, "a", now + IDLE / 2).is_some());
    assert!(store.find(None, "b", now + IDLE).is_none());
    assert!(store.find(None, "a", now + IDLE).is_some());
    assert!(store.find(None, "a", now + IDLE * 2).is_none());
    assert_eq!(store.held(), 0);
}

#[test]
fn the_least_recently_used_makes_room() {
    let (mut store, now) = store(2, 1 << 20);
    store.keep(None, "a", transcript(None, "q", "r"), now);
    store.keep(None, "b", transcript(None, "q", "r"), now);
    assert!(store.find(None, "a", now).is_some());
    store.keep(None, "c", transcript(None, "q", "r"), now);
    assert!(store.find(None, "b", now).is_none());
    assert!(store.find(None, "a", now).is_some() && store.find(None, "c", now).is_some());
}

#[test]
fn what_a_later_one_goes_on_from_counts_even_when_it_is_forgotten() {
    let (mut store, now) = store(9, 3000);
    let text = "x".repeat(1000);
    store.keep(None, "a", transcript(None, &text, ""), now);
    let one = store.held();
    let a = store.find(None, "a", now);
    store.forget(None, "a");
    store.keep(None, "b", transcript(a, "", ""), now);
    assert!(store.held() > one, "the first is held by the second");
    store.keep(None, "c", transcript(None, &text, ""), now);
    assert!(store.find(None, "b", now).is_none(), "both had to go");
    assert!(store.find(None, "c", now).is_some() && store.held() <= 3000);
    store.keep(None, "d", transcript(None, &"x".repeat(4000), ""), now);
    assert_eq!(
        (store.len(), store.held()),
        (0, 0),
        "what is larger than all room is not kept"
    );
}

#[test]
fn a_response_that_comes_again_takes_the_place_of_the_first() {
    let (mut store, now) = store(9, 1 << 20);
    store.keep(None, "a", transcript(None, "q", "r1"), now);
    store.keep(None, "a", transcript(None, "q", "r2"), now);
    assert_eq!(store.find(None, "a", now).expect("found").response(), "<r2>");
    assert_eq!((store.len(), store.order.len()), (1, 1));
}

#[test]
fn a_conversation_of_a_hundred_thousand_turns_can_be_read_and_dropped() {
    let (mut store, now) = store(9, 1 << 30);
    for _ in 0..100_000 {
        let before = store.find(None, "a", now);
        store.keep(None, "a", transcript(before, "q", "r"), now);
    }
    assert_eq!(store.find(None, "a", now).expect("kept").history().len(), 200_000);
    store.forget(None, "a");
    assert_eq!(store.held(), 0);
}

#[test]
fn an_item_is_found_as_long_as_its_response_is() {
    let (mut store, now) = store(9, 1 << 20);
    store.keep(Some(1), "a", transcript(None, "q", "r"), now);
    let node = store.find_item(Some(1), "r", now).expect("found");
    assert_eq!((node.item("r"), node.item("q")), (Some("r"), None));
    assert!(store.find_item(Some(2), "r", now).is_none());
    // of two with the same item the later one is found, and its end is not the other's
    store.keep(Some(1), "b", transcript(None, "q", "r"), now);
    assert!(store.forget(Some(1), "a"));
    assert!(store.find_item(Some(1), "r", now).is_some());
    assert!(store.forget(Some(1), "b"));
    assert!(store.find_item(Some(1), "r", now).is_none());
    assert!(store.items.is_empty());
    store.keep(Some(1), "c", transcript(None, "q", "r"), now);
    assert!(store.find_item(Some(1), "r", now + IDLE).is_none() && store.items.is_empty());
}
