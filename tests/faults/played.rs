//! An attempt played without a network: a provider's bytes through decoder and stream machine, on an imagined clock.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use understudy_messages::answer::{Piece, Progress};
use understudy_messages::client::{ClientFrame, Seam};
use understudy_messages::failure::{Cut, Failure, ProviderWords, Reason};
use understudy_messages::ids::ModelRef;
use understudy_messages::provider::{Answered, AttemptError, Delivered};
use understudy_messages::request::Endpoint;
use understudy_messages::session::Continuation;
use understudy_messages::settings::{Api, Timeouts};
use understudy_providers::classify::{
    Signal as Response, StreamError, TransportFault, classify, classify_stream_error, transport,
};
use understudy_providers::sse::SseDecoder;
use understudy_providers::stream::{BodyEnd, Signal, StreamFailure, StreamMachine, Verdict};
use understudy_providers::upstream::going_on::GoingOn;
use understudy_providers::wire::{self, Decoder};
use understudy_providers::wire_error::WireError;

use crate::speak::{Spoken, Then};

/// What came of an attempt.
#[derive(Debug)]
pub struct Played {
    /// What went to the client, when, and how far that brought the answer.
    pub frames: Vec<(Duration, Progress, ClientFrame)>,
    pub result: Result<Answered, AttemptError>,
    pub took: Duration,
}

/// Whom the attempt is made for.
#[derive(Clone, Debug)]
pub struct Setting {
    pub endpoint: Endpoint,
    pub api: Api,
    pub stream: bool,
    /// Whether a later candidate could answer.
    pub successor: bool,
    /// Who answers.
    pub model: ModelRef,
    /// Whether nothing goes before the answer is whole.
    pub holds: bool,
    /// Whether somebody else may go on with text.
    pub continuable: bool,
    /// What it goes on from.
    pub continuation: Option<Arc<Continuation>>,
}

impl Setting {
    fn verbatim(&self) -> bool {
        self.endpoint.is_spoken_by(self.api) && self.continuation.is_none()
    }

    fn prefilled(&self) -> bool {
        self.continuation.as_ref().is_some_and(|it| it.prefill)
    }
}

/// Plays a response as the client is to have it.
pub fn play(spoken: &Spoken, setting: &Setting) -> Played {
    let mut played = raw(spoken, setting);
    if setting.holds && played.result.is_err() {
        played.frames.clear();
    }
    if setting.holds {
        played.frames.iter_mut().for_each(|(at, ..)| *at = played.took);
    }
    if let Some(continuation) = &setting.continuation {
        played.go_on(continuation, &setting.model);
    }
    if let Err(AttemptError::Failed { delivered, .. }) = &mut played.result {
        *delivered = self::delivered(&played.frames, setting);
    }
    played
}

/// What was delivered, where somebody may go on with it.
fn delivered(frames: &[(Duration, Progress, ClientFrame)], setting: &Setting) -> Option<Box<Delivered>> {
    let reached = frames.iter().map(|(_, progress, _)| *progress).max()?;
    if reached == Progress::ToolCall || reached.is_answer() && !setting.continuable {
        return None;
    }
    let mut delivered = Delivered::default();
    let mut sse = SseDecoder::default();
    let mut decoder = Decoder::new(setting.api);
    for (_, _, frame) in frames {
        let mut pieces = Vec::new();
        if let ClientFrame::Data(raw) = frame {
            delivered.sent.push(raw.clone());
            sse.push(raw.clone());
            while let Ok(Some(frame)) = sse.next_frame() {
                decoder.read(&frame, &mut pieces);
            }
        } else if let ClientFrame::Pieces(sent) = frame {
            pieces.clone_from(sent);
        }
        for piece in pieces {
            if let Piece::Text { text, .. } = piece {
                delivered.text.push_str(&text);
            }
        }
    }
    Some(Box::new(delivered))
}

impl Played {
    /// Leaves out what the client has read already, and puts a seam before the rest.
    fn go_on(&mut self, continuation: &Continuation, model: &ModelRef) {
        let mut going_on = GoingOn::new(continuation);
        let mut new = Vec::new();
        let mut send = |at: Duration, progress: Progress, pieces: Vec<Piece>| {
            if pieces.is_empty() {
                return;
            }
            if new.is_empty() {
                let seam = Seam {
                    continued: true,
                    sent: continuation.sent.clone(),
                    served_by: model.clone(),
                };
                new.push((at, progress, ClientFrame::Seam(seam)));
            }
            new.push((at, progress, ClientFrame::Pieces(pieces)));
        };
        let mut reached = Progress::Nothing;
        for (at, progress, frame) in std::mem::take(&mut self.frames) {
            reached = progress;
            if let ClientFrame::Pieces(pieces) = frame {
                send(at, progress, going_on.new_in(pieces));
            }
        }
        if self.result.is_ok() {
            send(self.took, reached, going_on.finish());
        }
        self.frames = new;
    }
}

