//! The frames of a Gemini stream. There is no closing word: an answer is whole when each candidate gave its reason.

use understudy_messages::answer::{Finish, Piece};
use understudy_messages::conversation::Seal;
use understudy_messages::settings::Api;

use super::event::{Call, Candidate, Event, Part};
use crate::sse::Frame;
use crate::stream::{Delta, FrameRead, Signal};

#[cfg(test)]
mod tests;

/// The most candidates whose calls are counted: more than Gemini gives.
const MAX_CANDIDATES: u32 = 64;

/// Reads one stream.
#[derive(Debug, Default)]
pub struct Decoder {
    begun: bool,
    /// The provider's id of the answer.
    id: Option<String>,
    /// How many calls each candidate has made.
    calls: Vec<u32>,
}

impl Decoder {
    /// Reads a frame, and adds what it says to `pieces`.
    pub(crate) fn read(&mut self, frame: &Frame, pieces: Option<&mut Vec<Piece>>) -> FrameRead {
        let data = frame.data.as_deref().unwrap_or_default().trim_ascii();
        if data.is_empty() {
            return Signal::Comment.into();
        }
        let Ok(event) = Event::read(data) else {
            return Signal::Malformed.into();
        };
        let (mut delta, error) = (Delta::default(), event.error.clone());
        if error.is_some() {
            delta.error = true;
        } else {
            self.tell(event, &mut delta, pieces.unwrap_or(&mut Vec::new()));
        }
        FrameRead {
            signal: Signal::Delta(delta),
            error,
        }
    }

    /// Adds what an object says to `pieces`, and what it means to `delta`.
    pub(super) fn tell(&mut self, event: Event, delta: &mut Delta, pieces: &mut Vec<Piece>) {
        if !std::mem::replace(&mut self.begun, true) {
            self.id.clone_from(&event.id);
            pieces.push(Piece::Begin {
                id: event.id,
                model: event.model,
            });
        }
        for candidate in event.candidates {
            self.candidate(candidate, delta, pieces);
        }
        if event.blocked {
            ended(0, Finish::ContentFilter, delta, pieces);
        }
        if let Some(usage) = event.usage {
            delta.usage = Some(usage);
            pieces.push(Piece::Usage(usage));
        }
    }

    fn candidate(&mut self, candidate: Candidate, delta: &mut Delta, pieces: &mut Vec<Piece>) {
        let choice = u32::try_from(candidate.index).unwrap_or(u32::MAX);
        if choice >= MAX_CANDIDATES {
            return;
        }
        delta.choices.insert(candidate.index);
        for part in candidate.parts {
            self.part(choice, part, delta, pieces);
        }
        if let Some(finish) = candidate.finish.as_deref().and_then(finish) {
            let finish = match finish {
                Finish::Stop if self.calls_of(choice) > 0 => Finish::ToolCalls,
                finish => finish,
            };
            ended(choice, finish, delta, pieces);
        }
    }

    fn part(&mut self, choice: u32, part: Part, delta: &mut Delta, pieces: &mut Vec<Piece>) {
        let seal = part.signature.map(|data| Seal {
            maker: Api::Gemini,
            whole: false,
            data,
        });
        if let Some(call) = part.call {
            delta.tool_call = true;
            pieces.push(self.call(choice, call, seal));
            return;
        }
        delta.content |= part.is_other || part.text.is_some() && !part.is_thought;
        delta.reasoning |= seal.is_some() || part.text.is_some() && part.is_thought;
        let seal = seal.map(|seal| Piece::Sealed { choice, seal });
        match part.text {
            Some(text) if part.is_thought => {
                pieces.push(Piece::Reasoning { choice, text });
                pieces.extend(seal);
            }
            // a text's signature proves the thoughts that led to it
            Some(text) => {
                pieces.extend(seal);
                pieces.push(Piece::Text { choice, text });
            }
            None => pieces.extend(seal),
        }
    }

    /// A call; one without an id is given one that no other answer has, where this answer has one.
    fn call(&mut self, choice: u32, call: Call, seal: Option<Seal>) -> Piece {
        let place = choice as usize;
        if self.calls.len() <= place {
            self.calls.resize(place + 1, 0);
        }
        let index = self.calls_of(choice);
        self.calls[place] = index.saturating_add(1);
        let made_up = || Some(format!("call_{}_{choice}_{index}", self.id.as_deref()?));
        Piece::ToolCall {
            choice,
            index,
            id: call.id.or_else(made_up),
            name: Some(call.name),
            arguments: call.arguments,
            seal,
        }
    }

    fn calls_of(&self, choice: u32) -> u32 {
        self.calls.get(choice as usize).copied().unwrap_or(0)
    }
}

fn ended(choice: u32, finish: Finish, delta: &mut Delta, pieces: &mut Vec<Piece>) {
    delta.choices.insert(u64::from(choice));
    delta.ended.insert(u64::from(choice));
    if choice == 0 {
        delta.finish = Some(finish);
    }
    pieces.push(Piece::Finish {
        choice,
        finish,
        stop_sequence: None,
    });
}

/// What a reason means. A call that Gemini itself could not read is no answer: `Other` counts only with content.
fn finish(word: &str) -> Option<Finish> {
    match word {
        "STOP" => Some(Finish::Stop),
        "MAX_TOKENS" => Some(Finish::Length),
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Some(Finish::ContentFilter),
        "FINISH_REASON_UNSPECIFIED" => None,
        _ => Some(Finish::Other),
    }
}
