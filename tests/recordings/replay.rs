//! A stream played through the decoder of its wire format and the stream machine, as pieces and as bytes.

use bytes::Bytes;
use serde_json::{Map, Value};
use understudy_messages::answer::Piece;
use understudy_messages::failure::{ProviderWords, Reason};
use understudy_messages::settings::Api;
use understudy_providers::classify::{StreamError, classify_stream_error};
use understudy_providers::gemini::array::ArrayDecoder;
use understudy_providers::sse::{Frame, SseDecoder};
use understudy_providers::stream::{BodyEnd, Choices, FrameRead, Signal, StreamFailure, StreamMachine, Verdict};
use understudy_providers::wire::{Answer, Decoder};

use crate::normalized::normalized;
use crate::recording::Then;

/// One run of a stream.
#[derive(Default)]
pub(crate) struct Replay {
    /// What was said, in order.
    pub(crate) pieces: Vec<Piece>,
    /// The same, frame by frame.
    pub(crate) batches: Vec<Vec<Piece>>,
    /// The answer that the pieces make.
    pub(crate) answer: Answer,
    /// How it ended.
    pub(crate) failure: Option<StreamFailure>,
    end: &'static str,
    comments: usize,
    malformed: u32,
    choices: Choices,
}

/// The parts of a run in progress.
struct Run {
    machine: StreamMachine,
    /// Reads pieces.
    decoder: Decoder,
    /// Reads the same frames for a client of the same format.
    passing: Decoder,
    /// Whether frames may be changed on their way: OpenAI's chat numbers tool calls.
    numbers: bool,
    over: bool,
    /// All frames.
    raw: Vec<u8>,
    /// Those that a client of the same format would have been sent, as they came, and those held back.
    sent: Vec<u8>,
    held: Vec<u8>,
    /// The length of the frames up to the one that ended the answer.
    judged: usize,
    replay: Replay,
}

impl Replay {
    /// Feeds the reads of a body, and what happened after them; no byte may be lost or changed.
    pub(crate) fn of(api: Api, reads: &[&[u8]], then: Then) -> Result<Self, String> {
        if api == Api::Gemini && reads.concat().starts_with(b"[") {
            return Self::of_array(reads, then);
        }
        let mut frames = SseDecoder::default();
        let mut run = Run::new(api);
        for read in reads {
            frames.push(Bytes::copy_from_slice(read));
            while let Some(frame) = frames.next_frame().map_err(|error| error.to_string())? {
                run.frame(&frame)?;
            }
        }
        if let Some(frame) = frames.finish() {
            run.frame(&frame)?;
        }
        let body = reads.concat();
        if run.raw != body {
            return Err("the frames, joined, are not the body".to_owned());
        }
        let (sent, judged) = (std::mem::take(&mut run.sent), run.judged);
        let replay = run.end(then)?;
        if replay.failure.is_none() && sent != body[..judged] {
            return Err("what was let through is not the body".to_owned());
        }
        Ok(replay)
    }

    /// The same for a stream that is one JSON array.
    fn of_array(reads: &[&[u8]], then: Then) -> Result<Self, String> {
        let mut frames = ArrayDecoder::default();
        let mut run = Run::new(Api::Gemini);
        for read in reads {
            frames.push(Bytes::copy_from_slice(read));
            while let Some(frame) = frames.next_frame().map_err(|error| error.to_string())? {
                run.frame(&frame)?;
            }
        }
        run.end(then)
    }

    /// Whether it is a whole answer, if perhaps with nothing in it.
    pub(crate) fn is_answer(&self) -> bool {
        self.failure.is_none() || self.failure == Some(StreamFailure::Empty) && self.answer.finish.is_some()
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
        if self.malformed > 0 {
            map.insert("malformed".into(), self.malformed.into());
        }
        map
    }
}

impl Run {
    fn new(api: Api) -> Self {
        Self {
            machine: StreamMachine::default(),
            decoder: Decoder::new(api),
            passing: Decoder::new(api),
            numbers: api == Api::OpenaiChat,
            over: false,
            raw: Vec::new(),
            sent: Vec::new(),
            held: Vec::new(),
            judged: 0,
            replay: Replay::default(),
        }
    }

