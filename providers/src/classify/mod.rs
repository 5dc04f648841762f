//! From what a provider sent to why the attempt failed. Pure: no I/O, no state, no clock.
//!
//! What was said is first taken out of its shape (`evidence`). Then, first match wins: a provider's own meaning
//! (`quirks`), codes that decide by themselves (`codes`), the status refined by the words (`statuses`), the words
//! alone (`classes`). The tables are data; how wordings are written there is told in `pattern`.
//!
//! **Source:** contract §5.3, where `design.md` §6 does not say otherwise.

mod classes;
mod codes;
mod evidence;
mod pattern;
mod quirks;
mod redact;
mod statuses;
mod table;
#[cfg(test)]
mod tests;
mod transport;
mod wait;

use std::time::{Duration, SystemTime};

use secrecy::SecretString;
use understudy_messages::failure::{Cut, ErrorCode, Failure, Nuance, ProviderWords, Reason};

pub use transport::{TransportFault, transport};

use evidence::Evidence;
use table::{Outcome, Verdict};

/// Looks a response header up by its lower-case name.
pub type Headers<'a> = &'a dyn Fn(&str) -> Option<&'a str>;

/// A response that is no answer.
#[derive(Clone, Copy)]
pub struct Signal<'a> {
    /// The provider's name in the configuration; some providers mean something else by the same words.
    pub provider: &'a str,
    /// The HTTP status. A success is no evidence: then the body's own words decide.
    pub status: Option<u16>,
    /// The response's headers.
    pub headers: Headers<'a>,
    /// The response's body in whatever shape. Only its first 256 KiB are read.
    pub body: &'a [u8],
    /// The provider's credentials: none of them ever leaves, whatever it looks like.
    pub secrets: &'a [SecretString],
    /// Now, to read dates against.
    pub now: SystemTime,
}

/// An error that came inside a stream and was already taken apart.
#[derive(Clone, Copy, Default)]
pub struct StreamError<'a> {
    /// As in [`Signal::provider`].
    pub provider: &'a str,
    /// The status that the error names.
    pub status: Option<u16>,
    /// The error's `code`.
    pub code: Option<&'a str>,
    /// The error's `type`.
    pub kind: Option<&'a str>,
    /// The error's words.
    pub message: Option<&'a str>,
    /// As in [`Signal::secrets`].
    pub secrets: &'a [SecretString],
}

/// Why a response is no answer. Never panics, whatever the body holds.
pub fn classify(signal: &Signal<'_>) -> Failure {
    let evidence = Evidence::from_body(signal.body);
    let stated = wait::in_headers(signal.headers, signal.now);
    failure(signal.provider, signal.status, &evidence, stated, signal.secrets)
}

/// What a status means without any words.
pub fn reason_of_status(status: u16) -> Reason {
    statuses::bare(status)
}

/// Why a stream that had begun with success failed: what its error would mean as a response.
pub fn classify_stream_error(error: &StreamError<'_>) -> Failure {
    let evidence = Evidence::from_parts(error.status, [error.code, error.kind], error.message);
    failure(error.provider, None, &evidence, None, error.secrets)
}

fn failure(
    provider: &str,
    status: Option<u16>,
    evidence: &Evidence,
    stated: Option<Duration>,
    secrets: &[SecretString],
) -> Failure {
    let status = status.filter(|status| *status >= 300);
    let effective = effective_status(status, evidence);
    let verdict = verdict(provider, effective, evidence);
    let asked = evidence.retry_delay.as_deref().and_then(wait::duration);
    Failure {
        reason: verdict.reason,
        nuance: verdict.nuance,
        status: status.or(effective),
        code: shown_code(verdict, evidence, secrets),
        cut: Cut::Answered,
        retry_after: stated.max(asked).max(wait::in_words(evidence.text.as_str())),
        words: shown_words(verdict.reason, evidence, secrets),
    }
}

/// The status to judge by. One inside the body speaks where HTTP said nothing, or only that something was wrong.
fn effective_status(status: Option<u16>, evidence: &Evidence) -> Option<u16> {
    let is_vague = |status: &u16| matches!(status, 400 | 422);
    let named = || {
        evidence
            .statuses
            .iter()
            .copied()
            .chain(codes::statuses(&evidence.codes))
    };
    match status {
        Some(400 | 422) => named().find(|named| *named < 500 && !is_vague(named)).or(status),
        Some(_) => status,
        None => named().find(|named| !is_vague(named)).or_else(|| named().next()),
    }
}

fn verdict(provider: &str, status: Option<u16>, evidence: &Evidence) -> Verdict {
    if let Some(status) = status.filter(|status| evidence.html && statuses::speaks_for_itself(*status)) {
        return statuses::meaning(status, &pattern::Text::default());
    }
    let text = &evidence.text;
    if let Some(reason) = quirks::reason(provider, status, text) {
        return with_window(Verdict::of(reason), evidence);
    }
    if classes::is_request_size_ceiling(text) {
        return Verdict::REQUEST_SIZE_CEILING;
    }
    let verdict = match (codes::decisive(&evidence.codes), status) {
        (Some(Outcome::Is(verdict)), _) => verdict,
        (Some(Outcome::LikeStatus(status)), _) => statuses::meaning(status, text),
        (None, Some(400 | 422)) if evidence.is_empty() => Verdict::of(Reason::Unclassified),
        (None, Some(status)) => statuses::meaning(status, text),
        (None, None) => by_words(evidence),
    };
    with_window(verdict, evidence)
}

/// No status, no known code: the words are all there is.
fn by_words(evidence: &Evidence) -> Verdict {
    let text = &evidence.text;
    match (classes::first(text, |_| true), text.leading_status()) {
        (Some(Outcome::Is(verdict)), _) => verdict,
        (Some(Outcome::LikeStatus(status)), _) | (None, Some(status)) => statuses::meaning(status, text),
        (None, None) if evidence.is_empty() => Verdict::of(Reason::Unknown),
        (None, None) => Verdict::of(Reason::Unclassified),
    }
}

fn with_window(verdict: Verdict, evidence: &Evidence) -> Verdict {
    let is_long = verdict.reason == Reason::RateLimit && classes::is_long_window(&evidence.text);
    Verdict {
        nuance: if is_long {
            Some(Nuance::LongWindow)
        } else {
            verdict.nuance
        },
        ..verdict
    }
}

/// The provider's own code; every content filter shows the same one (design §6).
fn shown_code(verdict: Verdict, evidence: &Evidence, secrets: &[SecretString]) -> Option<ErrorCode> {
    if verdict.nuance == Some(Nuance::ContentFilter) {
        return ErrorCode::new("content_filter");
    }
    let mut codes = evidence.codes.iter().filter(|code| redact::is_harmless(code, secrets));
    codes.find_map(|code| ErrorCode::new(code))
}

/// The provider's words, where the client's own request was at fault and nowhere else.
fn shown_words(reason: Reason, evidence: &Evidence, secrets: &[SecretString]) -> Option<ProviderWords> {
    let is_the_clients = matches!(reason, Reason::Format | Reason::ContextOverflow | Reason::ModelNotFound);
    let words = evidence.best_message().filter(|_| is_the_clients)?;
    Some(ProviderWords::new(&redact::redact(words, secrets)))
}
