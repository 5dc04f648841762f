use std::collections::HashMap;
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;

use super::*;
use crate::canon::decide::Mode;
use crate::canon::text;

/// One turn: how long after the one before, whom it asks one after the other, and whether the last of them answers.
#[derive(Clone, Debug)]
struct Turn {
    gap: u64,
    candidates: Vec<u8>,
    answered: bool,
}

fn turns(always_answered: bool) -> impl Strategy<Value = Vec<Turn>> {
    let candidates = proptest::sample::subsequence(vec![0_u8, 1, 2], 1..=3).prop_shuffle();
    let turn = (prop_oneof![0..20_u64, 90..200_u64], candidates, any::<bool>());
    let turn = turn.prop_map(move |(gap, candidates, answered)| Turn {
        gap,
        candidates,
        answered: answered || always_answered,
    });
    proptest::collection::vec(turn, 1..40)
}

fn rules(mode: Mode, interval: u64) -> Rules {
    Rules {
        interval,
        idle: Duration::from_secs(100),
        mode,
    }
}

/// A canon that differs with each reading.
fn version(number: usize) -> Arc<Canon> {
    let text = format!("version {number}");
    let (canon, _) = text::compose([("A", &*text)].into_iter());
    Arc::new(canon.expect("canon"))
}

/// What each candidate of each turn was planned, and what it then carried.
fn play(rules: &Rules, turns: &[Turn]) -> Vec<Vec<(Plan, Option<Arc<Canon>>)>> {
    let (session, mut now, mut read) = (
        session(&Process::default(), &SessionSlots::default()),
        UNIX_EPOCH + Duration::from_secs(1_000),
        0,
    );
    let mut played = Vec::new();
    for (number, turn) in turns.iter().enumerate() {
        now += Duration::from_secs(turn.gap);
        let run = format!("run {number}");
        let mut asked = Vec::new();
        for (place, candidate) in turn.candidates.iter().enumerate() {
            let model = &ModelRef::new("p", candidate.to_string());
            let request = Request {
                run: Some(&run),
                model,
                now,
            };
            let plan = session.plan(rules, &request);
            let carried = match plan.step {
                Step::Read(_) => {
                    read += 1;
                    Some(version(read))
                }
                Step::Repeat => plan.kept.clone(),
                Step::Nothing => None,
            };
            if let (Step::Read(_), Some(canon)) = (plan.step, &carried) {
                session.keep(&request, canon);
                let again = session.plan(rules, &request);
                assert_eq!(
                    (again.turn, again.step, again.kept.as_ref()),
                    (plan.turn, plan.step, Some(canon))
                );
                if turn.answered && place + 1 == turn.candidates.len() {
                    let mark = Mark {
                        model: model.clone(),
                        canon: Ok(canon.clone()),
                        turn: plan.turn,
                        at: now,
                    };
                    session.mark(mark.clone());
                    session.mark(mark);
                }
            }
            asked.push((plan, carried));
        }
        played.push(asked);
    }
    played
}

/// The original plugin's rules, said again: what each prompt is told, where turns are counted and not prompts.
fn original(interval: u64, turns: &[Turn]) -> Vec<Vec<Option<&'static str>>> {
    let mut known: Option<(u8, u64)> = None;
    let mut now = 1_000;
    let mut told = Vec::new();
    for (turn, asked) in (1_u64..).zip(turns) {
        now += asked.gap;
        let mut reasons = Vec::new();
        for &model in &asked.candidates {
            let reason = match known {
                None => Some("new_session"),
                Some((last, _)) if last != model => Some("model_switch"),
                Some((_, injected)) if now - injected > 100 => Some("restart_or_idle"),
                Some(_) if turn > 1 && interval > 0 && turn % interval == 0 => Some("periodic"),
                Some(_) => None,
            };
            let injected = known.map_or(0, |(_, injected)| injected);
            known = Some((model, if reason.is_some() { now } else { injected }));
            reasons.push(reason);
        }
        told.push(reasons);
    }
    told
}

