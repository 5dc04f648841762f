//! What a client is told when no model answered: one cause, one sentence, one status. Pure.
//!
//! It is composed from the recorded reasons of the candidates, never by reading a rendered message again.
//! **Source:** design §9 "Exhausted", contract §5.9.

use std::borrow::Cow;
use std::time::Duration;

use crate::failure::{CancelCause, Cut, Failure, ProviderWords, Reason};
use crate::ids::ModelRef;

/// Why one candidate did not answer.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// It was asked and failed.
    Failed(&'a Failure),
    /// It was not asked: a window that this reason opened is still running.
    Resting(Reason),
}

impl Outcome<'_> {
    fn reason(self) -> Reason {
        match self {
            Self::Failed(failure) => failure.reason,
            Self::Resting(reason) => reason,
        }
    }
}

/// One candidate of a chain that gave no answer. A candidate asked twice is listed twice.
#[derive(Clone, Copy, Debug)]
pub struct Tried<'a> {
    /// Which model it was.
    pub model: &'a ModelRef,
    /// Why it did not answer.
    pub outcome: Outcome<'a>,
}

/// A turn that ended without a whole answer, as its client is told. The HTTP side renders it in the client's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnFailure {
    /// Who ended the turn without an answer.
    pub source: Source,
    /// The one cause; `None` when there were several, or when it is not a provider's.
    pub cause: Option<Reason>,
    /// The HTTP status.
    pub status: u16,
    /// The error's `type`, as OpenAI spells it.
    pub kind: &'static str,
    /// The error's `code`.
    pub code: Cow<'static, str>,
    /// One sentence of ours: no provider's words in it, fit for hooks and logs.
    pub sentence: String,
    /// The provider's own words, for the client alone.
    pub words: Option<ProviderWords>,
    /// When it is worth coming back, in whole seconds, at least 1.
    pub retry_after: Option<u64>,
    /// The number of upstream calls made.
    pub attempts: u32,
}

/// Who ended a turn without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The chain was walked to its end: a client's own retry would only walk it again.
    Chain,
    /// It was ended from outside.
    Cancelled(CancelCause),
    /// The gateway took no turn, or lost it.
    Gateway,
    /// A guard refused it: the same again would be refused again.
    Guard,
}

impl TurnFailure {
    /// The gateway's own refusal. A `429` or `503` is worth another try after a second.
    pub fn ours(status: u16, code: &'static str, sentence: &str) -> Self {
        Self {
            source: Source::Gateway,
            cause: None,
            status,
            kind: kind_of(status),
            code: code.into(),
            sentence: sentence.to_owned(),
            words: None,
            retry_after: matches!(status, 429 | 503).then_some(1),
            attempts: 0,
        }
    }

    /// A turn that was ended from outside after `attempts` upstream calls.
    pub fn cancelled(cause: CancelCause, attempts: usize) -> Self {
        let (status, code, sentence) = match cause {
            CancelCause::Client => (
                499,
                "client_closed_request",
                "The client left before the answer was whole.",
            ),
            CancelCause::CallerDeadline => (
                504,
                "timeout",
                "The caller's deadline passed before the answer was whole.",
            ),
            CancelCause::RunBudget => (504, "timeout", "The turn used up the time that any turn may take."),
            CancelCause::Shutdown => (503, "shutting_down", "The gateway is shutting down."),
        };
        Self {
            source: Source::Cancelled(cause),
            cause: (status == 504).then_some(Reason::Timeout),
            attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
            ..Self::ours(status, code, sentence)
        }
    }

    /// A turn that a guard refused after `attempts` upstream calls: 403, unless it gives a status of its own.
    pub fn blocked(status: Option<u16>, message: Option<&str>, attempts: usize) -> Self {
        const LONGEST: usize = 2000;
        let message = message.unwrap_or("This request was blocked by a plugin of the gateway.");
        let sentence: String = message.chars().take(LONGEST).collect();
        Self {
            source: Source::Guard,
            retry_after: None,
            attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
            ..Self::ours(status.unwrap_or(403), "blocked", &sentence)
        }
    }

