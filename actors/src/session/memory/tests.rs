//! What is remembered, and how much of it.

use std::time::{Duration, UNIX_EPOCH};

use futures::FutureExt;

use super::remembered::OVERHEAD;
use super::*;

const NOW: SystemTime = UNIX_EPOCH;

fn memory(room: &TranscriptRoom) -> Memory {
    let key = SessionKey::Keyed {
        owner: None,
        key: "s".into(),
    };
    Memory::new(key, None, room.clone(), NOW)
}

fn room() -> TranscriptRoom {
    TranscriptRoom::of(256 << 20)
}

/// Takes a turn; without a store nothing is waited for.
fn take(memory: &Memory, taken: Taken, now: SystemTime) -> usize {
    memory.take(taken, now).now_or_never().expect("at once").expect("kept")
}

fn turn(said: &[&str]) -> Taken {
    Taken {
        agent: "one".into(),
        served_by: Some(ModelRef::new("a", "m")),
        said: said.iter().map(|item| (*item).to_owned()).collect(),
        notice: None,
    }
}

fn admits(memory: &Memory, text: &str) -> Result<(), NoRoom> {
    memory.admits(&[text.to_owned()])
}

fn texts(memory: &Memory) -> Vec<String> {
    memory.recall().transcript.iter().map(ToString::to_string).collect()
}

#[test]
fn what_was_said_is_recalled_in_order_with_who_spoke_and_who_answered() {
    let memory = memory(&room());
    assert!(memory.is_blank());
    take(&memory, turn(&["1", "2"]), NOW);
    take(&memory, turn(&["3"]), NOW + Duration::from_secs(5));
    assert_eq!(texts(&memory), ["1", "2", "3"]);
    let info = memory.info(&"s".into());
    assert_eq!((info.turns, info.agent.as_deref()), (2, Some("one")));
    assert_eq!((info.created, info.updated), (NOW, NOW + Duration::from_secs(5)));
    assert_eq!(info.last_model, Some(ModelRef::new("a", "m")));
}

#[test]
fn a_turn_that_nobody_answered_leaves_the_one_who_answered_last() {
    let memory = memory(&room());
    take(&memory, turn(&[]), NOW);
    let failed = Taken {
        served_by: None,
        ..turn(&[])
    };
    take(&memory, failed, NOW);
    assert_eq!(memory.info(&"s".into()).last_model, Some(ModelRef::new("a", "m")));
}

#[test]
fn a_session_that_says_more_than_it_may_remember_forgets_its_oldest_turns_whole() {
    let room = room();
    let memory = memory(&room);
    let third = "x".repeat(MOST / 3);
    assert_eq!(take(&memory, turn(&["first", "yes"]), NOW), 0);
    assert_eq!(take(&memory, turn(&["second", &third]), NOW), 0);
    assert_eq!(take(&memory, turn(&["third", &third]), NOW), 0);
    assert_eq!(admits(&memory, &third), Ok(()));
    assert_eq!(
        take(&memory, turn(&["fourth", &third]), NOW),
        4,
        "two of each of two turns"
    );
    assert_eq!(texts(&memory)[0], "third");
    assert_eq!(texts(&memory).len(), 4);
    assert_eq!(room.held(), memory.remembered().bytes());
}

#[test]
fn a_turn_that_is_larger_than_the_bound_is_not_kept_and_an_input_that_is_not_taken() {
    let memory = memory(&room());
    take(&memory, turn(&["1"]), NOW);
    let whole = "x".repeat(MOST);
    assert_eq!(admits(&memory, &whole), Err(NoRoom::Session));
    assert_eq!(take(&memory, turn(&["user", &whole]), NOW), 2);
    assert_eq!(texts(&memory), ["1"]);
    assert_eq!(admits(&memory, "x"), Ok(()), "the session goes on");
}

#[test]
fn all_sessions_share_one_room_and_a_forgotten_one_gives_its_part_back() {
    let room = TranscriptRoom::of(2 * (100 + OVERHEAD));
    let (one, two) = (memory(&room), memory(&room));
    let text = "x".repeat(100);
    take(&one, turn(&[&text]), NOW);
    take(&two, turn(&[&text]), NOW);
    assert_eq!(admits(&one, "x"), Err(NoRoom::Process));
    assert_eq!(take(&two, turn(&["y"]), NOW), 1, "in the place of its own oldest");
    assert_eq!(texts(&two), ["y"]);
    drop(two);
    assert_eq!(admits(&one, &text), Ok(()));
    drop(one);
    assert_eq!(room.held(), 0);
}

#[test]
fn a_fallback_stands_until_it_is_cleared() {
    let memory = memory(&room());
    let notice = |cleared| FallbackNotice {
        selected: "a/m".to_owned(),
        active: "b/m".to_owned(),
        cleared,
        text: String::new(),
    };
    for (told, standing) in [(Some(false), true), (None, true), (Some(true), false), (None, false)] {
        let notice = told.map(notice);
        take(&memory, Taken { notice, ..turn(&[]) }, NOW);
        assert_eq!(memory.fallback().is_some(), standing, "{told:?}");
    }
}

fn pin(memory: &Memory, model: Option<&str>) {
    let pinned = memory.pin(model.map(Name::from), NOW).now_or_never();
    assert_eq!(pinned, Some(Ok(())));
}

#[test]
fn a_model_is_chosen_and_given_up() {
    let memory = memory(&room());
    take(&memory, turn(&[]), NOW);
    pin(&memory, Some("fast"));
    assert_eq!(memory.recall().pinned.as_deref(), Some("fast"));
    pin(&memory, None);
    assert_eq!(memory.recall().pinned, None);
}
