//! An answer as typed events: each an SSE event whose name is its `type`, or all of them as one JSON object.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use understudy_messages::answer::{Finish, Piece, Usage};
use understudy_messages::client::Seam;
use understudy_messages::ids::{ModelRef, Name};
use understudy_messages::terminal::TurnFailure;
use understudy_messages::tools::{ContextFitted, FallbackNotice, ToolOutcome, TurnNote};

use crate::wire::Style;

/// The most of a text that is repeated at the end.
const MOST_TEXT: usize = 32 << 20;

/// Writes one answer.
#[derive(Debug)]
pub struct Writer {
    style: Style,
    begun: bool,
    served_by: ModelRef,
    said: Said,
    /// Tokens of those who wrote earlier parts.
    earlier: Usage,
    usage: Option<Usage>,
    finish: Option<Finish>,
    tools: Vec<Tool>,
    notice: Option<FallbackNotice>,
    fitted: Option<Fitted>,
}

/// What was said so far.
#[derive(Debug, Default)]
struct Said {
    text: String,
    refusal: String,
    reasoning: String,
    is_cut: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
enum Event<'a> {
    #[serde(rename = "turn.started")]
    Started { turn: String, session: Option<&'a Name> },
    #[serde(rename = "text.delta")]
    Text { text: &'a str },
    #[serde(rename = "reasoning.delta")]
    Reasoning { text: &'a str },
    #[serde(rename = "refusal.delta")]
    Refusal { text: &'a str },
    #[serde(rename = "tool.started")]
    ToolStarted {
        call_id: &'a str,
        tool: &'a Name,
        params: &'a Map<String, Value>,
    },
    #[serde(rename = "tool.ended")]
    ToolEnded {
        call_id: &'a str,
        tool: &'a Name,
        outcome: ToolOutcome,
        result: &'a str,
    },
    #[serde(rename = "model.fallback")]
    Fallback(Notice<'a>),
    #[serde(rename = "model.fallback_cleared")]
    FallbackCleared(Notice<'a>),
    #[serde(rename = "context.fitted")]
    Fitted(Fitted),
    #[serde(rename = "usage")]
    Usage(Tokens),
    #[serde(rename = "turn.completed")]
    Completed(Outcome<'a>),
    #[serde(rename = "turn.failed")]
    Failed { error: Failure<'a>, after_content: bool },
}

impl Event<'_> {
    const fn name(&self) -> &'static str {
        match self {
            Self::Started { .. } => "turn.started",
            Self::Text { .. } => "text.delta",
            Self::Reasoning { .. } => "reasoning.delta",
            Self::Refusal { .. } => "refusal.delta",
            Self::ToolStarted { .. } => "tool.started",
            Self::ToolEnded { .. } => "tool.ended",
            Self::Fallback(_) => "model.fallback",
            Self::FallbackCleared(_) => "model.fallback_cleared",
            Self::Fitted(_) => "context.fitted",
            Self::Usage(_) => "usage",
            Self::Completed(_) => "turn.completed",
            Self::Failed { .. } => "turn.failed",
        }
    }

    fn write(&self, frames: &mut Vec<u8>) {
        let json = serde_json::to_string(self).unwrap_or_default();
        frames.extend_from_slice(format!("event: {}\ndata: {json}\n\n", self.name()).as_bytes());
    }
}

#[derive(Serialize)]
struct Notice<'a> {
    selected: &'a str,
    active: &'a str,
    text: &'a str,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Fitted {
    dropped_messages: usize,
    dropped_tool_results: usize,
    tokens: u64,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    reasoning: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    text: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    refusal: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_cut: bool,
    served_by: &'a ModelRef,
    usage: Option<Tokens>,
    finish: Option<Finish>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Failure<'a> {
    message: &'a str,
    code: &'a str,
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
}

/// All of an answer.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Whole<'a> {
    turn: String,
    session: Option<&'a Name>,
    #[serde(flatten)]
    outcome: Outcome<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    reasoning: &'a str,
    #[serde(skip_serializing_if = "<[Tool]>::is_empty")]
    tools: &'a [Tool],
    #[serde(skip_serializing_if = "Option::is_none")]
    fallback: Option<Changed<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fitted: Option<Fitted>,
}

/// A tool that ran.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    call_id: String,
    tool: Name,
    params: std::sync::Arc<Map<String, Value>>,
    outcome: Option<ToolOutcome>,
    result: Option<String>,
}

#[derive(Serialize)]
struct Changed<'a> {
    #[serde(flatten)]
    notice: Notice<'a>,
    cleared: bool,
}

impl Writer {
    /// At the beginning of an answer.
    pub(crate) fn new(style: Style) -> Self {
        Self {
            served_by: style.served_by.clone(),
            begun: false,
            said: Said::default(),
            earlier: Usage::default(),
            usage: None,
            finish: None,
            tools: Vec::new(),
            notice: None,
            fitted: None,
            style,
        }
    }

    /// Pieces as events.
    pub(crate) fn pieces(&mut self, pieces: Vec<Piece>) -> Bytes {
        let mut frames = self.begin();
        for piece in pieces {
            self.piece(piece, &mut frames);
        }
        frames.into()
    }

    /// From here on somebody else goes on with the answer, and the answer simply goes on.
    pub(crate) fn seam(&mut self, seam: &Seam) -> Bytes {
        if seam.continued {
            self.earlier = self.earlier + self.usage.take().unwrap_or_default();
        }
        self.served_by = seam.served_by.clone();
        self.begin().into()
    }

    /// Something that is no part of the answer.
    pub(crate) fn note(&mut self, note: &TurnNote) -> Bytes {
        let mut frames = self.begin();
        match note {
            TurnNote::CallRemoved(_) => {}
            TurnNote::ToolStarted { call_id, tool, params } => {
                Event::ToolStarted { call_id, tool, params }.write(&mut frames);
                if !self.streams() {
                    self.tools.push(Tool {
                        call_id: call_id.clone(),
                        tool: tool.clone(),
                        params: params.clone(),
                        outcome: None,
                        result: None,
                    });
                }
            }
            TurnNote::ToolEnded {
                call_id,
                tool,
                outcome,
                result,
            } => {
                let event = Event::ToolEnded {
                    call_id,
                    tool,
                    outcome: *outcome,
                    result,
                };
                event.write(&mut frames);
                let running = self.tools.iter_mut().rev().find(|it| it.call_id == *call_id);
                if let Some(running) = running {
                    (running.outcome, running.result) = (Some(*outcome), Some(result.clone()));
                }
            }
            TurnNote::Fallback(notice) => {
                let told = Notice::of(notice);
                let event = if notice.cleared {
                    Event::FallbackCleared(told)
                } else {
                    Event::Fallback(told)
                };
                event.write(&mut frames);
                self.notice = Some(notice.clone());
            }
            TurnNote::ContextFitted(fitted) => {
                let fitted = Fitted::of(fitted);
                Event::Fitted(fitted).write(&mut frames);
                self.fitted = Some(fitted);
            }
        }
        frames.into()
    }

    /// The end of an answer that is whole.
    pub(crate) fn end(&mut self) -> Bytes {
        let mut frames = self.begin();
        if let Some(usage) = self.total() {
            Event::Usage(usage).write(&mut frames);
        }
        Event::Completed(self.outcome()).write(&mut frames);
        frames.into()
    }

    /// The end of an answer that is not.
    pub(crate) fn fail(&mut self, failure: &TurnFailure) -> Bytes {
        let mut frames = self.begin();
        if let Some(usage) = self.total() {
            Event::Usage(usage).write(&mut frames);
        }
        let error = Failure {
            message: failure.client_message(),
            code: &failure.code,
            reason: failure.reason_label(),
            retry_after: failure.retry_after,
        };
        let after_content = !self.said.text.is_empty() || !self.said.refusal.is_empty();
        Event::Failed { error, after_content }.write(&mut frames);
        frames.into()
    }

    /// All of the answer: what has been written so far, and these pieces.
    pub(crate) fn whole(&mut self, pieces: Vec<Piece>) -> Bytes {
        let _events_of_a_stream = self.pieces(pieces);
        let whole = Whole {
            turn: self.style.request.id.to_string(),
            session: self.style.request.session.key(),
            outcome: self.outcome(),
            reasoning: &self.said.reasoning,
            tools: &self.tools,
            fallback: self.notice.as_ref().map(|notice| Changed {
                notice: Notice::of(notice),
                cleared: notice.cleared,
            }),
            fitted: self.fitted,
        };
        serde_json::to_vec(&whole).unwrap_or_default().into()
    }

    /// What a stream has told need not be gathered.
    fn streams(&self) -> bool {
        self.style.request.facts.stream
    }

    fn begin(&mut self) -> Vec<u8> {
        let mut frames = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            let request = &self.style.request;
            let started = Event::Started {
                turn: request.id.to_string(),
                session: request.session.key(),
            };
            started.write(&mut frames);
        }
        frames
    }

    /// What of a piece is told. Calls of tools are told when they run.
    fn piece(&mut self, piece: Piece, frames: &mut Vec<u8>) {
        match piece {
            Piece::Text { choice: 0, text } => {
                Event::Text { text: &text }.write(frames);
                self.said.is_cut |= !add(&mut self.said.text, &text);
            }
            Piece::Refusal { choice: 0, text } => {
                Event::Refusal { text: &text }.write(frames);
                self.said.is_cut |= !add(&mut self.said.refusal, &text);
            }
            Piece::Reasoning { choice: 0, text } => {
                Event::Reasoning { text: &text }.write(frames);
                if !self.streams() {
                    self.said.is_cut |= !add(&mut self.said.reasoning, &text);
                }
            }
            Piece::Finish { choice: 0, finish, .. } => self.finish = Some(finish),
            Piece::Usage(usage) => self.usage = Some(usage),
            Piece::Begin { .. }
            | Piece::Text { .. }
            | Piece::Refusal { .. }
            | Piece::Reasoning { .. }
            | Piece::Sealed { .. }
            | Piece::ToolCall { .. }
            | Piece::Finish { .. }
            | Piece::Ping => {}
        }
    }

    fn outcome(&self) -> Outcome<'_> {
        Outcome {
            text: &self.said.text,
            refusal: &self.said.refusal,
            is_cut: self.said.is_cut,
            served_by: &self.served_by,
            usage: self.total(),
            finish: self.finish,
        }
    }

    /// Tokens of all who wrote, as far as anything was reported.
    fn total(&self) -> Option<Tokens> {
        let total = self.earlier + self.usage.unwrap_or_default();
        (self.usage.is_some() || total != Usage::default()).then_some(Tokens {
            input: total.input,
            output: total.output,
            cache_read: total.cache_read,
            cache_write: total.cache_write,
            reasoning: total.reasoning,
        })
    }
}

impl<'a> Notice<'a> {
    fn of(notice: &'a FallbackNotice) -> Self {
        Self {
            selected: &notice.selected,
            active: &notice.active,
            text: &notice.text,
        }
    }
}

impl Fitted {
    const fn of(fitted: &ContextFitted) -> Self {
        Self {
            dropped_messages: fitted.dropped_messages,
            dropped_tool_results: fitted.dropped_tool_results,
            tokens: fitted.tokens,
        }
    }
}

/// Adds to a text; `false` where there is no room for it.
fn add(text: &mut String, more: &str) -> bool {
    let fits = text.len() + more.len() <= MOST_TEXT;
    if fits {
        text.push_str(more);
    }
    fits
}

#[cfg(test)]
mod tests;