    /// What `error.reason` says: the cause, or `mixed`; nothing where no provider is the cause.
    pub fn reason_label(&self) -> Option<&'static str> {
        match (self.cause, self.source) {
            (Some(cause), _) => Some(cause.as_label()),
            (None, Source::Chain) => Some("mixed"),
            (None, Source::Cancelled(_) | Source::Gateway | Source::Guard) => None,
        }
    }

    /// The text of the client's error body: the provider's words where there are any, else our sentence.
    pub fn client_message(&self) -> &str {
        self.words.as_ref().map_or(&self.sentence, ProviderWords::reveal)
    }
}

const fn kind_of(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        504 => "timeout_error",
        _ => "server_error",
    }
}

/// What to tell the client when no model of the chain could be asked at all, because of what the request asks for: each
/// model, and what it cannot give.
pub fn unsupported(unfit: &[(&ModelRef, &str)]) -> TurnFailure {
    const SHOWN: usize = 8;
    let name = |(model, what): &(&ModelRef, &str)| format!("{model} ({what})");
    let names: Vec<String> = unfit.iter().take(SHOWN).map(name).collect();
    let more = if unfit.len() > SHOWN { ", …" } else { "" };
    let sentence = format!(
        "No model here can give what the request asks for: {}{more}.",
        names.join(", ")
    );
    TurnFailure {
        source: Source::Chain,
        cause: Some(Reason::Format),
        ..TurnFailure::ours(400, "unsupported_by_target", &sentence.replace(char::is_control, ""))
    }
}

/// What to tell the client when no model of the chain was asked, because the conversation surely fits into none.
pub fn outgrown() -> TurnFailure {
    let Face { status, code, .. } = face(Reason::ContextOverflow);
    let sentence = fixed_sentence(Reason::ContextOverflow).unwrap_or_default();
    TurnFailure {
        source: Source::Chain,
        cause: Some(Reason::ContextOverflow),
        ..TurnFailure::ours(status, code, sentence)
    }
}

/// What to tell the client after `tried`, in order; `soonest` is when the first window ends, if that is known.
pub fn conclude(tried: &[Tried<'_>], soonest: Option<Duration>) -> TurnFailure {
    let cause = cause(tried);
    let face = cause.map_or(MIXED, face);
    let at_fault = cause.is_some_and(is_the_clients);
    let asked = tried.iter().filter_map(refusal).count();
    let refusal = tried.last().filter(|_| at_fault).and_then(refusal);
    let own_code = refusal
        .filter(|failure| failure.reason == Reason::Format)
        .and_then(|failure| failure.code.as_ref());
    TurnFailure {
        source: Source::Chain,
        cause,
        status: if is_untouched(tried) {
            untouched_status(cause)
        } else {
            face.status
        },
        kind: face.kind,
        code: own_code.map_or(face.code.into(), |code| code.as_str().to_owned().into()),
        sentence: sentence(tried, cause, soonest),
        words: refusal
            .filter(|failure| speaks_for(failure, tried))
            .and_then(|failure| failure.words.clone()),
        retry_after: soonest.filter(|_| !at_fault).map(whole_seconds),
        attempts: u32::try_from(asked).unwrap_or(u32::MAX),
    }
}

fn refusal<'a>(tried: &Tried<'a>) -> Option<&'a Failure> {
    match tried.outcome {
        Outcome::Failed(failure) => Some(failure),
        Outcome::Resting(_) => None,
    }
}

