//! The wire formats behind one face: what a provider speaks, what a client speaks, and the way from one to the other.
//!
//! Each format is a module of its own. What a provider's side needs: `request::{for_model, write}`, `decode::Decoder`,
//! `answer::read`. What a client's side needs: `request::{scan, read}`, `write::Writer`, `error`. Between the two stand
//! [`Conversation`] for requests and [`Piece`] for answers.

use bytes::Bytes;
use understudy_messages::answer::Piece;
use understudy_messages::conversation::Conversation;
use understudy_messages::request::{Endpoint, RequestFacts};
use understudy_messages::settings::Api;

pub use self::fit::{Obstacle, obstacle};
pub use self::writer::{Style, Writer, error_body};
pub use crate::answer::{Answer, AnswerError, Whole};
pub use crate::openai::responses::kept::{Kept, of_body as kept};
pub use crate::request_error::RequestError;
use crate::sse::Frame;
use crate::stream::FrameRead;
use crate::{anthropic, gemini, openai};

mod fit;
mod writer;

/// Who is to be asked, and how.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The model's name at the provider.
    pub model: &'a str,
    /// Whether a stream is to end with a report of tokens though the client asked for none.
    pub ask_usage: bool,
}

/// A request in a provider's wire format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The body.
    pub body: Bytes,
    /// Members of the client's request that had no place in it, by the client's names.
    pub dropped: Vec<String>,
}

/// The request asks for what a wire format has no words for, and without which it would not be the same request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be expressed in the wire format {}", .api.as_label())]
pub struct Unsupported {
    /// What, by the client's name for it.
    pub what: String,
    /// In which format.
    pub api: Api,
}

/// Reads a request's body as far as routing depends on it.
///
/// # Errors
/// [`RequestError`], the client's fault in every case.
pub fn scan(endpoint: Endpoint, body: &Bytes) -> Result<RequestFacts, RequestError> {
    match endpoint {
        Endpoint::Chat => openai::chat::request::scan(body),
        Endpoint::Responses | Endpoint::Native => openai::responses::request::scan(body),
        Endpoint::Messages => anthropic::messages::request::scan(body),
        // a count never streams, whatever its body says
        Endpoint::CountTokens => Ok(RequestFacts {
            stream: false,
            ..anthropic::messages::request::scan(body)?
        }),
        Endpoint::Embeddings => openai::embeddings::scan(body),
    }
}

/// Takes a request's body apart, on its way into another wire format.
///
/// # Errors
/// [`RequestError`], the client's fault in every case.
pub fn read(endpoint: Endpoint, body: &[u8]) -> Result<Conversation, RequestError> {
    match endpoint {
        Endpoint::Chat => openai::chat::request::read(body),
        Endpoint::Responses | Endpoint::Native => openai::responses::request::read(body),
        Endpoint::Messages | Endpoint::CountTokens => anthropic::messages::request::read(body),
        Endpoint::Embeddings => Err(RequestError::Missing { key: "messages" }),
    }
}

/// Puts a request together in a provider's wire format.
///
/// # Errors
/// [`Unsupported`] where leaving something out would make it another request.
pub fn write(api: Api, conversation: &Conversation, target: &Target<'_>) -> Result<Written, Unsupported> {
    match api {
        Api::OpenaiChat => openai::chat::request::write(conversation, target),
        Api::OpenaiResponses => openai::responses::request::write(conversation, target),
        Api::AnthropicMessages => anthropic::messages::request::write(conversation, target),
        Api::Gemini => gemini::request::write(conversation, target),
    }
}

/// The client's own body for a provider that speaks its format: the model's name in it, what is ours out of it, the rest
/// as it came. `facts` are those of `body`.
pub fn for_model(endpoint: Endpoint, body: &Bytes, facts: &RequestFacts, target: &Target<'_>) -> Bytes {
    let model = target.model;
    match endpoint {
        Endpoint::Chat => openai::chat::request::for_model(body, facts, model, target.ask_usage),
        Endpoint::Responses | Endpoint::Native => openai::responses::request::for_model(body, facts, model),
        Endpoint::Messages | Endpoint::CountTokens => anthropic::messages::request::for_model(body, facts, model),
        Endpoint::Embeddings => openai::chat::request::for_model(body, facts, model, false),
    }
}

