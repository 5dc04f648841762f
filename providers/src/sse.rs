//! Server-sent events: bytes as they arrive in, whole frames out.
//!
//! Frames end at a blank line wherever the reads were cut. Each keeps its exact bytes, so that what is passed through
//! is passed through unchanged. What the data means is the business of the wire formats.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use memchr::{memchr, memchr2};

#[cfg(test)]
mod tests;

/// The largest frame that a decoder takes unless told otherwise: a picture may come in one.
const MAX_FRAME: usize = 16 << 20;

const BOM: &[u8] = "\u{feff}".as_bytes();

/// One frame: the lines up to a blank line, or that blank line alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Its bytes on the wire, blank line included. All frames of a body, joined, are the body.
    pub raw: Bytes,
    /// The event's name, when it has one.
    pub event: Option<Bytes>,
    /// Its data lines joined by LF; `None` for a frame that carries none (comments, keep-alives).
    pub data: Option<Bytes>,
    /// Where its first line begins: behind a byte order mark.
    start: usize,
}

/// A frame outgrew the decoder's bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("server-sent event larger than {limit} bytes")]
pub struct FrameTooLarge {
    /// The bound, in bytes.
    pub limit: usize,
}

/// Cuts a body into frames, read by read. A frame inside one read is a slice of it, not a copy.
#[derive(Debug)]
pub struct SseDecoder {
    /// The begun frame, from earlier reads.
    begun: BytesMut,
    /// What the latest read holds beyond the frames already taken.
    read: Bytes,
    place: Place,
    started: bool,
    limit: usize,
}

/// Where in the framing the next byte stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// At the start of a line; `crlf`: the line before it ended in CR LF.
    LineStart { crlf: bool },
    /// Inside a line.
    Line,
    /// Behind the CR of a line end, whose LF may follow.
    LineCr,
    /// Behind the CR of a blank line, whose LF is due. A blank line ends as the line before it did: so a lone CR is
    /// never waited on, and the LF of a CR LF never strays into the next frame.
    BlankCr,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::with_limit(MAX_FRAME)
    }
}

impl SseDecoder {
    /// A decoder that refuses frames of more than `limit` bytes; the default is 16 MiB.
    pub fn with_limit(limit: usize) -> Self {
        Self {
            begun: BytesMut::new(),
            read: Bytes::new(),
            place: Place::LineStart { crlf: false },
            started: false,
            limit,
        }
    }

    /// Takes in the next read. Take the frames out with [`SseDecoder::next_frame`] before the next one.
    pub fn push(&mut self, read: Bytes) {
        if self.read.is_empty() {
            self.read = read;
        } else {
            self.read = [&self.read[..], &read[..]].concat().into();
        }
    }

    /// The next whole frame; `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`FrameTooLarge`] when a frame, whole or begun, passed the bound; the decoder is of no more use.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameTooLarge> {
        let end = self.place.find_end(&self.read);
        let len = self.begun.len() + end.unwrap_or(self.read.len());
        if len > self.limit {
            return Err(FrameTooLarge { limit: self.limit });
        }
        match end {
            Some(end) => {
                let tail = self.read.split_to(end);
                Ok(Some(self.frame(tail)))
            }
            None => {
                self.begun.extend_from_slice(&self.read);
                self.read.clear();
                Ok(None)
            }
        }
    }

    /// The last frame, when the body ended in the proper way without the frame's blank line.
    pub fn finish(mut self) -> Option<Frame> {
        let tail = std::mem::take(&mut self.read);
        let unfinished = !self.begun.is_empty() || !tail.is_empty();
        unfinished.then(|| self.frame(tail))
    }

    fn frame(&mut self, tail: Bytes) -> Frame {
        let raw = if self.begun.is_empty() {
            tail
        } else {
            self.begun.extend_from_slice(&tail);
            self.begun.split().freeze()
        };
        let first = !std::mem::replace(&mut self.started, true);
        let start = if first && raw.starts_with(BOM) { BOM.len() } else { 0 };
        Frame::parse(raw, start)
    }
}

