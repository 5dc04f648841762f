//! Changes of a body, gathered in any order.

use std::ops::Range;

use bytes::Bytes;

use crate::splice::{Edit, splice};

/// Changes to be made at once. Insertions at one place stand in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Edits(Vec<(Range<usize>, String)>);

impl Edits {
    pub(super) fn insert(&mut self, at: usize, text: String) {
        self.replace(at..at, text);
    }

    pub(super) fn remove(&mut self, span: Range<usize>) {
        self.replace(span, String::new());
    }

    pub(super) fn replace(&mut self, span: Range<usize>, text: String) {
        self.0.push((span, text));
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
        self.0.sort_by_key(|(span, _)| (span.start, span.end));
        let edits = self.0.iter().map(|(span, text)| Edit {
            span: span.clone(),
            text: text.as_bytes(),
        });
        let edits: Vec<Edit<'_>> = edits.collect();
        splice(body, &edits)
    }
}
