//! What a handler may answer, read strictly: an answer that is not understood is no answer.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Hook, TurnMarks};
use crate::ids::Name;

/// What one handler answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum HookResult {
    /// No opinion.
    #[default]
    None,
    /// Of [`Hook::BeforeModelResolve`].
    Model(ModelChoice),
    /// Of [`Hook::AgentTurnPrepare`] and [`Hook::BeforePromptBuild`].
    Prompt(PromptContribution),
    /// Of [`Hook::BeforeAgentRun`].
    Run(RunVerdict),
    /// Of [`Hook::BeforeAgentReply`].
    Reply(ReplyClaim),
    /// Of [`Hook::BeforeToolCall`].
    Tool(ToolVerdict),
}

/// Which model is to answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelChoice {
    /// The model.
    pub model_override: Option<String>,
    /// Its provider.
    pub provider_override: Option<String>,
    /// Who may follow; an empty list makes it strict.
    pub fallbacks: Option<Vec<String>>,
}

/// What is added to the prompt. Empty text is no opinion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PromptContribution {
    /// In place of the system prompt.
    pub system_prompt: Option<String>,
    /// Before the system prompt.
    pub prepend_system_context: Option<String>,
    /// After it.
    pub append_system_context: Option<String>,
    /// Before the newest text of the user.
    pub prepend_context: Option<String>,
    /// After it.
    pub append_context: Option<String>,
    /// The only tools that may be called; anything but a list of names counts as none.
    #[serde(deserialize_with = "tools")]
    pub tools_allow: Option<Vec<String>>,
    /// What the plugin notes down when an attempt that carried this has answered.
    #[serde(skip)]
    pub marks: TurnMarks,
}

/// Whether the model may be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunVerdict {
    /// It may.
    Pass,
    /// It may not.
    Block {
        /// Why; never leaves the gateway.
        reason: String,
        /// What the client is told.
        message: Option<String>,
        /// A word for what kind of block it is.
        category: Option<String>,
        /// Whether the turn ends, or only this candidate is passed over.
        scope: BlockScope,
        /// The status that the client gets; for a candidate, what is the matter with it.
        status: Option<u16>,
    },
}

/// A run that may not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunBlock {
    /// Who blocked.
    pub plugin: Name,
    /// What the client is told; `None`: no more than that it was blocked.
    pub message: Option<String>,
    /// How far it reaches.
    pub scope: BlockScope,
    /// The status that the plugin gave.
    pub status: Option<u16>,
}

/// How far a block reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockScope {
    /// The turn ends.
    #[default]
    Turn,
    /// The next candidate is asked.
    Candidate,
}

/// Whether a handler answers the turn itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplyClaim {
    /// Whether it does.
    pub handled: bool,
    /// The answer; without one the client gets an empty answer.
    pub reply: Option<String>,
    /// Why.
    pub reason: Option<String>,
}

/// What becomes of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ToolVerdict {
    /// Arguments that replace those of the same name.
    pub params: Option<Map<String, Value>>,
    /// Whether it may not run; `false` is no opinion.
    pub block: bool,
    /// Why not: what the model is told.
    pub block_reason: Option<String>,
    /// Whether somebody has to be asked first.
    pub require_approval: Option<Value>,
}

/// The members of a verdict on a tool call, as handlers write them.
const TOOL_VERDICT: [&str; 4] = ["params", "block", "blockReason", "requireApproval"];

/// What becomes of a tool call, when everyone has been asked.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolFate {
    /// It may run, with these arguments if any were changed.
    Allowed {
        /// The arguments, where a plugin changed them.
        params: Option<Map<String, Value>>,
    },
    /// It may not.
    Blocked {
        /// Who said so.
        plugin: Name,
        /// What the model is told.
        reason: String,
        /// Whether a plugin refused on purpose, or could not judge.
        veto: bool,
    },
    /// Somebody has to be asked first.
    Approval {
        /// Who said so.
        plugin: Name,
        /// What is asked.
        request: Value,
        /// The arguments, where a plugin changed them before it was asked for.
        params: Option<Map<String, Value>>,
    },
}

/// An answer that is none of those that the hook takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the handler's answer is not one that {} takes", .hook.as_label())]
pub struct InvalidResult {
    /// The hook.
    pub hook: Hook,
}

impl HookResult {
    /// Reads what a handler of another language answered; whoever says nothing at all has no opinion, which `null` is not
    /// where a verdict is due.
    ///
    /// # Errors
    /// See [`HookResult::read`].
    pub fn answered(hook: Hook, answer: Option<Value>) -> Result<Self, InvalidResult> {
        answer.map_or(Ok(Self::None), |answer| Self::read(hook, answer))
    }

