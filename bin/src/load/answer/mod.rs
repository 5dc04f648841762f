//! An answer as a client of its format reads it: what it says, whether it ended, and how.

use bytes::Bytes;
use serde_json::Value;
use understudy_providers::sse::{FrameTooLarge, SseDecoder};

use super::scenario::Format;

mod frames;
#[cfg(test)]
mod tests;
mod whole;

/// The longest answer that is kept.
const LONGEST: usize = 16 << 20;

/// How an answer ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// Not at all.
    #[default]
    None,
    /// As it should.
    Whole,
    /// With an error that its format knows.
    Error,
}

/// What has been heard of an answer.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) text: String,
    /// Tools that it calls.
    pub(crate) calls: u32,
    pub(crate) end: End,
    /// Something came behind the end, or cannot be read.
    pub(crate) garbled: bool,
    /// A chat answer has said why it ends; its last frame is still to come.
    finished: bool,
}

/// Reads one answer, piece by piece.
pub(crate) struct Reader {
    format: Format,
    body: Body,
    heard: Heard,
}

enum Body {
    Events(SseDecoder),
    Json(Vec<u8>),
}

impl Reader {
    pub(crate) fn new(format: Format, events: bool) -> Self {
        Self {
            format,
            body: match events {
                true => Body::Events(SseDecoder::with_limit(LONGEST)),
                false => Body::Json(Vec::new()),
            },
            heard: Heard::default(),
        }
    }

    /// Takes a piece of the body.
    pub(crate) fn take(&mut self, piece: Bytes) {
        match &mut self.body {
            Body::Json(body) if body.len() + piece.len() <= LONGEST => body.extend_from_slice(&piece),
            Body::Json(_) => self.heard.garbled = true,
            Body::Events(decoder) => {
                decoder.push(piece);
                if read_events(decoder, self.format, &mut self.heard).is_err() {
                    self.heard.garbled = true;
                }
            }
        }
    }

    /// Whether something of the answer itself has been heard.
    pub(crate) fn has_begun(&self) -> bool {
        match self.body {
            Body::Events(_) => !self.heard.text.is_empty() || self.heard.calls > 0,
            Body::Json(_) => true,
        }
    }

    /// The whole of it, once the body has ended.
    pub(crate) fn finish(mut self) -> Heard {
        if let Body::Json(body) = &self.body {
            match serde_json::from_slice(body) {
                Ok(answer) => whole::read(self.format, &answer, &mut self.heard),
                Err(_) => self.heard.garbled = true,
            }
        }
        self.heard
    }
}

fn read_events(decoder: &mut SseDecoder, format: Format, heard: &mut Heard) -> Result<(), FrameTooLarge> {
    while let Some(frame) = decoder.next_frame()? {
        let Some(data) = frame.data else {
            continue;
        };
        heard.garbled |= heard.end != End::None || heard.text.len() > LONGEST;
        if format == Format::Chat && *data == *b"[DONE]" {
            heard.end = if heard.finished { End::Whole } else { End::None };
            continue;
        }
        match serde_json::from_slice::<Value>(&data) {
            Ok(event) => frames::read(format, &event, heard),
            Err(_) => heard.garbled = true,
        }
    }
    Ok(())
}

impl Heard {
    fn say(&mut self, text: &Value) {
        self.text.push_str(text.as_str().unwrap_or_default());
    }
}
