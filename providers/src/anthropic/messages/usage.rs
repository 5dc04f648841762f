//! Reports of tokens in Anthropic's terms: what was read from a cache or written to one is not part of `input_tokens`.

use serde::Serialize;
use understudy_messages::answer::Usage;

use crate::json::{Cursor, JsonError, Kind};

/// One report, or several of which the latest stands, member by member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    thinking: Option<u64>,
}

impl Report {
    /// Reads the value of `usage`; whether it says anything.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, JsonError> {
        let mut report = Self::default();
        cursor.object(|cursor, key| {
            match &*key.decode() {
                "input_tokens" => report.input = count(cursor)?,
                "output_tokens" => report.output = count(cursor)?,
                "cache_read_input_tokens" => report.cache_read = count(cursor)?,
                "cache_creation_input_tokens" => report.cache_write = count(cursor)?,
                "output_tokens_details" => cursor.object(|cursor, key| {
                    match &*key.decode() {
                        "thinking_tokens" => report.thinking = count(cursor)?,
                        _ => cursor.skip()?,
                    }
                    Ok::<_, JsonError>(())
                })?,
                _ => cursor.skip()?,
            }
            Ok::<_, JsonError>(())
        })?;
        Ok(report)
    }

    /// Takes over what a later report says; whether that is anything.
    pub(super) fn update(&mut self, later: Self) -> bool {
        self.input = later.input.or(self.input);
        self.output = later.output.or(self.output);
        self.cache_read = later.cache_read.or(self.cache_read);
        self.cache_write = later.cache_write.or(self.cache_write);
        self.thinking = later.thinking.or(self.thinking);
        later != Self::default()
    }

    /// In our terms; `None` for one that says nothing.
    pub(super) fn usage(self) -> Option<Usage> {
        let (cache_read, cache_write) = (self.cache_read.unwrap_or(0), self.cache_write.unwrap_or(0));
        let input = self.input.unwrap_or(0);
        (self != Self::default()).then(|| Usage {
            input: input.saturating_add(cache_read).saturating_add(cache_write),
            output: self.output.unwrap_or(0),
            cache_read,
            cache_write,
            reasoning: self.thinking.unwrap_or(0),
        })
    }
}

fn count(cursor: &mut Cursor<'_>) -> Result<Option<u64>, JsonError> {
    match cursor.kind()? {
        Kind::Number => cursor.count().map(Some),
        Kind::Object | Kind::Array | Kind::String | Kind::Bool | Kind::Null => cursor.skip().map(|()| None),
    }
}

/// A report as a client reads it.
#[derive(Debug, Serialize)]
pub(super) struct Told {
    input_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
    output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens_details: Option<Details>,
}

#[derive(Debug, Serialize)]
struct Details {
    thinking_tokens: u64,
}

impl From<Usage> for Told {
    fn from(usage: Usage) -> Self {
        let cached = usage.cache_read.saturating_add(usage.cache_write);
        Self {
            input_tokens: usage.input.saturating_sub(cached),
            cache_creation_input_tokens: usage.cache_write,
            cache_read_input_tokens: usage.cache_read,
            output_tokens: usage.output,
            output_tokens_details: (usage.reasoning > 0).then_some(Details {
                thinking_tokens: usage.reasoning,
            }),
        }
    }
}
