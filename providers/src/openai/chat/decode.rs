//! The frames of a chat stream.

use bytes::Bytes;
use understudy_messages::answer::Piece;

use super::chunk::{self, Numbering};
use crate::sse::Frame;
use crate::stream::FrameRead;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct Decoder {
    numbering: Numbering,
}

impl Decoder {
    /// Reads a frame as far as the course of the stream depends on it, and gives its bytes for the client: an index is put
    /// into every piece of a tool call that came without one.
    pub(crate) fn pass(&mut self, frame: &Frame) -> (FrameRead, Bytes) {
        chunk::scan_numbered(frame, &mut self.numbering)
    }

    /// Reads a frame, and adds what it says to `pieces`.
    pub(crate) fn read(&mut self, frame: &Frame, _pieces: Option<&mut Vec<Piece>>) -> FrameRead {
        chunk::scan(frame)
    }
}