/// Reads an answer that came whole; with `pieces`, also what it says.
///
/// # Errors
/// [`AnswerError`] when it is no answer in this format; one that says nothing, or an error, is.
pub fn read_whole(
    endpoint: Endpoint,
    api: Api,
    body: &[u8],
    pieces: Option<&mut Vec<Piece>>,
) -> Result<Whole, AnswerError> {
    match (endpoint, api) {
        (Endpoint::Embeddings, _) => openai::embeddings::read(body),
        (Endpoint::CountTokens, _) => anthropic::messages::answer::read_count(body),
        (_, Api::OpenaiChat) => openai::chat::answer::read_whole(body, pieces),
        (_, Api::OpenaiResponses) => openai::responses::answer::read(body, pieces),
        (_, Api::AnthropicMessages) => anthropic::messages::answer::read(body, pieces),
        (_, Api::Gemini) => gemini::answer::read(body, pieces),
    }
}

/// Reads the frames of one provider's stream.
#[derive(Debug)]
pub enum Decoder {
    /// OpenAI chat completions.
    Chat(openai::chat::decode::Decoder),
    /// OpenAI Responses.
    Responses(openai::responses::decode::Decoder),
    /// Anthropic Messages.
    Messages(anthropic::messages::decode::Decoder),
    /// Gemini.
    Gemini(gemini::decode::Decoder),
}

impl Decoder {
    /// At the beginning of a stream.
    pub fn new(api: Api) -> Self {
        match api {
            Api::OpenaiChat => Self::Chat(Default::default()),
            Api::OpenaiResponses => Self::Responses(Default::default()),
            Api::AnthropicMessages => Self::Messages(Default::default()),
            Api::Gemini => Self::Gemini(Default::default()),
        }
    }

    /// Reads a frame as far as the course of the stream depends on it, and gives its bytes for a client of the same format.
    pub fn pass(&mut self, frame: &Frame) -> (FrameRead, Bytes) {
        match self {
            Self::Chat(decoder) => decoder.pass(frame),
            Self::Responses(decoder) => (decoder.read(frame, None), frame.raw.clone()),
            Self::Messages(decoder) => (decoder.read(frame, None), frame.raw.clone()),
            Self::Gemini(decoder) => (decoder.read(frame, None), frame.raw.clone()),
        }
    }

    /// Reads a frame, and adds what it says to `pieces`. A malformed one says nothing.
    pub fn read(&mut self, frame: &Frame, pieces: &mut Vec<Piece>) -> FrameRead {
        match self {
            Self::Chat(decoder) => decoder.read(frame, Some(pieces)),
            Self::Responses(decoder) => decoder.read(frame, Some(pieces)),
            Self::Messages(decoder) => decoder.read(frame, Some(pieces)),
            Self::Gemini(decoder) => decoder.read(frame, Some(pieces)),
        }
    }

    /// Whether a tool was called in a way that no piece tells: more calls than are told apart, one without a name, or one that
    /// only its own format knows. Known where pieces were asked for.
    pub fn untold(&self) -> bool {
        match self {
            Self::Chat(decoder) => decoder.untold(),
            Self::Responses(decoder) => decoder.untold(),
            Self::Messages(decoder) => decoder.untold(),
            // never passes as bytes
            Self::Gemini(_) => false,
        }
    }

    /// Whether a call was told in one way and then in another, so that whoever reads the bytes may read another call than the
    /// pieces tell of. Known where pieces were asked for.
    pub fn differs(&self) -> bool {
        match self {
            Self::Chat(decoder) => decoder.differs(),
            Self::Responses(decoder) => decoder.differs(),
            // each thing is told once
            Self::Messages(_) | Self::Gemini(_) => false,
        }
    }
}
