//! A streaming answer: frame by frame from the provider to the client, as bytes where both speak the same format, else in
//! pieces.
//!
//! The preamble is held until the first reasoning or content, so that an error before it can still move the turn on.
//! Comments and pings are not content: they end no wait and reset no clock.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Response;
use understudy_messages::answer::Progress;
use understudy_messages::client::ClientFrame;
use understudy_messages::clock::Instant;
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::provider::{Answered, AttemptError};
use understudy_messages::settings::MalformedFrame;

use super::delivery::Delivery;
use super::frames::Frames;
use super::holding::Holding;
use super::{Exchange, passing};
use crate::classify::{StreamError, TransportFault, classify_stream_error, transport};
use crate::sse::Frame;
use crate::stream::{BodyEnd, Choices, Delta, FrameRead, Signal, StreamFailure, StreamMachine, Verdict};
use crate::wire::Decoder;
use crate::wire_error::WireError;

/// How long a stream may stay open once its answer is whole: usage may still come, and the closing frame.
const TAIL: Duration = Duration::from_secs(5);

/// One stream under way.
pub(super) struct Relay<'a> {
    exchange: &'a Exchange<'a>,
    delivery: Delivery<'a>,
    frames: Frames,
    decoder: Decoder,
    machine: StreamMachine,
    deadline: Instant,
    first_content: Option<Duration>,
    last: Option<Bytes>,
}

/// What ends the reading.
enum End {
    Body(BodyEnd),
    Limit,
}

impl<'a> Relay<'a> {
    pub(super) fn new(
        exchange: &'a Exchange<'a>,
        deadline: Instant,
        response: &Response,
        frames: Frames,
        dropped: Vec<String>,
    ) -> Self {
        let continuation = exchange.attempt.prompt.continuation.as_ref();
        let prefilled = continuation.is_some_and(|it| it.prefill && !it.text.trim_end().is_empty());
        Self {
            delivery: Delivery::new(exchange, passing(response.headers()), dropped),
            frames,
            decoder: Decoder::new(exchange.upstream.settings.api),
            machine: match prefilled {
                true => StreamMachine::going_on(),
                false => StreamMachine::default(),
            },
            first_content: None,
            last: None,
            exchange,
            deadline,
        }
    }

    /// Reads `response` until the answer is whole or cannot be.
    pub(super) async fn run(mut self, response: &mut Response) -> Result<Answered, AttemptError> {
        let clock = &self.exchange.upstream.clock;
        let mut cancelled = pin!(self.exchange.attempt.cancel.cancelled());
        let mut alarm = pin!(clock.sleep_until(self.deadline));
        let mut rings = self.deadline;
        loop {
            let read = tokio::select! {
                biased;
                () = &mut cancelled => return Err(AttemptError::Cancelled),
                read = response.chunk() => Some(read),
                () = &mut alarm => None,
            };
            let rang = read.is_none();
            match read {
                Some(Ok(Some(bytes))) => {
                    self.exchange.note_heard(&bytes);
                    self.frames.push(bytes);
                    if let Some(whole) = self.read_frames().await? {
                        return Ok(whole);
                    }
                }
                Some(Ok(None)) => return self.body_ended(BodyEnd::Clean).await,
                Some(Err(_broken)) => return self.body_ended(BodyEnd::Lost).await,
                None if clock.now() >= self.deadline => return self.ended(End::Limit).await,
                None => {}
            }
            // most frames move the deadline on and leave the timer alone: it is set anew when it rang, or would ring too late
            if rang || rings > self.deadline {
                rings = self.deadline;
                alarm.set(clock.sleep_until(rings));
            }
        }
    }

    /// Lets every complete frame through; the answer when it is whole.
    async fn read_frames(&mut self) -> Result<Option<Answered>, AttemptError> {
        loop {
            match self.frames.next_frame() {
                Ok(Some(frame)) => {
                    if self.frame(frame).await? {
                        return Ok(Some(self.answered()));
                    }
                }
                Ok(None) => return Ok(None),
                Err(_too_large) => return Err(self.too_large()),
            }
        }
    }

    /// Judges one frame and does as judged; `true` when the answer is whole.
    async fn frame(&mut self, frame: Frame) -> Result<bool, AttemptError> {
        let (FrameRead { signal, error }, out) = self.read(&frame);
        let verdict = self.machine.frame(signal, frame.raw.len());
        let alive = matches!(&signal, Signal::Delta(delta) if carries(delta));
        if alive {
            self.note_first_content();
        }
        let (len, progress) = (frame.raw.len(), self.machine.summary().progress);
        match verdict {
            Verdict::Hold | Verdict::Forward if self.is_for_us_alone(signal) => {}
            Verdict::Release | Verdict::Forward if self.holds_back(signal) => self.hold_back(out, len).await?,
            Verdict::Hold => self.delivery.hold(out, len),
            Verdict::Release | Verdict::Forward => self.delivery.release(out, len, progress).await?,
            Verdict::Drop if signal == Signal::Malformed && self.wants_every_frame() => {
                return Err(self.stream_failed(StreamFailure::Malformed, None));
            }
            Verdict::Drop => {}
            Verdict::Finished => {
                self.finish(out, len).await?;
                return Ok(true);
            }
            Verdict::Failed(failure) => return Err(self.stream_failed(failure, error)),
        }
        if alive {
            // only now: a client that was slow to take it must not look like a provider that fell silent
            self.restart_idle_clock();
        }
        Ok(false)
    }

