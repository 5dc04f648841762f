//! From the events of a chat answer to pieces.

use understudy_messages::answer::{Finish, Piece};
use understudy_messages::conversation::Seal;
use understudy_messages::settings::Api;

use crate::json::{Cursor, JsonError, JsonStr};
use crate::openai::chat::event::tool_call::{Arguments, ToolCallPiece};
use crate::openai::chat::event::{Event, Part};

/// The most tool calls of one answer that are told apart, in all choices: later ones are left out.
const MAX_CALLS: usize = 1024;
/// The most bytes of arguments that are kept for a call whose name has not come.
const MAX_EARLY: usize = 64 << 10;

/// The most bytes of reasoning that are kept to know it again, and the most choices of which it is.
const MAX_THOUGHT: usize = 1 << 20;
const MAX_CHOICES: usize = 128;

/// What is known of an answer from what was told already.
#[derive(Debug, Default)]
pub(in crate::openai::chat) struct Telling {
    calls: Vec<Call>,
    /// Whether a call was left out.
    left_out: bool,
    /// Whether a call was told in one way and then in another.
    differs: bool,
    /// The reasoning of each choice since its last seal.
    thoughts: Vec<(u64, String)>,
}

/// A tool call that was begun.
#[derive(Debug)]
struct Call {
    choice: u64,
    /// Its place among the calls of its choice.
    place: u32,
    /// The provider's index.
    index: Option<u64>,
    id: Option<String>,
    /// Its name, once it has come and with it the call's beginning.
    name: Option<String>,
    /// Arguments that came before the name.
    early: String,
}

impl Call {
    /// Whether a piece names or numbers it in another way.
    fn differs(&self, piece: &ToolCallPiece<'_>) -> bool {
        let renamed = self.name.as_deref().zip(piece.name);
        let moved = self.index.zip(piece.index);
        renamed.is_some_and(|(known, name)| name.decode() != known)
            || moved.is_some_and(|(known, index)| known != index)
    }
}

