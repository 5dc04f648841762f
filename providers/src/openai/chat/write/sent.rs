//! What frames that went to the client as they came said of the answer as a whole.

use bytes::Bytes;
use understudy_messages::answer::Piece;

use crate::json::{Cursor, JsonError};
use crate::openai::chat::decode::Decoder;
use crate::sse::SseDecoder;

/// What has to be gone on from.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) id: Option<String>,
    pub(super) created: Option<u64>,
    /// What they said.
    pub(super) pieces: Vec<Piece>,
}

/// Reads frames, oldest first.
pub(super) fn read(frames: &[Bytes]) -> Sent {
    let mut sent = Sent::default();
    let (mut events, mut decoder) = (SseDecoder::default(), Decoder::default());
    for frame in frames {
        events.push(frame.clone());
        while let Ok(Some(frame)) = events.next_frame() {
            if sent.id.is_none() {
                head(frame.data.as_deref().unwrap_or_default(), &mut sent);
            }
            decoder.read(&frame, Some(&mut sent.pieces));
        }
    }
    sent
}

fn head(json: &[u8], sent: &mut Sent) {
    let (mut id, mut created) = (None, None);
    let read = Cursor::new(json).and_then(|mut cursor| {
        cursor.object(|cursor, key| {
            match &*key.decode() {
                "id" => id = cursor.text()?.filter(|id| !id.is_empty()),
                "created" => created = Some(cursor.count()?),
                _ => cursor.skip()?,
            }
            Ok::<_, JsonError>(())
        })
    });
    if let (Ok(()), Some(id)) = (read, id) {
        sent.id = Some(id.decode().into_owned());
        sent.created = created;
    }
}
