//! What has happened: facts that metrics, logs, tests and later hooks derive from.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::answer::Usage;
use crate::failure::{Cut, Reason};
use crate::ids::{GenerationId, ModelRef, Name, SessionKey, TurnId};
use crate::registry::ReloadOutcome;
use crate::tools::{ContextFitted, RemovedCall};
use crate::turn::{AttemptRecord, TurnOutcome};

/// One fact, as the event tap carries it.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A failed attempt was answered with a step.
    FailoverDecided(FailoverDecided),
    /// Another model went on with an answer that had broken off.
    StreamContinued(StreamContinued),
    /// A candidate was passed over without being asked.
    CandidateSkipped(CandidateSkipped),
    /// A candidate, or what covers it, is left alone from now on.
    WindowOpened {
        /// Who failed.
        model: ModelRef,
        /// Why.
        reason: Reason,
        /// For how long, in milliseconds.
        rest_ms: u64,
        /// Whether the provider stated that.
        stated: bool,
    },
    /// A candidate whose rest is over was asked once.
    Probed {
        /// Who was asked.
        model: ModelRef,
        /// How it went.
        result: ProbeResult,
    },
    /// A turn ended without a byte of an answer. Exactly one for each such turn, before its `TurnEnded`.
    TerminalFailure(TerminalFailure),
    /// A turn ended.
    TurnEnded(TurnEnded),
    /// A conversation was longer than the window of the model about to answer.
    ContextFitted {
        /// The turn.
        turn: TurnId,
        /// Who is about to answer.
        model: ModelRef,
        /// What was left out.
        #[serde(flatten)]
        fitted: ContextFitted,
    },
    /// A session has said more than it may remember.
    TranscriptCut {
        /// The turn that was one too many.
        turn: TurnId,
        /// Messages, calls and results that it has forgotten for good.
        forgotten: usize,
    },
    /// What is kept of a session could not be read or written.
    SessionFault {
        /// Which.
        #[serde(serialize_with = "session_key")]
        session: SessionKey,
        /// What was tried.
        op: &'static str,
        /// Why it failed.
        fault: String,
    },
    /// A generation serves from now on.
    GenerationPublished {
        /// Its number.
        generation: GenerationId,
    },
    /// A reload has put other plugins in place, or put the old ones back.
    PluginsChanged {
        /// The generation that has them.
        generation: GenerationId,
    },
    /// A reload has come to another step, or to its end.
    ReloadProgress(ReloadProgress),
}

/// How far a reload has got.
#[derive(Clone, Debug, Serialize)]
pub struct ReloadProgress {
    /// The reload.
    pub operation: String,
    /// `reloading`, `recovering` or `failed`.
    pub phase: &'static str,
    /// The plugins that it is about.
    pub plugins: Vec<Name>,
    /// Milliseconds until it gives up, where it waits for somebody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_in_ms: Option<u64>,
    /// How it ended; `None` while it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<ReloadOutcome>,
}

/// What is done about a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The same model and credential again.
    RetrySame,
    /// The same model with another credential.
    RotateCredential,
    /// The next usable candidate.
    FallbackModel,
    /// The client is told.
    SurfaceError,
}

impl Decision {
    /// Every decision.
    pub const ALL: [Self; 4] = [
        Self::RetrySame,
        Self::RotateCredential,
        Self::FallbackModel,
        Self::SurfaceError,
    ];

    /// The wire and label spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::RetrySame => "retry_same",
            Self::RotateCredential => "rotate_credential",
            Self::FallbackModel => "fallback_model",
            Self::SurfaceError => "surface_error",
        }
    }
}

/// A failed attempt and what is done about it. One per failure, whatever the decision.
#[derive(Clone, Debug, Serialize)]
pub struct FailoverDecided {
    /// The turn.
    pub turn: TurnId,
    /// Its agent.
    pub agent: Name,
    /// Who failed.
    pub from: ModelRef,
    /// Who is asked next; `None` when the client is told.
    pub to: Option<ModelRef>,
    /// Why.
    pub reason: Reason,
    /// The provider's status, if it sent one.
    pub status: Option<u16>,
    /// How the exchange ended.
    pub cut: Cut,
    /// What is done.
    pub decision: Decision,
    /// The failed candidate's place in the cast, from 0.
    pub position: usize,
    /// The length of the cast.
    pub candidates: usize,
}

