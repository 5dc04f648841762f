//! Indexes that a provider left out of its tool calls, filled in: a client cannot place a piece without one.
//!
//! A piece with a new id, or with a name alone, begins a call; any other belongs to the call that was begun last.

use bytes::Bytes;

use super::event::tool_call::{self, ToolCallPiece};
use crate::json::{Cursor, JsonError, Kind};
use crate::splice::{Edit, splice};
use crate::sse::Frame;

/// The most choices whose calls are counted; pieces of others stay as they came.
const MAX_CHOICES: usize = 128;

/// The tool calls of a stream, as far as they have come.
#[derive(Debug, Default)]
pub(crate) struct Numbering(Vec<Calls>);

/// The tool calls of one choice.
#[derive(Debug)]
struct Calls {
    choice: u64,
    /// The index of the call that was begun last.
    latest: Option<u64>,
    /// Its id.
    id: String,
    /// The index of the next one.
    next: u64,
}

/// An index to write at the end of an object.
struct Missing {
    /// Where the object's closing brace stands in the data.
    at: usize,
    text: String,
}

impl Numbering {
    /// The frame's bytes with every index that was missing; the same bytes when none was.
    pub(crate) fn fill(&mut self, frame: &Frame) -> Bytes {
        let data = frame.data.as_deref().unwrap_or_default();
        match self.missing(data) {
            Ok(missing) if !missing.is_empty() => filled(frame, data, &missing),
            Ok(_) | Err(_) => frame.raw.clone(),
        }
    }

    fn missing(&mut self, data: &[u8]) -> Result<Vec<Missing>, JsonError> {
        let mut missing = Vec::new();
        let mut cursor = Cursor::new(data)?;
        cursor.object(|cursor, key| match &*key.decode() {
            "choices" => cursor.array(|cursor| self.choice(cursor, &mut missing)),
            _ => cursor.skip(),
        })?;
        Ok(missing)
    }

    fn choice(&mut self, cursor: &mut Cursor<'_>, missing: &mut Vec<Missing>) -> Result<(), JsonError> {
        let (mut choice, mut delta) = (0, None);
        cursor.object(|cursor, key| {
            match &*key.decode() {
                "index" => choice = cursor.count()?,
                "delta" => delta = Some(cursor.value()?),
                _ => cursor.skip()?,
            }
            Ok::<_, JsonError>(())
        })?;
        let Some((delta, calls)) = delta.zip(self.calls(choice)) else {
            return Ok(());
        };
        let start = cursor.span(delta).start;
        Cursor::over(delta).object(|cursor, key| match &*key.decode() {
            "tool_calls" => cursor.array(|cursor| calls.piece(cursor, start, missing)),
            _ => cursor.skip(),
        })
    }

    fn calls(&mut self, choice: u64) -> Option<&mut Calls> {
        let known = self.0.iter().position(|calls| calls.choice == choice);
        if known.is_none() && self.0.len() < MAX_CHOICES {
            self.0.push(Calls {
                choice,
                latest: None,
                id: String::new(),
                next: 0,
            });
            return self.0.last_mut();
        }
        self.0.get_mut(known?)
    }
}

impl Calls {
    fn piece(&mut self, cursor: &mut Cursor<'_>, start: usize, missing: &mut Vec<Missing>) -> Result<(), JsonError> {
        if cursor.kind()? != Kind::Object {
            return cursor.skip();
        }
        let mut piece = None;
        tool_call::piece(cursor, &mut |found| piece = Some(found))?;
        let Some(piece) = piece else { return Ok(()) };
        let index = self.place(&piece);
        if piece.index.is_none() {
            missing.push(Missing {
                at: start + cursor.position() - 1,
                text: format!(",\"index\":{index}"),
            });
        }
        Ok(())
    }

    /// The index of the call that a piece belongs to.
    fn place(&mut self, piece: &ToolCallPiece<'_>) -> u64 {
        let id = piece.id.map(|id| id.decode());
        let begins = match &id {
            Some(id) => *id != *self.id,
            None => piece.name.is_some(),
        };
        let latest = self.latest.filter(|_| !begins);
        let index = piece.index.or(latest).unwrap_or(self.next);
        if begins || self.latest != Some(index) {
            self.id = id.unwrap_or_default().into_owned();
        }
        self.latest = Some(index);
        self.next = self.next.max(index.saturating_add(1));
        index
    }
}

