//! The line: nobody beyond the bound, nobody forgotten, no agent behind another one's crowd.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn bound(most: usize, queue: usize) -> Bound {
    Bound {
        most,
        queue,
        wait: Duration::from_secs(1),
    }
}

/// What may happen at a bound.
#[derive(Clone, Debug)]
enum Happens {
    /// One of this lane comes; it knows the bound as this.
    Comes { lane: u8, most: usize },
    /// One that is inside leaves, if there is any.
    Leaves,
    /// The one at this place among those who wait gives up.
    GivesUp(usize),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (0..4_u8, 1..5_usize).prop_map(|(lane, most)| Happens::Comes { lane, most }),
        3 => Just(Happens::Leaves),
        1 => any::<usize>().prop_map(Happens::GivesUp),
    ]
}

fn named(lane: u8) -> Name {
    format!("agent-{lane}").into()
}

/// A line, and what a second bookkeeper knows of it.
#[derive(Default)]
struct Books {
    line: Line<usize>,
    waiting: BTreeMap<usize, (Name, u64)>,
    came: usize,
    inside: usize,
    refused: usize,
}

impl Books {
    fn comes(&mut self, bound: &Bound, lane: &Name) {
        let who = self.came;
        self.came += 1;
        match self.line.enter(bound, lane, who) {
            Entry::Inside => self.inside += 1,
            Entry::Full => self.refused += 1,
            Entry::Waits { id, lost } => {
                self.waiting.insert(who, (lane.clone(), id));
                if let Some(lost) = lost {
                    assert!(self.waiting.remove(&lost).is_some(), "who lost its place had one");
                    self.refused += 1;
                }
            }
        }
    }

    fn settle(&mut self) -> Vec<(usize, Name)> {
        let mut came_in = Vec::new();
        while let Some(who) = self.line.next() {
            let (lane, _) = self.waiting.remove(&who).expect("who is let in has waited");
            self.inside += 1;
            came_in.push((who, lane));
        }
        came_in
    }
}

proptest! {
    #[test]
    fn nobody_enters_beyond_the_bound_and_everybody_is_inside_or_waits_or_was_told(
        story in proptest::collection::vec(happens(), 0..200), queue in 0..6_usize,
    ) {
        let mut books = Books::default();
        let (mut left, mut gave_up) = (0, 0);
        for event in story {
            let before = books.inside;
            let mut most_known = 4;
            match event {
                Happens::Comes { lane, most } => {
                    most_known = most;
                    books.comes(&bound(most, queue), &named(lane));
                    prop_assert!(books.inside == before || books.inside <= most, "let in beyond its bound");
                }
                Happens::Leaves if books.inside > 0 => {
                    books.line.leave();
                    books.inside -= 1;
                    left += 1;
                }
                Happens::Leaves => {}
                Happens::GivesUp(place) => {
                    let place = place % books.waiting.len().max(1);
                    if let Some((who, (lane, id))) = books.waiting.iter().nth(place).map(|(who, it)| (*who, it.clone())) {
                        books.line.give_up(&lane, id);
                        books.waiting.remove(&who);
                        gave_up += 1;
                    }
                }
            }
            books.settle();
            prop_assert!(books.inside <= 4, "{} inside, {most_known} allowed", books.inside);
            prop_assert!(books.waiting.len() <= queue, "the queue is bounded");
            prop_assert_eq!(books.line.inside(), books.inside);
            prop_assert_eq!(books.line.waiting(), books.waiting.len());
            prop_assert_eq!(books.came, books.inside + books.waiting.len() + books.refused + left + gave_up);
            prop_assert!(books.waiting.is_empty() || books.inside > 0, "somebody waits for nobody");
        }
    }

    #[test]
    fn no_agent_waits_for_more_of_another_than_one_for_each_of_its_own(crowd in 1..50_usize, own in 1..8_usize) {
        let mut books = Books::default();
        let bound = bound(1, 100);
        books.comes(&bound, &named(0));
        (0..crowd).for_each(|_| books.comes(&bound, &named(0)));
        (0..own).for_each(|_| books.comes(&bound, &named(1)));
        let (mut quiet, mut passed) = (0, 0);
        while quiet < own {
            books.line.leave();
            books.inside -= 1;
            for (_, lane) in books.settle() {
                if lane == named(1) { quiet += 1 } else { passed += 1 }
            }
            prop_assert!(passed <= quiet + 1, "{passed} of the crowd for {quiet} of the other");
        }
    }

    #[test]
    fn a_full_queue_keeps_those_of_an_agent_with_few(crowd in 0..60_usize, queue in 2..20_usize) {
        let mut books = Books::default();
        let bound = bound(1, queue);
        books.comes(&bound, &named(0));
        (0..crowd).for_each(|_| books.comes(&bound, &named(0)));
        let own = queue / 2;
        (0..own).for_each(|_| books.comes(&bound, &named(1)));
        (0..crowd).for_each(|_| books.comes(&bound, &named(0)));
        let kept = books.waiting.values().filter(|(lane, _)| *lane == named(1)).count();
        prop_assert_eq!(kept, own, "within its share of the queue nobody is refused");
    }
}

#[test]
fn within_a_lane_who_came_first_goes_first() {
    let mut line = Line::default();
    assert_eq!(line.enter(&bound(1, 9), &named(0), 0), Entry::Inside);
    for who in 1..4 {
        assert!(matches!(line.enter(&bound(1, 9), &named(0), who), Entry::Waits { .. }));
    }
    for who in 1..4 {
        line.leave();
        assert_eq!((line.next(), line.next()), (Some(who), None));
    }
}

#[test]
fn a_bound_that_was_lowered_lets_nobody_in_before_enough_have_left() {
    let mut line = Line::default();
    (0..3).for_each(|who| assert_eq!(line.enter(&bound(3, 9), &named(0), who), Entry::Inside));
    assert!(matches!(line.enter(&bound(1, 9), &named(0), 3), Entry::Waits { .. }));
    line.leave();
    line.leave();
    assert_eq!(line.next(), None, "one is still inside");
    line.leave();
    assert_eq!(line.next(), Some(3));
}

#[test]
fn a_queue_of_nobody_refuses_at_once() {
    let mut line = Line::default();
    assert_eq!(line.enter(&bound(1, 0), &named(0), 0), Entry::Inside);
    assert_eq!(line.enter(&bound(1, 0), &named(0), 1), Entry::Full);
    assert_eq!((line.inside(), line.waiting()), (1, 0));
}

#[test]
fn whoever_waits_is_turned_away_once() {
    let mut line = Line::default();
    (0..3).for_each(|who| assert_ne!(line.enter(&bound(1, 9), &named(who), who), Entry::Full));
    assert_eq!(line.turn_away(), [1, 2]);
    assert_eq!((line.waiting(), line.next()), (0, None));
}
