//! What one scan of a request's body found; the body itself stays as it came. Offsets are into the body.

use std::ops::Range;

use crate::ids::Name;

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
    /// The conversation.
    pub messages: Messages,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Messages {
    /// How many there are, at least 1.
    pub count: usize,
    /// Bytes of text in all of them, decoded.
    pub text_bytes: usize,
    /// Who speaks first.
    pub first_role: Role,
    /// Where the first one begins.
    pub first: usize,
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