proptest! {
    #[test]
    fn selective_decides_as_the_original_where_every_turn_is_answered(turns in turns(true), interval in 0..7_u64) {
        let played = play(&rules(Mode::Selective, interval), &turns);
        let decided: Vec<Vec<_>> = played
            .iter()
            .map(|asked| asked.iter().map(|(plan, _)| match plan.step {
                Step::Read(cause) => Some(cause.as_label()),
                Step::Repeat | Step::Nothing => None,
            }).collect())
            .collect();
        prop_assert_eq!(decided, original(interval, &turns));
    }

    #[test]
    fn sticky_leaves_no_request_without_the_canon_and_repeats_it_byte_for_byte(turns in turns(false), interval in 0..7_u64) {
        let played = play(&rules(Mode::Sticky, interval), &turns);
        let mut last: HashMap<u8, Arc<Canon>> = HashMap::new();
        for (asked, turn) in played.iter().zip(&turns) {
            for ((plan, carried), model) in asked.iter().zip(&turn.candidates) {
                prop_assert!(carried.is_some(), "{:?}", plan);
                if plan.step == Step::Repeat {
                    prop_assert_eq!(carried.as_ref(), last.get(model));
                }
            }
            if let (true, Some(model), Some((_, Some(carried)))) = (turn.answered, turn.candidates.last(), asked.last()) {
                last.insert(*model, carried.clone());
            }
        }
    }

    #[test]
    fn turns_are_counted_once_whoever_is_asked(turns in turns(false)) {
        let played = play(&rules(Mode::Always, 0), &turns);
        for (number, asked) in (1_u64..).zip(&played) {
            prop_assert!(asked.iter().all(|(plan, _)| plan.turn == number));
        }
    }

    #[test]
    fn an_unanswered_reason_is_due_again(turns in turns(false), interval in 0..7_u64) {
        let played = play(&rules(Mode::Selective, interval), &turns);
        let due = |place: usize| matches!(played[place][0].0.step, Step::Read(_));
        for place in 1..turns.len() {
            let before = &turns[place - 1];
            let alone = before.candidates.len() == 1 && before.candidates[0] == turns[place].candidates[0];
            if due(place - 1) && !before.answered && alone {
                prop_assert!(due(place), "turn {}", place + 1);
            }
        }
    }
}

fn session(process: &Process, slots: &SessionSlots) -> Arc<Session> {
    process.session(slots, "/w").expect("room")
}

fn mark(turn: u64, canon: &Arc<Canon>) -> Mark<Told> {
    Mark {
        model: ModelRef::new("p", "a"),
        canon: Ok(canon.clone()),
        turn,
        at: UNIX_EPOCH,
    }
}

fn planned(session: &Session) -> Plan {
    let request = Request {
        run: None,
        model: &ModelRef::new("p", "a"),
        now: UNIX_EPOCH,
    };
    session.plan(&rules(Mode::Sticky, 0), &request)
}

#[test]
fn a_late_mark_takes_nothing_back() {
    let session = session(&Process::default(), &SessionSlots::default());
    session.mark(mark(2, &version(2)));
    session.mark(mark(1, &version(1)));
    let plan = planned(&session);
    assert_eq!((plan.turn, plan.step, plan.kept), (3, Step::Repeat, Some(version(2))));
}

#[test]
fn a_session_that_comes_back_repeats_what_it_was_told_and_after_a_restart_it_is_due() {
    let (process, slots) = (Process::default(), SessionSlots::default());
    process.note(&version(1));
    session(&process, &slots).mark(mark(1, &version(1)));
    let passivated = SessionSlots::restored(slots.stored());
    let plan = planned(&session(&process, &passivated));
    assert_eq!((plan.turn, plan.step, plan.kept), (2, Step::Repeat, Some(version(1))));
    let due = Step::Read(Cause::Due(Reason::RestartOrIdle));
    let (restarted, slots) = (Process::default(), SessionSlots::restored(passivated.stored()));
    let plan = planned(&session(&restarted, &slots));
    assert_eq!((plan.turn, plan.step), (3, due));
    // nobody answered, and it was passivated once more
    let slots = SessionSlots::restored(slots.stored());
    let again = session(&restarted, &slots);
    assert_eq!(planned(&again).step, due);
    again.mark(mark(4, &version(2)));
    assert_eq!(planned(&again).step, Step::Repeat);
}

#[test]
fn a_text_that_is_not_known_any_more_is_no_reason() {
    let (process, slots) = (Process::default(), SessionSlots::default());
    session(&process, &slots).mark(mark(1, &version(1)));
    let plan = planned(&session(&process, &SessionSlots::restored(slots.stored())));
    assert_eq!((plan.step, plan.kept), (Step::Repeat, None));
}
