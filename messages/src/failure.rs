//! Why an attempt failed, how it was cut, and who may try again.
//!
//! Closed enums: they are also metric labels and wire values, so their spelling is frozen.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The sixteen reasons for which an attempt can fail (contract §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The credential was refused; another one or a refreshed one may do.
    Auth,
    /// The credential or account is gone for good.
    AuthPermanent,
    /// The request itself is wrong for this provider, or its content was refused.
    Format,
    /// Too many requests or tokens for now.
    RateLimit,
    /// The provider has no capacity for now.
    Overloaded,
    /// The account has no money or quota left.
    Billing,
    /// The provider broke.
    ServerError,
    /// No answer in time, or no way to the provider.
    Timeout,
    /// The provider's certificate could not be trusted.
    TlsCertificate,
    /// The conversation does not fit the model's window.
    ContextOverflow,
    /// The provider does not serve this model.
    ModelNotFound,
    /// A provider-side session named in the request is gone.
    SessionExpired,
    /// A well-formed answer with nothing in it.
    EmptyResponse,
    /// The provider said that it has no details.
    NoErrorDetails,
    /// An error that no table knows.
    Unclassified,
    /// Not even an error to classify.
    Unknown,
}

impl Reason {
    /// Every reason, in the contract's order.
    pub const ALL: [Self; 16] = [
        Self::Auth,
        Self::AuthPermanent,
        Self::Format,
        Self::RateLimit,
        Self::Overloaded,
        Self::Billing,
        Self::ServerError,
        Self::Timeout,
        Self::TlsCertificate,
        Self::ContextOverflow,
        Self::ModelNotFound,
        Self::SessionExpired,
        Self::EmptyResponse,
        Self::NoErrorDetails,
        Self::Unclassified,
        Self::Unknown,
    ];

    /// Whether whoever failed so may recover by itself (contract §4.1).
    pub const fn is_recoverable(self) -> bool {
        match self {
            Self::Billing
            | Self::RateLimit
            | Self::Overloaded
            | Self::Timeout
            | Self::Unknown
            | Self::EmptyResponse
            | Self::NoErrorDetails
            | Self::Unclassified => true,
            Self::Auth
            | Self::AuthPermanent
            | Self::Format
            | Self::ServerError
            | Self::TlsCertificate
            | Self::ContextOverflow
            | Self::ModelNotFound
            | Self::SessionExpired => false,
        }
    }

    /// The wire and label spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::AuthPermanent => "auth_permanent",
            Self::Format => "format",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::Billing => "billing",
            Self::ServerError => "server_error",
            Self::Timeout => "timeout",
            Self::TlsCertificate => "tls_certificate",
            Self::ContextOverflow => "context_overflow",
            Self::ModelNotFound => "model_not_found",
            Self::SessionExpired => "session_expired",
            Self::EmptyResponse => "empty_response",
            Self::NoErrorDetails => "no_error_details",
            Self::Unclassified => "unclassified",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_label())
    }
}

/// How the exchange with the provider ended when it did not end as an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// No connection: refused, unreachable, no such name, or TLS that failed.
    Refused,
    /// The connection broke before the first byte of the response.
    LostBeforeFirstByte,
    /// The connection broke after the response had begun.
    Lost,
    /// The body ended in the proper way before the answer was whole.
    CleanEnd,
    /// The provider answered with an error status, or an error inside a 200 stream.
    Answered,
    /// Nothing useful arrived within the first-content limit.
    FirstContentLimit,
    /// The stream fell silent for longer than the idle limit.
    IdleLimit,
    /// The whole non-streaming answer took longer than its limit.
    WholeLimit,
    /// The answer was larger than the gateway is willing to hold.
    TooLarge,
}

/// Words of a provider that only the client who asked may see.
///
/// They never reach a log, a metric or another client: `Debug` and `Display` are withheld. Of all hooks only the terminal one
/// may tell them, as part of what its client was told, to plugins that may see its conversation.
#[derive(Clone, PartialEq, Eq)]
pub struct ProviderWords(String);

