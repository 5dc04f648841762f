//! How a stream is cut into frames: as events, or as the elements of an array where Gemini sends one.

use bytes::Bytes;
use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use understudy_messages::settings::Api;

use crate::gemini::array::ArrayDecoder;
use crate::sse::{Frame, FrameTooLarge, SseDecoder};

/// Cuts a body into frames, read by read.
#[derive(Debug)]
pub(super) enum Frames {
    /// Server-sent events.
    Events(SseDecoder),
    /// One JSON array.
    Array(ArrayDecoder),
}

impl Default for Frames {
    fn default() -> Self {
        Self::Events(SseDecoder::default())
    }
}

impl Frames {
    /// As the response announces them; `None` for a response that is no stream.
    pub(super) fn announced(response: &Response, api: Api) -> Option<Self> {
        let kind = response.headers().get(CONTENT_TYPE)?.as_bytes();
        let is = |name: &[u8]| {
            kind.get(..name.len())
                .is_some_and(|kind| kind.eq_ignore_ascii_case(name))
        };
        if is(b"text/event-stream") {
            Some(Self::default())
        } else if api == Api::Gemini && is(b"application/json") {
            Some(Self::Array(ArrayDecoder::default()))
        } else {
            None
        }
    }

    /// Takes in the next read. Take the frames out before the next one.
    pub(super) fn push(&mut self, read: Bytes) {
        match self {
            Self::Events(events) => events.push(read),
            Self::Array(array) => array.push(read),
        }
    }

    /// The next whole frame; `None` when more bytes are needed.
    pub(super) fn next_frame(&mut self) -> Result<Option<Frame>, FrameTooLarge> {
        match self {
            Self::Events(events) => events.next_frame(),
            Self::Array(array) => array.next_frame(),
        }
    }

    /// The last frame, when the body ended in the proper way without the frame's own end.
    pub(super) fn finish(self) -> Option<Frame> {
        match self {
            Self::Events(events) => events.finish(),
            Self::Array(_) => None,
        }
    }
}
