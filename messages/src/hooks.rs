//! The hooks: what plugins may see, shape and refuse, and by which rules.
//!
//! Each hook is one row of a table: its kind, how results are merged, how long a handler may take, what its failure means,
//! and who may register it. Names and rules are those of the contract (§1.3); where it gives no deadline there is one here,
//! since no wait is without a bound.

mod call;
mod context;
mod event;
mod invocation;
mod marker;
mod policy;
mod result;
mod scene;
mod slots;
mod snapshot;
pub mod wire;

use std::time::Duration;

pub use self::call::{CallEnd, FailureKind, ModelCall};
pub use self::context::HookContext;
pub use self::event::{Compaction, HookEvent, ModelFailoverEvent, ModelFailureTerminalEvent, RunIds, TriedModel};
pub use self::invocation::{CallIsOver, HookInvocation, SettledTools, ToolAuthority};
pub use self::marker::TurnMarks;
pub use self::result::{
    BlockScope, HookResult, InvalidResult, ModelChoice, PromptContribution, ReplyClaim, RunBlock, RunVerdict, ToolFate,
    ToolVerdict,
};
pub use self::scene::{Reader, Scene};
pub use self::slots::{SessionSlots, SlotValue};
pub use self::snapshot::{Parsed, Snapshot};

/// A hook that plugins can register for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// Before the chain of models is made: may choose the model and bind the fallbacks. Once a turn.
    BeforeModelResolve,
    /// Before the prompt is built: may add context. Once a candidate.
    AgentTurnPrepare,
    /// When the prompt is built, for the model about to answer. Once a candidate.
    BeforePromptBuild,
    /// Before the model is asked: may block. Once a candidate.
    BeforeAgentRun,
    /// Before anybody is asked: may answer itself. Once a turn.
    BeforeAgentReply,
    /// The turn has ended.
    AgentEnd,
    /// A provider is about to be asked. Once an attempt.
    ModelCallStarted,
    /// A provider has answered or failed. Once an attempt.
    ModelCallEnded,
    /// What a model is about to be told. Once an attempt.
    LlmInput,
    /// What a model said. Once an attempt that answered.
    LlmOutput,
    /// Before a tool runs, or its call is handed to the client: may change or block it.
    BeforeToolCall,
    /// A tool has run, failed or was blocked.
    AfterToolCall,
    /// The conversation is longer than the window of the model about to answer: something is left out of what it is told.
    BeforeCompaction,
    /// Something has been left out.
    AfterCompaction,
    /// The turn moves on to another credential or model, or the client is told.
    ModelFailover,
    /// A turn failed before any answer.
    ModelFailureTerminal,
    /// The gateway serves.
    GatewayStart,
    /// The gateway is about to stop.
    GatewayStop,
}

/// How handlers are run and their results put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All at once; results are ignored.
    Observe,
    /// One after the other on the original event; results are merged.
    Modify,
    /// As [`Kind::Modify`]; a refusal ends it.
    Gate,
    /// One after the other until one claims the turn.
    Claim,
}

/// The row of one hook.
#[derive(Clone, Copy, Debug)]
pub struct Descriptor {
    /// The hook.
    pub hook: Hook,
    /// Its name, as plugins write it.
    pub name: &'static str,
    /// How it is run.
    pub kind: Kind,
    /// How long one handler may take, unless operator or plugin say otherwise.
    pub deadline: Duration,
    /// Whether a handler's failure refuses what it would have judged.
    pub fail_closed: bool,
    /// Whether it shows the conversation: then a plugin needs `allowConversationAccess`.
    pub shows_conversation: bool,
    /// Whether it writes into the prompt: then `allowPromptInjection: false` forbids it.
    pub writes_prompt: bool,
}

const fn row(hook: Hook, name: &'static str, kind: Kind, seconds: u64) -> Descriptor {
    Descriptor {
        hook,
        name,
        kind,
        deadline: Duration::from_secs(seconds),
        fail_closed: false,
        shows_conversation: false,
        writes_prompt: false,
    }
}

const fn closed(row: Descriptor) -> Descriptor {
    Descriptor {
        fail_closed: true,
        ..row
    }
}

const fn conversation(row: Descriptor) -> Descriptor {
    Descriptor {
        shows_conversation: true,
        ..row
    }
}

const fn injection(row: Descriptor) -> Descriptor {
    Descriptor {
        writes_prompt: true,
        ..row
    }
}