/// Plays a response as it comes.
fn raw(spoken: &Spoken, setting: &Setting) -> Played {
    let limits = Timeouts::default();
    let (first, whole) = match setting.successor {
        true => (limits.first_content, limits.whole),
        false => (limits.first_content_last, limits.whole_last),
    };
    let limit = if setting.stream { first } else { whole };
    match (spoken.status, spoken.then) {
        (None, Then::Hang) => failed(transport(limit_fault(setting.stream)), limit),
        (None, Then::Close | Then::Reset) => failed(transport(TransportFault::LostBeforeFirstByte), Duration::ZERO),
        (Some(200), _) if setting.stream => Run::new(setting, first, limits.idle).stream(spoken),
        (Some(200), _) => in_one(spoken, setting, whole),
        (Some(status), _) => failed(refused(spoken, Some(status)), Duration::ZERO),
    }
}

fn limit_fault(stream: bool) -> TransportFault {
    match stream {
        true => TransportFault::FirstContentLimit,
        false => TransportFault::WholeLimit,
    }
}

fn failed(failure: Failure, took: Duration) -> Played {
    let result = Err(AttemptError::Failed {
        failure,
        malformed: 0,
        usage: None,
        delivered: None,
    });
    Played {
        frames: Vec::new(),
        result,
        took,
    }
}

fn refused(spoken: &Spoken, status: Option<u16>) -> Failure {
    let body: String = spoken.parts.iter().map(|(_, part)| &**part).collect();
    let header = |name: &str| {
        let mut headers = spoken.headers.iter();
        headers.find(|(known, _)| *known == name).map(|(_, value)| &**value)
    };
    classify(&Response {
        provider: "p",
        status,
        headers: &header,
        body: body.as_bytes(),
        secrets: &[],
        now: SystemTime::UNIX_EPOCH,
    })
}

fn in_one(spoken: &Spoken, setting: &Setting, limit: Duration) -> Played {
    let took: Duration = spoken
        .parts
        .iter()
        .map(|(after, _)| Duration::from_millis(*after))
        .sum();
    match spoken.then {
        _ if took > limit => return failed(transport(TransportFault::WholeLimit), limit),
        Then::Hang => return failed(transport(TransportFault::WholeLimit), limit),
        Then::Reset => return failed(transport(TransportFault::Lost), took),
        Then::Close => {}
    }
    let body: String = spoken.parts.iter().map(|(_, part)| &**part).collect();
    let mut pieces = Vec::new();
    let whole = match wire::read_whole(setting.endpoint, setting.api, body.as_bytes(), Some(&mut pieces)) {
        Err(error) => return failed(error.observed(), took),
        Ok(whole) if whole.error.is_some() => return failed(refused(spoken, None), took),
        Ok(whole) if whole.is_empty() => {
            return failed(Failure::observed(Reason::EmptyResponse, Cut::CleanEnd), took);
        }
        Ok(whole) => whole,
    };
    let out = match setting.endpoint.is_spoken_by(setting.api) {
        true => ClientFrame::Data(Bytes::from(body)),
        false => ClientFrame::Pieces(pieces),
    };
    let answered = Answered {
        finish: whole.finish,
        usage: whole.usage,
        ..Answered::default()
    };
    Played {
        frames: vec![(took, Progress::Content, out)],
        result: Ok(answered),
        took,
    }
}

/// A stream under way.
struct Run<'a> {
    setting: &'a Setting,
    decoder: Decoder,
    machine: StreamMachine,
    held: Vec<ClientFrame>,
    frames: Vec<(Duration, Progress, ClientFrame)>,
    last: Option<Bytes>,
    error: Option<WireError>,
    now: Duration,
    deadline: Duration,
    idle: Duration,
}

