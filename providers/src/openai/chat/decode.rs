//! The frames of a chat stream.

use bytes::Bytes;
use understudy_messages::answer::Piece;

use super::chunk::{self, Numbering};
use crate::json::{Cursor, JsonError, JsonStr};
use crate::sse::Frame;
use crate::stream::{FrameRead, Signal};

pub(super) use self::telling::Telling;

mod telling;
#[cfg(test)]
mod tests;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct Decoder {
    numbering: Numbering,
    telling: Telling,
    begun: bool,
}

impl Decoder {
    /// Reads a frame as far as the course of the stream depends on it, and gives its bytes for the client: an index is put
    /// into every piece of a tool call that came without one.
    pub(crate) fn pass(&mut self, frame: &Frame) -> (FrameRead, Bytes) {
        chunk::scan_numbered(frame, &mut self.numbering)
    }

    /// Reads a frame, and adds what it says to `pieces`.
    pub(crate) fn read(&mut self, frame: &Frame, pieces: Option<&mut Vec<Piece>>) -> FrameRead {
        let Some(pieces) = pieces else {
            return chunk::scan(frame);
        };
        let (read, events) = chunk::events(frame);
        match read.signal {
            Signal::Delta(delta) if !delta.error && !self.begun => {
                self.begun = true;
                pieces.push(begin(frame.data.as_deref().unwrap_or_default()));
            }
            Signal::Comment if self.begun => pieces.push(Piece::Ping),
            Signal::Comment | Signal::Delta(_) | Signal::Malformed | Signal::Done => {}
        }
        self.telling.tell(&events, pieces);
        read
    }

    /// Whether a tool was called without pieces that tell of it.
    pub(crate) fn untold(&self) -> bool {
        self.telling.untold()
    }

    /// Whether a call was told in one way and then in another.
    pub(crate) fn differs(&self) -> bool {
        self.telling.differs()
    }
}

/// What an answer, or the first chunk of one, says of itself.
pub(super) fn begin(json: &[u8]) -> Piece {
    let (mut id, mut model) = (None, None);
    let read = Cursor::new(json).and_then(|mut cursor| {
        cursor.object(|cursor, key| {
            match &*key.decode() {
                "id" => id = cursor.text()?,
                "model" => model = cursor.text()?,
                _ => cursor.skip()?,
            }
            Ok::<_, JsonError>(())
        })
    });
    let owned = |text: Option<JsonStr<'_>>| {
        let text = text.filter(|text| read.is_ok() && !text.is_empty());
        text.map(|text| text.decode().into_owned())
    };
    Piece::Begin {
        id: owned(id),
        model: owned(model),
    }
}
