//! What is said to a plugin instance.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use actix::Message;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::hooks::{Hook, HookContext, HookEvent, HookResult, PromptContribution, RunBlock, SettledTools, ToolFate};
use crate::ids::Name;
use crate::lease::TurnLease;

/// Call one handler of an instance.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<HookResult, CallError>")]
pub struct CallHook {
    /// Which of the instance's handlers.
    pub handler: u32,
    /// What is told.
    pub event: Arc<HookEvent>,
    /// Who is at work.
    pub context: Arc<HookContext>,
    /// Whether the plugin may see the conversation: without it the event is the narrow one.
    pub conversation: bool,
    /// Ends the handler's work: its deadline has passed, or nobody waits any longer.
    pub cancel: CancellationToken,
}

/// Run one tool of an instance.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Value, CallError>")]
pub struct CallTool {
    /// The tool.
    pub tool: String,
    /// The call.
    pub call_id: String,
    /// Its arguments.
    pub params: Map<String, Value>,
    /// Who is at work.
    pub context: Arc<HookContext>,
    /// Ends the work.
    pub cancel: CancellationToken,
}

/// Why a call of a plugin gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The plugin's code failed. The words are the plugin's, on one line, with secrets taken out.
    #[error("failed: {0}")]
    Failed(String),
    /// It took longer than it may.
    #[error("took too long")]
    TimedOut,
    /// It answered something that the hook does not take.
    #[error("gave an answer that is none")]
    Invalid,
    /// The instance is gone or does not take calls.
    #[error("is not there")]
    Gone,
    /// Nobody waits any longer.
    #[error("was cancelled")]
    Cancelled,
}

impl CallError {
    /// A label for metrics.
    pub const fn as_label(&self) -> &'static str {
        match self {
            Self::Failed(_) => "error",
            Self::TimedOut => "timeout",
            Self::Invalid => "invalid",
            Self::Gone => "gone",
            Self::Cancelled => "cancelled",
        }
    }

    /// The plugin's words, made fit for a log: one line, at most 500 characters, no control characters.
    pub fn failed(words: &str) -> Self {
        let plain = words
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter });
        Self::Failed(plain.take(500).collect())
    }
}

/// An answer of plugins on its way; it stays on its thread.
pub type Answering<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What plugins add to a prompt, each under its name.
pub type Contributions = Vec<(Name, PromptContribution)>;

/// What may be done with the hooks of a turn's own generation by whoever works on the turn.
pub trait TurnHooks: Send + Sync + fmt::Debug {
    /// Whether anything happens at `hook`: without, no event has to be made.
    fn fires(&self, hook: Hook) -> bool;

    /// Tells all handlers, and nobody waits for them. The turn is held until they have ended.
    fn fire(&self, event: HookEvent, context: Arc<HookContext>, turn: TurnLease);

    /// Judges a call of a tool: by trusted policies, then by [`Hook::BeforeToolCall`]. Whatever goes wrong, the call is blocked.
    fn judge<'a>(&'a self, event: HookEvent, context: Arc<HookContext>) -> Answering<'a, ToolFate>;

    /// Asks for what plugins add to a prompt, by [`Hook::AgentTurnPrepare`] or [`Hook::BeforePromptBuild`]; in their order.
    /// Handlers that need to know which tools are left are not asked.
    fn contributions<'a>(&'a self, event: HookEvent, context: Arc<HookContext>) -> Answering<'a, Contributions>;

    /// Asks those handlers of [`Hook::BeforePromptBuild`] that need to know which tools are left. They add context and nothing
    /// else. `tools` is called when there is such a handler; without an answer of it none is asked.
    fn enrichments<'a>(
        &'a self,
        event: HookEvent,
        context: Arc<HookContext>,
        tools: &'a dyn Fn() -> Option<SettledTools>,
    ) -> Answering<'a, Contributions>;

    /// Asks whether a model may be asked, by [`Hook::BeforeAgentRun`].
    ///
    /// # Errors
    /// The block. Whatever goes wrong, the run is blocked.
    fn permit<'a>(&'a self, event: HookEvent, context: Arc<HookContext>) -> Answering<'a, Result<(), RunBlock>>;
}

/// Hooks of a turn that nobody listens to.
#[derive(Debug)]
pub struct NoHooks;

impl TurnHooks for NoHooks {
    fn fires(&self, _: Hook) -> bool {
        false
    }

    fn fire(&self, _: HookEvent, _: Arc<HookContext>, _: TurnLease) {}

    fn judge<'a>(&'a self, _: HookEvent, _: Arc<HookContext>) -> Answering<'a, ToolFate> {
        Box::pin(std::future::ready(ToolFate::Allowed { params: None }))
    }

    fn contributions<'a>(&'a self, _: HookEvent, _: Arc<HookContext>) -> Answering<'a, Contributions> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn enrichments<'a>(
        &'a self,
        _: HookEvent,
        _: Arc<HookContext>,
        _: &'a dyn Fn() -> Option<SettledTools>,
    ) -> Answering<'a, Contributions> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn permit<'a>(&'a self, _: HookEvent, _: Arc<HookContext>) -> Answering<'a, Result<(), RunBlock>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
