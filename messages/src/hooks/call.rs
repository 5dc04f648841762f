//! Calls of models, as hooks are told of them: names, sizes and times, and nothing that anybody said.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::answer::Finish;
use crate::failure::{Cut, Reason};
use crate::ids::Name;
use crate::provider::{Answered, AttemptError};
use crate::traffic::Traffic;

/// One call of a model. What is not known is absent.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelCall {
    /// The turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The call: the turn, and the number of the call in it, from 1.
    pub call_id: String,
    /// The session, by the client's name for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_key: Option<Name>,
    /// The session, by the gateway's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The provider.
    pub provider: Name,
    /// The model.
    pub model: Name,
    /// The provider's wire format.
    pub api: &'static str,
    /// How the provider is reached.
    pub transport: &'static str,
    /// The tokens that fit into the model's window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_token_budget: Option<u64>,
}

/// How a call of a model ended.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallEnd {
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// `completed` or `error`.
    pub outcome: &'static str,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_category: Option<Reason>,
    /// How the exchange was cut off, where it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_kind: Option<FailureKind>,
    /// The size of the request's body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_payload_bytes: Option<u64>,
    /// How much of the response's body came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_stream_bytes: Option<u64>,
    /// From the request to the response's first byte, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_to_first_byte_ms: Option<u64>,
    /// A digest of the provider's name for the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream_request_id_hash: Option<String>,
}

/// How an exchange was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The turn was cancelled, or its client left.
    Aborted,
    /// The response ended in the proper way before the answer was whole.
    ConnectionClosed,
    /// The connection broke before the first byte of a response.
    ConnectionReset,
    /// The connection broke within the response.
    Terminated,
    /// A time limit of ours.
    Timeout,
}

impl CallEnd {
    /// Of a call with this result.
    pub fn of(result: &Result<Answered, AttemptError>, took: Duration, traffic: Option<&Traffic>) -> Self {
        let (outcome, error_category, failure_kind) = match result {
            Ok(_) => ("completed", None, None),
            Err(AttemptError::Cancelled) => ("error", None, Some(FailureKind::Aborted)),
            Err(AttemptError::Failed { failure, .. }) => ("error", Some(failure.reason), FailureKind::of(failure.cut)),
        };
        Self {
            duration_ms: millis(took),
            outcome,
            error_category,
            failure_kind,
            request_payload_bytes: traffic.and_then(Traffic::request_bytes),
            response_stream_bytes: traffic.and_then(Traffic::response_bytes),
            time_to_first_byte_ms: traffic.and_then(Traffic::first_byte).map(millis),
            upstream_request_id_hash: traffic.and_then(Traffic::request_id).map(str::to_owned),
        }
    }
}

impl FailureKind {
    /// `None` where nothing was cut off: nobody was reached, or the provider itself said no.
    const fn of(cut: Cut) -> Option<Self> {
        match cut {
            Cut::Refused | Cut::Answered | Cut::TooLarge => None,
            Cut::LostBeforeFirstByte => Some(Self::ConnectionReset),
            Cut::Lost => Some(Self::Terminated),
            Cut::CleanEnd => Some(Self::ConnectionClosed),
            Cut::FirstContentLimit | Cut::IdleLimit | Cut::WholeLimit => Some(Self::Timeout),
        }
    }
}

impl ModelCall {
    /// What the model said, as the last message of a conversation.
    pub(super) fn said(&self, text: &str, finish: Option<Finish>) -> Value {
        let content: Vec<Value> = (!text.is_empty())
            .then(|| json!({ "type": "text", "text": text }))
            .into_iter()
            .collect();
        let mut message = json!({
            "role": "assistant", "content": content, "api": self.api, "provider": self.provider, "model": self.model,
        });
        let stopped = finish.and_then(|finish| match finish {
            Finish::Stop => Some("stop"),
            Finish::Length => Some("length"),
            Finish::ToolCalls => Some("toolUse"),
            Finish::ContentFilter => Some("contentFilter"),
            Finish::Other => None,
        });
        if let Some(stopped) = stopped {
            message["stopReason"] = Value::from(stopped);
        }
        message
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;

    fn end(cut: Cut) -> Value {
        let failed = AttemptError::Failed {
            failure: Failure::observed(Reason::Timeout, cut),
            malformed: 0,
            usage: None,
            delivered: None,
        };
        json!(CallEnd::of(&Err(failed), Duration::from_millis(5), None))
    }

    #[test]
    fn how_an_exchange_was_cut_off_has_the_contracts_word() {
        for (cut, kind) in [
            (Cut::Lost, "terminated"),
            (Cut::CleanEnd, "connection_closed"),
            (Cut::LostBeforeFirstByte, "connection_reset"),
            (Cut::FirstContentLimit, "timeout"),
            (Cut::IdleLimit, "timeout"),
            (Cut::WholeLimit, "timeout"),
        ] {
            let expected =
                json!({ "durationMs": 5, "outcome": "error", "errorCategory": "timeout", "failureKind": kind });
            assert_eq!(end(cut), expected, "{cut:?}");
        }
        let aborted = CallEnd::of(&Err(AttemptError::Cancelled), Duration::ZERO, None);
        assert_eq!(
            json!(aborted),
            json!({ "durationMs": 0, "outcome": "error", "failureKind": "aborted" })
        );
    }

    #[test]
    fn where_nothing_was_cut_off_no_kind_is_named() {
        for cut in [Cut::Refused, Cut::Answered, Cut::TooLarge] {
            assert!(end(cut).get("failureKind").is_none(), "{cut:?}");
        }
        let answered = CallEnd::of(&Ok(Answered::default()), Duration::ZERO, None);
        assert_eq!(json!(answered), json!({ "durationMs": 0, "outcome": "completed" }));
    }
}
