//! What a model said, for whoever listens: the text of what is sent to the client.

use bytes::Bytes;
use understudy_messages::answer::Piece;
use understudy_messages::client::ClientFrame;
use understudy_messages::settings::Api;

use super::kept::{MOST_TEXT, as_frame};
use crate::wire::Decoder;

/// Listens to one answer. Of more than a mebibyte the rest is left out.
#[derive(Debug)]
pub(super) struct Heard {
    decoder: Decoder,
    text: String,
}

impl Heard {
    /// For frames in the words of `api`, and for pieces.
    pub(super) fn new(api: Api) -> Self {
        Self {
            decoder: Decoder::new(api),
            text: String::new(),
        }
    }

    /// Adds what is being sent.
    pub(super) fn add(&mut self, out: &ClientFrame) {
        match out {
            ClientFrame::Data(frame) => self.add_frame(frame),
            ClientFrame::Pieces(pieces) => add(&mut self.text, pieces),
            ClientFrame::Head(_)
            | ClientFrame::Seam(_)
            | ClientFrame::Note(_)
            | ClientFrame::KeepAlive
            | ClientFrame::End { .. }
            | ClientFrame::Failed(_) => {}
        }
    }

    fn add_frame(&mut self, raw: &Bytes) {
        let Some(frame) = as_frame(raw) else { return };
        let mut pieces = Vec::new();
        self.decoder.read(&frame, &mut pieces);
        add(&mut self.text, &pieces);
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// The text that these pieces say, in the first choice.
pub(super) fn text_of(pieces: &[Piece]) -> String {
    let mut text = String::new();
    add(&mut text, pieces);
    text
}

fn add(text: &mut String, pieces: &[Piece]) {
    for piece in pieces {
        if let Piece::Text { choice: 0, text: more } | Piece::Refusal { choice: 0, text: more } = piece
            && text.len() + more.len() <= MOST_TEXT
        {
            text.push_str(more);
        }
    }
}
