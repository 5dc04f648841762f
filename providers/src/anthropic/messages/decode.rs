//! The frames of a Anthropic Messages stream.

use understudy_messages::answer::Piece;

use crate::sse::Frame;
use crate::stream::{FrameRead, Signal};

/// Reads one stream.
#[derive(Debug, Default)]
pub struct Decoder {}

impl Decoder {
    /// Reads a frame, and adds what it says to `pieces`.
    pub(crate) fn read(&mut self, _frame: &Frame, _pieces: Option<&mut Vec<Piece>>) -> FrameRead {
        Signal::Malformed.into()
    }
}
