//! The one bounded channel on which an answer travels to the client.
//!
//! It comes with [`RunTurn`](crate::session::RunTurn) and never passes through a mailbox. Conductor and attempt share it
//! together with a [`Progress`] record, so that an attempt that is lost leaves both behind. A full channel stops the
//! reading upstream; a client that left makes every send fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::answer::{Piece, Progress};
use crate::ids::ModelRef;
use crate::terminal::TurnFailure;
use crate::tools::TurnNote;

/// How many frames may wait for a slow client.
pub const CLIENT_FRAMES: usize = 16;

/// What a client receives, in this order: `Head body* End`, `Head body* Failed`, or
/// `Failed` alone; the body is all that is neither. The turn of a session with a key is over when the channel closes: kept, if
/// [`Keeping`] says so. Until then a [`ClientFrame::Note`] may still follow, or a `Failed` that stands in the place of the `End`.
#[derive(Debug)]
pub enum ClientFrame {
    /// The answer begins.
    Head(AnswerHead),
    /// Bytes of the answer, in the client's wire format: of a stream one whole frame.
    Data(Bytes),
    /// Pieces of the answer that came in another wire format, or after a seam: whoever reads them writes them in the client's.
    Pieces(Vec<Piece>),
    /// From here on the answer comes in pieces: somebody else goes on with it, or its rest is not as it was written.
    Seam(Seam),
    /// Something that is no part of the answer.
    Note(TurnNote),
    /// Nothing yet, but somebody is at work.
    KeepAlive,
    /// The answer is whole. A stream closes with `last`, the provider's own closing frame, or else with the format's.
    End {
        /// The closing frame as the provider sent it.
        last: Option<Bytes>,
    },
    /// The turn ended without a whole answer. Before a head it is the whole response, after it an error ending.
    Failed(TurnFailure),
}

/// Where bytes end and pieces begin: one candidate broke off and the next one goes on, or one candidate's answer is changed
/// from here on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seam {
    /// The frames that were sent as bytes, oldest first, if any were: what has to be gone on from.
    pub sent: Vec<Bytes>,
    /// Who goes on.
    pub served_by: ModelRef,
    /// Whether somebody else does: then its tokens come on top of those reported so far. If not, the tokens in `sent` are
    /// its own, and the latest report stands.
    pub continued: bool,
}

/// What the response head says.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerHead {
    /// Who answers.
    pub served_by: ModelRef,
    /// The number of attempts made so far, this one included.
    pub attempts: u32,
    /// Whether the body is an event stream.
    pub streaming: bool,
    /// The provider's headers that may pass, names in lower case.
    pub headers: Vec<(Bytes, Bytes)>,
    /// Members of the request that had no place in the provider's wire format and were left out.
    pub dropped: Vec<String>,
}

/// The client is no longer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client left")]
pub struct ClientGone;

/// The sending side: shared by the conductor and its attempts.
#[derive(Clone, Debug)]
pub struct ClientChannel {
    frames: mpsc::Sender<ClientFrame>,
    record: Arc<Record>,
}

/// What the client has seen: of the answer, and of the attempt under way.
#[derive(Debug, Default)]
struct Record {
    answer: AtomicU8,
    attempt: AtomicU8,
    kept: AtomicBool,
}

/// Whether a session has kept a turn, for those who read its frames.
#[derive(Clone, Debug)]
pub struct Keeping(Arc<Record>);

impl Keeping {
    /// Whether it has, by the time that the channel closes.
    pub fn is_kept(&self) -> bool {
        self.0.kept.load(Ordering::Acquire)
    }
}

impl ClientChannel {
    /// A channel and the receiver that the HTTP side reads.
    pub fn open() -> (Self, mpsc::Receiver<ClientFrame>) {
        let (frames, receiver) = mpsc::channel(CLIENT_FRAMES);
        let record = Arc::default();
        (Self { frames, record }, receiver)
    }

    /// Sends one frame, waiting while the client is slow. **Cancel safety:** a cancelled send sends nothing.
    ///
    /// # Errors
    /// [`ClientGone`] when nobody will read it.
    pub async fn send(&self, frame: ClientFrame) -> Result<(), ClientGone> {
        self.frames.send(frame).await.map_err(|_| ClientGone)
    }

    /// The session has kept the turn, as durably as it promises: the ending may be said.
    pub fn note_kept(&self) {
        self.record.kept.store(true, Ordering::Release);
    }

    /// Tells whether that was noted.
    pub fn keeping(&self) -> Keeping {
        Keeping(self.record.clone())
    }

    /// Notes that the client has seen this much. Never goes back.
    pub fn note(&self, progress: Progress) {
        self.record.answer.fetch_max(progress as u8, Ordering::AcqRel);
        self.record.attempt.fetch_max(progress as u8, Ordering::AcqRel);
    }

    /// What the client has seen so far, whoever sent it.
    pub fn progress(&self) -> Progress {
        read(&self.record.answer)
    }

    /// From here on another attempt sends.
    pub fn begin_attempt(&self) {
        self.record.attempt.store(Progress::Nothing as u8, Ordering::Release);
    }

    /// What the client has seen of the attempt under way, or of the last one.
    pub fn attempt_progress(&self) -> Progress {
        read(&self.record.attempt)
    }
}

fn read(progress: &AtomicU8) -> Progress {
    match progress.load(Ordering::Acquire) {
        0 => Progress::Nothing,
        1 => Progress::Head,
        2 => Progress::Reasoning,
        3 => Progress::Content,
        4.. => Progress::ToolCall,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sending_to_a_client_that_left_says_so() {
        let (channel, receiver) = ClientChannel::open();
        drop(receiver);
        assert_eq!(channel.send(ClientFrame::End { last: None }).await, Err(ClientGone));
    }

    #[tokio::test]
    async fn a_slow_client_holds_back_the_sender_after_sixteen_frames() {
        let (channel, _receiver) = ClientChannel::open();
        for _ in 0..CLIENT_FRAMES {
            channel.send(ClientFrame::Data(Bytes::new())).await.expect("fits");
        }
        let next = channel.send(ClientFrame::Data(Bytes::new()));
        assert!(futures_pending(next).await, "the seventeenth frame must wait");
    }

    #[test]
    fn progress_never_goes_back() {
        let (channel, _receiver) = ClientChannel::open();
        channel.note(Progress::Content);
        channel.note(Progress::Head);
        assert_eq!(channel.progress(), Progress::Content);
    }

    #[test]
    fn what_another_attempt_sends_is_counted_anew() {
        let (channel, _receiver) = ClientChannel::open();
        channel.note(Progress::Content);
        channel.begin_attempt();
        assert_eq!(channel.attempt_progress(), Progress::Nothing);
        channel.note(Progress::Reasoning);
        assert_eq!(channel.attempt_progress(), Progress::Reasoning);
        assert_eq!(channel.progress(), Progress::Content);
    }

    async fn futures_pending(future: impl Future) -> bool {
        tokio::select! {
            biased;
            _ = future => false,
            () = std::future::ready(()) => true,
        }
    }
}
