//! What a hook tells.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{CallEnd, Hook, HookContext, ModelCall, Parsed, Snapshot};
use crate::answer::{Finish, Usage};
use crate::failure::Reason;
use crate::ids::Name;

/// One event, shared by all handlers. Conversations are snapshots: nothing is copied for a handler in this process.
#[derive(Clone, Debug)]
pub enum HookEvent {
    /// See [`Hook::BeforeModelResolve`].
    BeforeModelResolve {
        /// The conversation.
        conversation: Arc<Snapshot>,
    },
    /// See [`Hook::AgentTurnPrepare`].
    AgentTurnPrepare {
        /// The conversation.
        conversation: Arc<Snapshot>,
    },
    /// See [`Hook::BeforePromptBuild`].
    BeforePromptBuild {
        /// The conversation.
        conversation: Arc<Snapshot>,
    },
    /// See [`Hook::BeforeAgentRun`].
    BeforeAgentRun {
        /// The conversation, with what was added to it.
        conversation: Arc<Snapshot>,
    },
    /// See [`Hook::BeforeAgentReply`].
    BeforeAgentReply {
        /// The conversation.
        conversation: Arc<Snapshot>,
    },
    /// See [`Hook::AgentEnd`].
    AgentEnd {
        /// The turn.
        run_id: Option<String>,
        /// The conversation and its answer.
        conversation: Arc<Snapshot>,
        /// Whether the client got a whole answer.
        success: bool,
        /// What went wrong.
        error: Option<String>,
        /// How long the turn took, in milliseconds.
        duration_ms: u64,
    },
    /// See [`Hook::ModelCallStarted`].
    ModelCallStarted(ModelCall),
    /// See [`Hook::ModelCallEnded`].
    ModelCallEnded {
        /// The call.
        call: ModelCall,
        /// How it ended.
        end: CallEnd,
    },
    /// See [`Hook::LlmInput`].
    LlmInput {
        /// The call.
        call: ModelCall,
        /// The conversation as this model is told it.
        conversation: Arc<Snapshot>,
    },
    /// See [`Hook::LlmOutput`].
    LlmOutput {
        /// The call.
        call: ModelCall,
        /// The conversation as this model was told it.
        conversation: Arc<Snapshot>,
        /// What it said.
        text: Arc<str>,
        /// Why it stopped, if it said.
        finish: Option<Finish>,
        /// Tokens, if they were reported.
        usage: Option<Usage>,
    },
    /// See [`Hook::BeforeToolCall`].
    BeforeToolCall {
        /// The turn.
        run_id: Option<String>,
        /// The tool.
        tool_name: Name,
        /// Its arguments.
        params: Arc<Map<String, Value>>,
        /// The call.
        tool_call_id: String,
        /// The conversation at this moment, for plugins that may see it.
        conversation: Arc<Snapshot>,
    },
    /// See [`Hook::AfterToolCall`].
    AfterToolCall {
        /// The turn.
        run_id: Option<String>,
        /// The tool.
        tool_name: Name,
        /// Its arguments.
        params: Arc<Map<String, Value>>,
        /// The call.
        tool_call_id: String,
        /// What it returned.
        result: Option<Value>,
        /// What went wrong, or why it was blocked.
        error: Option<String>,
        /// How long it took, in milliseconds.
        duration_ms: Option<u64>,
    },
    /// See [`Hook::BeforeCompaction`].
    BeforeCompaction {
        /// The conversation, whole.
        conversation: Arc<Snapshot>,
        /// Of it as it is before.
        compaction: Compaction,
    },
    /// See [`Hook::AfterCompaction`].
    AfterCompaction(Compaction),
    /// See [`Hook::ModelFailover`].
    ModelFailover(ModelFailoverEvent),
    /// See [`Hook::ModelFailureTerminal`].
    ModelFailureTerminal(ModelFailureTerminalEvent),
    /// See [`Hook::GatewayStart`].
    GatewayStart {
        /// The port of the API listener.
        port: u16,
    },
    /// See [`Hook::GatewayStop`].
    GatewayStop {
        /// Why.
        reason: &'static str,
    },
}

/// A conversation from which something is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// How many messages it has.
    pub messages: usize,
    /// How many are left out or shortened.
    pub compacted: usize,
    /// How many tokens it takes, about.
    pub tokens: u64,
}

impl Compaction {
    /// As plugins are told, where what is left out goes by the name `compacted`.
    fn facts(self, compacted: &str) -> Value {
        json!({ "messageCount": self.messages, compacted: self.compacted, "tokenCount": self.tokens })
    }
}

/// Which turn an event is about. What is not known is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunIds {
    /// The turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The agent that speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<Name>,
    /// The session, by the gateway's name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The session, by the client's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key: Option<Name>,
}

