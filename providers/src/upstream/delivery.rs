//! What of a stream goes to the client, and when: as it comes, all at once when it is whole, or behind a seam where the
//! attempt goes on with somebody else's answer. What calls tools does not go, where somebody judges calls. Also what may be
//! gone on from should it break off.

use std::time::Duration;

use bytes::Bytes;
use understudy_messages::answer::{Piece, Progress, Usage};
use understudy_messages::client::{AnswerHead, ClientFrame, Seam};
use understudy_messages::clock::Instant;
use understudy_messages::provider::{Answered, AttemptError, Delivered};
use understudy_messages::settings::BrokenStream;
use understudy_messages::tools::HeldCalls;

use super::Exchange;
use super::going_on::GoingOn;
use super::heard::Heard;
use super::holding::Holding;
use super::kept::Kept;

/// The largest answer that `on_broken_stream: hold` holds: of a larger one the rest goes out as it comes. Also the most that
/// is held of an answer that calls tools: of that nothing goes.
const MOST_HELD: usize = 8 << 20;
/// What a frame takes that is held beside calls, besides its bytes.
const FRAME: usize = 64;
/// How often a client whose answer has begun hears that a call is being made: half of the shortest idle limits that proxies have.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

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
    /// What is known of the answer where calls of tools are held back.
    pub(super) holding: Option<Holding>,
    /// When a client of an answer that is held hears that somebody is at work.
    due: Option<Instant>,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(exchange: &'a Exchange<'a>, headers: Vec<(Bytes, Bytes)>, dropped: Vec<String>) -> Self {
        let (attempt, api) = (exchange.attempt, exchange.upstream.settings.api);
        let passes = exchange.passes_bytes().then_some(api);
        Self {
            headers,
            dropped,
            held: Vec::new(),
            held_bytes: 0,
            holds: attempt.turn.agent.on_broken_stream == BrokenStream::Hold,
            going_on: attempt.prompt.continuation.as_deref().map(GoingOn::new),
            kept: Kept::new(attempt.continuable),
            heard: attempt.turn.wants_text().then(|| Heard::new(api)),
            holding: attempt.gated.then(|| Holding::new(attempt, passes)),
            due: None,
            exchange,
        }
    }

    /// What of a frame's pieces is for the client.
    pub(super) fn new_in(&mut self, mut pieces: Vec<Piece>) -> Option<ClientFrame> {
        if let Some(holding) = &mut self.holding {
            holding.complete(&mut pieces);
            holding.said_anyway(&pieces);
        }
        let new = match &mut self.going_on {
            Some(going_on) => going_on.new_in(pieces),
            None => pieces,
        };
        if let Some(holding) = &mut self.holding {
            holding.said_anew(&new);
        }
        (!new.is_empty()).then_some(ClientFrame::Pieces(new))
    }

    /// Keeps a frame of the preamble.
    pub(super) fn hold(&mut self, out: Option<ClientFrame>, len: usize) {
        self.held_bytes += len;
        self.held.extend(out);
    }

    /// Keeps a frame of an answer that calls tools; `false` where it is more than is kept.
    pub(super) fn hold_back(&mut self, out: Option<ClientFrame>, len: usize) -> bool {
        self.hold(out, len + FRAME);
        self.held_bytes <= MOST_HELD && self.holding.as_ref().is_none_or(Holding::remembers)
    }

    /// Lets a client whose answer has begun hear of a call that takes long to make.
    pub(super) async fn keep_alive(&mut self) -> Result<(), AttemptError> {
        let now = self.exchange.upstream.clock.now();
        if now < *self.due.get_or_insert(now + KEEP_ALIVE) || !self.has_begun() {
            return Ok(());
        }
        self.due = Some(now + KEEP_ALIVE);
        self.exchange.send(ClientFrame::KeepAlive).await
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

    /// The answer is whole: nothing is held any longer but for calls.
    pub(super) async fn finish(&mut self, progress: Progress) -> Result<(), AttemptError> {
        let rest = self.going_on.as_mut().map(GoingOn::finish);
        if let (Some(holding), Some(rest)) = (&mut self.holding, &rest) {
            holding.said_anew(rest);
        }
        if self.is_holding() {
            self.held.extend(rest.map(ClientFrame::Pieces));
            return match self.going_on.is_some() && self.has_begun() {
                // whoever sends the calls knows of no seam
                true => self.go_on(Vec::new(), Progress::Head).await,
                false => Ok(()),
            };
        }
        self.let_go(progress).await?;
        match rest {
            Some(pieces) => self.go_on(pieces, progress).await,
            None => Ok(()),
        }
    }

    /// Whether calls are held.
    pub(super) fn is_holding(&self) -> bool {
        self.holding.as_ref().is_some_and(Holding::is_holding)
    }

    /// Whether what is held may be read in two ways: then its bytes do not go out.
    pub(super) fn differs(&self) -> bool {
        self.holding.as_ref().is_some_and(Holding::differs)
    }

    /// What the client has seen of this attempt, where somebody else may go on with it.
    pub(super) fn delivered(&mut self, usage: Option<Usage>) -> Option<Box<Delivered>> {
        let progress = self.exchange.attempt.turn.client.attempt_progress();
        let api = self.exchange.upstream.settings.api;
        let (text, sent) = std::mem::take(&mut self.kept).into_delivered(progress, api)?;
        Some(Box::new(Delivered { text, sent, usage }))
    }

    /// What was said, where somebody listens, and what is held of it.
    pub(super) fn answered(&mut self) -> Answered {
        let held = self.is_holding().then(|| Box::new(self.held_calls()));
        Answered {
            text: self.heard.take().map(Heard::into_text),
            said: self.holding.as_mut().map(Holding::take_said).unwrap_or_default(),
            held,
            ..Answered::default()
        }
    }

    fn held_calls(&mut self) -> HeldCalls {
        let (mut pieces, sent) = self.holding.as_mut().map(Holding::take_passed).unwrap_or_default();
        let mut raw = Vec::new();
        let differs = self.differs();
        for held in std::mem::take(&mut self.held) {
            match held {
                // what is judged is what goes out
                ClientFrame::Data(_) if differs => {}
                ClientFrame::Data(bytes) => raw.push(bytes),
                ClientFrame::Pieces(more) => pieces.extend(more.into_iter().filter(|piece| *piece != Piece::Ping)),
                ClientFrame::Head(_)
                | ClientFrame::Seam(_)
                | ClientFrame::Note(_)
                | ClientFrame::KeepAlive
                | ClientFrame::End { .. }
                | ClientFrame::Failed(_) => {}
            }
        }
        HeldCalls {
            head: (!self.has_begun()).then(|| self.head()),
            raw,
            pieces,
            sent,
        }
    }

    fn has_begun(&self) -> bool {
        self.exchange.attempt.turn.client.progress() > Progress::Nothing
    }

    fn head(&mut self) -> AnswerHead {
        let (headers, dropped) = (std::mem::take(&mut self.headers), std::mem::take(&mut self.dropped));
        self.exchange.head(headers, dropped)
    }

    /// The head, where there was none yet, and all that is held.
    async fn let_go(&mut self, progress: Progress) -> Result<(), AttemptError> {
        if !self.has_begun() {
            self.exchange.attempt.turn.client.note(Progress::Head);
            let head = self.head();
            self.exchange.send(ClientFrame::Head(head)).await?;
        }
        self.held_bytes = 0;
        for held in std::mem::take(&mut self.held) {
            self.forward(held, progress).await?;
        }
        Ok(())
    }

    async fn forward(&mut self, out: ClientFrame, progress: Progress) -> Result<(), AttemptError> {
        match (out, &self.going_on) {
            (ClientFrame::Pieces(pieces), Some(_)) => self.go_on(pieces, progress).await,
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
        if let (Some(holding), ClientFrame::Data(frame)) = (&mut self.holding, &out) {
            holding.goes(frame);
        }
        self.exchange.attempt.turn.client.note(progress);
        self.exchange.send(out).await
    }
}