impl<'a> Run<'a> {
    fn new(setting: &'a Setting, first: Duration, idle: Duration) -> Self {
        Self {
            decoder: Decoder::new(setting.api),
            setting,
            machine: if setting.prefilled() {
                StreamMachine::going_on()
            } else {
                StreamMachine::default()
            },
            held: Vec::new(),
            frames: Vec::new(),
            last: None,
            error: None,
            now: Duration::ZERO,
            deadline: first,
            idle,
        }
    }

    fn stream(mut self, spoken: &Spoken) -> Played {
        let mut sse = SseDecoder::default();
        for (after, part) in &spoken.parts {
            self.now += Duration::from_millis(*after);
            if self.now > self.deadline {
                return self.limit();
            }
            sse.push(Bytes::from(part.clone()));
            while let Ok(Some(frame)) = sse.next_frame() {
                match self.frame(&frame) {
                    None => {}
                    Some(Ok(())) => return self.answered(),
                    Some(Err(failure)) => return self.failed(failure),
                }
            }
        }
        let ended = match spoken.then {
            Then::Hang => return self.limit(),
            Then::Close => self.machine.end(BodyEnd::Clean),
            Then::Reset => self.machine.end(BodyEnd::Lost),
        };
        match ended {
            Ok(()) => self.answered(),
            Err(failure) => self.failed(failure),
        }
    }

    /// Judges a frame; how the stream ended if it did.
    fn frame(&mut self, frame: &understudy_providers::sse::Frame) -> Option<Result<(), StreamFailure>> {
        let (read, out) = if self.setting.verbatim() {
            let (read, raw) = self.decoder.pass(frame);
            (read, Some(ClientFrame::Data(raw)))
        } else {
            let mut pieces = Vec::new();
            let read = self.decoder.read(frame, &mut pieces);
            (read, (!pieces.is_empty()).then_some(ClientFrame::Pieces(pieces)))
        };
        if read.error.is_some() {
            self.error = read.error;
        }
        let verdict = self.machine.frame(read.signal, frame.raw.len());
        let progress = self.machine.summary().progress;
        let mut send = |frames: Vec<ClientFrame>| {
            self.frames
                .extend(frames.into_iter().map(|frame| (self.now, progress, frame)));
        };
        match verdict {
            Verdict::Hold => self.held.extend(out),
            Verdict::Release => send(std::mem::take(&mut self.held).into_iter().chain(out).collect()),
            Verdict::Forward => send(out.into_iter().collect()),
            Verdict::Drop => {}
            Verdict::Finished => {
                match out {
                    Some(ClientFrame::Data(raw)) => self.last = Some(raw),
                    out => send(out.into_iter().collect()),
                }
                return Some(Ok(()));
            }
            Verdict::Failed(failure) => return Some(Err(failure)),
        }
        if matches!(read.signal, Signal::Delta(_)) && progress > Progress::Nothing {
            self.deadline = self.now + self.idle;
        }
        None
    }

    fn limit(mut self) -> Played {
        self.now = self.deadline;
        let fault = match self.machine.summary().progress {
            Progress::Nothing => TransportFault::FirstContentLimit,
            _ => TransportFault::IdleLimit,
        };
        match self.machine.end(BodyEnd::Lost) {
            Ok(()) => self.answered(),
            Err(_) => self.over(transport(fault)),
        }
    }

    fn failed(self, failure: StreamFailure) -> Played {
        let error = self.error.clone().unwrap_or_default();
        let told = || {
            classify_stream_error(&StreamError {
                provider: "p",
                status: error.status,
                code: error.code.as_deref(),
                kind: error.kind.as_deref(),
                message: error.message.as_ref().map(ProviderWords::reveal),
                secrets: &[],
            })
        };
        let failure = failure.observed().unwrap_or_else(told);
        self.over(failure)
    }

    fn over(self, failure: Failure) -> Played {
        let summary = *self.machine.summary();
        let result = Err(AttemptError::Failed {
            failure,
            malformed: summary.malformed,
            usage: summary
                .usage
                .filter(|_| summary.progress > Progress::Nothing)
                .map(Box::new),
            delivered: None,
        });
        Played {
            frames: self.frames,
            result,
            took: self.now,
        }
    }

    fn answered(self) -> Played {
        let summary = self.machine.summary();
        let answered = Answered {
            finish: summary.finish,
            usage: summary.usage,
            first_content: None,
            last: self.last,
            malformed: summary.malformed,
            ..Answered::default()
        };
        Played {
            frames: self.frames,
            result: Ok(answered),
            took: self.now,
        }
    }
}
