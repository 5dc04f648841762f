//! What frames that went to the client as they came said of the answer as a whole.

use bytes::Bytes;
use understudy_messages::answer::Usage;

use crate::json::{Cursor, JsonError};
use crate::openai::chat::event::{Event, walk};
use crate::sse::SseDecoder;

/// What has to be gone on from.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) id: Option<String>,
    pub(super) created: Option<u64>,
    /// The latest report of tokens.
    pub(super) usage: Option<Usage>,
}

/// Reads frames, oldest first.
pub(super) fn read(frames: &[Bytes]) -> Sent {
    let mut sent = Sent::default();
    let mut decoder = SseDecoder::default();
    for frame in frames {
        decoder.push(frame.clone());
        while let Ok(Some(frame)) = decoder.next_frame() {
            let data = frame.data.unwrap_or_default();
            if sent.id.is_none() {
                head(&data, &mut sent);
            }
            let mut usage = None;
            let walked = walk(&data, &mut |event| {
                if let Event::Usage(report) = event {
                    usage = Some(report);
                }
            });
            sent.usage = usage.filter(|_| walked.is_ok()).or(sent.usage);
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
