//! The one state machine of every answer that streams, whatever its wire format (design §2, step 6).
//!
//! Preamble → reasoning → content → tool calls → finished, or failed from anywhere. Wire formats say what a frame
//! carries; this says what becomes of the frame and whether the answer is whole. Time limits are the caller's.

use understudy_messages::answer::{Finish, Progress, Usage};
use understudy_messages::failure::{Cut, Failure, Reason};

use crate::wire_error::WireError;

#[cfg(test)]
mod tests;

/// How many bytes of preamble are held back. Responses repeat instructions and tools twice before they say anything.
const MAX_HELD: usize = 2 << 20;
/// How many bytes may be held where comments are among them: of these nobody misses any.
const MAX_HELD_COMMENTS: usize = 64 << 10;

/// What a frame means to the course of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A comment, a ping, a keep-alive: not content.
    Comment,
    /// A well-formed frame and what it carries.
    Delta(Delta),
    /// A frame that could not be read.
    Malformed,
    /// The word that nothing more will come.
    Done,
}

/// What a reader of a wire format says of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRead {
    /// What the stream machine wants to know.
    pub signal: Signal,
    /// The provider's error, when the signal is a delta with an error.
    pub error: Option<WireError>,
}

impl From<Signal> for FrameRead {
    fn from(signal: Signal) -> Self {
        Self { signal, error: None }
    }
}

/// What one frame carries. All false: preamble, or nothing new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    /// Some reasoning.
    pub reasoning: bool,
    /// Some text, a refusal or another medium, in any choice.
    pub content: bool,
    /// A tool call's beginning or a piece of it.
    pub tool_call: bool,
    /// Why the first choice ended, when it did.
    pub finish: Option<Finish>,
    /// The choices that it speaks of.
    pub choices: Choices,
    /// Those of them that ended.
    pub ended: Choices,
    /// Tokens as reported so far.
    pub usage: Option<Usage>,
    /// The provider says that it failed.
    pub error: bool,
    /// It is the last: the answer is whole with it.
    pub last: bool,
}

/// A set of choices by index; those from 63 on are one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choices(u64);

impl Choices {
    /// Adds a choice.
    pub fn insert(&mut self, index: u64) {
        self.0 |= 1 << index.min(63);
    }

    /// Adds all of another set.
    pub fn extend(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// The indexes in it, ascending.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        (0..64).filter(move |index| self.0 >> index & 1 == 1)
    }
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Keep it behind those already held: the turn may still move on unseen.
    Hold,
    /// Send what is held, then this frame.
    Release,
    /// Send it.
    Forward,
    /// Forget it.
    Drop,
    /// Send it; the answer is whole, whatever the socket does.
    Finished,
    /// Send neither it nor what is held; the attempt has failed.
    Failed(StreamFailure),
}

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// In the proper way of HTTP.
    Clean,
    /// The connection broke.
    Lost,
}

/// Why a stream is not a whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFailure {
    /// The provider reported an error inside the stream; its words tell the reason.
    Answered,
    /// It ended properly without an answer.
    Empty,
    /// It ended properly in the middle of an answer.
    Truncated,
    /// The connection broke before the answer was whole.
    Lost,
    /// More preamble came than is held.
    TooLarge,
    /// A frame could not be read, and the agent wants no answer that one is missing from.
    Malformed,
}

impl StreamFailure {
    /// How the exchange was cut.
    pub fn cut(self) -> Cut {
        match self {
            Self::Answered => Cut::Answered,
            Self::Empty | Self::Truncated | Self::Malformed => Cut::CleanEnd,
            Self::Lost => Cut::Lost,
            Self::TooLarge => Cut::TooLarge,
        }
    }

    /// The failure as observed; `None` where the provider's own words decide.
    pub fn observed(self) -> Option<Failure> {
        let reason = match self {
            Self::Answered => return None,
            Self::Empty => Reason::EmptyResponse,
            Self::Truncated | Self::Lost => Reason::Timeout,
            Self::TooLarge | Self::Malformed => Reason::Unclassified,
        };
        Some(Failure::observed(reason, self.cut()))
    }
}

/// What is known of a stream so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// What has been let through.
    pub progress: Progress,
    /// Why the first choice ended.
    pub finish: Option<Finish>,
    /// The latest report of tokens.
    pub usage: Option<Usage>,
    /// Frames that could not be read.
    pub malformed: u32,
    /// Whether the word that nothing more will come was seen.
    pub done: bool,
}

/// Follows one stream from its first frame to its end.
#[derive(Clone, Debug, Default)]
pub struct StreamMachine {
    summary: Summary,
    held: usize,
    choices: Choices,
    ended: Choices,
    outcome: Option<Result<(), StreamFailure>>,
    /// Whether an end with nothing before it is an answer.
    may_be_silent: bool,
}

