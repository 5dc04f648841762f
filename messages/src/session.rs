//! What is said to a session and its shard.

use std::sync::Arc;
use std::time::SystemTime;

use actix::Message;
use bytes::Bytes;

use crate::answer::Usage;
use crate::cancel::TurnCancel;
use crate::client::ClientChannel;
use crate::clock::Instant;
use crate::hooks::{Scene, Snapshot, TurnMarks};
use crate::ids::{ModelRef, Name, SessionKey, ShardIndex};
use crate::lease::TurnPermit;
use crate::origin::OriginToken;
use crate::request::RequestFacts;
use crate::tools::{FallbackNotice, ToolRound};
use crate::turn::TurnRequest;

/// Run one turn of a session. Accepted means: exactly one ending will come through `client`.
#[derive(Debug, Message)]
#[rtype(result = "Result<(), RunTurnError>")]
pub struct RunTurn {
    /// What was asked.
    pub request: Arc<TurnRequest>,
    /// Where the answer goes.
    pub client: ClientChannel,
    /// What ends the turn from outside.
    pub cancel: TurnCancel,
    /// The arbiter of the connection, where attempts run.
    pub home: ShardIndex,
    /// When the request had been read.
    pub received: Instant,
    /// The deadline that the caller set.
    pub deadline: Option<Instant>,
    /// The turn's place among those in flight; freed at its end.
    pub permit: TurnPermit,
    /// Whether the request names a model itself. On the native API one that names none is for its session's own.
    pub names_model: bool,
    /// The turn or call that it says it is asked from.
    pub origin: Option<OriginToken>,
}

/// A turn that was not accepted. Nothing was sent to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunTurnError {
    /// Too many turns of this session wait already.
    #[error("the session's queue is full")]
    QueueFull,
    /// The gateway remembers as many sessions as it may.
    #[error("too many sessions")]
    TooManySessions,
    /// The session's actor died before it took the turn.
    #[error("the session was lost")]
    Lost,
}

/// Why nothing can be said of a session, or nothing be kept of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionFault {
    /// What was kept of it is not what was written.
    #[error("what is kept of it is damaged: {0}")]
    Damaged(Arc<str>),
    /// The store does not read or write.
    #[error("the store of sessions fails: {0}")]
    Store(Arc<str>),
    /// It takes more than may be kept, and nothing is left that could go.
    #[error("there is no room for it (session.disk)")]
    Full,
    /// It has work.
    #[error("a turn of it is running or waits")]
    Busy,
    /// Somebody else has changed it meanwhile.
    #[error("it was changed elsewhere meanwhile")]
    Changed,
}

/// What is known of a session, and what was said in it.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Option<SessionView>, SessionFault>")]
pub struct InspectSession {
    /// Which.
    pub session: SessionKey,
}

/// The sessions of one client key that are in memory, ordered by their names.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Vec<SessionInfo>")]
pub struct ListSessions {
    /// Which client key.
    pub owner: Option<u32>,
    /// Only those behind this name.
    pub after: Option<Name>,
    /// No more than this many.
    pub limit: usize,
}

/// Choose the model that answers a session's turns from now on; `None`: the agent's own again.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Option<SessionInfo>, SessionFault>")]
pub struct PinModel {
    /// Which session.
    pub session: SessionKey,
    /// A name that a request may ask for.
    pub model: Option<Name>,
}

/// Forget a session and what was said in it.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<(), ForgetError>")]
pub struct ForgetSession {
    /// Which.
    pub session: SessionKey,
}

/// A session that was not forgotten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgetError {
    /// There is none of this name.
    #[error("no such session")]
    Unknown,
    /// One of its turns is running or waits.
    #[error("the session is at work")]
    Busy,
    /// It is still there.
    #[error("the session is still there: {0}")]
    Fault(#[from] SessionFault),
}

/// What is known of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its name, as its client chose it.
    pub id: Name,
    /// The agent that spoke last; `None` before the first turn has ended.
    pub agent: Option<Name>,
    /// The model that was chosen for it.
    pub pinned: Option<Name>,
    /// Who answered last.
    pub last_model: Option<ModelRef>,
    /// Who answers in whose place, while that is so.
    pub fallback: Option<FallbackNotice>,
    /// How many turns have been taken.
    pub turns: u64,
    /// When it was first heard of.
    pub created: SystemTime,
    /// When its last turn ended, or something was chosen for it.
    pub updated: SystemTime,
}

/// A session and its transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// What is known of it.
    pub info: SessionInfo,
    /// What was said, oldest first: items of Responses, each as JSON.
    pub transcript: Vec<Arc<str>>,
}

/// The conversation for one candidate: the client's body, untouched but for what plugins added.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The body in the client's wire format.
    pub body: Bytes,
    /// What plugins made of it; `None`: it is the body as the client sent it.
    pub edited: Option<Arc<Edited>>,
    /// What models and tools have said to each other in this turn: it stands behind the body's conversation.
    pub rounds: Arc<Vec<ToolRound>>,
    /// What an earlier candidate has delivered of the answer, where this one is to go on from there.
    pub continuation: Option<Arc<Continuation>>,
}

/// A body that plugins changed, read again.
#[derive(Debug)]
pub struct Edited {
    /// What one scan of it found.
    pub facts: RequestFacts,
    /// The conversation in it.
    pub conversation: Arc<Snapshot>,
    /// What plugins note down when it has been answered.
    pub marks: TurnMarks,
}

impl Prompt {
    /// What one scan of the body found, where `request` is what the client asked.
    pub fn facts<'a>(&'a self, request: &'a TurnRequest) -> &'a RequestFacts {
        self.edited.as_ref().map_or(&request.facts, |edited| &edited.facts)
    }

    /// A model has answered it: what plugins marked counts.
    pub fn was_answered(&self) {
        if let Some(edited) = &self.edited {
            edited.marks.commit();
        }
    }

    /// The conversation as the model is told it, where `scene` is the turn's.
    pub fn conversation<'a>(&'a self, scene: &'a Scene) -> &'a Arc<Snapshot> {
        self.edited
            .as_ref()
            .map_or_else(|| scene.conversation(), |edited| &edited.conversation)
    }
}

/// An answer that broke off, for the candidate that is to go on with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Continuation {
    /// The text that the client has seen; empty when it has seen no more than reasoning.
    pub text: String,
    /// The frames that were sent as bytes and that the client's side has not been told of; empty after the first seam.
    pub sent: Vec<Bytes>,
    /// Whether the candidate is given the text as a message of its own to go on with, or is asked to go on.
    pub prefill: bool,
    /// Whether the client has read text of an earlier round: then what is said now comes after a blank line.
    pub after_text: bool,
    /// Tokens that the earlier candidates reported: the client is told the sum.
    pub usage: Usage,
}
