//! temp
use std::time::Duration;

use crate::failure::{CancelCause, Failure, ProviderWords, Reason};
use crate::turn::AttemptRecord;

/// A failed turn, as the client is told. Rendered in the client's own wire format by the HTTP side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnFailure {
    /// The HTTP status, where the head has not been sent yet.
    pub status: u16,
    /// The cause; `None` where the gateway itself refused.
    pub reason: Option<Reason>,
    /// The error code: the provider's own where the request was at fault, else the reason's or our own.
    pub code: String,
    /// One friendly sentence.
    pub message: String,
    /// The provider's words, where the client's own request was at fault.
    pub words: Option<ProviderWords>,
    /// When it makes sense to come back.
    pub retry_after: Option<Duration>,
    /// The number of upstream calls made.
    pub attempts: u32,
}

impl TurnFailure {
    /// A refusal of the gateway's own: no provider was asked.
    pub fn ours(status: u16, code: &str, message: &str) -> Self {
        Self {
            status,
            reason: None,
            code: code.to_owned(),
            message: message.to_owned(),
            words: None,
            retry_after: matches!(status, 429 | 503).then_some(Duration::from_secs(1)),
            attempts: 0,
        }
    }

    /// A turn that was ended from outside.
    pub fn cancelled(cause: CancelCause) -> Self {
        let (status, code, message) = match cause {
            CancelCause::Client => (
                499,
                "client_closed_request",
                "The client left before the answer was whole.",
            ),
            CancelCause::CallerDeadline => (
                504,
                "timeout",
                "The deadline set by the caller passed before the answer was whole.",
            ),
            CancelCause::RunBudget => (504, "timeout", "The turn used up the time that any turn may take."),
            CancelCause::Shutdown => (503, "shutting_down", "The gateway is shutting down."),
        };
        let mut failure = Self::ours(status, code, message);
        failure.reason = (status == 504).then_some(Reason::Timeout);
        failure
    }

    /// A turn whose candidates all failed; `last` is the newest failure.
    pub fn exhausted(attempts: &[AttemptRecord], last: &Failure) -> Self {
        let mut failure = Self::ours(503, last.reason.as_label(), "No configured model could answer.");
        failure.reason = Some(last.reason);
        failure.attempts = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
        failure
    }
}