impl From<&HookContext> for RunIds {
    fn from(context: &HookContext) -> Self {
        Self {
            run_id: context.run_id.clone(),
            agent_id: context.agent_id.clone(),
            session_id: context.session_id.clone(),
            session_key: context.session_key.clone(),
        }
    }
}

/// The payload of [`Hook::ModelFailover`] (contract §4.1).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelFailoverEvent {
    /// The turn.
    #[serde(flatten)]
    pub run: RunIds,
    /// The provider of whoever is asked next; the current one where nobody else is.
    pub provider: Name,
    /// The model of whoever is asked next.
    pub model: Name,
    /// The provider that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_provider: Option<Name>,
    /// The model that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_model: Option<Name>,
    /// `prompt` before an answer began, `assistant` after.
    pub stage: &'static str,
    /// `rotate_profile`, `fallback_model` or `surface_error`.
    pub decision: &'static str,
    /// Why.
    pub failover_reason: Option<Reason>,
    /// Why the credential rests, where it does.
    pub profile_failure_reason: Option<Reason>,
    /// Whether the chain has more than one candidate.
    pub fallback_configured: bool,
    /// Whether time ran out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<bool>,
    /// The provider's status, if it sent one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Whether the one that failed may recover by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_recoverable: Option<bool>,
}

/// The payload of [`Hook::ModelFailureTerminal`] (contract §4.2).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelFailureTerminalEvent {
    /// The turn.
    #[serde(flatten)]
    pub run: RunIds,
    /// What the client was told.
    pub final_message: String,
    /// `all_models_failed` or `run_failed_before_reply`.
    pub kind: &'static str,
    /// Who was tried; absent when there was no chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<TriedModel>>,
}

/// One candidate that did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TriedModel {
    /// Its provider.
    pub provider: Name,
    /// The model.
    pub model: Name,
    /// Why.
    pub reason: Reason,
}

impl HookEvent {
    /// Which hook it is of.
    pub const fn hook(&self) -> Hook {
        match self {
            Self::BeforeModelResolve { .. } => Hook::BeforeModelResolve,
            Self::AgentTurnPrepare { .. } => Hook::AgentTurnPrepare,
            Self::BeforePromptBuild { .. } => Hook::BeforePromptBuild,
            Self::BeforeAgentRun { .. } => Hook::BeforeAgentRun,
            Self::BeforeAgentReply { .. } => Hook::BeforeAgentReply,
            Self::AgentEnd { .. } => Hook::AgentEnd,
            Self::ModelCallStarted(_) => Hook::ModelCallStarted,
            Self::ModelCallEnded { .. } => Hook::ModelCallEnded,
            Self::LlmInput { .. } => Hook::LlmInput,
            Self::LlmOutput { .. } => Hook::LlmOutput,
            Self::BeforeToolCall { .. } => Hook::BeforeToolCall,
            Self::AfterToolCall { .. } => Hook::AfterToolCall,
            Self::BeforeCompaction { .. } => Hook::BeforeCompaction,
            Self::AfterCompaction(_) => Hook::AfterCompaction,
            Self::ModelFailover(_) => Hook::ModelFailover,
            Self::ModelFailureTerminal(_) => Hook::ModelFailureTerminal,
            Self::GatewayStart { .. } => Hook::GatewayStart,
            Self::GatewayStop { .. } => Hook::GatewayStop,
        }
    }

    /// The conversation that it shows, if it shows one.
    pub const fn conversation(&self) -> Option<&Arc<Snapshot>> {
        match self {
            Self::BeforeModelResolve { conversation }
            | Self::AgentTurnPrepare { conversation }
            | Self::BeforePromptBuild { conversation }
            | Self::BeforeAgentRun { conversation }
            | Self::BeforeAgentReply { conversation }
            | Self::AgentEnd { conversation, .. }
            | Self::LlmInput { conversation, .. }
            | Self::LlmOutput { conversation, .. }
            | Self::BeforeToolCall { conversation, .. }
            | Self::BeforeCompaction { conversation, .. } => Some(conversation),
            Self::ModelCallStarted(_)
            | Self::ModelCallEnded { .. }
            | Self::AfterToolCall { .. }
            | Self::AfterCompaction(_)
            | Self::ModelFailover(_)
            | Self::ModelFailureTerminal(_)
            | Self::GatewayStart { .. }
            | Self::GatewayStop { .. } => None,
        }
    }

    /// The event for a plugin that may not see the conversation, where that is another one.
    pub fn narrow(&self) -> Option<Self> {
        let mut event = matches!(self, Self::BeforeToolCall { .. }).then(|| self.clone())?;
        if let Self::BeforeToolCall { conversation, .. } = &mut event {
            *conversation = Snapshot::new(Parsed::default);
        }
        Some(event)
    }

