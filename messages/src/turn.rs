//! One turn: what was asked, who may answer, what came of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use crate::answer::Usage;
use crate::cancel::TurnCancel;
use crate::client::ClientChannel;
use crate::clock::Instant;
use crate::context::TurnEngine;
use crate::conversation::Message;
use crate::failure::{CancelCause, Cut, Reason};
use crate::hooks::{Hook, Scene, TriedModel};
use crate::ids::{ModelRef, Name, SessionKey, TurnId};
use crate::lease::TurnLease;
use crate::plugin::TurnHooks;
use crate::ports::ProviderPorts;
use crate::request::{Endpoint, RequestFacts};
use crate::settings::{AgentSettings, Api, ModelSettings, RetrySettings, Timeouts};
use crate::terminal::TurnFailure;
use crate::tools::{RemovedCall, TurnTools};

/// What the client asked, as it came. Immutable; everyone who works on the turn shares it.
#[derive(Debug)]
pub struct TurnRequest {
    /// The turn's id.
    pub id: TurnId,
    /// The id that the client sees in `x-request-id`.
    pub request_id: Name,
    /// Whose conversation it belongs to.
    pub session: SessionKey,
    /// The agent that the request names.
    pub agent: Option<Name>,
    /// What it asks for, and in which format.
    pub endpoint: Endpoint,
    /// The body's bytes.
    pub body: Bytes,
    /// What one scan of the body found.
    pub facts: RequestFacts,
    /// Request headers that may pass to a provider, names in lower case.
    pub headers: Vec<(Bytes, Bytes)>,
}

/// One model that may answer the turn.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Which model.
    pub model: ModelRef,
    /// Its provider's place in the generation's tables.
    pub provider: usize,
    /// The wire format that its provider speaks.
    pub api: Api,
    /// What is known of it.
    pub settings: ModelSettings,
}

/// Whether and where a turn may move on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackPolicy {
    /// The configured chain.
    Inherited,
    /// One model or none.
    Strict,
    /// The list that came with the request.
    List,
}

/// The chain of candidates of one turn, in the order in which they are asked. Never empty.
#[derive(Clone, Debug)]
pub struct Cast {
    /// Where the chain came from.
    pub policy: FallbackPolicy,
    /// The candidates; the first is the lead.
    pub candidates: Vec<Arc<Candidate>>,
    /// Models of the chain that nobody can be asked for: their provider is a plugin's, and that does not serve.
    pub absent: Vec<Absent>,
}

/// A model that would be a candidate if its provider were there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Which model.
    pub model: ModelRef,
    /// The place of the candidate that comes after it.
    pub before: usize,
}

/// What everyone who works on a running turn holds. Dropping the last one drops the lease.
#[derive(Debug)]
pub struct TurnContext {
    /// What was asked.
    pub request: Arc<TurnRequest>,
    /// Where the answer goes.
    pub client: ClientChannel,
    /// What ends the turn from outside.
    pub cancel: TurnCancel,
    /// When the request had been read.
    pub received: Instant,
    /// When the turn must have ended: the caller's deadline or the turn's budget.
    pub deadline: Instant,
    /// What has been done that may not be done twice.
    pub effects: SideEffects,
    /// When the same model is asked again.
    pub retry: RetrySettings,
    /// The generation that serves it.
    pub lease: TurnLease,
    /// The agent that speaks.
    pub agent: Arc<AgentSettings>,
    /// The time limits of its attempts.
    pub timeouts: Timeouts,
    /// The hooks of that generation.
    pub hooks: Arc<dyn TurnHooks>,
    /// The tools that run here, by the plugins of that generation.
    pub tools: Arc<dyn TurnTools>,
    /// The context engine of that generation; `None`: the built-in way.
    pub engine: Option<TurnEngine>,
    /// What hooks are told.
    pub scene: Scene,
    /// The provider actors of the connection's arbiter, by provider index.
    pub providers: ProviderPorts,
}

impl TurnContext {
    /// Whether calls of tools are held back until they have been judged or run.
    pub fn is_gated(&self) -> bool {
        let endpoint = self.request.endpoint;
        endpoint.is_conversation() && (endpoint == Endpoint::Native || self.hooks.fires(Hook::BeforeToolCall))
    }

    /// Whether somebody wants to know what the model says.
    pub fn wants_text(&self) -> bool {
        self.hooks.fires(Hook::LlmOutput) || self.hooks.fires(Hook::AgentEnd)
    }
}

/// The ledger of side effects: what ran in this turn and may not run twice (contract §5.8).
#[derive(Debug, Default)]
pub struct SideEffects(AtomicBool);

impl SideEffects {
    /// Something ran that is not safe to replay: no other candidate and no other credential may repeat the turn.
    pub fn note_unsafe(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether everything that ran may run again.
    pub fn replay_safe(&self) -> bool {
        !self.0.load(Ordering::Acquire)
    }
}

/// How one upstream call ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// It answered.
    Ok,
    /// It failed.
    Error {
        /// What was wrong.
        reason: Reason,
        /// The provider's status, if it sent one.
        status: Option<u16>,
        /// How the exchange ended.
        cut: Cut,
    },
    /// The turn was cancelled meanwhile.
    Cancelled,
}

/// One upstream call of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptRecord {
    /// Who was asked.
    pub model: ModelRef,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: AttemptOutcome,
    /// From send to last byte or error.
    #[serde(serialize_with = "as_millis")]
    pub duration: Duration,
}

/// How a turn ended. One per admitted turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum TurnOutcome {
    /// The client got a whole answer.
    Completed,
    /// No candidate could answer, or a stream broke.
    Failed {
        /// The cause that is named to the client.
        reason: Reason,
        /// Whether part of an answer had been delivered.
        after_content: bool,
    },
    /// Ended from outside.
    Cancelled {
        /// By whom.
        cause: CancelCause,
    },
    /// A guard refused it.
    Blocked,
}

/// What the conductor reports to the session.
#[derive(Clone, Debug)]
pub struct Performance {
    /// How it ended.
    pub outcome: TurnOutcome,
    /// Every upstream call, in order.
    pub attempts: Vec<AttemptRecord>,
    /// Who answered, and at which place of the cast.
    pub served_by: Option<(usize, ModelRef)>,
    /// Tokens of the answer.
    pub usage: Option<Usage>,
    /// Time spent waiting for providers and tools, or for a retry's time to come.
    pub upstream: Duration,
    /// What the client was told, where the turn has no whole answer.
    pub failure: Option<TurnFailure>,
    /// Who was tried in vain, asked or not, in order.
    pub tried: Vec<TriedModel>,
    /// The text of the answer, where somebody wants to know it and it is known.
    pub text: Option<String>,
    /// Calls that guards took out of the answer.
    pub removed: Vec<RemovedCall>,
    /// What this turn adds to the conversation after what the user said, where the session keeps it.
    pub said: Vec<Message>,
}

impl Performance {
    /// Of a turn in which no model was asked.
    pub const fn nothing(outcome: TurnOutcome, failure: Option<TurnFailure>) -> Self {
        Self {
            outcome,
            attempts: Vec::new(),
            served_by: None,
            usage: None,
            upstream: Duration::ZERO,
            failure,
            tried: Vec::new(),
            text: None,
            removed: Vec::new(),
            said: Vec::new(),
        }
    }
}

fn as_millis<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
