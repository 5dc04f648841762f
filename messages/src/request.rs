//! What one scan of a request's body found; the body itself stays as it came. Offsets are into the body.

use std::ops::Range;

use crate::ids::Name;
use crate::settings::Api;

/// What a client asks for: the format that it speaks, and what it wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `/v1/chat/completions`
    #[default]
    Chat,
    /// `/v1/responses`
    Responses,
    /// `/v1/messages`
    Messages,
    /// `/v1/messages/count_tokens`
    CountTokens,
    /// `/v1/embeddings`
    Embeddings,
    /// `/v1/sessions/{id}/turns`: inside, a request in the words of Responses that no provider gets as it is.
    Native,
}

impl Endpoint {
    /// The wire format of its requests and answers; embeddings are the same in both of OpenAI's.
    pub const fn api(self) -> Api {
        match self {
            Self::Chat | Self::Embeddings => Api::OpenaiChat,
            Self::Responses | Self::Native => Api::OpenaiResponses,
            Self::Messages | Self::CountTokens => Api::AnthropicMessages,
        }
    }

    /// Whether the answer is what a model says: counts and vectors are asked for as they come.
    pub const fn is_conversation(self) -> bool {
        match self {
            Self::Chat | Self::Responses | Self::Messages | Self::Native => true,
            Self::CountTokens | Self::Embeddings => false,
        }
    }

    /// Whether a provider that speaks `api` takes the request's bytes and gives the answer's.
    pub fn is_spoken_by(self, api: Api) -> bool {
        match self {
            Self::Native => false,
            Self::Embeddings => matches!(api, Api::OpenaiChat | Api::OpenaiResponses),
            Self::Chat | Self::Responses | Self::Messages | Self::CountTokens => self.api() == api,
        }
    }
}

/// Something that a request asks for and not every wire format can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Demand {
    /// More than one choice.
    Choices,
    /// Probabilities of tokens.
    Logprobs,
    /// An answer that is heard.
    AudioOut,
    /// A sound in the conversation.
    AudioIn,
    /// A document in the conversation.
    Document,
    /// A file that one provider keeps.
    ProviderFile,
    /// A medium at an address.
    MediaUrl,
    /// A tool that the provider runs itself.
    HostedTool,
    /// A tool whose input is not JSON.
    CustomTool,
    /// JSON by a schema.
    JsonSchema,
    /// Some JSON object.
    JsonObject,
    /// An answer that is fetched later.
    Background,
    /// A conversation that the provider keeps.
    ProviderState,
    /// A prompt that the provider keeps.
    ProviderPrompt,
    /// An end at the client's own words.
    Stop,
}

impl Demand {
    /// Every demand.
    pub const ALL: [Self; 15] = [
        Self::Choices,
        Self::Logprobs,
        Self::AudioOut,
        Self::AudioIn,
        Self::Document,
        Self::ProviderFile,
        Self::MediaUrl,
        Self::HostedTool,
        Self::CustomTool,
        Self::JsonSchema,
        Self::JsonObject,
        Self::Background,
        Self::ProviderState,
        Self::ProviderPrompt,
        Self::Stop,
    ];

    /// What is asked for, for whoever asked.
    pub const fn as_words(self) -> &'static str {
        match self {
            Self::Choices => "more than one choice",
            Self::Logprobs => "log probabilities",
            Self::AudioOut => "an answer in sound",
            Self::AudioIn => "sound in the conversation",
            Self::Document => "a document in the conversation",
            Self::ProviderFile => "a file that another provider keeps",
            Self::MediaUrl => "media at an address",
            Self::HostedTool => "a tool that the provider runs",
            Self::CustomTool => "a tool whose input is not JSON",
            Self::JsonSchema => "output by a JSON schema",
            Self::JsonObject => "output as a JSON object",
            Self::Background => "an answer that is fetched later",
            Self::ProviderState => "a conversation that another provider keeps",
            Self::ProviderPrompt => "a prompt that another provider keeps",
            Self::Stop => "stop sequences",
        }
    }
}

/// A set of demands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demands(u32);

