//! A correct answer to whatever was asked, in the wire format in which it was asked.

use std::time::Duration;

use serde_json::Value;
use understudy_messages::settings::Api;

use super::asked::Asked;
use super::call::{Answer, AnswerUsage, Piece};

mod chat;
mod gemini;
mod messages;
mod responses;

/// `created` of every answer: the same answer has the same bytes.
const CREATED: u64 = 1_760_000_000;

/// One answer, made to measure for one request.
pub(crate) struct MadeAnswer<'a> {
    script: &'a Answer,
    asked: &'a Asked<'a>,
    text: String,
    model: &'a str,
    number: u64,
    usage: AnswerUsage,
}

/// A tool call of an answer.
struct MadeCall<'a> {
    id: String,
    name: &'a str,
    arguments: &'a Value,
}

/// One event of a streamed answer.
struct Beat {
    /// Whether the reader sees something of the answer in it: the script's waits stand before these.
    is_content: bool,
    frame: String,
}

impl Beat {
    fn silent(frame: String) -> Self {
        Self {
            is_content: false,
            frame,
        }
    }

    fn content(frame: String) -> Self {
        Self {
            is_content: true,
            frame,
        }
    }
}

impl<'a> MadeAnswer<'a> {
    /// The answer to the request with this number.
    pub(crate) fn new(script: &'a Answer, asked: &'a Asked<'_>, number: u64) -> Self {
        let model = asked.model.as_deref().unwrap_or_default();
        let last = asked.last_user_text();
        let text = fill(&script.text, number, model, &last);
        let words = |text: &str| text.split_whitespace().count() as u64;
        let usage = script.usage.unwrap_or_else(|| AnswerUsage {
            prompt_tokens: words(&last),
            completion_tokens: words(&text),
        });
        Self {
            script,
            asked,
            text,
            model,
            number,
            usage,
        }
    }

    /// The frames of the streamed answer.
    pub(crate) fn frames(&self) -> Vec<Piece> {
        let beats = match self.asked.api {
            Api::OpenaiChat => chat::beats(self, self.asked.include_usage()),
            Api::OpenaiResponses => responses::beats(self),
            Api::AnthropicMessages => messages::beats(self),
            Api::Gemini => gemini::beats(self),
        };
        let mut next = self.script.first;
        let wait = |is_content: bool| match is_content {
            true => std::mem::replace(&mut next, self.script.every),
            false => Duration::ZERO,
        };
        let waits: Vec<Duration> = beats.iter().map(|beat| beat.is_content).map(wait).collect();
        let left = self.before_the_cut(&beats);
        let frames = beats.into_iter().zip(waits).take(left);
        frames.map(|(beat, wait)| Piece::once(wait, beat.frame)).collect()
    }

    /// How many events are sent at all.
    fn before_the_cut(&self, beats: &[Beat]) -> usize {
        let Some(cut) = self.script.cut_after else {
            return beats.len();
        };
        let contents = beats.iter().enumerate().filter(|(_, beat)| beat.is_content);
        let last = contents.take(cut.get() as usize).last();
        last.map_or(0, |(place, _)| place + 1)
    }

    /// The answer as one JSON body, and how long it takes to write: as long as the stream would.
    pub(crate) fn whole(&self) -> (Duration, String) {
        let body = match self.asked.api {
            Api::OpenaiChat => chat::whole(self),
            Api::OpenaiResponses => responses::whole(self),
            Api::AnthropicMessages => messages::whole(self),
            Api::Gemini => gemini::whole(self),
        };
        let takes = self.frames().iter().map(|frame| frame.after).sum();
        (takes, body.to_string())
    }

    fn texts(&self) -> Vec<String> {
        pieces_of(&self.text, self.script.chunks.get() as usize)
    }

    /// An id that begins in this way: the same request has the same.
    fn id(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.number)
    }

    fn calls(&self) -> impl Iterator<Item = MadeCall<'_>> {
        (0..)
            .zip(&self.script.tool_calls)
            .map(|(index, call): (u64, _)| MadeCall {
                id: self.id(&format!("call_sim_{index}_")),
                name: &call.name,
                arguments: &call.arguments,
            })
    }

    fn total(&self) -> u64 {
        self.usage.prompt_tokens.saturating_add(self.usage.completion_tokens)
    }
}

impl MadeCall<'_> {
    /// Its arguments in two pieces.
    fn arguments(&self) -> Vec<String> {
        pieces_of(&self.arguments.to_string(), 2)
    }
}

/// An event that carries its type as a name.
fn named(data: &Value) -> String {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}

/// The template with its four names replaced, in one pass: what is put in is not read again.
fn fill(template: &str, number: u64, model: &str, last: &str) -> String {
    let number = number.to_string();
    let tag = last.split_whitespace().find(|word| word.starts_with('#'));
    let names = [
        ("{n}", number.as_str()),
        ("{model}", model),
        ("{last}", last),
        ("{tag}", tag.unwrap_or_default()),
    ];
    let mut filled = String::with_capacity(template.len() + last.len());
    let mut rest = template;
    while let Some(brace) = rest.find('{') {
        filled.push_str(&rest[..brace]);
        rest = &rest[brace..];
        let named = names.iter().find(|(name, _)| rest.starts_with(name));
        let (name, value) = named.copied().unwrap_or(("{", "{"));
        filled.push_str(value);
        rest = &rest[name.len()..];
    }
    filled + rest
}

/// The text in at most `count` pieces of about the same number of characters; no piece is empty.
fn pieces_of(text: &str, count: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(count.max(1)).max(1);
    let pieces = characters.chunks(size);
    pieces.map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests;
