//! What is said to a provider.

use std::sync::Arc;
use std::time::Duration;

use actix::Message;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::answer::{Finish, Usage};
use crate::conversation::Part;
use crate::failure::Failure;
use crate::session::Prompt;
use crate::tools::HeldCalls;
use crate::traffic::Traffic;
use crate::turn::{Candidate, Cast, Performance, TurnContext};

/// Conduct a turn through its cast until it has ended, and write the ending.
#[derive(Debug, Message)]
#[rtype(result = "Performance")]
pub struct Perform {
    /// The turn.
    pub turn: Arc<TurnContext>,
    /// Who may answer.
    pub cast: Cast,
}

/// Ask one candidate once.
#[derive(Debug, Message)]
#[rtype(result = "Result<Answered, AttemptError>")]
pub struct Attempt {
    /// The turn.
    pub turn: Arc<TurnContext>,
    /// Who is asked.
    pub candidate: Arc<Candidate>,
    /// What it is asked.
    pub prompt: Prompt,
    /// The number of this attempt in its turn, from 1.
    pub number: u32,
    /// Whether a later candidate could still answer.
    pub successor: bool,
    /// Whether somebody else may go on with what this attempt delivers of an answer, should it break off.
    pub continuable: bool,
    /// Whether calls of tools are held back for somebody to judge, and what is said is reported.
    pub gated: bool,
    /// Which of the provider's credentials is used.
    pub credential: usize,
    /// Where sizes and times of the exchange are noted, where somebody wants to know them.
    pub traffic: Option<Arc<Traffic>>,
    /// Ends this attempt alone; a child of the turn's cancellation.
    pub cancel: CancellationToken,
}

/// The time limits of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptLimits {
    /// To the first content of a stream.
    pub first_content: Duration,
    /// Between two pieces of content.
    pub idle: Duration,
    /// For a whole non-streaming answer.
    pub whole: Duration,
}

/// A whole answer was delivered, but for its closing frame and for calls that are held back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answered {
    /// Why the model stopped, if it said.
    pub finish: Option<Finish>,
    /// Tokens, if they were reported.
    pub usage: Option<Usage>,
    /// From send to the first content; only for streams.
    pub first_content: Option<Duration>,
    /// The stream's closing frame as the provider sent it.
    pub last: Option<Bytes>,
    /// Frames that could not be read and were left out.
    pub malformed: u32,
    /// What of the answer's text was delivered by this attempt, where somebody wants to know it.
    pub text: Option<String>,
    /// All that the model said in its first choice, where the attempt was gated.
    pub said: Vec<Part>,
    /// The end of the answer, where it calls tools and the attempt was gated: sent by whoever has judged them.
    pub held: Option<Box<HeldCalls>>,
}

/// An attempt that did not end as an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttemptError {
    /// The provider failed.
    #[error("{failure}")]
    Failed {
        /// How.
        failure: Failure,
        /// Frames that could not be read and were left out.
        malformed: u32,
        /// Tokens of what it had answered by then, as far as they were reported.
        usage: Option<Box<Usage>>,
        /// What the client has seen of this attempt, where somebody else may go on with it.
        delivered: Option<Box<Delivered>>,
    },
    /// The turn was cancelled, or its client left.
    #[error("cancelled")]
    Cancelled,
}

/// The part of an answer that an attempt delivered before it failed: text and, before it, reasoning; nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// The text; empty when there was only reasoning.
    pub text: String,
    /// The frames, as they were sent to the client; empty when pieces were sent.
    pub sent: Vec<Bytes>,
    /// Tokens, as far as they were reported.
    pub usage: Option<Usage>,
}
