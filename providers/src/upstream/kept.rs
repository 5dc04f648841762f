//! What was sent of an answer, as far as somebody else may have to go on from it.

use bytes::Bytes;
use understudy_messages::answer::{Piece, Progress};
use understudy_messages::client::ClientFrame;
use understudy_messages::settings::Api;

use crate::sse::{Frame, SseDecoder};
use crate::stream::{FrameRead, Signal};
use crate::wire::Decoder;

/// The most bytes of frames that are kept. A frame is many times the text in it: this is some 60,000 tokens.
const MOST_FRAMES: usize = 16 << 20;
/// The most text that is gone on from.
pub(super) const MOST_TEXT: usize = 1 << 20;

/// What was sent. Frames are kept as they are and read only when the stream breaks.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Whether text may be gone on from; reasoning always may.
    text_too: bool,
    sent: Sent,
}

#[derive(Debug, Default)]
enum Sent {
    #[default]
    Nothing,
    Frames {
        frames: Vec<Bytes>,
        bytes: usize,
    },
    Text(String),
    /// More than is kept, or what nobody can go on from.
    Lost,
}

impl Kept {
    pub(super) fn new(text_too: bool) -> Self {
        Self {
            text_too,
            sent: Sent::Nothing,
        }
    }

    /// Adds what is being sent.
    pub(super) fn add(&mut self, out: &ClientFrame) {
        let kept = match out {
            ClientFrame::Data(frame) => self.sent.add_frame(frame),
            ClientFrame::Pieces(pieces) => self.sent.add_pieces(pieces),
            ClientFrame::Head(_)
            | ClientFrame::Seam(_)
            | ClientFrame::Note(_)
            | ClientFrame::KeepAlive
            | ClientFrame::End { .. }
            | ClientFrame::Failed(_) => true,
        };
        if !kept {
            self.sent = Sent::Lost;
        }
    }

    /// The answer has got this far: nothing is kept where nobody may go on with it.
    pub(super) fn reach(&mut self, progress: Progress) {
        if progress == Progress::ToolCall || progress.is_answer() && !self.text_too {
            self.sent = Sent::Lost;
        }
    }

    /// The text and the frames, where somebody may go on from them.
    pub(super) fn into_delivered(self, progress: Progress, api: Api) -> Option<(String, Vec<Bytes>)> {
        let (text, frames) = match self.sent {
            Sent::Nothing | Sent::Lost => return None,
            Sent::Frames { frames, .. } => (text_of(&frames, api)?, frames),
            Sent::Text(text) => (text, Vec::new()),
        };
        let plain = match progress {
            Progress::Nothing | Progress::ToolCall => false,
            Progress::Head | Progress::Reasoning => text.is_empty(),
            Progress::Content => self.text_too && !text.is_empty() && text.len() <= MOST_TEXT,
        };
        plain.then_some((text, frames))
    }
}

impl Sent {
    fn add_frame(&mut self, frame: &Bytes) -> bool {
        if matches!(self, Self::Nothing) {
            let (frames, bytes) = (Vec::new(), 0);
            *self = Self::Frames { frames, bytes };
        }
        let Self::Frames { frames, bytes } = self else {
            return false;
        };
        frames.push(frame.clone());
        *bytes += frame.len();
        *bytes <= MOST_FRAMES
    }

    fn add_pieces(&mut self, pieces: &[Piece]) -> bool {
        if matches!(self, Self::Nothing) {
            *self = Self::Text(String::new());
        }
        match self {
            Self::Text(text) => add_text(text, pieces),
            Self::Nothing | Self::Frames { .. } | Self::Lost => false,
        }
    }
}

/// Adds the text in the pieces; `false` when there is more in them than text and reasoning that go on.
fn add_text(text: &mut String, pieces: &[Piece]) -> bool {
    let plain = pieces.iter().all(|piece| match piece {
        Piece::Text { choice: 0, text: more } => {
            text.push_str(more);
            true
        }
        Piece::Begin { .. } | Piece::Usage(_) | Piece::Ping | Piece::Reasoning { .. } | Piece::Sealed { .. } => true,
        Piece::Text { .. } | Piece::Refusal { .. } | Piece::ToolCall { .. } | Piece::Finish { .. } => false,
    });
    plain && text.len() <= MOST_TEXT
}

/// The text in the frames; `None` when there is anything in them but text and reasoning.
fn text_of(frames: &[Bytes], api: Api) -> Option<String> {
    let (mut decoder, mut text) = (Decoder::new(api), String::new());
    for frame in frames {
        let mut pieces = Vec::new();
        let FrameRead { signal, .. } = decoder.read(&as_frame(frame)?, &mut pieces);
        let before = text.len();
        if !add_text(&mut text, &pieces) {
            return None;
        }
        let Signal::Delta(delta) = signal else { continue };
        // content without text: a medium, or a tool that the provider runs itself
        if delta.tool_call || delta.content && text.len() == before {
            return None;
        }
    }
    Some(text)
}

