//! What an answer is made of, whatever wire format it came in.

use serde::Serialize;

/// How far an attempt got towards the client. Ordered: later variants have seen more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Progress {
    /// Nothing has been sent.
    #[default]
    Nothing = 0,
    /// The response head has been sent.
    Head = 1,
    /// Reasoning has been sent: not yet an answer, the turn may still move on.
    Reasoning = 2,
    /// Text or a refusal has been sent.
    Content = 3,
    /// A tool call has been begun.
    ToolCall = 4,
}

impl Progress {
    /// Whether part of an answer, not just reasoning, has reached the client.
    pub fn is_answer(self) -> bool {
        self >= Self::Content
    }
}

/// Tokens as the provider reported them. `cache_*` are part of `input`, `reasoning` of `output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Prompt tokens.
    pub input: u64,
    /// Completion tokens.
    pub output: u64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u64,
    /// Completion tokens spent on reasoning.
    pub reasoning: u64,
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It had said everything.
    Stop,
    /// It reached the token limit.
    Length,
    /// It asked for tools.
    ToolCalls,
    /// A filter of the provider ended the answer.
    ContentFilter,
    /// Anything else that the provider may invent.
    Other,
}