/// Of several models that are not served, the words about the last one would mislead.
fn speaks_for(failure: &Failure, tried: &[Tried<'_>]) -> bool {
    failure.reason != Reason::ModelNotFound || distinct(tried).len() == 1
}

/// How an error looks in the client's protocol.
struct Face {
    status: u16,
    kind: &'static str,
    code: &'static str,
}

const MIXED: Face = Face {
    status: 503,
    kind: "server_error",
    code: "all_models_failed",
};

/// Design §9. Where it is silent: what a provider did wrong is a bad gateway (502); a provider-side session that
/// is gone was named by the client, so it is told that it is gone (410).
const fn face(cause: Reason) -> Face {
    let (status, kind, code) = match cause {
        Reason::RateLimit => (429, "rate_limit_error", "rate_limit_exceeded"),
        Reason::Billing => (402, "insufficient_quota", "insufficient_quota"),
        Reason::Overloaded => (503, "overloaded_error", "server_is_overloaded"),
        Reason::ServerError => (502, "server_error", "upstream_error"),
        Reason::Timeout => (504, "timeout_error", "upstream_timeout"),
        // the credential is the gateway's, so a 401 would send the client after its own
        Reason::Auth | Reason::AuthPermanent => (502, "server_error", "upstream_credentials_refused"),
        Reason::TlsCertificate => (502, "server_error", "upstream_certificate_untrusted"),
        Reason::ModelNotFound => (404, "invalid_request_error", "model_not_found"),
        Reason::ContextOverflow => (400, "invalid_request_error", "context_length_exceeded"),
        Reason::Format => (400, "invalid_request_error", "invalid_request"),
        Reason::SessionExpired => (410, "invalid_request_error", "session_expired"),
        Reason::EmptyResponse => (502, "server_error", "empty_response"),
        Reason::NoErrorDetails | Reason::Unclassified | Reason::Unknown => (502, "server_error", "upstream_error"),
    };
    Face { status, kind, code }
}

/// The reason that all candidates share. A verdict on the request itself ends a chain, so where it stands last it
/// is the cause whatever came before.
fn cause(tried: &[Tried<'_>]) -> Option<Reason> {
    let last = tried.last()?.outcome.reason();
    let ends_the_chain = matches!(last, Reason::Format | Reason::ContextOverflow);
    let is_same = |tried: &Tried<'_>| merged(tried.outcome.reason()) == merged(last);
    (ends_the_chain || tried.iter().all(is_same)).then_some(last)
}

/// Both kinds of refused credentials are one cause to a client.
fn merged(reason: Reason) -> Reason {
    if reason == Reason::AuthPermanent {
        Reason::Auth
    } else {
        reason
    }
}

/// The client's own request was at fault: coming back with the same will not help.
fn is_the_clients(cause: Reason) -> bool {
    matches!(cause, Reason::Format | Reason::ContextOverflow | Reason::ModelNotFound)
}

fn is_untouched(tried: &[Tried<'_>]) -> bool {
    tried.iter().all(|tried| matches!(tried.outcome, Outcome::Resting(_)))
}

/// Design §6, "Nothing usable".
fn untouched_status(cause: Option<Reason>) -> u16 {
    if cause == Some(Reason::RateLimit) { 429 } else { 503 }
}

/// Rounded up, at least 1. What is left beyond a whole second by less than a tenth takes the client's way to pass.
fn whole_seconds(wait: Duration) -> u64 {
    const NOISE: Duration = Duration::from_millis(100);
    let wait = wait.saturating_sub(NOISE);
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// Selection by contract §5.9: a cause with a fixed sentence, then money, then limits and load together, else a list.
fn sentence(tried: &[Tried<'_>], cause: Option<Reason>, soonest: Option<Duration>) -> String {
    let unpaid = tried.iter().find(|tried| tried.outcome.reason() == Reason::Billing);
    let is_limit = |tried: &Tried<'_>| matches!(tried.outcome.reason(), Reason::RateLimit | Reason::Overloaded);
    let fixed = match cause {
        Some(Reason::Timeout) => Some(unanswered(tried)),
        cause => cause.and_then(fixed_sentence),
    };
    let text = match (fixed, unpaid) {
        (Some(fixed), _) => fixed.to_owned(),
        (None, Some(unpaid)) => format!(
            "No credit or quota is left at {} ({}). Top up the account, or give it another key.",
            unpaid.model.provider, unpaid.model.model
        ),
        (None, None) if tried.is_empty() => "There was no model to ask.".to_owned(),
        (None, None) if tried.iter().all(is_limit) => limited(tried, soonest),
        (None, None) => listed(tried),
    };
    text.replace(char::is_control, "")
}

/// Nobody was there, or somebody was too slow; of one that rests it is not known which.
fn unanswered(tried: &[Tried<'_>]) -> &'static str {
    let unreached = |tried: &Tried<'_>| refusal(tried).map(|failure| failure.cut == Cut::Refused);
    let unreached: Vec<Option<bool>> = tried.iter().map(unreached).collect();
    match (
        unreached.iter().all(|it| *it == Some(true)),
        unreached.iter().all(|it| *it == Some(false)),
    ) {
        (true, false) => "No connection to the provider could be made. Try again in a moment.",
        (false, true) => "The provider did not answer in time. Try again in a moment.",
        (true, true) | (false, false) => {
            "The provider could not be reached, or did not answer in time. Try again in a moment."
        }
    }
}

/// Causes that need no particulars.
const fn fixed_sentence(cause: Reason) -> Option<&'static str> {
    match cause {
        Reason::Billing | Reason::RateLimit | Reason::Timeout => None,
        Reason::Overloaded => {
            Some("The model has no capacity right now. Try again in a moment, or choose another model.")
        }
        Reason::ServerError => Some("The provider failed while it worked on this request. Try again in a moment."),
        Reason::Auth | Reason::AuthPermanent => {
            Some("The provider refused the gateway's credential. Whoever runs the gateway has to renew it.")
        }
        Reason::TlsCertificate => Some("The provider's certificate could not be trusted, so nothing was sent."),
        Reason::ModelNotFound => {
            Some("The provider does not serve this model. The configuration has to name another one.")
        }
        Reason::ContextOverflow => {
            Some("The conversation is longer than the model can read. Shorten it, start anew or choose a larger model.")
        }
        Reason::Format => Some("The provider cannot accept this request as it is."),
        Reason::SessionExpired => {
            Some("The provider no longer knows the session that this request names. Start a new one.")
        }
        Reason::EmptyResponse => Some("The model answered with nothing. Try again."),
        Reason::NoErrorDetails | Reason::Unclassified | Reason::Unknown => {
            Some("The provider failed without saying why. Try again in a moment.")
        }
    }
}

fn limited(tried: &[Tried<'_>], soonest: Option<Duration>) -> String {
    let subject = match distinct(tried)[..] {
        [only] => format!("{} is rate-limited", only.model),
        ref all => format!("All {} models are rate-limited or overloaded", all.len()),
    };
    match soonest.map(whole_seconds) {
        Some(seconds @ ..=60) => format!("{subject}. Try again in about {seconds} s."),
        Some(seconds) => format!("{subject}. Try again in about {} min.", seconds.div_ceil(60)),
        None => format!("{subject}. Try again in a few minutes."),
    }
}

fn listed(tried: &[Tried<'_>]) -> String {
    const SHOWN: usize = 8;
    let all = distinct(tried);
    let name = |tried: &&Tried<'_>| format!("{} ({})", tried.model, tried.outcome.reason());
    let names: Vec<String> = all.iter().take(SHOWN).map(name).collect();
    let more = if all.len() > SHOWN { ", …" } else { "" };
    let noun = if all.len() == 1 { "model" } else { "models" };
    let names = names.join(", ");
    format!(
        "{} {noun} could not answer: {names}{more}. Try again in a moment.",
        all.len()
    )
}

/// Each model once, with what became of it last.
fn distinct<'a>(tried: &'a [Tried<'a>]) -> Vec<&'a Tried<'a>> {
    let is_last = |(at, one): &(usize, &Tried<'_>)| tried[at + 1..].iter().all(|later| later.model != one.model);
    tried.iter().enumerate().filter(is_last).map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests;
