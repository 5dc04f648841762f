//! The response around the items: who answered whom, what was asked, how it ended.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use understudy_messages::answer::{Finish, Usage};
use understudy_messages::turn::TurnRequest;

use super::item::WireItem;

/// Members of the request that a response repeats, and what they are where the request has none.
const ECHOED: [(&str, &str); 20] = [
    ("background", "false"),
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
    ("prompt_cache_key", "null"),
    ("reasoning", r#"{"effort":null,"summary":null}"#),
    ("safety_identifier", "null"),
    ("service_tier", "\"default\""),
    ("store", "true"),
    ("temperature", "1.0"),
    ("text", r#"{"format":{"type":"text"}}"#),
    ("tool_choice", "\"auto\""),
    ("tools", "[]"),
    ("top_logprobs", "0"),
    ("top_p", "1.0"),
    ("truncation", "\"disabled\""),
    ("user", "null"),
    ("previous_response_id", "null"),
];

/// What a response repeats of its request.
#[derive(Debug)]
pub(super) struct Echo(Vec<(&'static str, Box<RawValue>)>);

impl Echo {
    pub(super) fn of(request: &TurnRequest) -> Self {
        let body: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(&request.body).unwrap_or_default();
        // the body has it no longer: what it stood for is part of the input
        let previous = request
            .facts
            .responses
            .as_ref()
            .and_then(|facts| facts.previous.as_deref());
        let previous = previous.and_then(|id| serde_json::value::to_raw_value(id).ok());
        let value = |(name, default): (&'static str, &str)| {
            let given = body.get(name).filter(|value| value.get() != "null");
            let value = match given {
                Some(value) => Some((*value).to_owned()),
                None if name == "previous_response_id" && previous.is_some() => previous.clone(),
                None => RawValue::from_string(default.to_owned()).ok(),
            };
            Some((name, value?))
        };
        Self(ECHOED.into_iter().filter_map(value).collect())
    }
}

/// How far a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    InProgress,
    Completed,
    /// It has an end, but not all of it is there, for this reason.
    Incomplete(&'static str),
    Failed,
}

impl Status {
    /// Of an answer that ended so.
    pub(super) fn of(finish: Option<Finish>) -> Self {
        match finish {
            Some(Finish::Length) => Self::Incomplete("max_output_tokens"),
            Some(Finish::ContentFilter) => Self::Incomplete("content_filter"),
            Some(Finish::Stop | Finish::ToolCalls | Finish::Other) | None => Self::Completed,
        }
    }

    pub(super) fn as_label(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete(_) => "incomplete",
            Self::Failed => "failed",
        }
    }

    /// That of an item which it breaks off.
    pub(super) fn of_item(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete(_) | Self::Failed => "incomplete",
        }
    }
}

/// A response as it is written.
pub(super) struct Envelope<'a> {
    pub(super) id: &'a str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) status: Status,
    pub(super) error: Option<WireFailure<'a>>,
    pub(super) output: Vec<WireItem<'a>>,
    pub(super) usage: Option<WireUsage>,
    pub(super) echo: &'a Echo,
}

#[derive(Serialize)]
pub(super) struct WireFailure<'a> {
    pub(super) code: &'a str,
    pub(super) message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'static str>,
}

#[derive(Serialize)]
struct WireReason {
    reason: &'static str,
}

impl Serialize for Envelope<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let reason = match self.status {
            Status::Incomplete(reason) => Some(WireReason { reason }),
            Status::InProgress | Status::Completed | Status::Failed => None,
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", self.id)?;
        map.serialize_entry("object", "response")?;
        map.serialize_entry("created_at", &self.created)?;
        map.serialize_entry("status", self.status.as_label())?;
        map.serialize_entry("model", self.model)?;
        map.serialize_entry("error", &self.error)?;
        map.serialize_entry("incomplete_details", &reason)?;
        map.serialize_entry("output", &self.output)?;
        map.serialize_entry("usage", &self.usage)?;
        for (name, value) in &self.echo.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Tokens as they are written.
#[derive(Serialize)]
pub(super) struct WireUsage {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Serialize)]
struct InputDetails {
    cached_tokens: u64,
    cache_write_tokens: u64,
}

#[derive(Serialize)]
struct OutputDetails {
    reasoning_tokens: u64,
}

impl From<Usage> for WireUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.input,
            input_tokens_details: InputDetails {
                cached_tokens: usage.cache_read,
                cache_write_tokens: usage.cache_write,
            },
            output_tokens: usage.output,
            output_tokens_details: OutputDetails {
                reasoning_tokens: usage.reasoning,
            },
            total_tokens: usage.input.saturating_add(usage.output),
        }
    }
}
