//! A streaming answer: frame by frame from the provider to the client, as bytes.
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

use super::{Exchange, passing};
use crate::classify::{StreamError, TransportFault, classify_stream_error, transport};
use crate::openai::chat::chunk::{self, ChunkRead, Numbering};
use crate::sse::{Frame, SseDecoder};
use crate::stream::{BodyEnd, Choices, Delta, Signal, StreamFailure, StreamMachine, Verdict};
use crate::wire_error::WireError;

/// How long a stream may stay open once its answer is whole: usage may still come, and the closing frame.
const TAIL: Duration = Duration::from_secs(5);

/// One stream under way.
pub(super) struct Relay<'a> {
    exchange: &'a Exchange<'a>,
    headers: Vec<(Bytes, Bytes)>,
    decoder: SseDecoder,
    machine: StreamMachine,
    numbering: Numbering,
    held: Vec<Bytes>,
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
    pub(super) fn new(exchange: &'a Exchange<'a>, deadline: Instant, response: &Response) -> Self {
        Self {
            headers: passing(response.headers()),
            decoder: SseDecoder::default(),
            machine: StreamMachine::default(),
            numbering: Numbering::default(),
            held: Vec::new(),
            first_content: None,
            last: None,
            exchange,
            deadline,
        }
    }

    pub(super) async fn run(mut self, mut response: Response) -> Result<Answered, AttemptError> {
        let clock = &self.exchange.upstream.clock;
        let mut alarm = pin!(clock.sleep_until(self.deadline));
        loop {
            let read = tokio::select! {
                biased;
                () = self.exchange.attempt.cancel.cancelled() => return Err(AttemptError::Cancelled),
                read = response.chunk() => read,
                () = &mut alarm => {
                    if clock.now() >= self.deadline {
                        return self.ended(End::Limit);
                    }
                    alarm.set(clock.sleep_until(self.deadline));
                    continue;
                }
            };
            match read {
                Ok(Some(bytes)) => {
                    self.decoder.push(bytes);
                    if let Some(whole) = self.frames().await? {
                        return Ok(whole);
                    }
                    if self.machine.is_whole() {
                        alarm.set(clock.sleep_until(self.deadline));
                    }
                }
                Ok(None) => return self.body_ended(BodyEnd::Clean).await,
                Err(_broken) => return self.body_ended(BodyEnd::Lost).await,
            }
        }
    }

    /// Lets every complete frame through; the answer when it is whole.
    async fn frames(&mut self) -> Result<Option<Answered>, AttemptError> {
        loop {
            match self.decoder.next_frame() {
                Ok(Some(frame)) => {
                    if self.frame(frame).await? {
                        return Ok(Some(self.answered()));
                    }
                }
                Ok(None) => return Ok(None),
                Err(_too_large) => return Err(self.failed(Failure::observed(Reason::Unclassified, Cut::TooLarge))),
            }
        }
    }

    /// Judges one frame and does as judged; `true` when the answer is whole.
    async fn frame(&mut self, frame: Frame) -> Result<bool, AttemptError> {
        let (ChunkRead { signal, error }, raw) = chunk::scan_numbered(&frame, &mut self.numbering);
        let verdict = self.machine.frame(signal, raw.len());
        if let Signal::Delta(delta) = signal
            && carries(&delta)
        {
            self.moved();
        }
        match verdict {
            Verdict::Hold | Verdict::Forward if self.is_for_us_alone(signal) => {}
            Verdict::Hold => self.held.push(raw),
            Verdict::Release => self.release(raw).await?,
            Verdict::Forward => self.forward(raw).await?,
            Verdict::Drop => {}
            Verdict::Finished => {
                self.last = Some(raw);
                return Ok(true);
            }
            Verdict::Failed(failure) => return Err(self.stream_failed(failure, error)),
        }
        Ok(false)
    }

    /// Whether the frame is the report of tokens that the client did not ask for.
    fn is_for_us_alone(&self, signal: Signal) -> bool {
        let Signal::Delta(delta) = signal else {
            return false;
        };
        self.exchange.asks_usage() && delta.usage.is_some() && delta.choices == Choices::default()
    }

    /// Something that counts has arrived: the idle clock starts anew; a whole answer has only its tail to wait for.
    fn moved(&mut self) {
        if self.machine.summary().progress > Progress::Nothing {
            let now = self.exchange.upstream.clock.now();
            let first = now.duration_since(self.exchange.sent);
            self.first_content.get_or_insert(first);
            let idle = self.exchange.limits.idle;
            self.deadline = now + if self.machine.is_whole() { idle.min(TAIL) } else { idle };
        }
    }

    async fn release(&mut self, frame: Bytes) -> Result<(), AttemptError> {
        let client = &self.exchange.attempt.turn.client;
        if client.progress() == Progress::Nothing {
            client.note(Progress::Head);
            let head = self.exchange.head(std::mem::take(&mut self.headers));
            self.exchange.send(ClientFrame::Head(head)).await?;
        }
        for held in std::mem::take(&mut self.held) {
            self.exchange.send(ClientFrame::Data(held)).await?;
        }
        self.forward(frame).await
    }

    async fn forward(&self, frame: Bytes) -> Result<(), AttemptError> {
        self.exchange.attempt.turn.client.note(self.machine.summary().progress);
        self.exchange.send(ClientFrame::Data(frame)).await
    }

    async fn body_ended(mut self, end: BodyEnd) -> Result<Answered, AttemptError> {
        if let Some(unfinished) = std::mem::take(&mut self.decoder).finish()
            && end == BodyEnd::Clean
            && self.frame(unfinished).await?
        {
            return Ok(self.answered());
        }
        self.ended(End::Body(end))
    }

    fn ended(mut self, end: End) -> Result<Answered, AttemptError> {
        let (body, limit) = match end {
            End::Body(end) => (end, None),
            End::Limit if self.machine.summary().progress == Progress::Nothing => {
                (BodyEnd::Lost, Some(TransportFault::FirstContentLimit))
            }
            End::Limit => (BodyEnd::Lost, Some(TransportFault::IdleLimit)),
        };
        match (self.machine.end(body), limit) {
            (Ok(()), _) => Ok(self.answered()),
            (Err(_), Some(limit)) => Err(self.failed(transport(limit))),
            (Err(failure), None) => Err(self.stream_failed(failure, None)),
        }
    }

    fn stream_failed(&self, failure: StreamFailure, error: Option<WireError>) -> AttemptError {
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

    fn failed(&self, failure: Failure) -> AttemptError {
        AttemptError::Failed {
            failure,
            malformed: self.machine.summary().malformed,
        }
    }

    fn answered(&mut self) -> Answered {
        let summary = self.machine.summary();
        Answered {
            finish: summary.finish,
            usage: summary.usage,
            first_content: self.first_content,
            last: self.last.take(),
            malformed: summary.malformed,
        }
    }
}

/// Whether a frame carries anything that counts as life.
fn carries(delta: &Delta) -> bool {
    delta.reasoning || delta.content || delta.tool_call || delta.finish.is_some() || delta.usage.is_some()
}
