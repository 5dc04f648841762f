//! Who is at work while a hook fires.

use serde::Serialize;
use serde_json::Value;

use super::{HookInvocation, SessionSlots, ToolAuthority};
use crate::ids::Name;
use crate::origin::Origin;

/// What every handler is told beside the event (contract §1.2, shape A). What is not known is absent.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookContext {
    /// The turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The agent that speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<Name>,
    /// The session, by the client's name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key: Option<Name>,
    /// The session, by the gateway's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The folder that the agent works in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_dir: Option<String>,
    /// The provider of the model about to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_provider_id: Option<Name>,
    /// The model about to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<Name>,
    /// The tokens that fit into its window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_token_budget: Option<u64>,
    /// What set the turn off: always `user` here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trigger: Option<&'static str>,
    /// The tool that is about to be called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_name: Option<Name>,
    /// The call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The tools that the model may call: for handlers of `before_prompt_build` that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_authority: Option<ToolAuthority>,
    /// What a plugin may name its call by when it asks the gateway in the midst of it.
    #[serde(skip_serializing_if = "Origin::is_untold")]
    pub origin: Option<Origin>,
    /// The handler's own call, in `before_prompt_build`; on a wire the answer ends it.
    #[serde(skip)]
    pub hook_invocation: Option<HookInvocation>,
    /// What native plugins keep with the session; `None`: it ends with its turn.
    #[serde(skip)]
    pub session_slots: Option<SessionSlots>,
}

impl HookContext {
    /// As JSON; what is not known is absent.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
