//! A request taken apart, whatever wire format it came in: what crosses from one format to another goes through this.
//!
//! Same format on both sides never does: there the client's bytes go up untouched.

use crate::settings::Api;

/// A conversation and how it is to be answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// Who said what, oldest first; instructions are messages of [`Speaker::System`] or [`Speaker::Developer`].
    pub messages: Vec<Message>,
    /// The tools that may be called.
    pub tools: Vec<Tool>,
    /// Which of them must or may be called.
    pub tool_choice: Option<ToolChoice>,
    /// Whether several may be called at once; `None`: as the provider likes.
    pub parallel_tool_calls: Option<bool>,
    /// How the answer is drawn.
    pub sampling: Sampling,
    /// The shape that the text must have.
    pub output: OutputFormat,
    /// How much the model may think.
    pub reasoning: Option<ReasoningWish>,
    /// Whether the answer streams.
    pub stream: bool,
    /// An opaque name of the end user.
    pub user: Option<String>,
    /// Members that no other format has a place for, by the name they had: what a writer leaves out and says so.
    pub unread: Vec<String>,
}

/// One message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub speaker: Speaker,
    /// What is said, in order.
    pub parts: Vec<Part>,
}

/// Who speaks. The results of tools are said by [`Speaker::Tool`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Speaker {
    /// The operator.
    System,
    /// The operator, as newer models call it.
    Developer,
    /// The user.
    #[default]
    User,
    /// The model.
    Assistant,
    /// Tools.
    Tool,
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// A refusal of the model.
    Refusal(String),
    /// Something that is not text.
    Media(Media),
    /// What the model thought.
    Reasoning(Reasoning),
    /// A tool that the model called.
    ToolCall(ToolCall),
    /// What a tool returned.
    ToolResult(ToolResult),
}

/// An image, a document or a sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// What it is.
    pub kind: MediaKind,
    /// Where it is.
    pub source: MediaSource,
    /// Its file name, where one was given.
    pub name: Option<String>,
    /// OpenAI's `detail` of an image.
    pub detail: Option<String>,
}

/// Kinds of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaKind {
    /// An image.
    Image,
    /// A document, such as a PDF.
    Document,
    /// A sound.
    Audio,
}

/// Where a medium is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediaSource {
    /// In the request.
    Inline {
        /// Its media type: `image/png`.
        media_type: String,
        /// Base64.
        data: String,
    },
    /// At an address.
    Url(String),
    /// Among the files of one provider, by its id there.
    File {
        /// Whose files.
        api: Api,
        /// The id.
        id: String,
    },
}

/// Some reasoning of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasoning {
    /// What is readable of it; empty where it is sealed whole.
    pub text: String,
    /// The proof or the ciphertext by which its maker knows it again.
    pub seal: Option<Seal>,
}

/// What only its maker can read: a signature, or encrypted reasoning. It goes back to that maker and to nobody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Who made it.
    pub maker: Api,
    /// Whether the data is the reasoning itself, encrypted, and not a signature below readable text.
    pub whole: bool,
    /// As the maker wrote it.
    pub data: String,
}

impl Seal {
    /// The seal as it travels in the format of a client: as its maker wrote it where that is the client's own API, else
    /// behind the maker's name.
    pub fn in_format(&self, api: Api) -> String {
        match self.maker == api {
            true => self.data.clone(),
            false => format!("{}:{}", self.maker.as_label(), self.data),
        }
    }

    /// A seal that came back in the format of a client; one without a maker's name is that of the client's own API.
    pub fn from_format(api: Api, whole: bool, data: &str) -> Self {
        let named = data
            .split_once(':')
            .and_then(|(label, data)| Some((Api::ALL.into_iter().find(|api| api.as_label() == label)?, data)));
        let (maker, data) = named.unwrap_or((api, data));
        Self {
            maker,
            whole,
            data: data.to_owned(),
        }
    }
}

/// A call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them: meant to be a JSON object.
    pub arguments: String,
    /// What its maker wants back with it (Gemini's thought signature).
    pub seal: Option<Seal>,
}

/// What a tool returned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolResult {
    /// The id of the call.
    pub id: String,
    /// The tool's name, where it is known.
    pub name: Option<String>,
    /// What came back: text and media.
    pub parts: Vec<Part>,
    /// Whether the tool failed.
    pub is_error: bool,
}

/// A tool that the model may call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// The JSON schema of its arguments, as it was written.
    pub parameters: Option<String>,
    /// Whether arguments must keep to the schema.
    pub strict: Option<bool>,
}

/// Which tools must or may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model likes.
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// How the answer is drawn. `None`: as the provider likes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sampling {
    /// The most tokens of the answer.
    pub max_tokens: Option<u64>,
    /// Temperature.
    pub temperature: Option<f64>,
    /// Nucleus.
    pub top_p: Option<f64>,
    /// The most likely tokens only.
    pub top_k: Option<u64>,
    /// Where the answer stops.
    pub stop: Vec<String>,
    /// The seed.
    pub seed: Option<i64>,
    /// How many answers.
    pub choices: Option<u64>,
    /// Presence penalty.
    pub presence_penalty: Option<f64>,
    /// Frequency penalty.
    pub frequency_penalty: Option<f64>,
    /// Whether the probabilities of tokens are wanted.
    pub logprobs: bool,
    /// How many alternatives of each.
    pub top_logprobs: Option<u64>,
}

/// The shape that the text must have.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum OutputFormat {
    /// Any.
    #[default]
    Text,
    /// Some JSON object.
    JsonObject,
    /// JSON by a schema.
    JsonSchema {
        /// Its name.
        name: String,
        /// The schema, as it was written.
        schema: String,
        /// Whether it must be kept to.
        strict: Option<bool>,
    },
}

/// How much the model may think.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReasoningWish {
    /// `none`, `minimal`, `low`, `medium`, `high`, `xhigh`.
    pub effort: Option<String>,
    /// The most tokens of it; 0: none at all.
    pub budget: Option<u64>,
    /// Whether what is readable of it is wanted.
    pub summary: Option<String>,
}
