//! What is known of an attempt whose calls of tools are held back: all that the model said, and what has gone out before the
//! first call. Also names for calls that have none.

use std::collections::HashSet;

use bytes::Bytes;
use understudy_messages::answer::Piece;
use understudy_messages::conversation::Part;
use understudy_messages::failure::{Cut, Failure, ProviderWords, Reason};
use understudy_messages::ids::TurnId;
use understudy_messages::provider::Attempt;
use understudy_messages::settings::Api;

use crate::said::Said;
use crate::sse::Frame;
use crate::stream::Signal;
use crate::wire::Decoder;

/// The most that is remembered of what went out as bytes. Calls that come behind more than this are not passed on.
const MOST_SENT: usize = 16 << 20;

/// Listens to one attempt.
#[derive(Debug)]
pub(super) struct Holding {
    naming: Naming,
    /// Reads what passes as bytes; `None` where pieces are made anyway.
    decoder: Option<Decoder>,
    said: Said,
    /// Whether the attempt goes on with text of somebody else: then it has said only what of its text is new.
    in_text: bool,
    /// Whether a call has come.
    begun: bool,
    /// What is said in bytes that have not gone out.
    pieces: Vec<Piece>,
    /// What went out as bytes.
    sent: Vec<Bytes>,
    sent_bytes: usize,
}

impl Holding {
    /// For an attempt whose frames pass as bytes in the words of `passes`, or else come in pieces.
    pub(super) fn new(attempt: &Attempt, passes: Option<Api>) -> Self {
        let continuation = attempt.prompt.continuation.as_ref();
        Self {
            naming: Naming::of(attempt),
            decoder: passes.map(Decoder::new),
            said: Said::default(),
            in_text: continuation.is_some_and(|it| !it.text.is_empty()),
            begun: false,
            pieces: Vec::new(),
            sent: Vec::new(),
            sent_bytes: 0,
        }
    }

    /// Reads a frame that passes as bytes.
    pub(super) fn read(&mut self, frame: &Frame) {
        let Some(decoder) = &mut self.decoder else { return };
        let mut pieces = Vec::new();
        decoder.read(frame, &mut pieces);
        self.naming.complete(&mut pieces);
        pieces.iter().for_each(|piece| self.said.add(piece));
        for piece in pieces {
            match (piece, self.pieces.last_mut()) {
                (Piece::Ping, _) => {}
                // the latest report stands
                (Piece::Usage(usage), Some(Piece::Usage(latest))) => *latest = usage,
                (piece, _) => self.pieces.push(piece),
            }
        }
    }

    /// Names the calls in these pieces.
    pub(super) fn complete(&mut self, pieces: &mut [Piece]) {
        self.naming.complete(pieces);
    }

    /// The model said this, whatever of it is new.
    pub(super) fn said_anyway(&mut self, pieces: &[Piece]) {
        let counts = |piece: &&Piece| !self.in_text || is_thought(piece);
        pieces.iter().filter(counts).for_each(|piece| self.said.add(piece));
    }

    /// Of what the model said this is new.
    pub(super) fn said_anew(&mut self, pieces: &[Piece]) {
        let counts = |piece: &&Piece| self.in_text && !is_thought(piece);
        pieces.iter().filter(counts).for_each(|piece| self.said.add(piece));
    }

    /// Bytes go out: so will all that was said so far.
    pub(super) fn goes(&mut self, frame: &Bytes) {
        self.pieces.clear();
        self.sent_bytes += frame.len();
        match self.sent_bytes {
            ..=MOST_SENT => self.sent.push(frame.clone()),
            _ => self.sent.clear(),
        }
    }

    /// Whether a frame that carries this is held: from the first call on all are.
    pub(super) fn holds(&mut self, signal: Signal) -> bool {
        self.begun |= matches!(signal, Signal::Delta(delta) if delta.tool_call);
        self.begun
    }

    /// Whether calls are held.
    pub(super) const fn is_holding(&self) -> bool {
        self.begun
    }

    /// Whether what went out before the first call is remembered.
    pub(super) const fn remembers(&self) -> bool {
        self.sent_bytes <= MOST_SENT
    }

    /// Why the answer cannot be judged, if it cannot.
    pub(super) fn unjudgeable(&self) -> Option<Failure> {
        let untold = self.decoder.as_ref().is_some_and(Decoder::untold) || self.naming.nameless;
        untold.then(unjudgeable)
    }

    /// Whether the bytes may be read as other calls than the pieces tell of.
    pub(super) fn differs(&self) -> bool {
        self.decoder.as_ref().is_some_and(Decoder::differs)
    }

    /// All that the model said.
    pub(super) fn take_said(&mut self) -> Vec<Part> {
        std::mem::take(&mut self.said).into_parts()
    }

    /// What is said in bytes that have not gone out, and the bytes that have.
    pub(super) fn take_passed(&mut self) -> (Vec<Piece>, Vec<Bytes>) {
        (std::mem::take(&mut self.pieces), std::mem::take(&mut self.sent))
    }
}

fn is_thought(piece: &Piece) -> bool {
    matches!(piece, Piece::Reasoning { .. } | Piece::Sealed { .. })
}

/// Names calls whose provider gave them no id.
#[derive(Debug)]
pub(super) struct Naming {
    turn: TurnId,
    attempt: u32,
    /// The calls that were begun: in which choice, and which of it.
    begun: HashSet<(u32, u32)>,
    /// Whether one of them calls no tool by name.
    pub(super) nameless: bool,
}

impl Naming {
    pub(super) fn of(attempt: &Attempt) -> Self {
        Self {
            turn: attempt.turn.request.id,
            attempt: attempt.number,
            begun: HashSet::new(),
            nameless: false,
        }
    }

    /// Gives each call that begins in these pieces an id, if it has none: one that no other attempt has. OpenAI takes ids of at
    /// most 40 bytes.
    pub(super) fn complete(&mut self, pieces: &mut [Piece]) {
        for piece in pieces {
            if let Piece::ToolCall {
                choice,
                index,
                id,
                name,
                ..
            } = piece
                && self.begun.insert((*choice, *index))
            {
                self.nameless |= name.as_deref().unwrap_or_default().is_empty();
                if id.as_deref().unwrap_or_default().is_empty() {
                    *id = Some(format!("c{}_{index}_{}", self.attempt, self.turn));
                }
            }
        }
    }
}

/// A tool was called in a way that nobody can judge: it is not passed on.
pub(super) fn unjudgeable() -> Failure {
    let mut failure = Failure::observed(Reason::Format, Cut::Answered);
    failure.words = Some(ProviderWords::new(
        "The model called a tool in a way that the gateway cannot lay before those who judge calls.",
    ));
    failure
}