/// The frame's bytes with the indexes in them.
fn filled(frame: &Frame, data: &[u8], missing: &[Missing]) -> Bytes {
    let edits = |offset: usize| -> Vec<Edit<'_>> {
        let edit = |missing: &'_ Missing| offset + missing.at..offset + missing.at;
        missing
            .iter()
            .map(|it| Edit {
                span: edit(it),
                text: it.text.as_bytes(),
            })
            .collect()
    };
    if let Some(offset) = memchr::memmem::find(&frame.raw, data) {
        return splice(&frame.raw, &edits(offset));
    }
    // data of several lines: joined they are not what stands on the wire
    let data = splice(&Bytes::copy_from_slice(data), &edits(0));
    let lines = data.split(|byte| *byte == b'\n');
    let lines = lines.flat_map(|line| [b"data: ", line, b"\n"].concat());
    lines.chain(*b"\n").collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::sse::SseDecoder;

    fn frame(raw: &str) -> Frame {
        let mut decoder = SseDecoder::default();
        decoder.push(Bytes::copy_from_slice(raw.as_bytes()));
        decoder.next_frame().expect("small").expect("whole")
    }

    fn pieces(numbering: &mut Numbering, pieces: Value) -> Vec<Option<u64>> {
        let chunk = json!({ "choices": [{ "index": 0, "delta": { "tool_calls": pieces } }] });
        let filled = numbering.fill(&frame(&format!("data: {chunk}\n\n")));
        let data = filled.strip_prefix(b"data: ").expect("a data line");
        let chunk: Value = serde_json::from_slice(data).expect("JSON");
        let calls = chunk["choices"][0]["delta"]["tool_calls"].as_array().expect("calls");
        calls.iter().map(|call| call["index"].as_u64()).collect()
    }

    #[test]
    fn an_id_begins_a_call_and_what_has_none_goes_on_with_the_latest() {
        let mut numbering = Numbering::default();
        let mut next = |pieces_: Value| pieces(&mut numbering, pieces_);
        assert_eq!(next(json!([{ "id": "a", "function": { "name": "f" } }])), [Some(0)]);
        assert_eq!(next(json!([{ "function": { "arguments": "{" } }])), [Some(0)]);
        assert_eq!(
            next(json!([{ "id": "b" }, { "function": { "arguments": "x" } }])),
            [Some(1), Some(1)]
        );
        assert_eq!(
            next(json!([{ "id": "b", "index": null, "function": { "arguments": "y" } }])),
            [Some(1)]
        );
        assert_eq!(next(json!([{ "function": { "name": "old" } }])), [Some(2)]);
    }

    #[test]
    fn indexes_that_are_there_are_kept_and_counted() {
        let mut numbering = Numbering::default();
        assert_eq!(pieces(&mut numbering, json!([{ "index": 4, "id": "a" }])), [Some(4)]);
        assert_eq!(
            pieces(&mut numbering, json!([{ "function": { "arguments": "{" } }])),
            [Some(4)]
        );
        assert_eq!(pieces(&mut numbering, json!([{ "id": "b" }])), [Some(5)]);
    }

    #[test]
    fn only_the_index_is_added() {
        let raw = "id: 7\ndata:  {\"x\":1.50, \"choices\":[{\"delta\":{\"tool_calls\":[ {\"id\" : \"a\"} ]}}]}\r\n\r\n";
        let filled = Numbering::default().fill(&frame(raw));
        assert_eq!(filled, raw.replace("\"a\"}", "\"a\",\"index\":0}"));
        let whole = raw.replace("\"a\"}", "\"a\",\"index\":3}");
        assert_eq!(Numbering::default().fill(&frame(&whole)), whole);
        for other in [
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{}]}}]}\n\n",
            "data: [DONE]\n\n",
            ": ping\n\n",
            "data: {\"choices\":[{\"delta\":{\n\n",
        ] {
            assert_eq!(Numbering::default().fill(&frame(other)), other);
        }
    }

    #[test]
    fn data_of_several_lines_stays_data_of_several_lines() {
        let raw = "data: {\"choices\":[\ndata: {\"delta\":{\"tool_calls\":[{\"id\":\"a\"}]}}]}\n\n";
        let filled = Numbering::default().fill(&frame(raw));
        assert_eq!(filled, raw.replace("\"a\"}", "\"a\",\"index\":0}"));
    }
}
