//! A chat stream played through the decoder, the chunk reader and the stream machine.

use bytes::Bytes;
use serde_json::{Map, Value};
use understudy_messages::failure::{ProviderWords, Reason};
use understudy_providers::classify::{StreamError, classify_stream_error};
use understudy_providers::openai::chat::answer::{Answer, Assembly};
use understudy_providers::openai::chat::chunk;
use understudy_providers::sse::{Frame, SseDecoder};
use understudy_providers::stream::{BodyEnd, Choices, Signal, StreamFailure, StreamMachine, Verdict};

use crate::normalized::normalized;
use crate::recording::Then;

/// One run of a stream through decoder, reader and machine.
pub(crate) struct Replay {
    answer: Answer,
    comments: usize,
    choices: Choices,
    end: &'static str,
    failure: Option<StreamFailure>,
    /// All frames.
    raw: Vec<u8>,
    /// What a client would have been sent.
    sent: Vec<u8>,
    /// The length of the frames up to the one that ended the answer.
    judged: usize,
}

/// The parts of a run in progress.
struct Run {
    machine: StreamMachine,
    assembly: Assembly,
    held: Vec<u8>,
    over: bool,
    replay: Replay,
}

impl Replay {
    /// Feeds the reads of a body, and what happened after them.
    pub(crate) fn of(reads: &[&[u8]], then: Then) -> Result<Self, String> {
        let mut decoder = SseDecoder::default();
        let mut run = Run::new();
        for read in reads {
            decoder.push(Bytes::copy_from_slice(read));
            while let Some(frame) = decoder.next_frame().map_err(|error| error.to_string())? {
                run.frame(&frame)?;
            }
        }
        if let Some(frame) = decoder.finish() {
            run.frame(&frame)?;
        }
        Ok(run.end(then))
    }

    /// Checks that no byte was lost or changed, neither in the frames nor on the way to a client.
    pub(crate) fn check_bytes(&self, body: &[u8]) -> Result<(), String> {
        if self.raw != body {
            return Err("the frames, joined, are not the body".to_owned());
        }
        if self.end == "complete" && self.sent != body[..self.judged] {
            return Err("what was let through is not the body".to_owned());
        }
        Ok(())
    }

    /// Why the stream is no answer; nothing when it is one.
    pub(crate) fn reason(&self, provider: &str) -> Option<Reason> {
        let failure = self.failure?;
        let error = self.answer.error.clone().unwrap_or_default();
        let told = || {
            classify_stream_error(&StreamError {
                provider,
                status: error.status,
                code: error.code.as_deref(),
                kind: error.kind.as_deref(),
                message: error.message.as_ref().map(ProviderWords::reveal),
                secrets: &[],
            })
        };
        Some(failure.observed().unwrap_or_else(told).reason)
    }

    /// What was read, in the words of the recordings.
    pub(crate) fn normalized(&self) -> Map<String, Value> {
        let mut map = normalized(&self.answer, self.end);
        if self.comments > 0 {
            map.insert("comments".into(), self.comments.into());
        }
        let choices: Vec<u32> = self.choices.iter().collect();
        if choices.len() > 1 {
            map.insert("choices".into(), choices.into());
        }
        map
    }
}

impl Run {
    fn new() -> Self {
        Self {
            machine: StreamMachine::default(),
            assembly: Assembly::with_limit(1 << 20),
            held: Vec::new(),
            over: false,
            replay: Replay {
                answer: Answer::default(),
                comments: 0,
                choices: Choices::default(),
                end: "",
                failure: None,
                raw: Vec::new(),
                sent: Vec::new(),
                judged: 0,
            },
        }
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), String> {
        self.replay.raw.extend_from_slice(&frame.raw);
        if self.over {
            return Ok(());
        }
        self.replay.judged = self.replay.raw.len();
        self.replay.comments += usize::from(frame.raw.starts_with(b":"));
        let read = chunk::decode(frame, &mut self.assembly);
        if read != chunk::scan(frame) {
            return Err("scan and decode disagree".to_owned());
        }
        if let Signal::Delta(delta) = read.signal {
            self.replay.choices.extend(delta.choices);
        }
        if read.error.is_some() {
            self.replay.answer.error = read.error;
        }
        match self.machine.frame(read.signal, frame.raw.len()) {
            Verdict::Hold => self.held.extend_from_slice(&frame.raw),
            Verdict::Release => {
                self.replay.sent.append(&mut self.held);
                self.replay.sent.extend_from_slice(&frame.raw);
            }
            Verdict::Forward => self.replay.sent.extend_from_slice(&frame.raw),
            Verdict::Drop => {}
            Verdict::Finished => {
                self.replay.sent.extend_from_slice(&frame.raw);
                self.over = true;
            }
            Verdict::Failed(_) => self.over = true,
        }
        Ok(())
    }

    fn end(mut self, then: Then) -> Replay {
        let outcome = match then {
            Then::Close => self.machine.end(BodyEnd::Clean),
            Then::Reset => self.machine.end(BodyEnd::Lost),
            Then::Hang if self.over => self.machine.end(BodyEnd::Lost),
            Then::Hang => Err(StreamFailure::Lost),
        };
        self.replay.failure = outcome.err();
        self.replay.end = match outcome {
            Ok(()) => "complete",
            Err(StreamFailure::Answered) => "error",
            Err(StreamFailure::Empty) => "empty",
            Err(StreamFailure::Truncated | StreamFailure::Lost) => "truncated",
            Err(StreamFailure::TooLarge) => "too large",
            Err(StreamFailure::Malformed) => "malformed",
        };
        let error = self.replay.answer.error.take();
        let summary = *self.machine.summary();
        self.replay.answer = Answer {
            error,
            ..self.assembly.finish()
        };
        // the machine must have seen what the answer says
        self.replay.answer.usage = summary.usage;
        self.replay.answer.finish = summary.finish;
        self.replay
    }
}
