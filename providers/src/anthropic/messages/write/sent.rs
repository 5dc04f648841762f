//! What frames that went to the client as they came have begun.

use bytes::Bytes;
use understudy_messages::answer::Usage;

use super::super::block::BlockKind;
use super::super::event::{self, Event};
use super::super::usage::Report;
use super::{Open, OpenKind};
use crate::json::JsonStr;
use crate::sse::{Frame, SseDecoder};

/// What has to be gone on from.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) started: bool,
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    /// The block that is open.
    pub(super) open: Option<Open>,
    /// The next block's index.
    pub(super) next: u64,
    /// Tokens as reported.
    pub(super) usage: Option<Usage>,
}

impl Sent {
    /// Reads frames, oldest first.
    pub(super) fn read(frames: &[Bytes]) -> Self {
        let (mut sent, mut report, mut decoder) = (Self::default(), Report::default(), SseDecoder::default());
        for frame in frames {
            decoder.push(frame.clone());
            while let Ok(Some(frame)) = decoder.next_frame() {
                sent.frame(&frame, &mut report);
            }
        }
        sent.usage = report.usage();
        sent
    }

    fn frame(&mut self, frame: &Frame, report: &mut Report) {
        let Ok(event) = Event::read(event::data(frame)) else {
            return;
        };
        let name = frame.event.as_deref().unwrap_or_default();
        let kind = event.kind.map(JsonStr::decode);
        match kind.as_deref().map_or(name, str::as_bytes) {
            b"message_start" => {
                self.started = true;
                self.id = event.message.id.map(|id| id.decode().into_owned());
                self.model = event.message.model.map(|model| model.decode().into_owned());
                report.update(event.message.usage);
            }
            b"content_block_start" => {
                let kind = match event.block.kind() {
                    BlockKind::Text => OpenKind::Text,
                    BlockKind::Thinking => OpenKind::Thinking,
                    BlockKind::RedactedThinking | BlockKind::ToolUse | BlockKind::Hosted | BlockKind::Other => {
                        OpenKind::Other
                    }
                };
                let index = event.index;
                self.open = Some(Open { index, kind });
                self.next = index.saturating_add(1);
            }
            b"content_block_stop" => self.open = None,
            b"message_delta" => {
                report.update(event.usage);
            }
            _ => {}
        }
    }
}