impl Demands {
    /// Adds one.
    pub fn insert(&mut self, demand: Demand) {
        self.0 |= 1 << demand as u8;
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those in it.
    pub fn iter(self) -> impl Iterator<Item = Demand> {
        Demand::ALL.into_iter().filter(move |demand| self.contains(*demand))
    }

    /// Whether it is in it.
    pub const fn contains(self, demand: Demand) -> bool {
        self.0 >> demand as u8 & 1 == 1
    }
}

/// What routing, the wire format and later the hooks decide on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFacts {
    /// The model that it names; never empty.
    pub model: Name,
    /// Where the model's JSON string stands, quotes included.
    pub model_span: Range<usize>,
    /// Whether the answer is to stream.
    pub stream: bool,
    /// Whether the stream is to end with a report of tokens.
    pub include_usage: bool,
    /// What makes a stream end so that does not: `None` for one that does, and for an answer that does not stream.
    pub usage_edit: Option<BodyEdit>,
    /// How many choices it asks for, at least 1.
    pub choices: u64,
    /// Whether it offers tools or functions.
    pub has_tools: bool,
    /// Whether it asks for structured output.
    pub has_response_format: bool,
    /// Whether it asks for log probabilities.
    pub has_logprobs: bool,
    /// Whether it sets stop sequences.
    pub has_stop: bool,
    /// The models to fall back to, where the client chose them: our own extension, never sent upstream.
    pub fallbacks: Option<Vec<String>>,
    /// Where that member stands, its comma included.
    pub fallbacks_span: Option<Range<usize>>,
    /// What not every wire format can give.
    pub demands: Demands,
    /// The conversation.
    pub messages: Messages,
    /// What only a Responses request has; `None` for any other.
    pub responses: Option<Box<ResponsesFacts>>,
}

/// What only a Responses request has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponsesFacts {
    /// The response that it goes on from.
    pub previous: Option<Name>,
    /// Where that member stands, its comma included.
    pub previous_span: Option<Range<usize>>,
    /// Whether a provider keeps its conversation.
    pub has_conversation: bool,
    /// Whether the answer is to be found again by its id.
    pub store: bool,
    /// Where the value of `input` stands; empty, behind the body's brace, where there is none.
    pub input: Range<usize>,
    /// Whether that value is a string, not a list of items.
    pub input_is_text: bool,
    /// Where items stand, commas included, that a provider of the same format cannot read: reasoning that another maker
    /// sealed, or that was never sealed.
    pub foreign: Vec<Range<usize>>,
    /// What of the input is asked now, where the rest is what a session remembers. No scan can tell: the session does.
    pub asked: Option<Asked>,
}

/// The end of an input that its client has written; a session remembers what stands before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// How many items it is.
    pub items: usize,
    /// Bytes of text in them, decoded.
    pub text_bytes: usize,
}

impl RequestFacts {
    /// Bytes of text that whoever answers has to be told: what a session remembers can be left out.
    pub fn own_text(&self) -> usize {
        let asked = self.responses.as_ref().and_then(|facts| facts.asked);
        asked.map_or(self.messages.text_bytes, |asked| asked.text_bytes)
    }
}

/// A change to the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyEdit {
    /// What is replaced; empty to insert.
    pub span: Range<usize>,
    /// What stands there afterwards.
    pub text: &'static str,
}

/// What a request's messages are, and where text can be put among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// How many there are; at least 1 where the request is a conversation.
    pub count: usize,
    /// Bytes of text in all of them, decoded.
    pub text_bytes: usize,
    /// Who speaks first.
    pub first_role: Role,
    /// Where the first one begins.
    pub first: usize,
    /// Where the last one ends.
    pub end: usize,
    /// The end of the last of the system messages that lead, if one leads.
    pub leading_system_end: Option<usize>,
    /// The content of the newest user message, if it has any.
    pub newest_user_content: Option<Range<usize>>,
}

/// Who speaks in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The operator.
    System,
    /// The operator, as newer models call it.
    Developer,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
    /// Someone else, or no one.
    #[default]
    Other,
}