    /// Reads a frame; what of it is for the client.
    fn read(&mut self, frame: &Frame) -> (FrameRead, Option<ClientFrame>) {
        if self.exchange.passes_bytes() {
            if let Some(holding) = &mut self.delivery.holding {
                holding.read(frame);
            }
            let (read, raw) = self.decoder.pass(frame);
            return (read, Some(ClientFrame::Data(raw)));
        }
        let mut pieces = Vec::new();
        let read = self.decoder.read(frame, &mut pieces);
        (read, self.delivery.new_in(pieces))
    }

    /// Whether a frame is held back: one that calls a tool and all that come after it, where somebody judges calls.
    fn holds_back(&mut self, signal: Signal) -> bool {
        let holding = self.delivery.holding.as_mut();
        holding.is_some_and(|holding| holding.holds(signal))
    }

    async fn hold_back(&mut self, out: Option<ClientFrame>, len: usize) -> Result<(), AttemptError> {
        match self.delivery.hold_back(out, len) {
            true => self.delivery.keep_alive().await,
            false => Err(self.too_large()),
        }
    }

    fn too_large(&mut self) -> AttemptError {
        self.failed(Failure::observed(Reason::Unclassified, Cut::TooLarge))
    }

    /// The frame with which the answer is whole: as bytes it closes the stream, in pieces it may still say something.
    async fn finish(&mut self, out: Option<ClientFrame>, len: usize) -> Result<(), AttemptError> {
        if let Some(failure) = self.delivery.holding.as_ref().and_then(Holding::unjudgeable) {
            return Err(self.failed(failure));
        }
        let progress = self.machine.summary().progress;
        match out {
            Some(ClientFrame::Data(raw)) => self.last = Some(raw),
            Some(out) if self.delivery.is_holding() => self.hold_back(Some(out), len).await?,
            Some(out) => self.delivery.release(Some(out), len, progress).await?,
            None => {}
        }
        self.delivery.finish(progress).await
    }

    fn wants_every_frame(&self) -> bool {
        self.exchange.attempt.turn.agent.on_malformed_frame == MalformedFrame::Fail
    }

    /// Whether the frame is the report of tokens that the client did not ask for.
    fn is_for_us_alone(&self, signal: Signal) -> bool {
        let Signal::Delta(delta) = signal else {
            return false;
        };
        self.exchange.asks_usage() && delta.usage.is_some() && delta.choices == Choices::default()
    }

    fn note_first_content(&mut self) {
        if self.first_content.is_none() && self.machine.summary().progress > Progress::Nothing {
            let now = self.exchange.upstream.clock.now();
            self.first_content = Some(now.duration_since(self.exchange.sent));
        }
    }

    /// The idle clock starts anew; a whole answer has only its tail to wait for.
    fn restart_idle_clock(&mut self) {
        if self.machine.summary().progress > Progress::Nothing {
            let idle = self.exchange.limits.idle;
            let wait = if self.machine.is_whole() { idle.min(TAIL) } else { idle };
            self.deadline = self.exchange.upstream.clock.now() + wait;
        }
    }

    async fn body_ended(mut self, end: BodyEnd) -> Result<Answered, AttemptError> {
        if let Some(unfinished) = std::mem::take(&mut self.frames).finish()
            && end == BodyEnd::Clean
            && self.frame(unfinished).await?
        {
            return Ok(self.answered());
        }
        self.ended(End::Body(end)).await
    }

    async fn ended(mut self, end: End) -> Result<Answered, AttemptError> {
        let (body, limit) = match end {
            End::Body(end) => (end, None),
            End::Limit if self.machine.summary().progress == Progress::Nothing => {
                (BodyEnd::Lost, Some(TransportFault::FirstContentLimit))
            }
            End::Limit => (BodyEnd::Lost, Some(TransportFault::IdleLimit)),
        };
        match (self.machine.end(body), limit) {
            (Ok(()), _) => {
                self.finish(None, 0).await?;
                Ok(self.answered())
            }
            (Err(_), Some(limit)) => Err(self.failed(transport(limit))),
            (Err(failure), None) => Err(self.stream_failed(failure, None)),
        }
    }

    fn stream_failed(&mut self, failure: StreamFailure, error: Option<WireError>) -> AttemptError {
        let observed = failure.observed().unwrap_or_else(|| {
            let error = error.unwrap_or_default();
            classify_stream_error(&StreamError {
                provider: &self.exchange.upstream.settings.name,
                status: error.status,
                code: error.code.as_deref(),
                kind: error.kind.as_deref(),
                message: error.message.as_ref().map(|words| words.reveal()),
                secrets: &self.exchange.upstream.settings.api_keys,
            })
        });
        self.failed(observed)
    }

    fn failed(&mut self, failure: Failure) -> AttemptError {
        let summary = *self.machine.summary();
        AttemptError::Failed {
            failure,
            malformed: summary.malformed,
            usage: summary
                .usage
                .filter(|_| summary.progress > Progress::Nothing)
                .map(Box::new),
            delivered: self.delivery.delivered(summary.usage),
        }
    }

    fn answered(&mut self) -> Answered {
        let summary = self.machine.summary();
        let last = self.last.take().filter(|_| !self.delivery.differs());
        Answered {
            finish: summary.finish,
            usage: summary.usage,
            first_content: self.first_content,
            last,
            malformed: summary.malformed,
            ..self.delivery.answered()
        }
    }
}

/// Whether a frame carries anything that counts as life.
fn carries(delta: &Delta) -> bool {
    delta.reasoning || delta.content || delta.tool_call || delta.finish.is_some() || delta.usage.is_some()
}