    fn frame(&mut self, frame: &Frame) -> Result<(), String> {
        self.raw.extend_from_slice(&frame.raw);
        let (passed, raw) = self.passing.pass(frame);
        if raw != frame.raw && !self.numbers {
            return Err("a frame was changed on its way".to_owned());
        }
        let mut pieces = Vec::new();
        let read = self.decoder.read(frame, &mut pieces);
        if read != passed {
            return Err(format!("{:?} as pieces, {:?} as bytes", read.signal, passed.signal));
        }
        if self.over {
            return Ok(());
        }
        self.replay.comments += usize::from(frame.raw.starts_with(b":"));
        agree(&read, &pieces)?;
        self.replay.pieces.extend_from_slice(&pieces);
        self.replay.batches.push(pieces);
        if let Signal::Delta(delta) = read.signal {
            self.replay.choices.extend(delta.choices);
        }
        let verdict = self.machine.frame(read.signal, frame.raw.len());
        self.let_through(verdict, frame);
        if read.error.is_some() {
            self.replay.answer.error = read.error;
        }
        Ok(())
    }

    fn let_through(&mut self, verdict: Verdict, frame: &Frame) {
        self.judged = self.raw.len();
        match verdict {
            Verdict::Hold => self.held.extend_from_slice(&frame.raw),
            Verdict::Release | Verdict::Forward | Verdict::Finished => {
                self.sent.append(&mut self.held);
                self.sent.extend_from_slice(&frame.raw);
            }
            Verdict::Drop | Verdict::Failed(_) => {}
        }
        self.over = matches!(verdict, Verdict::Finished | Verdict::Failed(_));
    }

    fn end(mut self, then: Then) -> Result<Replay, String> {
        let outcome = match then {
            Then::Close => self.machine.end(BodyEnd::Clean),
            Then::Reset => self.machine.end(BodyEnd::Lost),
            Then::Hang if self.over => self.machine.end(BodyEnd::Lost),
            Then::Hang => Err(StreamFailure::Lost),
        };
        let mut replay = self.replay;
        replay.failure = outcome.err();
        replay.end = match outcome {
            Ok(()) => "complete",
            Err(StreamFailure::Answered) => "error",
            Err(StreamFailure::Empty) => "empty",
            Err(StreamFailure::Truncated | StreamFailure::Lost) => "truncated",
            Err(StreamFailure::TooLarge) => "too large",
            Err(StreamFailure::Malformed) => "malformed",
        };
        let summary = self.machine.summary();
        replay.malformed = summary.malformed;
        replay.pieces.iter().for_each(|piece| replay.answer.add(piece));
        let told = (replay.answer.finish, replay.answer.usage);
        if replay.failure.is_none() && told != (summary.finish, summary.usage) {
            return Err(format!("the pieces say {told:?}, the machine saw {summary:?}"));
        }
        in_order(&replay.pieces)?;
        Ok(replay)
    }
}

/// Whether the pieces of a frame are what its signal says of it.
fn agree(read: &FrameRead, pieces: &[Piece]) -> Result<(), String> {
    let Signal::Delta(delta) = read.signal else {
        return match pieces {
            [] | [Piece::Ping] => Ok(()),
            _ => Err(format!("{:?}, but {} pieces", read.signal, pieces.len())),
        };
    };
    let said = |is: fn(&Piece) -> bool| pieces.iter().any(is);
    let text = said(|piece| matches!(piece, Piece::Text { .. } | Piece::Refusal { .. }));
    let call = said(|piece| matches!(piece, Piece::ToolCall { name: Some(_), .. }));
    let reasoning = said(|piece| matches!(piece, Piece::Reasoning { .. }));
    if text && !delta.content || call && !delta.tool_call || reasoning && !delta.reasoning {
        return Err(format!("{delta:?}, but {} pieces", pieces.len()));
    }
    Ok(())
}

/// What holds of the pieces of every answer.
fn in_order(pieces: &[Piece]) -> Result<(), String> {
    let late = pieces.iter().position(|piece| matches!(piece, Piece::Begin { .. }));
    if late.is_some_and(|at| pieces[..at].iter().any(|piece| *piece != Piece::Ping)) {
        return Err("something is said before the beginning".to_owned());
    }
    let mut begun: Vec<(u32, u32)> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text { text, .. } | Piece::Refusal { text, .. } | Piece::Reasoning { text, .. }
                if text.is_empty() =>
            {
                return Err("a text is empty".to_owned());
            }
            Piece::ToolCall {
                choice, index, name, ..
            } if !begun.contains(&(*choice, *index)) => {
                let next = begun.iter().filter(|(of, _)| of == choice).count();
                if *index as usize != next || name.is_none() {
                    return Err(format!(
                        "call {index} of choice {choice} begins as number {next}, name {name:?}"
                    ));
                }
                begun.push((*choice, *index));
            }
            _ => {}
        }
    }
    Ok(())
}
