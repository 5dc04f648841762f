//! The mark of one turn: it goes out with the question, and the simulator puts it at the beginning and the end of its answer.

use std::fmt::{self, Display, Formatter};

/// Whose turn it is, and which. A nonce tells it from turns of the same name in another round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) session: u32,
    pub(crate) turn: u32,
    pub(crate) nonce: u32,
}

impl Tag {
    /// Every tag is so long.
    pub(crate) const LENGTH: usize = 27;

    /// Reads the tag that a text begins with.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix('#')?.get(..Self::LENGTH - 1)?;
        let mut parts = text.split('-').map(|part| match part.len() {
            8 => u32::from_str_radix(part, 16).ok(),
            _ => None,
        });
        let mut part = || parts.next().flatten();
        Some(Self {
            session: part()?,
            turn: part()?,
            nonce: part()?,
        })
    }
}

impl Display for Tag {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "#{:08x}-{:08x}-{:08x}", self.session, self.turn, self.nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_read_as_it_was_written() {
        let tag = Tag {
            session: 7,
            turn: u32::MAX,
            nonce: 0xbeef,
        };
        let written = tag.to_string();
        assert_eq!(written.len(), Tag::LENGTH);
        assert_eq!(Tag::read(&format!("{written} and more")), Some(tag));
        for text in ["", "#", "#0-0-0", &written[1..], "#0000000é-00000000-00000000"] {
            assert_eq!(Tag::read(text), None, "{text}");
        }
    }
}
