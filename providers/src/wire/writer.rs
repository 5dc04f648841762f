//! An answer on its last stretch, in the client's own wire format.

use std::sync::Arc;

use bytes::Bytes;
use understudy_messages::answer::Piece;
use understudy_messages::client::Seam;
use understudy_messages::ids::ModelRef;
use understudy_messages::request::Endpoint;
use understudy_messages::terminal::TurnFailure;
use understudy_messages::tools::TurnNote;
use understudy_messages::turn::TurnRequest;

use crate::openai::responses::kept::Kept;
use crate::{anthropic, native, openai};

#[cfg(test)]
mod tests;

/// The most characters of a name that are told beside an answer.
const LONGEST_NAME: usize = 128;

/// What an answer is written with.
#[derive(Clone, Debug)]
pub struct Style {
    /// What was asked.
    pub request: Arc<TurnRequest>,
    /// Who answers, as long as the provider does not say.
    pub served_by: ModelRef,
    /// When the answer began, in seconds of Unix time.
    pub created: u64,
}

/// Writes one answer in the format of one client, and knows at each point how it can end properly.
///
/// Frames of a stream come as bytes ([`Writer::pass`]) or as pieces; after a [`Seam`] always as pieces.
#[derive(Debug)]
pub enum Writer {
    /// For chat completions, and for whatever has no stream.
    Chat(openai::chat::write::Writer),
    /// For Responses.
    Responses(Box<openai::responses::write::Writer>),
    /// For Anthropic Messages.
    Messages(anthropic::messages::write::Writer),
    /// For turns of the native API.
    Native(Box<native::Writer>),
}

impl Writer {
    /// At the beginning of an answer.
    pub fn new(style: Style) -> Self {
        match style.request.endpoint {
            Endpoint::Chat | Endpoint::Embeddings => Self::Chat(openai::chat::write::Writer::new(style)),
            Endpoint::Responses => Self::Responses(Box::new(openai::responses::write::Writer::new(style))),
            Endpoint::Native => Self::Native(Box::new(native::Writer::new(style))),
            Endpoint::Messages | Endpoint::CountTokens => {
                Self::Messages(anthropic::messages::write::Writer::new(style))
            }
        }
    }

    /// A frame in the client's format, on its way as it is.
    pub fn pass(&mut self, frame: Bytes) -> Bytes {
        match self {
            Self::Chat(_) | Self::Messages(_) | Self::Native(_) => {}
            Self::Responses(writer) => writer.pass(&frame),
        }
        frame
    }

    /// Pieces as frames of a stream; empty where they say nothing in this format.
    pub fn pieces(&mut self, pieces: Vec<Piece>) -> Bytes {
        match self {
            Self::Chat(writer) => writer.pieces(pieces),
            Self::Responses(writer) => writer.pieces(pieces),
            Self::Messages(writer) => writer.pieces(pieces),
            Self::Native(writer) => writer.pieces(pieces),
        }
    }

    /// From here on the answer comes in pieces: somebody else's, or the rest of what was sent as bytes.
    pub fn seam(&mut self, seam: &Seam) -> Bytes {
        match self {
            Self::Chat(writer) => writer.seam(seam),
            Self::Responses(writer) => writer.seam(seam),
            Self::Messages(writer) => writer.seam(seam),
            Self::Native(writer) => writer.seam(seam),
        }
    }

    /// Something that is no part of the answer; empty where the format has no place for it.
    pub fn note(&mut self, note: &TurnNote) -> Bytes {
        match (self, note) {
            (Self::Native(writer), note) => writer.note(note),
            (Self::Chat(_) | Self::Responses(_) | Self::Messages(_), TurnNote::CallRemoved(removed)) => {
                let (tool, plugin) = (spoken(&removed.tool), spoken(&removed.plugin));
                format!(": understudy removed the call of {tool}, blocked by {plugin}\n\n").into()
            }
            (
                Self::Chat(_) | Self::Responses(_) | Self::Messages(_),
                TurnNote::ToolStarted { .. }
                | TurnNote::ToolEnded { .. }
                | TurnNote::Fallback(_)
                | TurnNote::ContextFitted(_),
            ) => Bytes::new(),
        }
    }

    /// A sign of life.
    pub fn keep_alive(&self) -> Bytes {
        match self {
            Self::Chat(_) | Self::Responses(_) | Self::Native(_) => Bytes::from_static(b": keep-alive\n\n"),
            Self::Messages(_) => Bytes::from_static(b"event: ping\ndata: {\"type\":\"ping\"}\n\n"),
        }
    }

    /// The proper end of a stream: the provider's own closing frame, or else the format's.
    pub fn end(&mut self, last: Option<Bytes>) -> Bytes {
        match self {
            Self::Chat(writer) => writer.end(last),
            Self::Responses(writer) => writer.end(last),
            Self::Messages(writer) => writer.end(last),
            Self::Native(writer) => writer.end(),
        }
    }

    /// The proper end of a stream that is not whole.
    pub fn fail(&mut self, failure: &TurnFailure) -> Bytes {
        match self {
            Self::Chat(_) => openai::error::frame(failure),
            Self::Responses(writer) => writer.fail(failure),
            Self::Messages(_) => anthropic::error::frame(failure),
            Self::Native(writer) => writer.fail(failure),
        }
    }

    /// The answer, once it is whole and where its format lets a later request go on from it. To be asked before the bytes that
    /// tell its end are sent.
    pub fn kept(&mut self) -> Option<Kept> {
        match self {
            Self::Chat(_) | Self::Messages(_) | Self::Native(_) => None,
            Self::Responses(writer) => writer.kept(),
        }
    }

    /// All of an answer that does not stream.
    pub fn whole(&mut self, pieces: Vec<Piece>) -> Bytes {
        match self {
            Self::Chat(writer) => writer.whole(pieces),
            Self::Responses(writer) => writer.whole(pieces),
            Self::Messages(writer) => writer.whole(pieces),
            Self::Native(writer) => writer.whole(pieces),
        }
    }
}

/// A name fit for a line of a stream, whoever made it up.
fn spoken(name: &str) -> String {
    let plain = name.chars().filter(|character| !character.is_control());
    plain.take(LONGEST_NAME).collect()
}

/// A failure as the whole body of a response; `param` names what of the request it is about.
pub fn error_body(endpoint: Endpoint, failure: &TurnFailure, param: Option<&str>) -> Vec<u8> {
    match endpoint {
        Endpoint::Chat | Endpoint::Responses | Endpoint::Native | Endpoint::Embeddings => {
            openai::error::body(failure, param)
        }
        Endpoint::Messages | Endpoint::CountTokens => anthropic::error::body(failure),
    }
}
