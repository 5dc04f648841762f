//! Whether an answer is the one to its turn: pure.

use super::plan;
use super::scenario::{Check, Scenario};
use super::tag::Tag;

/// What is wrong with an answer that ended as it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Something is missing, or was never said.
    NotWhole,
    /// Something came twice.
    Twice,
    /// It answers another turn of the session.
    OutOfOrder,
    /// It answers somebody else.
    OtherSession,
}

/// What the upstreams of a scenario answer.
pub(crate) struct Expected {
    check: Check,
    /// What stands between the tags, and how many tools are called; of each upstream that differs.
    answers: Vec<(String, u32)>,
}

impl Expected {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let upstreams = plan::upstreams(scenario);
        let mut answers: Vec<_> = upstreams
            .iter()
            .map(|(_, it)| (plan::between_tags(it), it.tool_calls))
            .collect();
        answers.dedup();
        Self {
            check: scenario.client.check,
            answers,
        }
    }

    /// What is wrong with this answer to the turn with this tag, if anything.
    pub(crate) fn flaw(&self, tag: Tag, text: &str, calls: u32) -> Option<Flaw> {
        match self.check {
            Check::Ended => (text.is_empty() && calls == 0).then_some(Flaw::NotWhole),
            Check::Echo => {
                let own = tag.to_string();
                let between = text.strip_prefix(&own).and_then(|rest| rest.strip_suffix(&own));
                let right = |(text, called): &(String, u32)| Some(text.as_str()) == between && *called == calls;
                (!self.answers.iter().any(right)).then(|| self.why(tag, text, calls))
            }
        }
    }

    fn why(&self, tag: Tag, text: &str, calls: u32) -> Flaw {
        let tags = text.match_indices('#').filter_map(|(at, _)| Tag::read(&text[at..]));
        let others: Vec<Tag> = tags.filter(|other| *other != tag).collect();
        let longest = self.answers.iter().map(|(text, _)| text.len() + 2 * Tag::LENGTH).max();
        if others.iter().any(|other| other.session != tag.session) {
            Flaw::OtherSession
        } else if !others.is_empty() {
            Flaw::OutOfOrder
        } else if Some(text.len()) > longest || self.answers.iter().all(|(_, called)| calls > *called) {
            Flaw::Twice
        } else {
            Flaw::NotWhole
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: Tag = Tag {
        session: 3,
        turn: 2,
        nonce: 9,
    };

    fn flaw(text: &str, calls: u32) -> Option<Flaw> {
        Expected::of(&Scenario::default()).flaw(TAG, text, calls)
    }

    fn answer(tag: Tag) -> String {
        let (_, upstream) = plan::upstreams(&Scenario::default()).remove(0);
        format!("{tag}{}{tag}", plan::between_tags(&upstream))
    }

    #[test]
    fn the_answer_to_its_own_turn_is_right_to_the_last_byte() {
        assert_eq!(flaw(&answer(TAG), 0), None);
        assert_eq!(answer(TAG).len(), 200);
    }

    #[test]
    fn every_flaw_has_its_name() {
        let right = answer(TAG);
        for (wrong, named) in [
            (right[..100].to_owned(), Flaw::NotWhole),
            (String::new(), Flaw::NotWhole),
            (right.replace("w7 ", ""), Flaw::NotWhole),
            (right.replace("w7 w8 ", "w8 w7 "), Flaw::NotWhole),
            (right.replace("w7 ", "w7 w7 "), Flaw::Twice),
            (format!("{right}{right}"), Flaw::Twice),
            (answer(Tag { turn: 1, ..TAG }), Flaw::OutOfOrder),
            (answer(Tag { nonce: 1, ..TAG }), Flaw::OutOfOrder),
            (answer(Tag { session: 4, ..TAG }), Flaw::OtherSession),
            (
                format!("{right}{}", answer(Tag { session: 4, ..TAG })),
                Flaw::OtherSession,
            ),
        ] {
            assert_eq!(flaw(&wrong, 0), Some(named), "{wrong}");
        }
        assert_eq!(flaw(&right, 1), Some(Flaw::Twice));
    }

    #[test]
    fn of_a_foreign_upstream_only_the_end_is_looked_at() {
        let mut scenario = Scenario::default();
        scenario.client.check = Check::Ended;
        let expected = Expected::of(&scenario);
        assert_eq!(expected.flaw(TAG, "whatever", 0), None);
        assert_eq!(expected.flaw(TAG, "", 2), None);
        assert_eq!(expected.flaw(TAG, "", 0), Some(Flaw::NotWhole));
    }
}
