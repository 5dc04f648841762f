//! Changes of a body, gathered in any order.

use std::ops::Range;

use bytes::Bytes;

use crate::splice::{Edit, splice};

/// Changes to be made at once. Insertions at one place stand in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Edits(Vec<Change>);

#[derive(Debug)]
struct Change {
    span: Range<usize>,
    text: String,
    side: Side,
}

/// Where an insertion stands among those at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Opens,
    Within,
    Closes,
}

impl Edits {
    pub(super) fn insert(&mut self, at: usize, text: String) {
        self.replace(at..at, text);
    }

    pub(super) fn remove(&mut self, span: Range<usize>) {
        self.replace(span, String::new());
    }

    pub(super) fn replace(&mut self, span: Range<usize>, text: String) {
        let side = Side::Within;
        self.0.push(Change { span, text, side });
    }

    /// Puts something around a value and all that is put beside it.
    pub(super) fn wrap(&mut self, span: &Range<usize>, before: String, after: &str) {
        for (at, text, side) in [
            (span.start, before, Side::Opens),
            (span.end, after.to_owned(), Side::Closes),
        ] {
            self.0.push(Change {
                span: at..at,
                text,
                side,
            });
        }
    }

    /// Puts `texts` into the container `span` as first elements or, `at_end`, as last ones; `is_empty`: it has none yet.
    pub(super) fn add_to(&mut self, span: &Range<usize>, is_empty: bool, texts: &[String], at_end: bool) {
        let texts = texts.join(",");
        match (texts.is_empty(), is_empty, at_end) {
            (true, _, _) => {}
            (false, true, _) => self.insert(span.start + 1, texts),
            (false, false, false) => self.insert(span.start + 1, texts + ","),
            (false, false, true) => self.insert(span.end - 1, format!(",{texts}")),
        }
    }

    pub(super) fn apply(mut self, body: &Bytes) -> Bytes {
        self.0
            .sort_by_key(|change| (change.span.start, change.span.end, change.side));
        let edits = self.0.iter().map(|change| Edit {
            span: change.span.clone(),
            text: change.text.as_bytes(),
        });
        let edits: Vec<Edit<'_>> = edits.collect();
        splice(body, &edits)
    }
}
