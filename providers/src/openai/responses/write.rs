//! An answer written as Responses.

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

    /// A frame on its way as it is.
    pub(crate) fn pass(&mut self, _frame: &Bytes) {}

    /// The proper end of a stream that is not whole.
    pub(crate) fn fail(&mut self, failure: &understudy_messages::terminal::TurnFailure) -> Bytes {
        crate::openai::error::frame(failure)
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
