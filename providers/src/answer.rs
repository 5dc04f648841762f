//! A whole answer, whatever wire format it came in.

use understudy_messages::answer::{Finish, Piece, Usage};
use understudy_messages::failure::{Cut, Failure, Reason};

use crate::stream::answers_alone;
use crate::wire_error::WireError;

/// The most tool calls that are kept of one answer: several times what providers allow.
const MAX_TOOL_CALLS: usize = 1024;

/// What the course of a turn depends on, of an answer that came whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    /// Why it ended.
    pub finish: Option<Finish>,
    /// Tokens as reported.
    pub usage: Option<Usage>,
    /// The provider's error, though the status was 200.
    pub error: Option<WireError>,
    /// Whether it says anything, in any choice and medium; reasoning alone says nothing.
    pub says_something: bool,
    /// Whether it calls tools.
    pub calls_tools: bool,
    /// Whether it calls one in a way that pieces cannot tell; known where pieces were asked for.
    pub untold: bool,
}

impl Whole {
    /// Whether it is no answer at all: nothing said, and no reason why that should be so.
    pub fn is_empty(&self) -> bool {
        !self.says_something && !self.calls_tools && !self.finish.is_some_and(answers_alone)
    }
}

/// A tool call that the model asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id; empty when it gave none.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the model wrote them: meant to be JSON, perhaps cut, never repaired.
    pub arguments: String,
}

/// What an answer says. Texts and tool calls are those of the first choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// The reasoning, where it is readable.
    pub reasoning: String,
    /// The refusal, empty when there is none.
    pub refusal: String,
    /// The tool calls in the order in which they began.
    pub tool_calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: Option<Finish>,
    /// Tokens as reported.
    pub usage: Option<Usage>,
    /// The provider's error, though the status was 200.
    pub error: Option<WireError>,
    /// Whether it says anything, in any choice and medium; reasoning alone says nothing.
    pub says_something: bool,
    /// Whether something was left out because it outgrew a bound.
    pub is_cut: bool,
}

impl Answer {
    /// Whether it is no answer at all: nothing said, and no reason why that should be so.
    pub fn is_empty(&self) -> bool {
        !self.says_something && !self.finish.is_some_and(answers_alone)
    }
}

/// Why a body is not a chat answer. Offsets, never content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// There is no body.
    #[error("empty body")]
    NoBody,
    /// It ends in the middle.
    #[error("the JSON ends too early")]
    Truncated,
    /// It is something else than a JSON object.
    #[error("not JSON at byte {at}")]
    NotJson {
        /// Where reading stopped.
        at: usize,
    },
    /// It is JSON with neither choices nor an error.
    #[error("JSON, but not a chat completion")]
    NotAnAnswer,
}

impl AnswerError {
    /// The failure that it is.
    pub fn observed(self) -> Failure {
        let reason = match self {
            Self::NoBody => Reason::EmptyResponse,
            Self::Truncated => Reason::Timeout,
            Self::NotJson { .. } | Self::NotAnAnswer => Reason::Unclassified,
        };
        Failure::observed(reason, Cut::CleanEnd)
    }
}

impl Answer {
    /// Adds a piece: what it says in the first choice.
    pub fn add(&mut self, piece: &Piece) {
        self.says_something |= matches!(
            piece,
            Piece::Text { .. } | Piece::Refusal { .. } | Piece::ToolCall { .. }
        );
        match piece {
            Piece::Text { choice: 0, text } => self.text.push_str(text),
            Piece::Refusal { choice: 0, text } => self.refusal.push_str(text),
            Piece::Reasoning { choice: 0, text } => self.reasoning.push_str(text),
            Piece::ToolCall {
                choice: 0,
                index,
                id,
                name,
                arguments,
                ..
            } => self.tool_call(*index as usize, id.as_deref(), name.as_deref(), arguments),
            Piece::Finish { choice: 0, finish, .. } => self.finish = Some(*finish),
            Piece::Usage(usage) => self.usage = Some(*usage),
            _ => {}
        }
    }

    fn tool_call(&mut self, index: usize, id: Option<&str>, name: Option<&str>, arguments: &str) {
        if index >= MAX_TOOL_CALLS {
            self.is_cut = true;
            return;
        }
        if self.tool_calls.len() <= index {
            self.tool_calls.resize_with(index + 1, ToolCall::default);
        }
        if let Some(call) = self.tool_calls.get_mut(index) {
            call.id.push_str(id.unwrap_or_default());
            call.name.push_str(name.unwrap_or_default());
            call.arguments.push_str(arguments);
        }
    }
}
