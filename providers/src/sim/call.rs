//! One call of a script: what happens to one request, as it is written.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// What happens to one request.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "CallFields")]
pub(crate) struct Call {
    pub(crate) connect: Connect,
    /// Between the request and the first byte of the response.
    pub(crate) delay: Duration,
    /// Whether there is a status line; without it the content goes out bare.
    pub(crate) head: bool,
    pub(crate) status: Option<u16>,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) content: Content,
    pub(crate) then: Option<Then>,
    /// For how many requests in a row.
    pub(crate) times: NonZeroU64,
}

/// What follows the response head.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Body(Bytes),
    /// Pieces of the body with the wait before each.
    Timed(Vec<Piece>),
    /// The recording with this id; replaced by its content before anything is played.
    Recording(String),
    Answer(Answer),
}

/// One network write, `count` times, each after a wait of `after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) after: Duration,
    pub(crate) bytes: Bytes,
    pub(crate) count: u32,
}

impl Piece {
    /// A write that happens once.
    pub(crate) fn once(after: Duration, bytes: impl Into<Bytes>) -> Self {
        Self {
            after,
            bytes: bytes.into(),
            count: 1,
        }
    }
}

/// A correct answer, streamed or whole and in the wire format in which the request asks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    /// May hold `{n}` (call number), `{model}`, `{last}` (text of the newest user message) and `{tag}` (its first word that
    /// begins with `#`).
    pub(crate) text: String,
    /// In how many content chunks it is streamed; fewer when the text is shorter.
    #[serde(default = "three")]
    pub(crate) chunks: NonZeroU32,
    #[serde(default, rename = "every_ms", deserialize_with = "millis")]
    pub(crate) every: Duration,
    #[serde(default, rename = "first_ms", deserialize_with = "millis")]
    pub(crate) first: Duration,
    pub(crate) usage: Option<AnswerUsage>,
    pub(crate) reasoning: Option<String>,
    /// Streamed, nothing is sent after so many content chunks; the call's `then` says how it ends.
    pub(crate) cut_after: Option<NonZeroU32>,
    /// Tools that it calls after its text.
    #[serde(default)]
    pub(crate) tool_calls: Vec<AnswerCall>,
}

/// A tool that an answer calls.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerCall {
    pub(crate) name: String,
    /// An object.
    pub(crate) arguments: Value,
}

/// Tokens that an answer claims to have used.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerUsage {
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
}

/// What the port does with somebody who connects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Connect {
    #[default]
    Accept,
    /// A reset answers the connect.
    Refuse,
    /// Nothing answers the connect.
    Blackhole,
}

/// How a call ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// The body ends in the proper HTTP way.
    #[default]
    Close,
    /// The connection is reset before the body has ended.
    Reset,
    /// Nothing more is sent until the peer leaves.
    Hang,
}

/// Why a call cannot be played.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("a call takes one of `body`, `frames`, `writes`, `recording`, `answer`")]
    Content,
    #[error("a status has three digits, not {0}")]
    Status(u16),
    #[error("header `{0}` cannot be written on one line")]
    Header(String),
    #[error("a write is not base64")]
    Base64(#[from] base64::DecodeError),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallFields {
    #[serde(default)]
    connect: Connect,
    #[serde(default, rename = "delay_ms", deserialize_with = "millis")]
    delay: Duration,
    #[serde(default = "yes")]
    head: bool,
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<Value>,
    frames: Option<Vec<Frame>>,
    writes: Option<Vec<(u64, Write)>>,
    recording: Option<String>,
    answer: Option<Answer>,
    then: Option<Then>,
    #[serde(default = "once")]
    times: NonZeroU64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Frame {
    Once(u64, String),
    Repeated(u64, String, u32),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Write {
    Text(String),
    Base64(String),
}

impl TryFrom<CallFields> for Call {
    type Error = CallError;

    fn try_from(mut fields: CallFields) -> Result<Self, CallError> {
        let content = content(&mut fields)?;
        if let Some(status) = fields.status.filter(|s| !(100..=999).contains(s)) {
            return Err(CallError::Status(status));
        }
        let one_line = |text: &str| !text.contains(['\r', '\n', '\0']);
        for (name, value) in &fields.headers {
            if name.is_empty() || !one_line(name) || !one_line(value) {
                return Err(CallError::Header(name.clone()));
            }
        }
        Ok(Self {
            connect: fields.connect,
            delay: fields.delay,
            head: fields.head,
            status: fields.status,
            headers: fields.headers,
            content,
            then: fields.then,
            times: fields.times,
        })
    }
}

fn content(fields: &mut CallFields) -> Result<Content, CallError> {
    let frames = fields.frames.take().map(|frames| {
        let pieces = frames.into_iter().map(Piece::from).collect();
        Ok(Content::Timed(pieces))
    });
    let writes = fields.writes.take().map(|writes| {
        let pieces = writes.into_iter().map(Piece::try_from);
        Ok(Content::Timed(pieces.collect::<Result<_, CallError>>()?))
    });
    let body = fields.body.take().map(|body| match body {
        Value::String(text) => Ok(Content::Body(text.into())),
        json => Ok(Content::Body(json.to_string().into())),
    });
    let recording = fields.recording.take().map(|id| Ok(Content::Recording(id)));
    let answer = fields.answer.take().map(|it| Ok(Content::Answer(it)));
    let mut given = [body, frames, writes, recording, answer].into_iter().flatten();
    match (given.next(), given.next()) {
        (None, _) => Ok(Content::Body(Bytes::new())),
        (Some(content), None) => content,
        (Some(_), Some(_)) => Err(CallError::Content),
    }
}

impl From<Frame> for Piece {
    fn from(frame: Frame) -> Self {
        let (after, text, count) = match frame {
            Frame::Once(after, text) => (after, text, 1),
            Frame::Repeated(after, text, count) => (after, text, count),
        };
        Self {
            after: Duration::from_millis(after),
            bytes: text.into(),
            count,
        }
    }
}

impl TryFrom<(u64, Write)> for Piece {
    type Error = CallError;

    fn try_from((after, write): (u64, Write)) -> Result<Self, CallError> {
        let bytes = match write {
            Write::Text(text) => text.into_bytes(),
            Write::Base64(text) => STANDARD.decode(text)?,
        };
        Ok(Self::once(Duration::from_millis(after), bytes))
    }
}

/// Reads a number of milliseconds.
pub(crate) fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

/// The default of what is on unless it is said otherwise.
pub(crate) const fn yes() -> bool {
    true
}

const fn once() -> NonZeroU64 {
    NonZeroU64::MIN
}

const fn three() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(2)
}

#[cfg(test)]
mod tests;