impl ProviderWords {
    /// Keeps the words, cut to 2,000 characters.
    pub fn new(words: &str) -> Self {
        const LIMIT: usize = 2000;
        Self(words.chars().take(LIMIT).collect())
    }

    /// The words themselves, for the client's own error body.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ProviderWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProviderWords(withheld)")
    }
}

/// What a reason alone does not tell, and the next step must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Nuance {
    /// A rate limit over a day or more: the same model is not retried (contract §5.4).
    LongWindow,
    /// A context overflow of the tokens that one request may bring, not of the model's window (contract §5.2).
    RequestSizeCeiling,
    /// A format failure that is the verdict of a content filter (design §6).
    ContentFilter,
    /// A format failure because the conversation ends with the assistant: the model goes on from no text of its own.
    PrefillRefused,
    /// Overload of our own: this process may open no more files. It says nothing about the provider.
    OwnLimit,
    /// A format failure of our own: the request cannot be put into the provider's words, and nothing was sent.
    Untranslatable,
}

/// One failed attempt, as data: everything that the next step depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was wrong.
    pub reason: Reason,
    /// What the reason alone does not tell.
    pub nuance: Option<Nuance>,
    /// The HTTP status that the provider sent, or named inside its stream.
    pub status: Option<u16>,
    /// The provider's own error code, restricted to `[A-Za-z0-9_.-]`, at most 64 characters.
    pub code: Option<ErrorCode>,
    /// How the exchange ended.
    pub cut: Cut,
    /// The wait that the provider asked for.
    pub retry_after: Option<Duration>,
    /// What the provider said, for the client alone and only where its own request was at fault.
    pub words: Option<ProviderWords>,
}

impl Failure {
    /// A failure that the gateway itself observed: no status, no words.
    pub const fn observed(reason: Reason, cut: Cut) -> Self {
        Self {
            reason,
            nuance: None,
            status: None,
            code: None,
            cut,
            retry_after: None,
            words: None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        match self.status {
            Some(status) => write!(f, " (status {status})"),
            None => Ok(()),
        }
    }
}

/// A provider's error code made safe to log: `[A-Za-z0-9_.-]`, 1 to 64 characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct ErrorCode(String);

impl ErrorCode {
    /// `None` when the text is empty, too long or has other characters.
    pub fn new(text: &str) -> Option<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let fits = (1..=64).contains(&text.len());
        (fits && text.chars().all(plain)).then(|| Self(text.to_owned()))
    }

    /// The code's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Who ended a turn from outside. The first cause set on a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelCause {
    /// The client went away.
    Client,
    /// The deadline that the caller sent with the request passed.
    CallerDeadline,
    /// The turn used up the time that any turn may take.
    RunBudget,
    /// The gateway is shutting down.
    Shutdown,
}

impl CancelCause {
    /// The wire and label spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::CallerDeadline => "caller_deadline",
            Self::RunBudget => "run_budget",
            Self::Shutdown => "shutdown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_words_stay_out_of_debug_and_display() {
        let mut failure = Failure::observed(Reason::Format, Cut::Answered);
        failure.words = Some(ProviderWords::new("sk-secret was refused"));
        assert!(!format!("{failure:?} {failure}").contains("sk-secret"));
    }

    #[test]
    fn the_wire_spelling_of_a_reason_is_its_label() {
        for reason in Reason::ALL {
            let label = format!("\"{}\"", reason.as_label());
            let read: Reason = serde::Deserialize::deserialize(serde::de::value::StrDeserializer::<
                serde::de::value::Error,
            >::new(label.trim_matches('"')))
            .expect("label reads back");
            assert_eq!(read, reason);
        }
    }

    #[test]
    fn an_error_code_with_a_key_in_it_is_refused() {
        assert!(ErrorCode::new("invalid_api_key").is_some());
        assert!(ErrorCode::new("key sk-123 is bad").is_none());
        assert!(ErrorCode::new(&"x".repeat(65)).is_none());
        assert!(ErrorCode::new("").is_none());
    }
}