/// Another model went on with an answer that had broken off. One for each seam that its client has read over.
#[derive(Clone, Debug, Serialize)]
pub struct StreamContinued {
    /// The turn.
    pub turn: TurnId,
    /// Who broke off.
    pub from: ModelRef,
    /// Who went on.
    pub to: ModelRef,
    /// How much text the client had by then, in bytes.
    pub delivered_bytes: usize,
    /// How the model was told to go on.
    pub manner: Manner,
}

/// How a model is told to go on with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Manner {
    /// The text so far stands last, as its own message.
    Prefill,
    /// It is asked to go on.
    Instruction,
}

impl Manner {
    /// The wire and label spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Instruction => "instruction",
        }
    }
}

/// A candidate that was passed over.
#[derive(Clone, Debug, Serialize)]
pub struct CandidateSkipped {
    /// The turn.
    pub turn: TurnId,
    /// Who was passed over.
    pub model: ModelRef,
    /// Why: the reason of its rest, `context_overflow` when the conversation cannot fit, `model_not_found` when it is absent.
    pub reason: Reason,
    /// Its place in the cast, from 0.
    pub position: usize,
    /// The length of the cast.
    pub candidates: usize,
    /// Whether its provider is a plugin's that does not serve.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub absent: bool,
}

/// What a probe has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeResult {
    /// The candidate is well.
    Success,
    /// It is not.
    Failure,
    /// Nothing: the turn ended before, or the request itself was at fault.
    Cancelled,
}

impl ProbeResult {
    /// Every result.
    pub const ALL: [Self; 3] = [Self::Success, Self::Failure, Self::Cancelled];

    /// The wire and label spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How a turn failed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalKind {
    /// Every candidate was asked, or rested.
    AllModelsFailed,
    /// It ended before any candidate could be asked.
    RunFailedBeforeReply,
}

impl TerminalKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::AllModelsFailed, Self::RunFailedBeforeReply];

    /// The wire and label spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::AllModelsFailed => "all_models_failed",
            Self::RunFailedBeforeReply => "run_failed_before_reply",
        }
    }
}

/// A turn that ended without a byte of an answer (contract §4.2).
#[derive(Clone, Debug, Serialize)]
pub struct TerminalFailure {
    /// The turn.
    pub turn: TurnId,
    /// Its agent.
    pub agent: Name,
    /// How it failed.
    pub kind: TerminalKind,
    /// The one cause; `None` when there were several.
    pub reason: Option<Reason>,
    /// What the client was told; a provider's own words are left out.
    pub final_message: String,
    /// Every upstream call, in order.
    pub attempts: Vec<AttemptRecord>,
}

/// A turn ended. Exactly one for each turn that was admitted, and for each that was refused at the gate.
#[derive(Clone, Debug, Serialize)]
pub struct TurnEnded {
    /// The turn.
    pub turn: TurnId,
    /// The id that its client saw in `x-request-id`.
    pub request: Name,
    /// Its session.
    #[serde(serialize_with = "session_key")]
    pub session: SessionKey,
    /// Its agent.
    pub agent: Name,
    /// The generation that served it.
    pub generation: GenerationId,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: TurnOutcome,
    /// Who answered.
    pub served_by: Option<ModelRef>,
    /// Every upstream call, in order.
    pub attempts: Vec<AttemptRecord>,
    /// Tokens of the answer.
    pub usage: Option<Usage>,
    /// Calls of tools that guards took out of the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed_calls: Vec<RemovedCall>,
    /// From the request's last byte to the end.
    #[serde(skip)]
    pub duration: Duration,
}

/// The shared form in which events travel.
pub type SharedEvent = Arc<Event>;

fn session_key<S: serde::Serializer>(key: &SessionKey, serializer: S) -> Result<S::Ok, S::Error> {
    match key.key() {
        Some(key) => serializer.serialize_some(&**key),
        None => serializer.serialize_none(),
    }
}