pub(super) fn as_frame(raw: &Bytes) -> Option<Frame> {
    let mut frames = SseDecoder::default();
    frames.push(raw.clone());
    frames.next_frame().ok()?.or_else(|| frames.finish())
}

#[cfg(test)]
mod tests {
    use understudy_messages::answer::Finish;

    use super::*;

    fn text(text: &str) -> Piece {
        Piece::Text {
            choice: 0,
            text: text.to_owned(),
        }
    }

    fn reasoning() -> Piece {
        Piece::Reasoning {
            choice: 0,
            text: "hm".to_owned(),
        }
    }

    fn frame(delta: &str) -> Bytes {
        let frame = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
        frame.into()
    }

    fn delivered(sent: Vec<ClientFrame>, text_too: bool, progress: Progress) -> Option<(String, Vec<Bytes>)> {
        let mut kept = Kept::new(text_too);
        for out in &sent {
            kept.add(out);
        }
        kept.reach(progress);
        kept.into_delivered(progress, Api::OpenaiChat)
    }

    #[test]
    fn text_is_read_out_of_frames_and_pieces_alike() {
        let frames = [
            frame(r#"{"role":"assistant"}"#),
            frame(r#"{"content":"On"}"#),
            Bytes::from(": ping\n\n"),
            frame(r#"{"content":"ce"}"#),
        ];
        let sent = frames.iter().cloned().map(ClientFrame::Data).collect();
        let (said, kept) = delivered(sent, true, Progress::Content).expect("plain");
        assert_eq!((&*said, &kept[..]), ("Once", &frames[..]));
        let sent = vec![
            ClientFrame::Pieces(vec![reasoning(), text("On")]),
            ClientFrame::Pieces(vec![text("ce")]),
        ];
        assert_eq!(
            delivered(sent, true, Progress::Content),
            Some(("Once".to_owned(), Vec::new()))
        );
    }

    #[test]
    fn reasoning_alone_is_kept_whatever_may_be_done_with_text() {
        let sent = || vec![ClientFrame::Pieces(vec![reasoning()])];
        for text_too in [true, false] {
            assert_eq!(
                delivered(sent(), text_too, Progress::Reasoning),
                Some(Default::default())
            );
        }
        let sent = vec![ClientFrame::Pieces(vec![reasoning(), text("Once")])];
        assert_eq!(delivered(sent, false, Progress::Content), None);
    }

    #[test]
    fn what_is_more_than_text_cannot_be_gone_on_from() {
        let refusal = Piece::Refusal {
            choice: 0,
            text: "no".to_owned(),
        };
        let finish = Piece::Finish {
            choice: 0,
            finish: Finish::Stop,
            stop_sequence: None,
        };
        let other = Piece::Text {
            choice: 1,
            text: "second".to_owned(),
        };
        for piece in [refusal, finish, other] {
            let sent = vec![ClientFrame::Pieces(vec![text("Once"), piece.clone()])];
            assert_eq!(delivered(sent, true, Progress::Content), None, "{piece:?}");
        }
        for delta in [
            r#"{"refusal":"no"}"#,
            r#"{"audio":{"data":"AAAA"}}"#,
            r#"{"tool_calls":[{"index":0,"id":"t","function":{"name":"look","arguments":""}}]}"#,
        ] {
            let sent = [frame(r#"{"content":"Once"}"#), frame(delta)];
            let sent = sent.into_iter().map(ClientFrame::Data).collect();
            assert_eq!(delivered(sent, true, Progress::Content), None, "{delta}");
        }
        let sent = vec![ClientFrame::Pieces(vec![text("Once")])];
        assert_eq!(delivered(sent, true, Progress::ToolCall), None);
    }

    #[test]
    fn more_than_the_bound_is_not_kept() {
        let large = "x".repeat(MOST_TEXT / 2 + 1);
        let sent = vec![
            ClientFrame::Pieces(vec![text(&large)]),
            ClientFrame::Pieces(vec![text(&large)]),
        ];
        assert_eq!(delivered(sent, true, Progress::Content), None);
        let frame = Bytes::from(vec![b' '; MOST_FRAMES / 2 + 1]);
        let sent = vec![ClientFrame::Data(frame.clone()), ClientFrame::Data(frame)];
        assert_eq!(delivered(sent, true, Progress::Content), None);
    }
}