impl Place {
    /// Walks over `bytes` and stops behind the blank line that ends a frame.
    fn find_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match *self {
                Self::Line => {
                    at += memchr2(b'\n', b'\r', &bytes[at..])?;
                    *self = match bytes[at] {
                        b'\n' => Self::LineStart { crlf: false },
                        _ => Self::LineCr,
                    };
                    at += 1;
                }
                Self::LineCr => {
                    let crlf = byte == b'\n';
                    at += usize::from(crlf);
                    *self = Self::LineStart { crlf };
                }
                Self::LineStart { crlf } => {
                    at += usize::from(matches!(byte, b'\n' | b'\r'));
                    *self = match byte {
                        b'\n' => return self.end(at, false),
                        b'\r' if crlf => Self::BlankCr,
                        b'\r' => return self.end(at, false),
                        _ => Self::Line,
                    };
                }
                Self::BlankCr => {
                    let crlf = byte == b'\n';
                    return self.end(at + usize::from(crlf), crlf);
                }
            }
        }
        None
    }

    fn end(&mut self, at: usize, crlf: bool) -> Option<usize> {
        *self = Self::LineStart { crlf };
        Some(at)
    }
}

impl Frame {
    /// Data that came without the framing.
    pub(crate) fn bare(data: Bytes) -> Self {
        Self {
            raw: data.clone(),
            event: None,
            data: Some(data),
            start: 0,
        }
    }

    fn parse(raw: Bytes, start: usize) -> Self {
        let (mut event, mut first, mut joined) = (None, None::<Range<usize>>, None::<BytesMut>);
        for (name, value) in fields(&raw, start) {
            match (name, &first) {
                (b"event", _) => event = Some(raw.slice(value)),
                (b"data", None) => first = Some(value),
                (b"data", Some(first)) => {
                    let joined = joined.get_or_insert_with(|| raw[first.clone()].into());
                    joined.extend_from_slice(b"\n");
                    joined.extend_from_slice(&raw[value]);
                }
                _ => {}
            }
        }
        let data = joined.map(BytesMut::freeze).or(first.map(|span| raw.slice(span)));
        Self {
            raw,
            event,
            data,
            start,
        }
    }

    /// Tells where bytes of the data stand in `raw`. Asked in ascending order, it reads the frame once.
    ///
    /// `None` beyond the data, and for lines before that of the byte asked for last.
    pub(crate) fn places_in_raw(&self) -> impl FnMut(usize) -> Option<usize> {
        let mut lines = fields(&self.raw, self.start).filter(|(name, _)| *name == b"data");
        let (mut line, mut before) = (lines.next(), 0);
        move |at| loop {
            let (_, value) = line.as_ref()?;
            let inside = at.checked_sub(before)?;
            if inside <= value.len() {
                return Some(value.start + inside);
            }
            before += value.len() + 1; // the LF that joins it to the next
            line = lines.next();
        }
    }
}

/// The fields of a frame, line by line from `start`.
fn fields(raw: &[u8], start: usize) -> impl Iterator<Item = (&[u8], Range<usize>)> {
    let mut at = start;
    std::iter::from_fn(move || {
        let rest = raw.get(at..).filter(|rest| !rest.is_empty())?;
        let len = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let field = field(&rest[..len], at);
        at += len + 1;
        Some(field)
    })
}

/// The field's name, empty for a comment, and the span of its value. `at` is where the line starts.
fn field(line: &[u8], at: usize) -> (&[u8], Range<usize>) {
    let end = at + line.len();
    let Some(colon) = memchr(b':', line) else {
        return (line, end..end);
    };
    let space = usize::from(line.get(colon + 1) == Some(&b' '));
    (&line[..colon], at + colon + 1 + space..end)
}
