//! Indexes for the tool calls of providers that leave them out: clients put pieces together by index.
//!
//! An id that was not seen yet opens a call, under the choice's next index; a piece without an id goes on with the call
//! that was opened last. An index that the provider gives stands.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use crate::json::JsonStr;
use crate::openai::chat::event::tool_call::ToolCallPiece;

/// The most calls of one answer that are told apart, as many as providers allow: pieces of later ones stay as they are.
const MAX_CALLS: usize = 128;

/// The tool calls of one stream, in the order in which they were opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbering {
    calls: Vec<Call>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    choice: u64,
    index: u64,
    /// Its id's hash.
    id: Option<u64>,
}

impl Numbering {
    /// The index of the call that the next piece belongs to; `None` where nobody can tell.
    pub(super) fn index_of(&mut self, choice: u64, piece: &ToolCallPiece<'_>) -> Option<u64> {
        let id = piece.id.map(hash);
        let mut of_choice = self.calls.iter().rev().filter(|call| call.choice == choice);
        let known = match (piece.index, id) {
            (Some(index), _) => of_choice.find(|call| call.index == index && (id.is_none() || call.id == id)),
            (None, Some(_)) => of_choice.find(|call| call.id == id),
            (None, None) => of_choice.next(),
        };
        match known {
            Some(call) => Some(call.index),
            None => self.open(choice, piece.index, id),
        }
    }

    /// How many calls are open; what [`Numbering::close_after`] takes.
    pub(super) fn opened(&self) -> usize {
        self.calls.len()
    }

    /// Forgets the calls that were opened after the first `opened`.
    pub(super) fn close_after(&mut self, opened: usize) {
        self.calls.truncate(opened);
    }

    fn open(&mut self, choice: u64, given: Option<u64>, id: Option<u64>) -> Option<u64> {
        if self.calls.len() == MAX_CALLS {
            return given;
        }
        let of_choice = self.calls.iter().filter(|call| call.choice == choice);
        let next = of_choice.map(|call| call.index.saturating_add(1)).max();
        let index = given.or(next).unwrap_or(0);
        self.calls.push(Call { choice, index, id });
        Some(index)
    }
}

fn hash(id: JsonStr<'_>) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(&*id.decode())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Cursor;
    use proptest::prelude::*;

    /// Gives a piece to the numbering: its choice, its index and its id.
    fn give(numbering: &mut Numbering, choice: u64, index: Option<u64>, id: &str) -> Option<u64> {
        let quoted = format!("\"{id}\"");
        let id = Cursor::over(&quoted).text().expect("a string");
        let id = id.filter(|id| !id.is_empty());
        let piece = ToolCallPiece {
            index,
            id,
            ..ToolCallPiece::default()
        };
        numbering.index_of(choice, &piece)
    }

    fn indexes(pieces: &[(Option<u64>, &str)]) -> Vec<Option<u64>> {
        let mut numbering = Numbering::default();
        let pieces = pieces.iter();
        pieces.map(|&(index, id)| give(&mut numbering, 0, index, id)).collect()
    }

    #[test]
    fn an_id_opens_a_call_and_pieces_without_one_go_on_with_it() {
        let pieces = [(None, "a"), (None, ""), (None, "b"), (None, ""), (None, "")];
        assert_eq!(indexes(&pieces), [0, 0, 1, 1, 1].map(Some));
    }

    #[test]
    fn the_first_piece_opens_a_call_even_without_an_id() {
        assert_eq!(indexes(&[(None, ""), (None, ""), (None, "a")]), [0, 0, 1].map(Some));
    }

    #[test]
    fn an_id_that_comes_again_goes_on_with_its_call_however_it_is_spelt() {
        let pieces = [(None, "a"), (None, "b"), (None, r"\u0061"), (None, "b")];
        assert_eq!(indexes(&pieces), [0, 1, 0, 1].map(Some));
    }

    #[test]
    fn an_index_that_is_given_stands_and_is_counted_on_from() {
        let pieces = [
            (None, "a"),
            (Some(4), "b"),
            (None, ""),
            (None, "c"),
            (Some(4), ""),
            (None, "b"),
        ];
        assert_eq!(indexes(&pieces), [0, 4, 4, 5, 4, 4].map(Some));
        assert_eq!(indexes(&[(Some(u64::MAX), "a"), (None, "b")]), [Some(u64::MAX); 2]);
    }

    #[test]
    fn each_choice_counts_for_itself() {
        let mut numbering = Numbering::default();
        let mut give = |choice, id| give(&mut numbering, choice, None, id);
        let given = [give(0, "a"), give(1, "b"), give(0, "c"), give(1, "")];
        assert_eq!(given, [0, 0, 1, 0].map(Some));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut numbering = Numbering::default();
        for call in 0..MAX_CALLS as u64 {
            assert_eq!(give(&mut numbering, 0, None, &call.to_string()), Some(call));
        }
        assert_eq!(give(&mut numbering, 0, None, "one more"), None);
        assert_eq!(give(&mut numbering, 0, Some(999), "one more"), Some(999));
        assert_eq!(give(&mut numbering, 0, None, "7"), Some(7));
        assert_eq!(numbering.opened(), MAX_CALLS);
    }

    proptest! {
        #[test]
        fn every_id_has_one_index_and_no_two_share_it(ids in prop::collection::vec("[a-f]{0,1}", 0..40)) {
            let mut numbering = Numbering::default();
            let (mut latest, mut opened) = (0, Vec::<&str>::new());
            for id in &ids {
                let index = give(&mut numbering, 0, None, id);
                if opened.is_empty() || !id.is_empty() && !opened.contains(&id.as_str()) {
                    opened.push(id);
                    latest = opened.len() - 1;
                }
                let expected = match id.is_empty() {
                    true => latest,
                    false => opened.iter().position(|it| it == id).expect("opened"),
                };
                prop_assert_eq!(index, Some(expected as u64));
            }
        }

        #[test]
        fn forgetting_leaves_what_was_before(
            before in prop::collection::vec((0u64..3, prop::option::of(0u64..4), "[a-d]{0,1}"), 0..20),
            after in prop::collection::vec((0u64..3, prop::option::of(0u64..4), "[a-d]{0,1}"), 0..20),
        ) {
            let mut numbering = Numbering::default();
            for (choice, index, id) in &before {
                let given = give(&mut numbering, *choice, *index, id);
                prop_assert!(index.is_none() || given == *index);
            }
            let (kept, opened) = (numbering.clone(), numbering.opened());
            for (choice, index, id) in &after {
                give(&mut numbering, *choice, *index, id);
            }
            numbering.close_after(opened);
            prop_assert_eq!(numbering, kept);
        }
    }
}