/// Every hook, in the order of the enum.
pub const HOOKS: [Descriptor; 18] = {
    use Kind::{Claim, Gate, Modify, Observe};
    [
        conversation(row(Hook::BeforeModelResolve, "before_model_resolve", Modify, 15)),
        injection(conversation(row(
            Hook::AgentTurnPrepare,
            "agent_turn_prepare",
            Modify,
            15,
        ))),
        injection(conversation(row(
            Hook::BeforePromptBuild,
            "before_prompt_build",
            Modify,
            15,
        ))),
        closed(conversation(row(Hook::BeforeAgentRun, "before_agent_run", Gate, 15))),
        conversation(row(Hook::BeforeAgentReply, "before_agent_reply", Claim, 15)),
        conversation(row(Hook::AgentEnd, "agent_end", Observe, 30)),
        row(Hook::ModelCallStarted, "model_call_started", Observe, 30),
        row(Hook::ModelCallEnded, "model_call_ended", Observe, 30),
        conversation(row(Hook::LlmInput, "llm_input", Observe, 30)),
        conversation(row(Hook::LlmOutput, "llm_output", Observe, 30)),
        closed(row(Hook::BeforeToolCall, "before_tool_call", Gate, 15)),
        row(Hook::AfterToolCall, "after_tool_call", Observe, 30),
        conversation(row(Hook::BeforeCompaction, "before_compaction", Observe, 30)),
        row(Hook::AfterCompaction, "after_compaction", Observe, 30),
        row(Hook::ModelFailover, "model_failover", Observe, 30),
        conversation(row(Hook::ModelFailureTerminal, "model_failure_terminal", Observe, 30)),
        row(Hook::GatewayStart, "gateway_start", Observe, 30),
        row(Hook::GatewayStop, "gateway_stop", Observe, 5),
    ]
};

/// Hooks of the contract that this gateway does not fire, and what to say to whoever registers one.
const NOT_HERE: [(&str, &str); 28] = {
    const LATER: &str = "comes with the agent loop; registering it has no effect yet";
    const CHANNEL: &str = "belongs to chat channels, which a gateway has none of";
    const OPTIONAL: &str = "is not fired by this gateway";
    [
        ("tool_result_persist", LATER),
        ("before_message_write", LATER),
        ("session_start", LATER),
        ("session_end", LATER),
        ("before_agent_finalize", LATER),
        ("resolve_exec_env", OPTIONAL),
        ("before_reset", OPTIONAL),
        ("subagent_spawned", OPTIONAL),
        ("subagent_progress", OPTIONAL),
        ("subagent_ended", OPTIONAL),
        ("subagent_delivery_target", CHANNEL),
        ("heartbeat_prompt_contribution", OPTIONAL),
        ("before_install", OPTIONAL),
        ("cron_reconciled", CHANNEL),
        ("cron_changed", CHANNEL),
        ("inbound_claim", CHANNEL),
        ("before_dispatch", CHANNEL),
        ("reply_dispatch", CHANNEL),
        ("message_received", CHANNEL),
        ("message_sent", CHANNEL),
        ("channel_pairing_requested", CHANNEL),
        ("message_sending", CHANNEL),
        ("reply_payload_sending", CHANNEL),
        ("skill_proposal_evaluate", OPTIONAL),
        ("skill_proposal_changed", OPTIONAL),
        ("skill_changed", OPTIONAL),
        (
            "before_agent_start",
            "was split: use before_model_resolve or before_prompt_build",
        ),
        ("model_fallback", "is called model_failover"),
    ]
};

impl Hook {
    /// Its row.
    pub const fn descriptor(self) -> &'static Descriptor {
        &HOOKS[self as usize]
    }

    /// Its name, as plugins write it; also its label in metrics.
    pub const fn as_label(self) -> &'static str {
        self.descriptor().name
    }

    /// The hook of a name.
    ///
    /// # Errors
    /// What to say to whoever registers a name that nothing fires: why, or which one is meant.
    pub fn parse(name: &str) -> Result<Self, String> {
        if let Some(row) = HOOKS.iter().find(|row| row.name == name) {
            return Ok(row.hook);
        }
        if let Some((_, why)) = NOT_HERE.iter().find(|(known, _)| *known == name) {
            return Err(format!("{name} {why}"));
        }
        let plain = |text: &str| -> String {
            let letters = text.chars().filter(char::is_ascii_alphanumeric);
            letters.map(|letter| letter.to_ascii_lowercase()).collect()
        };
        let meant = HOOKS.iter().find(|row| plain(row.name) == plain(name));
        Err(match meant {
            Some(row) => format!("there is no such hook; {} is meant", row.name),
            None => "there is no such hook".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (place, row) in HOOKS.iter().enumerate() {
            assert_eq!(row.hook as usize, place, "{}", row.name);
            assert_eq!(Hook::parse(row.name), Ok(row.hook));
        }
    }

    #[test]
    fn a_legacy_or_misspelt_name_is_told_the_right_one() {
        let why = |name: &str| Hook::parse(name).expect_err("unknown");
        assert!(why("before_agent_start").contains("before_prompt_build"));
        assert!(why("beforeToolCall").contains("before_tool_call"));
        assert!(why("session_start").contains("agent loop"));
        assert_eq!(why("nonsense"), "there is no such hook");
    }

    #[test]
    fn only_gates_fail_closed() {
        for row in HOOKS {
            assert_eq!(row.fail_closed, row.kind == Kind::Gate, "{}", row.name);
        }
    }
}
