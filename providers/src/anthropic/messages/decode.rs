//! The frames of an Anthropic Messages stream.
//!
//! Each is read in place; on the path on which bytes pass through nothing is allocated but for errors.

use understudy_messages::answer::{Finish, Piece};

use super::block::{Block, BlockKind, owned, sealed};
use super::event::{self, Event};
use super::usage::Report;
use crate::json::JsonStr;
use crate::openai::chat::chunk::unwrapped;
use crate::sse::Frame;
use crate::stream::{Delta, FrameRead, Signal};
use crate::wire_error::WireError;

#[cfg(test)]
mod tests;

/// The most tool calls that are told of one answer: several times what providers allow.
const MAX_CALLS: usize = 1024;
/// The input of a block that begins empty.
const NO_INPUT: &str = "{}";
/// The longest signature that is kept: hundreds of times what there is.
const MAX_SIGNATURE: usize = 1 << 20;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct Decoder {
    begun: bool,
    usage: Report,
    /// The latest block, where it tells what the provider itself did.
    hosted: Option<u64>,
    /// The block of each tool call, in the order in which they began.
    calls: Vec<u64>,
    /// Whether a call was left out, or some of one.
    untold: bool,
    /// What is said when its block ends.
    held: Option<Held>,
}

#[derive(Debug)]
enum Held {
    /// The signature of a thinking block.
    Signature(String),
    /// The input of a tool as it stood in the block's beginning, as long as no delta tells more.
    Input { call: u32, input: String },
}

/// Where pieces go, if anybody wants them.
type Out<'a> = Option<&'a mut Vec<Piece>>;

impl Decoder {
    /// Reads a frame, and adds what it says to `pieces`.
    pub(crate) fn read(&mut self, frame: &Frame, mut pieces: Option<&mut Vec<Piece>>) -> FrameRead {
        let name = frame.event.as_deref().unwrap_or_default();
        let data = event::data(frame);
        if data.is_empty() && name != b"error" {
            return Signal::Comment.into();
        }
        if data == b"[DONE]" {
            return Signal::Done.into();
        }
        let event = match Event::read(data) {
            Ok(event) => event,
            Err(_) if name == b"error" => return failed(None, data),
            Err(_) => return Signal::Malformed.into(),
        };
        let kind = event.kind.map(JsonStr::decode);
        let kind = kind.as_deref().map_or(name, str::as_bytes);
        let error = event.error();
        if error.is_some() || kind == b"error" || name == b"error" {
            return failed(error, data);
        }
        self.event(kind, &event, &mut pieces).into()
    }

    /// Whether a tool was called without pieces that tell of it; known where pieces were asked for.
    pub(crate) fn untold(&self) -> bool {
        self.untold
    }

    fn event(&mut self, kind: &[u8], event: &Event<'_>, out: &mut Out<'_>) -> Signal {
        let delta = match kind {
            b"message_start" => self.start(event, out),
            b"content_block_start" => self.block(event, out),
            b"content_block_delta" => self.delta(event, out),
            b"content_block_stop" => {
                self.close(out);
                Delta::default()
            }
            b"message_delta" => self.end(event, out),
            b"message_stop" => {
                self.close(out);
                return Signal::Done;
            }
            b"ping" => {
                say(out, || Piece::Ping);
                return Signal::Comment;
            }
            _ => Delta::default(),
        };
        Signal::Delta(delta)
    }

    fn start(&mut self, event: &Event<'_>, out: &mut Out<'_>) -> Delta {
        let message = &event.message;
        if !std::mem::replace(&mut self.begun, true) {
            say(out, || Piece::Begin {
                id: message.id.map(owned),
                model: message.model.map(owned),
            });
        }
        let mut delta = Delta::default();
        self.report(message.usage, &mut delta, out);
        delta
    }

    /// A block begins. Most begin empty, but some providers say all of it here.
    fn block(&mut self, event: &Event<'_>, out: &mut Out<'_>) -> Delta {
        self.close(out);
        let block = &event.block;
        let kind = block.kind();
        self.hosted = (kind == BlockKind::Hosted).then_some(event.index);
        match kind {
            BlockKind::Text | BlockKind::Thinking => self.said(block, out),
            BlockKind::RedactedThinking => {
                if let Some(data) = block.data {
                    say(out, || sealed(true, owned(data)));
                }
                speaking(|delta| delta.reasoning = true)
            }
            BlockKind::ToolUse => {
                if out.is_some() {
                    self.call(event.index, block, out);
                }
                speaking(|delta| delta.tool_call = true)
            }
            BlockKind::Hosted => speaking(|delta| delta.content = true),
            BlockKind::Other => Delta::default(),
        }
    }

