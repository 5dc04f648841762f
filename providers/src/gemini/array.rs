//! A stream that came as one JSON array, as Gemini sends it to whoever does not ask for events: its elements as frames,
//! wherever the reads were cut.

use bytes::{Bytes, BytesMut};

use crate::sse::{Frame, FrameTooLarge};

/// The largest element that is taken: as large as a frame may be.
const MAX_ELEMENT: usize = 1 << 20;

/// Cuts an array into its elements, read by read. What is between them is passed over; what is in them is judged by whoever
/// reads them.
#[derive(Debug, Default)]
pub struct ArrayDecoder {
    /// The begun element, from earlier reads.
    begun: BytesMut,
    /// What the latest read holds beyond the elements already taken.
    read: Bytes,
    depth: usize,
    /// Inside a string, and there behind a backslash.
    string: Option<bool>,
}

impl ArrayDecoder {
    /// Takes in the next read. Take the frames out before the next one.
    pub fn push(&mut self, read: Bytes) {
        self.read = match self.read.is_empty() {
            true => read,
            false => [&self.read[..], &read[..]].concat().into(),
        };
    }

    /// The next whole element; `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`FrameTooLarge`] when an element, whole or begun, passed the bound; the decoder is of no more use.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameTooLarge> {
        if self.depth == 0 {
            let start = self.read.iter().position(|byte| *byte == b'{');
            self.read = self.read.split_off(start.unwrap_or(self.read.len()));
        }
        let end = self.find_end();
        let part = self.read.split_to(end.unwrap_or(self.read.len()));
        if self.begun.len() + part.len() > MAX_ELEMENT {
            return Err(FrameTooLarge { limit: MAX_ELEMENT });
        }
        if end.is_some() && self.begun.is_empty() {
            return Ok(Some(Frame::bare(part)));
        }
        self.begun.extend_from_slice(&part);
        Ok(end.map(|_| Frame::bare(self.begun.split().freeze())))
    }

    /// Walks over what was read and stops behind the brace that ends the element.
    fn find_end(&mut self) -> Option<usize> {
        for (at, byte) in self.read.iter().enumerate() {
            match (self.string, byte) {
                (Some(true), _) => self.string = Some(false),
                (Some(false), b'\\') => self.string = Some(true),
                (Some(false), b'"') => self.string = None,
                (Some(false), _) => {}
                (None, b'"') => self.string = Some(false),
                (None, b'{' | b'[') => self.depth += 1,
                (None, b'}' | b']') => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                }
                (None, _) => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn elements(reads: &[&[u8]]) -> Vec<Bytes> {
        let (mut decoder, mut elements) = (ArrayDecoder::default(), Vec::new());
        for read in reads {
            decoder.push(Bytes::copy_from_slice(read));
            while let Ok(Some(frame)) = decoder.next_frame() {
                elements.push(frame.data.expect("data"));
            }
        }
        elements
    }

    #[test]
    fn an_object_alone_is_one_element_and_half_an_object_is_none() {
        assert_eq!(elements(&[b" {\"error\":{}}"]), ["{\"error\":{}}"]);
        assert_eq!(elements(&[b"[{\"a\":"]), Vec::<Bytes>::new());
        assert_eq!(elements(&[b"[]"]), Vec::<Bytes>::new());
    }

    #[test]
    fn an_element_without_an_end_is_refused_at_a_megabyte() {
        let mut decoder = ArrayDecoder::default();
        decoder.push(Bytes::from(vec![b'{'; MAX_ELEMENT + 1]));
        assert!(decoder.next_frame().is_err());
    }

    proptest! {
        #[test]
        fn elements_are_found_wherever_the_reads_are_cut(
            texts in prop::collection::vec(r#"[a-z{}\[\],":\\]{0,8}"#, 0..5),
            cuts in prop::collection::vec(0usize..200, 0..6),
        ) {
            let objects: Vec<String> = texts.iter().map(|text| serde_json::json!({"t": [{"u": text}]}).to_string()).collect();
            let body = format!("[{}\n]\n", objects.join("\r\n,\r\n"));
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(body.len())).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let reads: Vec<&[u8]> = cuts.windows(2).map(|pair| &body.as_bytes()[pair[0]..pair[1]]).collect();
            prop_assert_eq!(elements(&reads), objects);
        }

        #[test]
        fn random_bytes_never_panic(reads in prop::collection::vec(any::<Vec<u8>>(), 0..6)) {
            let reads: Vec<&[u8]> = reads.iter().map(Vec::as_slice).collect();
            elements(&reads);
        }
    }
}