    /// Reads what a handler answered; `null` is no opinion, except where a verdict is due.
    ///
    /// # Errors
    /// [`InvalidResult`]: for a gate that is a refusal, for all others no answer.
    pub fn read(hook: Hook, answer: Value) -> Result<Self, InvalidResult> {
        let invalid = |_| InvalidResult { hook };
        match hook {
            Hook::BeforeAgentRun => run(answer).map(Self::Run).ok_or(InvalidResult { hook }),
            Hook::AgentEnd
            | Hook::ModelCallStarted
            | Hook::ModelCallEnded
            | Hook::LlmInput
            | Hook::LlmOutput
            | Hook::AfterToolCall
            | Hook::BeforeCompaction
            | Hook::AfterCompaction
            | Hook::ModelFailover
            | Hook::ModelFailureTerminal
            | Hook::GatewayStart
            | Hook::GatewayStop => Ok(Self::None),
            _ if answer.is_null() => Ok(Self::None),
            // a list would be read as the members of an object, in their order
            _ if !answer.is_object() => Err(InvalidResult { hook }),
            Hook::BeforeModelResolve => serde_json::from_value(answer).map(Self::Model).map_err(invalid),
            Hook::AgentTurnPrepare | Hook::BeforePromptBuild => {
                serde_json::from_value(answer).map(Self::Prompt).map_err(invalid)
            }
            Hook::BeforeAgentReply => serde_json::from_value(answer).map(Self::Reply).map_err(invalid),
            Hook::BeforeToolCall => tool(answer).map(Self::Tool).ok_or(InvalidResult { hook }),
        }
    }
}

#[derive(Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case", deny_unknown_fields)]
enum RunAnswer {
    Pass {},
    Block {
        reason: String,
        message: Option<String>,
        category: Option<String>,
        #[serde(default, rename = "metadata")]
        _metadata: Option<Value>,
        #[serde(default)]
        scope: BlockScope,
        status: Option<u16>,
    },
}

/// Any shape that is not exactly a verdict is none: the caller blocks.
fn run(answer: Value) -> Option<RunVerdict> {
    let answer = Some(answer).filter(Value::is_object)?;
    match serde_json::from_value(answer).ok()? {
        RunAnswer::Pass {} => Some(RunVerdict::Pass),
        RunAnswer::Block {
            status: Some(status), ..
        } if !(400..=599).contains(&status) => None,
        RunAnswer::Block {
            reason,
            message,
            category,
            scope,
            status,
            ..
        } => Some(RunVerdict::Block {
            reason,
            message,
            category,
            scope,
            status,
        }),
    }
}

/// An object that says something, but nothing that a verdict may say, is none: whoever wrote it meant to judge.
fn tool(answer: Value) -> Option<ToolVerdict> {
    let members = answer.as_object()?;
    let says = members.is_empty() || TOOL_VERDICT.iter().any(|known| members.contains_key(*known));
    serde_json::from_value(answer).ok().filter(|_| says)
}

fn tools<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(Some(serde_json::from_value(value).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_exact_verdict_lets_a_run_pass_case_15() {
        let read = |answer| HookResult::read(Hook::BeforeAgentRun, answer);
        assert_eq!(
            read(json!({ "outcome": "pass" })),
            Ok(HookResult::Run(RunVerdict::Pass))
        );
        for answer in [
            json!(null),
            json!({}),
            json!({ "outcome": "pass", "extra": 1 }),
            json!({ "outcome": "block" }),
            json!({ "outcome": "block", "reason": "r", "extra": 1 }),
            json!({ "outcome": "block", "reason": "r", "status": 200 }),
            json!(["pass"]),
        ] {
            assert!(read(answer.clone()).is_err(), "{answer}");
        }
    }

    #[test]
    fn an_answer_that_is_no_object_is_none() {
        for hook in [
            Hook::BeforeModelResolve,
            Hook::BeforePromptBuild,
            Hook::BeforeAgentReply,
            Hook::BeforeToolCall,
        ] {
            for answer in [json!([]), json!([null]), json!("block"), json!(true)] {
                let read = HookResult::read(hook, answer.clone());
                assert_eq!(read, Err(InvalidResult { hook }), "{} {answer}", hook.as_label());
            }
        }
    }

    #[test]
    fn a_verdict_on_a_tool_that_says_nothing_it_may_say_is_none() {
        let read = |answer| HookResult::read(Hook::BeforeToolCall, answer);
        for answer in [
            json!({ "deny": true }),
            json!({ "allow": false }),
            json!({ "block": 1 }),
        ] {
            assert!(read(answer.clone()).is_err(), "{answer}");
        }
        for silent in [json!({}), json!({ "block": false, "note": "looked at" })] {
            assert_eq!(read(silent), Ok(HookResult::Tool(ToolVerdict::default())));
        }
    }

    #[test]
    fn a_block_may_be_about_one_candidate() {
        let answer = json!({ "outcome": "block", "reason": "r", "scope": "candidate", "status": 429 });
        let Ok(HookResult::Run(RunVerdict::Block { scope, status, .. })) =
            HookResult::read(Hook::BeforeAgentRun, answer)
        else {
            panic!("a block");
        };
        assert_eq!((scope, status), (BlockScope::Candidate, Some(429)));
    }

    #[test]
    fn tools_that_are_no_list_of_names_are_none() {
        let allow = |tools: Value| match HookResult::read(Hook::BeforePromptBuild, json!({ "toolsAllow": tools })) {
            Ok(HookResult::Prompt(prompt)) => prompt.tools_allow,
            other => panic!("{other:?}"),
        };
        assert_eq!(allow(json!(["read"])), Some(vec!["read".to_owned()]));
        for none in [json!([]), json!(null), json!(["read", 1]), json!("read")] {
            assert_eq!(allow(none.clone()), Some(vec![]), "{none}");
        }
    }
}
