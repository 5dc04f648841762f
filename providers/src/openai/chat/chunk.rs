//! A frame of a chat stream: what it means to the course of the stream.
//!
//! [`scan`] is for the path on which bytes pass through: it allocates for an error only. [`decode`] also keeps the text.

use bytes::Bytes;
use understudy_messages::answer::Finish;

use super::answer::Assembly;
use super::event::tool_call::Gap;
use super::event::{Event, Part, Said, walk};
use crate::splice::{Edit, splice};
use crate::sse::Frame;
use crate::stream::{Delta, FrameRead, Signal};
use crate::wire_error::WireError;

pub(crate) use self::numbering::Numbering;

mod numbering;
#[cfg(test)]
mod tests;

/// Reads a frame as far as the course of the stream depends on it.
pub fn scan(frame: &Frame) -> FrameRead {
    read(frame, |_| {})
}

/// Reads a frame as [`scan`] does, and gives its bytes for the client: an index is put into every piece of a tool call
/// that came without one. A frame that needs none is not copied; a malformed frame counts for nothing.
pub(crate) fn scan_numbered(frame: &Frame, numbering: &mut Numbering) -> (FrameRead, Bytes) {
    let (opened, mut gaps) = (numbering.opened(), Vec::new());
    let read = read(frame, |event| {
        if let Event::ToolCall { choice, piece } = event
            && (piece.index.is_some() || piece.gap.is_some())
        {
            let index = numbering.index_of(choice, &piece);
            gaps.extend(piece.gap.zip(index));
        }
    });
    if read.signal == Signal::Malformed {
        numbering.close_after(opened);
        gaps.clear();
    }
    let raw = fill(frame, &gaps);
    (read, raw)
}

/// The frame's bytes with these indexes in their places.
fn fill(frame: &Frame, gaps: &[(Gap, u64)]) -> Bytes {
    if gaps.is_empty() {
        return frame.raw.clone();
    }
    let blank = frame
        .data
        .as_deref()
        .map_or(0, |data| data.len() - data.trim_ascii_start().len());
    let mut place_in_raw = frame.places_in_raw();
    let filled = gaps.iter().filter_map(|(gap, index)| {
        let (before, after) = gap.around;
        let start = place_in_raw(blank + gap.span.start)?;
        Some((start..start + gap.span.len(), format!("{before}{index}{after}")))
    });
    let filled: Vec<_> = filled.collect();
    let edits: Vec<_> = filled
        .iter()
        .map(|(span, text)| Edit {
            span: span.clone(),
            text: text.as_bytes(),
        })
        .collect();
    splice(&frame.raw, &edits)
}

/// Reads a frame and adds what it says to `answer`. A malformed frame adds nothing.
pub fn decode(frame: &Frame, answer: &mut Assembly) -> FrameRead {
    let (read, events) = events(frame);
    events.into_iter().for_each(|event| answer.add(event));
    read
}

/// Reads a frame and gives what it says. A malformed frame says nothing.
pub(super) fn events(frame: &Frame) -> (FrameRead, Vec<Event<'_>>) {
    let mut events = Vec::new();
    let read = read(frame, |event| events.push(event));
    if !matches!(read.signal, Signal::Delta(_)) {
        events.clear();
    }
    (read, events)
}

fn read<'a>(frame: &'a Frame, mut tap: impl FnMut(Event<'a>)) -> FrameRead {
    let named_error = frame.event.as_deref() == Some(b"error");
    let data = frame.data.as_deref().unwrap_or_default().trim_ascii();
    if data.is_empty() && !named_error {
        return Signal::Comment.into();
    }
    if data == b"[DONE]" {
        return Signal::Done.into();
    }
    let mut delta = Delta::default();
    let mut error = None;
    let walked = walk(data, Said::Delta, &mut |event| match event {
        Event::Error(found) => keep(&mut error, found),
        event => {
            delta.note(&event);
            tap(event);
        }
    });
    if named_error && error.is_none() {
        error = Some(unwrapped(data));
    } else if walked.is_err() {
        return Signal::Malformed.into();
    }
    delta.error = error.is_some();
    FrameRead {
        signal: Signal::Delta(delta),
        error,
    }
}

/// Keeps the first error that says something.
pub(super) fn keep(slot: &mut Option<WireError>, found: WireError) {
    if slot.as_ref().is_none_or(|known| *known == WireError::default()) {
        *slot = Some(found);
    }
}

/// The error of a frame named `error` whose data is itself the error, JSON or not.
pub(crate) fn unwrapped(data: &[u8]) -> WireError {
    let text = String::from_utf8_lossy(data);
    let mut whole = crate::json::Cursor::over(&text);
    let is_json = whole.skip().and_then(|_| whole.end()).is_ok();
    let error = if is_json {
        WireError::read(&text).ok().flatten()
    } else {
        None
    };
    error.unwrap_or_else(|| WireError::words(&text))
}

impl Delta {
    /// Adds what an event means to the course of the stream.
    fn note(&mut self, event: &Event<'_>) {
        match event {
            Event::Choice { choice, finish } => {
                self.choices.insert(*choice);
                if finish.is_some() {
                    self.ended.insert(*choice);
                }
                self.finish = finish.filter(|_: &Finish| *choice == 0).or(self.finish);
            }
            Event::Text {
                part: Part::Reasoning, ..
            }
            | Event::Details { .. } => self.reasoning = true,
            Event::Text {
                part: Part::Content | Part::Refusal,
                ..
            } => self.content = true,
            Event::ToolCall { piece, .. } => self.tool_call |= piece.says_something(),
            Event::Usage(usage) => self.usage = Some(*usage),
            Event::Error(_) => self.error = true,
        }
    }
}