    /// More of a block: the delta's members tell what it is.
    fn delta(&mut self, event: &Event<'_>, out: &mut Out<'_>) -> Delta {
        if self.hosted == Some(event.index) {
            return speaking(|delta| delta.content = true);
        }
        let Some(input) = event.delta.partial_json else {
            return self.said(&event.delta, out);
        };
        if let Some(call) = self.calls.iter().rposition(|block| *block == event.index) {
            if matches!(&self.held, Some(Held::Input { call: held, .. }) if *held as usize == call) {
                self.held = None;
            }
            say(out, || arguments(call as u32, owned(input)));
        } else {
            self.untold = true;
        }
        speaking(|delta| delta.tool_call = true)
    }

    /// Text, reasoning, and what seals it.
    fn said(&mut self, block: &Block<'_>, out: &mut Out<'_>) -> Delta {
        let mut delta = Delta::default();
        if let Some(text) = block.text {
            delta.content = true;
            say(out, || Piece::Text {
                choice: 0,
                text: owned(text),
            });
        }
        if let Some(text) = block.thinking {
            delta.reasoning = true;
            say(out, || Piece::Reasoning {
                choice: 0,
                text: owned(text),
            });
        }
        if let Some(signature) = block.signature {
            delta.reasoning = true;
            if out.is_some() {
                self.sign(&signature.decode());
            }
        }
        if delta.content || delta.reasoning {
            delta.choices.insert(0);
        }
        delta
    }

    /// One that outgrows the bound is not said at all.
    fn sign(&mut self, more: &str) {
        match &mut self.held {
            Some(Held::Signature(signature)) if signature.len() <= MAX_SIGNATURE => signature.push_str(more),
            Some(Held::Signature(_)) => {}
            held => *held = Some(Held::Signature(more.to_owned())),
        }
    }

    fn call(&mut self, index: u64, block: &Block<'_>, out: &mut Out<'_>) {
        if self.calls.len() == MAX_CALLS {
            self.untold = true;
            return;
        }
        let call = self.calls.len() as u32;
        self.calls.push(index);
        self.held = Some(Held::Input {
            call,
            input: block.input.unwrap_or(NO_INPUT).to_owned(),
        });
        say(out, || Piece::ToolCall {
            choice: 0,
            index: call,
            id: block.id.map(owned),
            name: block.name.map(owned),
            arguments: String::new(),
            seal: None,
        });
    }

    /// The block ends: what was held of it is said.
    fn close(&mut self, out: &mut Out<'_>) {
        match self.held.take() {
            Some(Held::Signature(signature)) if signature.len() > MAX_SIGNATURE => {}
            Some(Held::Signature(signature)) => say(out, || sealed(false, signature)),
            Some(Held::Input { call, input }) => say(out, || arguments(call, input)),
            None => {}
        }
    }

    fn end(&mut self, event: &Event<'_>, out: &mut Out<'_>) -> Delta {
        let (reason, sequence) = (event.delta.stop_reason, event.delta.stop_sequence);
        let finish = event::finish(reason);
        if finish == Some(Finish::Length) && matches!(&self.held, Some(Held::Input { input, .. }) if input == NO_INPUT)
        {
            // a call that was cut before its input is not one without any
            self.held = None;
        }
        self.close(out);
        let mut delta = Delta {
            finish,
            ..Delta::default()
        };
        self.report(event.usage, &mut delta, out);
        if let Some(finish) = finish {
            delta.choices.insert(0);
            delta.ended.insert(0);
            say(out, || Piece::Finish {
                choice: 0,
                finish,
                stop_sequence: event::stop_sequence(reason, sequence),
            });
        }
        delta
    }

    fn report(&mut self, report: Report, delta: &mut Delta, out: &mut Out<'_>) {
        if !self.usage.update(report) {
            return;
        }
        delta.usage = self.usage.usage();
        if let Some(usage) = delta.usage {
            say(out, || Piece::Usage(usage));
        }
    }
}

fn failed(error: Option<WireError>, data: &[u8]) -> FrameRead {
    let delta = Delta {
        error: true,
        ..Delta::default()
    };
    FrameRead {
        signal: Signal::Delta(delta),
        error: Some(error.unwrap_or_else(|| unwrapped(data))),
    }
}

/// A delta of the one choice that there is.
fn speaking(says: impl FnOnce(&mut Delta)) -> Delta {
    let mut delta = Delta::default();
    delta.choices.insert(0);
    says(&mut delta);
    delta
}

fn say(out: &mut Out<'_>, piece: impl FnOnce() -> Piece) {
    if let Some(pieces) = out {
        pieces.push(piece());
    }
}

fn arguments(call: u32, arguments: String) -> Piece {
    Piece::ToolCall {
        choice: 0,
        index: call,
        id: None,
        name: None,
        arguments,
        seal: None,
    }
}