impl Telling {
    /// Adds what the events of one frame, or of a whole answer, say: reasoning comes before
    /// what else was said, and the ends of choices after it.
    pub(in crate::openai::chat) fn tell(&mut self, events: &[Event<'_>], pieces: &mut Vec<Piece>) {
        self.reasoning(events, pieces);
        for event in events {
            match event {
                Event::Text { choice, part, text } if !text.is_empty() && *part != Part::Reasoning => {
                    pieces.push(said(*choice, *part, text.decode().into_owned()));
                }
                Event::ToolCall { choice, piece } if piece.says_something() => {
                    pieces.extend(self.tool_call(*choice, piece));
                }
                Event::Usage(usage) => pieces.push(Piece::Usage(*usage)),
                Event::Text { .. }
                | Event::Details { .. }
                | Event::ToolCall { .. }
                | Event::Choice { .. }
                | Event::Error(_) => {}
            }
        }
        for event in events {
            if let Event::Choice {
                choice,
                finish: Some(finish),
            } = event
            {
                pieces.push(self.ended(*choice, *finish));
            }
        }
    }

    /// Whether a tool was called without pieces that tell of it: one too many, or one that has no name.
    pub(in crate::openai::chat) fn untold(&self) -> bool {
        self.left_out || self.calls.iter().any(|call| call.name.is_none())
    }

    /// Whether a call was told in one way and then in another: what was told first is in the pieces.
    pub(in crate::openai::chat) fn differs(&self) -> bool {
        self.differs
    }

    /// The end of a choice: one that asked for tools ended for them, whatever some providers call it.
    fn ended(&self, choice: u64, finish: Finish) -> Piece {
        let calls_tools = self.calls.iter().any(|call| call.choice == choice);
        Piece::Finish {
            choice: narrow(choice),
            finish: match finish {
                Finish::Stop if calls_tools => Finish::ToolCalls,
                finish => finish,
            },
            stop_sequence: None,
        }
    }

    /// The reasoning, wherever among the members it stands: it came first.
    fn reasoning(&mut self, events: &[Event<'_>], pieces: &mut Vec<Piece>) {
        for event in events {
            match event {
                Event::Text {
                    choice,
                    part: Part::Reasoning,
                    text,
                } if !is_detailed(events, *choice) => self.think(*choice, text.decode().into_owned(), pieces),
                Event::Details { choice, details } => self.details(*choice, details, pieces),
                _ => {}
            }
        }
    }

    fn think(&mut self, choice: u64, text: String, pieces: &mut Vec<Piece>) {
        let known = self.thoughts.iter().position(|(of, _)| *of == choice);
        if known.is_none() && self.thoughts.len() < MAX_CHOICES {
            self.thoughts.push((choice, String::new()));
        }
        let thought = self.thoughts.iter_mut().find(|(of, _)| *of == choice);
        if let Some((_, thought)) = thought.filter(|(_, thought)| thought.len() + text.len() <= MAX_THOUGHT) {
            thought.push_str(&text);
        }
        pieces.push(said(choice, Part::Reasoning, text));
    }

    /// Details come piece by piece, or at the end of a block once more as a whole, with its seal.
    fn details(&mut self, choice: u64, json: &str, pieces: &mut Vec<Piece>) {
        let mut details = details(json).into_iter().peekable();
        while let Some(detail) = details.next() {
            let ends = detail.signature.is_some() || details.peek().is_some_and(|next| next.data.is_some());
            if let Some(text) = detail.text {
                let thought = self.thoughts.iter().find(|(of, _)| *of == choice);
                if !(ends && thought.is_some_and(|(_, thought)| *thought == text)) {
                    self.think(choice, text, pieces);
                }
            }
            let signature = detail.signature.map(|data| seal(false, data));
            if let Some(seal) = signature.or(detail.data.map(|data| seal(true, data))) {
                self.thoughts.retain(|(of, _)| *of != choice);
                pieces.push(Piece::Sealed {
                    choice: narrow(choice),
                    seal,
                });
            }
        }
    }

    fn tool_call(&mut self, choice: u64, piece: &ToolCallPiece<'_>) -> Option<Piece> {
        let owned = |text: Option<JsonStr<'_>>| text.map(|text| text.decode().into_owned());
        let arguments = match piece.arguments {
            Some(Arguments::Text(text)) => text.decode().into_owned(),
            Some(Arguments::Json(json)) => json.to_owned(),
            None => String::new(),
        };
        let seal = owned(piece.signature).map(|data| seal(false, data));
        let begun = self.begun(choice, piece);
        let call = match begun {
            Some(place) => {
                let call = self.calls.get_mut(place)?;
                self.differs |= call.differs(piece);
                call
            }
            None => self.begin(choice, piece)?,
        };
        if call.name.is_some() {
            let says_something = !arguments.is_empty() || seal.is_some();
            return says_something.then_some(Piece::ToolCall {
                choice: narrow(choice),
                index: call.place,
                id: None,
                name: None,
                arguments,
                seal,
            });
        }
        if call.early.len() + arguments.len() <= MAX_EARLY || piece.name.is_some() {
            call.early.push_str(&arguments);
        }
        let name = owned(piece.name)?;
        call.name = Some(name.clone());
        Some(Piece::ToolCall {
            choice: narrow(choice),
            index: call.place,
            id: call.id.clone(),
            name: Some(name),
            arguments: std::mem::take(&mut call.early),
            seal,
        })
    }

    /// Which begun call a piece belongs to: the one with its id, else with its index, else the latest. A new id together
    /// with a name begins a new call, whatever its index; without an index either of them does.
    fn begun(&self, choice: u64, piece: &ToolCallPiece<'_>) -> Option<usize> {
        let place =
            |fits: &dyn Fn(&Call) -> bool| self.calls.iter().rposition(|call| call.choice == choice && fits(call));
        let id = piece.id.map(JsonStr::decode);
        let known = id.as_ref().and_then(|id| place(&|call| call.id.as_deref() == Some(id)));
        known.or_else(|| match (piece.index, id.is_some(), piece.name.is_some()) {
            (Some(_), true, true) => None,
            (Some(_), ..) => place(&|call| call.index == piece.index),
            (None, false, false) => place(&|_| true),
            (None, ..) => None,
        })
    }

    /// A new call.
    fn begin(&mut self, choice: u64, piece: &ToolCallPiece<'_>) -> Option<&mut Call> {
        if self.calls.len() == MAX_CALLS {
            self.left_out = true;
            return None;
        }
        let place = self.calls.iter().filter(|call| call.choice == choice).count();
        self.calls.push(Call {
            choice,
            place: narrow(place as u64),
            index: piece.index,
            id: piece.id.map(|id| id.decode().into_owned()),
            name: None,
            early: String::new(),
        });
        self.calls.last_mut()
    }
}

fn said(choice: u64, part: Part, text: String) -> Piece {
    let choice = narrow(choice);
    match part {
        Part::Content => Piece::Text { choice, text },
        Part::Refusal => Piece::Refusal { choice, text },
        Part::Reasoning => Piece::Reasoning { choice, text },
    }
}

fn seal(whole: bool, data: String) -> Seal {
    Seal {
        maker: Api::OpenaiChat,
        whole,
        data,
    }
}

fn narrow(choice: u64) -> u32 {
    u32::try_from(choice).unwrap_or(u32::MAX)
}

/// One of `reasoning_details`.
#[derive(Default)]
struct Detail {
    text: Option<String>,
    signature: Option<String>,
    data: Option<String>,
}

/// Reads details leniently; an error would have shown when the frame was walked.
fn details(json: &str) -> Vec<Detail> {
    let mut details = Vec::new();
    let read = Cursor::over(json).array(|cursor| {
        let mut detail = Detail::default();
        cursor.object(|cursor, key| {
            let slot = match &*key.decode() {
                "text" | "summary" => &mut detail.text,
                "signature" => &mut detail.signature,
                "data" => &mut detail.data,
                _ => return cursor.skip(),
            };
            let text = cursor.text()?.filter(|text| !text.is_empty());
            *slot = text.map(|text| text.decode().into_owned());
            Ok(())
        })?;
        details.push(detail);
        Ok::<_, JsonError>(())
    });
    read.map(|()| details).unwrap_or_default()
}

/// Whether a choice's details carry its reasoning's text: then it stands there block by block.
fn is_detailed(events: &[Event<'_>], choice: u64) -> bool {
    events.iter().any(|event| match event {
        Event::Details {
            choice: of,
            details: json,
        } if *of == choice => details(json).iter().any(|detail| detail.text.is_some()),
        _ => false,
    })
}
