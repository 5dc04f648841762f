//! Calls of tools inside a turn: held back until somebody has judged them, run here or handed to the client.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::answer::Piece;
use crate::client::AnswerHead;
use crate::conversation::{Message, Part, Speaker, ToolResult};
use crate::hooks::HookContext;
use crate::ids::Name;
use crate::plugin::{Answering, CallError};

/// A tool that runs here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSpec {
    /// Its name.
    pub name: Name,
    /// Whose it is.
    pub plugin: Name,
    /// What it does.
    pub description: Option<String>,
    /// The JSON schema of its arguments, as it was written.
    pub parameters: Option<String>,
    /// Whether it may run again after a failure: nothing happens outside by it.
    pub replay_safe: bool,
}

/// The tools of a turn's own generation, for whoever works on the turn.
pub trait TurnTools: Send + Sync + fmt::Debug {
    /// All of them that the agent may use, by name.
    fn all(&self) -> &[ToolSpec];

    /// Runs one, within the time that a tool may take. **Cancel safety:** dropping the future ends the tool's work.
    ///
    /// # Errors
    /// [`CallError`]; the plugin's words in it are for the model and not for logs.
    fn run<'a>(
        &'a self,
        tool: &'a ToolSpec,
        call_id: &'a str,
        params: Map<String, Value>,
        context: Arc<HookContext>,
    ) -> Answering<'a, Result<Value, CallError>>;
}

/// A turn without tools of its own.
#[derive(Debug)]
pub struct NoTools;

impl TurnTools for NoTools {
    fn all(&self) -> &[ToolSpec] {
        &[]
    }

    fn run<'a>(
        &'a self,
        _: &'a ToolSpec,
        _: &'a str,
        _: Map<String, Value>,
        _: Arc<HookContext>,
    ) -> Answering<'a, Result<Value, CallError>> {
        Box::pin(std::future::ready(Err(CallError::Gone)))
    }
}

/// One exchange between a model and tools inside a turn: what it said, its calls included, and what came back for each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolRound {
    /// What the model said. The arguments of calls are as it wrote them.
    pub said: Vec<Part>,
    /// What it is told: for each call one result, in their order.
    pub results: Vec<ToolResult>,
}

impl ToolRound {
    /// The exchange as messages of the conversation.
    pub fn messages(&self) -> [Message; 2] {
        let said = Message {
            speaker: Speaker::Assistant,
            parts: self.said.clone(),
        };
        let returned = Message {
            speaker: Speaker::Tool,
            parts: self.results.iter().cloned().map(Part::ToolResult).collect(),
        };
        [said, returned]
    }
}

/// The end of an answer, from its first call of a tool on: whole, and not sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeldCalls {
    /// The head, where the client has none yet.
    pub head: Option<AnswerHead>,
    /// What is held as it came, in the client's own wire format; empty where the answer goes out in pieces.
    pub raw: Vec<Bytes>,
    /// The same in pieces.
    pub pieces: Vec<Piece>,
    /// What went out as bytes before it: what pieces would have to go on from.
    pub sent: Vec<Bytes>,
}

/// A call that a guard took out of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemovedCall {
    /// The tool, as the model spelt it.
    pub tool: Name,
    /// Who blocked it.
    pub plugin: Name,
    /// Whether it was refused on purpose, or could not be judged.
    pub veto: bool,
}

/// What became of a tool that ran here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOutcome {
    /// It returned.
    Ok,
    /// It failed, or there is none of its name.
    Error,
    /// It did not run.
    Blocked,
    /// It took longer than it may.
    Timeout,
}

impl ToolOutcome {
    /// Every outcome.
    pub const ALL: [Self; 4] = [Self::Ok, Self::Error, Self::Blocked, Self::Timeout];

    /// The label's spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Blocked => "blocked",
            Self::Timeout => "timeout",
        }
    }
}

/// Something about a turn that is no part of its answer, for whoever follows it.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnNote {
    /// A call was taken out of the answer.
    CallRemoved(RemovedCall),
    /// A tool is about to run here.
    ToolStarted {
        /// The call.
        call_id: String,
        /// The tool.
        tool: Name,
        /// Its arguments, as it gets them.
        params: Arc<Map<String, Value>>,
    },
    /// It has run, or was kept from running.
    ToolEnded {
        /// The call.
        call_id: String,
        /// The tool.
        tool: Name,
        /// What became of it.
        outcome: ToolOutcome,
        /// What the model is told.
        result: String,
    },
    /// Somebody else answers than the one that was chosen, or the chosen one does again (contract §5.9).
    Fallback(FallbackNotice),
    /// The conversation was longer than the window of the model that answers.
    ContextFitted(ContextFitted),
}

/// What was left out of a conversation so that it fits its model. The session still remembers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ContextFitted {
    /// Messages, calls and results that the model is not told.
    pub dropped_messages: usize,
    /// Results of tools in whose place it is told a short note.
    pub dropped_tool_results: usize,
    /// Of how many items.
    pub messages: usize,
    /// How many tokens it would have been told, about.
    pub tokens_before: u64,
    /// How many it is told, about.
    pub tokens: u64,
}

/// A change of who answers a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallbackNotice {
    /// Who was chosen.
    pub selected: String,
    /// Who answers; where it is the chosen one again, who did before.
    pub active: String,
    /// Whether the chosen one answers again.
    pub cleared: bool,
    /// The notice as people read it.
    pub text: String,
}
