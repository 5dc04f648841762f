//! What of a stream goes to the client, and when: as it comes, all at once when it is whole, or behind a seam where the
//! attempt goes on with somebody else's answer. Also what may be gone on from should it break off.

use bytes::Bytes;
use understudy_messages::answer::{Piece, Progress, Usage};
use understudy_messages::client::{ClientFrame, Seam};
use understudy_messages::provider::{AttemptError, Delivered};
use understudy_messages::settings::BrokenStream;

use super::Exchange;
use super::going_on::GoingOn;
use super::heard::Heard;
use super::kept::Kept;

/// The largest answer that `on_broken_stream: hold` holds. Of a larger one the rest goes out as it comes.
const MOST_HELD: usize = 8 << 20;

/// The client's side of one stream.
pub(super) struct Delivery<'a> {
    exchange: &'a Exchange<'a>,
    headers: Vec<(Bytes, Bytes)>,
    dropped: Vec<String>,
    /// What came and may not go yet.
    held: Vec<ClientFrame>,
    held_bytes: usize,
    /// Whether all of the answer is held until it is whole.
    holds: bool,
    going_on: Option<GoingOn>,
    kept: Kept,
    /// What was said, where somebody listens.
    heard: Option<Heard>,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(exchange: &'a Exchange<'a>, headers: Vec<(Bytes, Bytes)>, dropped: Vec<String>) -> Self {
        let attempt = exchange.attempt;
        Self {
            headers,
            dropped,
            held: Vec::new(),
            held_bytes: 0,
            holds: attempt.turn.agent.on_broken_stream == BrokenStream::Hold,
            going_on: attempt.prompt.continuation.as_deref().map(GoingOn::new),
            kept: Kept::new(attempt.continuable),
            heard: attempt
                .turn
                .wants_text()
                .then(|| Heard::new(exchange.upstream.settings.api)),
            exchange,
        }
    }

    /// Keeps a frame of the preamble.
    pub(super) fn hold(&mut self, out: Option<ClientFrame>, len: usize) {
        self.held_bytes += len;
        self.held.extend(out);
    }

    /// Lets a frame of the answer go, `len` bytes long, and what was held before it, if it may go yet.
    pub(super) async fn release(
        &mut self,
        out: Option<ClientFrame>,
        len: usize,
        progress: Progress,
    ) -> Result<(), AttemptError> {
        self.kept.reach(progress);
        if self.holds {
            self.hold(out, len);
            if self.held_bytes <= MOST_HELD {
                return Ok(());
            }
            self.holds = false;
            return self.let_go(progress).await;
        }
        self.let_go(progress).await?;
        match out {
            Some(out) => self.forward(out, progress).await,
            None => Ok(()),
        }
    }

    /// The answer is whole: nothing is held any longer.
    pub(super) async fn finish(&mut self, progress: Progress) -> Result<(), AttemptError> {
        self.let_go(progress).await?;
        match self.going_on.as_mut().map(GoingOn::finish) {
            Some(pieces) => self.go_on(pieces, progress).await,
            None => Ok(()),
        }
    }

    /// What the client has seen of this attempt, where somebody else may go on with it.
    pub(super) fn delivered(&mut self, usage: Option<Usage>) -> Option<Box<Delivered>> {
        let progress = self.exchange.attempt.turn.client.attempt_progress();
        let api = self.exchange.upstream.settings.api;
        let (text, sent) = std::mem::take(&mut self.kept).into_delivered(progress, api)?;
        Some(Box::new(Delivered { text, sent, usage }))
    }

    /// The text that was sent, where somebody listens.
    pub(super) fn heard(&mut self) -> Option<String> {
        self.heard.take().map(Heard::into_text)
    }

    fn has_begun(&self) -> bool {
        self.exchange.attempt.turn.client.progress() > Progress::Nothing
    }

    /// The head, where there was none yet, and all that is held.
    async fn let_go(&mut self, progress: Progress) -> Result<(), AttemptError> {
        if !self.has_begun() {
            self.exchange.attempt.turn.client.note(Progress::Head);
            let (headers, dropped) = (std::mem::take(&mut self.headers), std::mem::take(&mut self.dropped));
            let head = self.exchange.head(headers, dropped);
            self.exchange.send(ClientFrame::Head(head)).await?;
        }
        for held in std::mem::take(&mut self.held) {
            self.forward(held, progress).await?;
        }
        Ok(())
    }

    async fn forward(&mut self, out: ClientFrame, progress: Progress) -> Result<(), AttemptError> {
        match (out, &mut self.going_on) {
            (ClientFrame::Pieces(pieces), Some(going_on)) => {
                let new = going_on.new_in(pieces);
                if new.is_empty() {
                    return Ok(());
                }
                self.go_on(new, progress).await
            }
            (out, _) => self.send(out, progress).await,
        }
    }

    /// Sends what is new in a continuation, behind the seam if it is the first of it.
    async fn go_on(&mut self, pieces: Vec<Piece>, progress: Progress) -> Result<(), AttemptError> {
        let attempt = self.exchange.attempt;
        let unseen = attempt.turn.client.attempt_progress() == Progress::Nothing;
        if let Some(continuation) = attempt.prompt.continuation.as_ref().filter(|_| unseen) {
            let seam = Seam {
                continued: true,
                sent: continuation.sent.clone(),
                served_by: attempt.candidate.model.clone(),
            };
            attempt.turn.client.note(progress.max(Progress::Head));
            self.exchange.send(ClientFrame::Seam(seam)).await?;
        }
        match pieces.is_empty() {
            true => Ok(()),
            false => self.send(ClientFrame::Pieces(pieces), progress).await,
        }
    }

    async fn send(&mut self, out: ClientFrame, progress: Progress) -> Result<(), AttemptError> {
        self.kept.add(&out);
        if let Some(heard) = &mut self.heard {
            heard.add(&out);
        }
        self.exchange.attempt.turn.client.note(progress);
        self.exchange.send(out).await
    }
}