    /// The arguments of the tool call that it is about, if it is about one.
    pub const fn params(&self) -> Option<&Arc<Map<String, Value>>> {
        match self {
            Self::BeforeToolCall { params, .. } | Self::AfterToolCall { params, .. } => Some(params),
            Self::BeforeModelResolve { .. }
            | Self::AgentTurnPrepare { .. }
            | Self::BeforePromptBuild { .. }
            | Self::BeforeAgentRun { .. }
            | Self::BeforeAgentReply { .. }
            | Self::AgentEnd { .. }
            | Self::ModelCallStarted { .. }
            | Self::ModelCallEnded { .. }
            | Self::LlmInput { .. }
            | Self::LlmOutput { .. }
            | Self::BeforeCompaction { .. }
            | Self::AfterCompaction(_)
            | Self::ModelFailover(_)
            | Self::ModelFailureTerminal(_)
            | Self::GatewayStart { .. }
            | Self::GatewayStop { .. } => None,
        }
    }

    /// The same event with other arguments, where it is about a tool call.
    #[must_use]
    pub fn with_params(&self, new: &Arc<Map<String, Value>>) -> Self {
        let mut event = self.clone();
        if let Self::BeforeToolCall { params, .. } | Self::AfterToolCall { params, .. } = &mut event {
            *params = new.clone();
        }
        event
    }

    /// What is told apart from the conversation, as JSON; what is not known is absent.
    pub fn facts(&self) -> Map<String, Value> {
        let facts = match self {
            Self::AgentTurnPrepare { .. } => json!({ "queuedInjections": [] }),
            Self::BeforeModelResolve { .. }
            | Self::BeforePromptBuild { .. }
            | Self::BeforeAgentRun { .. }
            | Self::BeforeAgentReply { .. } => json!({}),
            Self::LlmInput { call, .. } => named(call),
            Self::AgentEnd {
                run_id,
                success,
                error,
                duration_ms,
                ..
            } => json!({ "runId": run_id, "success": success, "error": error, "durationMs": duration_ms }),
            Self::ModelCallStarted(call) => json!(call),
            Self::ModelCallEnded { call, end } => json!(Ended { call, end }),
            Self::LlmOutput {
                call,
                text,
                finish,
                usage,
                ..
            } => said(call, text, *finish, *usage),
            Self::BeforeToolCall {
                run_id,
                tool_name,
                params,
                tool_call_id,
                ..
            } => json!({ "toolName": tool_name, "params": **params, "runId": run_id, "toolCallId": tool_call_id }),
            Self::AfterToolCall {
                run_id,
                tool_name,
                params,
                tool_call_id,
                result,
                error,
                duration_ms,
            } => json!({
                "toolName": tool_name, "params": **params, "runId": run_id, "toolCallId": tool_call_id,
                "result": result, "error": error, "durationMs": duration_ms,
            }),
            Self::BeforeCompaction { compaction, .. } => compaction.facts("compactingCount"),
            Self::AfterCompaction(compaction) => compaction.facts("compactedCount"),
            Self::ModelFailover(event) => serde_json::to_value(event).unwrap_or_default(),
            Self::ModelFailureTerminal(event) => serde_json::to_value(event).unwrap_or_default(),
            Self::GatewayStart { port } => json!({ "port": port }),
            Self::GatewayStop { reason } => json!({ "reason": reason }),
        };
        let Value::Object(mut facts) = facts else {
            return Map::new();
        };
        let null_is_meant = matches!(self, Self::ModelFailover(_));
        facts.retain(|_, value| null_is_meant || !value.is_null());
        facts
    }
}

/// A call and how it ended, as one object.
#[derive(Serialize)]
struct Ended<'a> {
    #[serde(flatten)]
    call: &'a ModelCall,
    #[serde(flatten)]
    end: &'a CallEnd,
}

/// Which model is told or says something, and in which turn.
fn named(call: &ModelCall) -> Value {
    json!({ "runId": call.run_id, "sessionId": call.session_id, "provider": call.provider, "model": call.model })
}

fn said(call: &ModelCall, text: &str, finish: Option<Finish>, usage: Option<Usage>) -> Value {
    let texts: &[&str] = if text.is_empty() { &[] } else { &[text] };
    let mut said = named(call);
    said["resolvedRef"] = json!(format!("{}/{}", call.provider, call.model));
    said["contextTokenBudget"] = json!(call.context_token_budget);
    said["assistantTexts"] = json!(texts);
    said["lastAssistant"] = call.said(text, finish);
    said["usage"] = json!(usage.map(tokens));
    said
}

fn tokens(usage: Usage) -> Value {
    json!({
        "input": usage.input, "output": usage.output, "cacheRead": usage.cache_read, "cacheWrite": usage.cache_write,
        "total": usage.input + usage.output,
    })
}
