//! An answer written as Anthropic Messages.

use bytes::Bytes;
use understudy_messages::answer::Piece;
use understudy_messages::client::Seam;

use crate::wire::Style;

/// Writes one answer.
#[derive(Debug)]
pub struct Writer {
    style: Style,
}

impl Writer {
    /// At the beginning of an answer.
    pub(crate) fn new(style: Style) -> Self {
        Self { style }
    }

    /// Pieces as frames of a stream.
    pub(crate) fn pieces(&mut self, _pieces: Vec<Piece>) -> Bytes {
        let _ = &self.style;
        Bytes::new()
    }

    /// From here on somebody else goes on with the answer.
    pub(crate) fn seam(&mut self, _seam: &Seam) -> Bytes {
        Bytes::new()
    }

    /// The proper end of a stream.
    pub(crate) fn end(&mut self, last: Option<Bytes>) -> Bytes {
        last.unwrap_or(Bytes::from_static(b""))
    }

    /// All of an answer that does not stream.
    pub(crate) fn whole(&mut self, _pieces: Vec<Piece>) -> Bytes {
        Bytes::new()
    }
}
