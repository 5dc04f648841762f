use super::*;
use crate::load::scenario::parse;

fn agenda(text: &str) -> Agenda {
    Agenda::new(&parse(text, &|_| None).expect("is valid"), 7)
}

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What may begin by then: session and turn.
fn taken(agenda: &mut Agenda, now: Duration) -> Vec<Turn> {
    std::iter::from_fn(|| agenda.take(now)).collect()
}

#[test]
fn open_loop_is_due_at_its_times_whatever_became_of_those_before() {
    let mut agenda = agenda("sessions: 100\narrivals: { steps: [{ rate: 10, lasts: 1s }] }");
    assert_eq!(taken(&mut agenda, at(0)).len(), 1);
    assert_eq!(agenda.next_due(), Some(at(100)));
    let late = taken(&mut agenda, at(450));
    let due: Vec<Duration> = late.iter().map(|turn| turn.due).collect();
    assert_eq!(due, [100, 200, 300, 400].map(at));
    assert_eq!(taken(&mut agenda, at(5000)).len(), 5);
    assert_eq!(agenda.next_due(), None);
}

#[test]
fn a_turn_waits_for_the_one_before_it_in_its_session_and_keeps_its_time() {
    let mut agenda = agenda("sessions: 2\narrivals: { steps: [{ rate: 10, lasts: 1s }] }");
    let first = taken(&mut agenda, at(350));
    let of = |turns: &[Turn]| turns.iter().map(|turn| (turn.session, turn.turn)).collect::<Vec<_>>();
    assert_eq!(of(&first), [(0, 0), (1, 0)]);
    agenda.ended(first[1], at(360));
    let second = taken(&mut agenda, at(360));
    assert_eq!(of(&second), [(1, 1)]);
    assert_eq!(second[0].due, at(300));
}

#[test]
fn steps_follow_each_other_with_their_own_rates() {
    let mut agenda =
        agenda("sessions: 1000\narrivals: { steps: [{ rate: 100, lasts: 1s }, { rate: 500, lasts: 1s }] }");
    let turns = taken(&mut agenda, at(10_000));
    let of = |step| turns.iter().filter(|turn| turn.step == step).count();
    assert_eq!((of(0), of(1), turns.len()), (100, 500, 600));
    assert!(turns.windows(2).all(|pair| pair[0].due <= pair[1].due));
}

#[test]
fn random_arrivals_have_the_rate_as_their_mean() {
    let mut agenda = agenda("sessions: 10000\narrivals: { spacing: random, steps: [{ rate: 1000, lasts: 5s }] }");
    let count = taken(&mut agenda, at(5_000)).len();
    assert!((4_700..5_300).contains(&count), "{count}");
}

#[test]
fn a_ramp_begins_slowly() {
    let mut agenda = agenda("sessions: 10000\nramp: 2s\narrivals: { steps: [{ rate: 100, lasts: 4s }] }");
    let turns = taken(&mut agenda, at(4_000));
    let before = |millis| turns.iter().filter(|turn| turn.due < at(millis)).count();
    assert!(before(1_000) < before(2_000) / 2, "{} {}", before(1_000), before(2_000));
    assert!((280..320).contains(&turns.len()), "{}", turns.len());
}

#[test]
fn what_waits_is_bounded_and_what_is_beyond_is_counted() {
    let mut agenda = agenda("sessions: 1\narrivals: { steps: [{ rate: 1000000, lasts: 1s }] }");
    assert_eq!(taken(&mut agenda, at(1_000)).len(), 1);
    let all = 1_000_000;
    assert_eq!(agenda.not_begun(), all - MOST_WAITING as u64);
    agenda.close();
    assert_eq!(agenda.not_begun(), all - 1);
    assert_eq!((agenda.take(at(2_000)), agenda.next_due()), (None, None));
}

#[test]
fn closed_loop_is_due_again_when_it_has_its_answer_and_has_thought() {
    let mut agenda = agenda("sessions: 2\nturns: 2\nthink: 50ms\nramp: 100ms");
    let first = taken(&mut agenda, at(0));
    assert_eq!(first.len(), 1);
    assert_eq!(agenda.next_due(), Some(at(50)));
    agenda.ended(first[0], at(20));
    let second = taken(&mut agenda, at(80));
    assert_eq!(second.iter().map(|turn| turn.due).collect::<Vec<_>>(), [at(50), at(70)]);
    for turn in second {
        agenda.ended(turn, at(90));
    }
    assert_eq!(taken(&mut agenda, at(1_000)).len(), 1);
    assert_eq!(agenda.next_due(), None);
}

#[test]
fn closed_loop_begins_nothing_after_its_end() {
    let mut agenda = agenda("sessions: 3\nduration: 1s");
    let turns = taken(&mut agenda, at(999));
    assert_eq!(turns.len(), 3);
    agenda.ended(turns[0], at(1_000));
    assert_eq!((agenda.next_due(), agenda.take(at(1_000))), (None, None));
}
