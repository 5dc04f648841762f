//! A whole Responses answer.

use understudy_messages::answer::Piece;
use understudy_messages::conversation::Seal;
use understudy_messages::settings::Api;

use super::response::{Item, ItemKind, Response, Voice};
use crate::answer::{AnswerError, Whole};
use crate::json::{Cursor, JsonError, JsonStr, Kind};

#[cfg(test)]
mod tests;

/// Reads a body that is one JSON answer.
///
/// # Errors
/// [`AnswerError`] when it is no answer: nothing, no JSON, or a response that is still being made.
pub(crate) fn read(body: &[u8], pieces: Option<&mut Vec<Piece>>) -> Result<Whole, AnswerError> {
    let body = body.trim_ascii();
    if body.is_empty() {
        return Err(AnswerError::NoBody);
    }
    let response = response(body).map_err(|error| match error {
        JsonError::Truncated { .. } => AnswerError::Truncated,
        JsonError::Syntax { at } | JsonError::TooDeep { at } => AnswerError::NotJson { at },
    })?;
    let error = response.failure();
    let unfinished = matches!(response.status.map(JsonStr::raw), Some("queued" | "in_progress"));
    if error.is_none() && (response.output.is_none() || unfinished) {
        return Err(AnswerError::NotAnAnswer);
    }
    let mut reading = Reading {
        pieces,
        ..Reading::default()
    };
    reading.begin(&response);
    response.items(|item| reading.item(&item));
    let calls_tools = reading.errand || reading.calls > 0;
    let finish = error.is_none().then(|| response.finish(false, calls_tools));
    if let Some(usage) = response.usage {
        reading.push(|| Piece::Usage(usage));
    }
    if let Some(finish) = finish {
        reading.push(|| Piece::Finish {
            choice: 0,
            finish,
            stop_sequence: None,
        });
    }
    Ok(Whole {
        finish,
        usage: response.usage,
        error,
        says_something: reading.says_something,
        calls_tools,
        untold: reading.errand,
    })
}

fn response(body: &[u8]) -> Result<Response<'_>, JsonError> {
    let mut cursor = Cursor::new(body)?;
    if cursor.kind()? != Kind::Object {
        return Err(JsonError::Syntax { at: cursor.position() });
    }
    let response = Response::read(&mut cursor)?;
    cursor.end()?;
    Ok(response)
}

/// The items of a response, being read.
#[derive(Default)]
struct Reading<'p> {
    pieces: Option<&'p mut Vec<Piece>>,
    says_something: bool,
    calls: u32,
    /// Whether the client has to run something that is no call of a function.
    errand: bool,
}

impl Reading<'_> {
    fn push(&mut self, piece: impl FnOnce() -> Piece) {
        if let Some(pieces) = &mut self.pieces {
            pieces.push(piece());
        }
    }

    fn begin(&mut self, response: &Response<'_>) {
        let text = |text: Option<JsonStr<'_>>| text.map(|text| text.decode().into_owned());
        self.push(|| Piece::Begin {
            id: text(response.id),
            model: text(response.model),
        });
    }

    fn item(&mut self, item: &Item<'_>) {
        match item.kind() {
            ItemKind::Message | ItemKind::Reasoning => self.texts(item),
            ItemKind::Call => self.call(item),
            ItemKind::Errand => (self.errand, self.says_something) = (true, true),
            ItemKind::Other => self.says_something = true,
        }
    }

    fn texts(&mut self, item: &Item<'_>) {
        let mut gap = "";
        item.texts(|_, voice, text| {
            if text.is_empty() {
                return;
            }
            self.says_something |= voice != Voice::Reasoning;
            let behind = std::mem::replace(&mut gap, "\n\n");
            self.push(|| {
                let (choice, text) = (0, text.decode());
                match voice {
                    Voice::Text => Piece::Text {
                        choice,
                        text: text.into_owned(),
                    },
                    Voice::Refusal => Piece::Refusal {
                        choice,
                        text: text.into_owned(),
                    },
                    Voice::Reasoning => Piece::Reasoning {
                        choice,
                        text: [behind, &text].concat(),
                    },
                }
            });
        });
        if let Some(data) = item.encrypted.filter(|_| item.kind() == ItemKind::Reasoning) {
            self.push(|| Piece::Sealed {
                choice: 0,
                seal: Seal {
                    maker: Api::OpenaiResponses,
                    whole: true,
                    data: data.decode().into_owned(),
                },
            });
        }
    }

    fn call(&mut self, item: &Item<'_>) {
        let index = self.calls;
        self.calls = self.calls.saturating_add(1);
        self.says_something = true;
        let text = |text: Option<JsonStr<'_>>| text.map(|text| text.decode().into_owned());
        self.push(|| Piece::ToolCall {
            choice: 0,
            index,
            id: text(item.call_id()),
            name: text(item.name),
            arguments: text(item.arguments).unwrap_or_default(),
            seal: None,
        });
    }
}
