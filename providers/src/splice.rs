//! Changing a few bytes of a body without touching the rest.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// Bytes to put in the place of a span of a body. An empty span inserts, an empty text removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit<'a> {
    /// What is replaced, as byte offsets into the unedited body.
    pub span: Range<usize>,
    /// What stands there afterwards.
    pub text: &'a [u8],
}

/// The body with its edits made; every other byte as it was. Without edits it is the same allocation.
///
/// Edits come sorted and do not overlap. A span that reaches back into an earlier edit, or beyond the body, is cut to
/// what is left of it.
pub fn splice(body: &Bytes, edits: &[Edit<'_>]) -> Bytes {
    if edits.is_empty() {
        return body.clone();
    }
    let added: usize = edits.iter().map(|edit| edit.text.len()).sum();
    let mut spliced = BytesMut::with_capacity(body.len() + added);
    let mut copied = 0;
    for edit in edits {
        let start = edit.span.start.clamp(copied, body.len());
        spliced.extend_from_slice(&body[copied..start]);
        spliced.extend_from_slice(edit.text);
        copied = edit.span.end.clamp(start, body.len());
    }
    spliced.extend_from_slice(&body[copied..]);
    spliced.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_edits_the_body_is_not_copied() {
        let body = Bytes::from(b"unchanged".to_vec());
        assert_eq!(splice(&body, &[]).as_ptr(), body.as_ptr());
    }

    #[test]
    fn replacing_inserting_and_removing_leave_the_rest() {
        let body = Bytes::from_static(b"one two three");
        let edits = [
            Edit {
                span: 0..0,
                text: b"zero ",
            },
            Edit { span: 4..7, text: b"2" },
            Edit { span: 7..13, text: b"" },
        ];
        assert_eq!(splice(&body, &edits), "zero one 2");
    }

    proptest! {
        #[test]
        fn kept_and_new_bytes_alternate(
            pieces in prop::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>(), any::<Vec<u8>>()), 0..8),
        ) {
            let (mut body, mut expected, mut spans) = (Vec::new(), Vec::new(), Vec::new());
            for (kept, old, new) in &pieces {
                body.extend_from_slice(kept);
                spans.push(body.len()..body.len() + old.len());
                body.extend_from_slice(old);
                expected.extend_from_slice(kept);
                expected.extend_from_slice(new);
            }
            let edits: Vec<Edit<'_>> = spans.into_iter().zip(&pieces)
                .map(|(span, (_, _, new))| Edit { span, text: new })
                .collect();
            prop_assert_eq!(splice(&Bytes::from(body), &edits), expected);
        }

        #[test]
        fn spans_out_of_order_or_out_of_the_body_never_panic(
            body: Vec<u8>,
            spans in prop::collection::vec((0usize..300, 0usize..300), 0..8),
        ) {
            let edits: Vec<Edit<'_>> = spans.iter()
                .map(|&(start, end)| Edit { span: start..end, text: b"x" })
                .collect();
            let spliced = splice(&Bytes::from(body), &edits);
            prop_assert!(spliced.len() >= edits.len());
        }
    }
}
