//! What an answer is made of, whatever wire format it came in.

use serde::Serialize;

use crate::conversation::Seal;

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

impl std::ops::Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            reasoning: self.reasoning.saturating_add(other.reasoning),
        }
    }
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

/// A piece of an answer on its way from one wire format to another. Within one format bytes go through instead.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// Who answers, as the provider says. The first piece of an answer; may come again after a seam.
    Begin {
        /// The provider's id of the answer.
        id: Option<String>,
        /// The model's name as the provider spells it.
        model: Option<String>,
    },
    /// Some text. Never empty.
    Text {
        /// In which choice.
        choice: u32,
        /// The text.
        text: String,
    },
    /// Some of a refusal. Never empty.
    Refusal {
        /// In which choice.
        choice: u32,
        /// The text.
        text: String,
    },
    /// Some readable reasoning. Never empty.
    Reasoning {
        /// In which choice.
        choice: u32,
        /// The text.
        text: String,
    },
    /// What seals the reasoning that came before it, or is all of it; ends its block.
    Sealed {
        /// In which choice.
        choice: u32,
        /// The seal.
        seal: Seal,
    },
    /// A tool call's beginning, or more of its arguments.
    ToolCall {
        /// In which choice.
        choice: u32,
        /// Which of the choice's calls, counted from 0 in the order in which they began.
        index: u32,
        /// Its id; at its beginning, where the provider gave it one.
        id: Option<String>,
        /// The tool's name; at its beginning.
        name: Option<String>,
        /// More of the arguments.
        arguments: String,
        /// What its maker wants back with it.
        seal: Option<Seal>,
    },
    /// A choice has ended.
    Finish {
        /// Which.
        choice: u32,
        /// Why.
        finish: Finish,
        /// The stop sequence that it met.
        stop_sequence: Option<String>,
    },
    /// Tokens as reported so far: the latest report stands.
    Usage(Usage),
    /// A sign of life.
    Ping,
}