impl StreamMachine {
    /// For a stream that goes on from a text: the model may say that there is nothing to add.
    pub fn going_on() -> Self {
        Self {
            may_be_silent: true,
            ..Self::default()
        }
    }

    /// What is known so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Judges the next frame, `len` bytes long. A stream that has finished drops
    /// what follows; one that has failed stays so.
    pub fn frame(&mut self, signal: Signal, len: usize) -> Verdict {
        match (self.outcome, signal) {
            (Some(Ok(())), _) => Verdict::Drop,
            (Some(Err(failure)), _) => Verdict::Failed(failure),
            (None, Signal::Comment) => self.comment(len),
            (None, Signal::Delta(delta)) => self.delta(&delta, len),
            (None, Signal::Malformed) => {
                self.summary.malformed = self.summary.malformed.saturating_add(1);
                Verdict::Drop
            }
            (None, Signal::Done) => self.done(),
        }
    }

    /// Whether the answer is whole already, though the provider may still say more.
    pub fn is_whole(&self) -> bool {
        let all_ended = self.choices != Choices::default() && self.choices == self.ended;
        self.outcome == Some(Ok(())) || all_ended && self.is_answer()
    }

    /// Judges the end of the body: whether the answer is whole.
    ///
    /// It is when the terminal word came, or every choice gave its finish reason: then how the socket ended is of no
    /// account. So after an idle limit ask as for a lost connection.
    ///
    /// # Errors
    /// The [`StreamFailure`] that makes it less than an answer.
    pub fn end(&mut self, end: BodyEnd) -> Result<(), StreamFailure> {
        let outcome = self.outcome.unwrap_or(match end {
            BodyEnd::Clean | BodyEnd::Lost if self.is_whole() => Ok(()),
            BodyEnd::Clean if self.summary.progress.is_answer() => Err(StreamFailure::Truncated),
            BodyEnd::Clean => Err(StreamFailure::Empty),
            BodyEnd::Lost => Err(StreamFailure::Lost),
        });
        self.outcome = Some(outcome);
        outcome
    }

    fn comment(&mut self, len: usize) -> Verdict {
        if self.summary.progress > Progress::Nothing {
            return Verdict::Forward;
        }
        if self.held + len > MAX_HELD_COMMENTS {
            return Verdict::Drop;
        }
        self.held += len;
        Verdict::Hold
    }

    fn delta(&mut self, delta: &Delta, len: usize) -> Verdict {
        self.summary.usage = delta.usage.or(self.summary.usage);
        self.summary.finish = delta.finish.or(self.summary.finish);
        self.choices.extend(delta.choices);
        self.ended.extend(delta.ended);
        if delta.error {
            return self.fail(StreamFailure::Answered);
        }
        let before = self.summary.progress;
        self.summary.progress = before.max(delta.progress());
        if delta.last {
            return self.done();
        }
        if before > Progress::Nothing {
            return Verdict::Forward;
        }
        if self.summary.progress > Progress::Nothing {
            return Verdict::Release;
        }
        if self.held + len > MAX_HELD {
            return self.fail(StreamFailure::TooLarge);
        }
        self.held += len;
        Verdict::Hold
    }

    fn done(&mut self) -> Verdict {
        self.summary.done = true;
        if !self.is_answer() {
            return self.fail(StreamFailure::Empty);
        }
        self.outcome = Some(Ok(()));
        Verdict::Finished
    }

    fn fail(&mut self, failure: StreamFailure) -> Verdict {
        self.outcome = Some(Err(failure));
        Verdict::Failed(failure)
    }

    fn is_answer(&self) -> bool {
        let silent = self.may_be_silent && self.summary.finish == Some(Finish::Stop);
        silent || self.summary.progress.is_answer() || self.summary.finish.is_some_and(answers_alone)
    }
}

impl Delta {
    /// How far the frame, let through, brings the answer.
    fn progress(&self) -> Progress {
        if self.tool_call {
            Progress::ToolCall
        } else if self.content {
            Progress::Content
        } else if self.reasoning {
            Progress::Reasoning
        } else if self.finish.is_some_and(answers_alone) {
            Progress::Head
        } else {
            Progress::Nothing
        }
    }
}

/// Whether an answer that ended so is one even with nothing in it.
pub(crate) fn answers_alone(finish: Finish) -> bool {
    match finish {
        Finish::Length | Finish::ToolCalls | Finish::ContentFilter => true,
        Finish::Stop | Finish::Other => false,
    }
}
