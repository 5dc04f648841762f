//! What to do about a failed attempt. Pure: the whole situation comes in, one step goes out, never undecided.
//!
//! Order within one candidate (contract §5.4): the same again, another credential, the next candidate, the client.
//! Amounts and waits are design §6.

mod continuable;

use std::time::Duration;

use understudy_messages::answer::Progress;
use understudy_messages::events::Decision;
use understudy_messages::failure::{Cut, Failure, Nuance, Reason};
use understudy_messages::settings::{BrokenStream, ContentFilter, RetrySettings};

pub use continuable::continuable;

/// The wait before a broken server is asked again while somebody else could answer.
const SHORT_BACKOFF: Duration = Duration::from_millis(250);
/// A failure that took longer than this to show is not tried on the same model again while somebody else could answer:
/// an outage whose failures show within 5 s, met every 3 s, would cost more than six attempts (design §6, "Bound").
const QUICK_FAILURE: Duration = Duration::from_millis(2500);
/// The longest backoff.
const BACKOFF_CAP: Duration = Duration::from_secs(8);

/// What is known when an attempt has failed.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// What the client has seen of the failed attempt.
    pub delivered: Progress,
    /// Whether all that it has seen of the answer is text that somebody else may go on with.
    pub continuable: bool,
    /// Whether the failed attempt went on with a text, so that its request was not quite the client's.
    pub going_on: bool,
    /// Whether that text stood last in its request.
    pub prefilled: bool,
    /// Whether everything that ran in this turn may run again.
    pub replay_safe: bool,
    /// The place of the next candidate that is usable and suits the failure.
    pub successor: Option<usize>,
    /// Whether the same candidate may be asked again: no breaker opened meanwhile, and the attempt was no probe.
    pub same_again: bool,
    /// How long the failed attempt took.
    pub took: Duration,
    /// Extra tries made on this candidate.
    pub retries: u32,
    /// Whether another credential of this candidate is usable.
    pub other_credential: bool,
    /// Other credentials tried on this candidate.
    pub rotations: u32,
    /// Upstream calls made so far, the failed one included.
    pub attempts: u32,
    /// Upstream calls that the turn may make.
    pub max_attempts: u32,
    /// Time left for the turn.
    pub remaining: Duration,
    /// Between 0.5 and 1.5: what a backoff is multiplied by.
    pub jitter: f64,
    /// When the same model is asked again.
    pub retry: &'a RetrySettings,
    /// What the agent wants for a stream that breaks after content.
    pub on_broken_stream: BrokenStream,
    /// What the agent wants for a prompt that a filter refused.
    pub on_content_filter: ContentFilter,
    /// Whether the agent moves on for this status whatever the reason.
    pub on_status: bool,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// The same model and credential again, after this wait.
    RetrySame {
        /// How long to wait.
        after: Duration,
    },
    /// The same model with another credential.
    RotateCredential,
    /// Ask the candidate at this place.
    FallbackModel {
        /// Its place in the cast.
        to: usize,
    },
    /// Tell the client.
    Surface {
        /// A wait that was asked for and not begun.
        retry_after: Option<Duration>,
    },
}

impl Step {
    /// The decision, as events and labels spell it.
    pub const fn decision(self) -> Decision {
        match self {
            Self::RetrySame { .. } => Decision::RetrySame,
            Self::RotateCredential => Decision::RotateCredential,
            Self::FallbackModel { .. } => Decision::FallbackModel,
            Self::Surface { .. } => Decision::SurfaceError,
        }
    }
}

/// The next step.
pub fn next_step(failure: &Failure, situation: &Situation<'_>) -> Step {
    const SURFACE: Step = Step::Surface { retry_after: None };
    if situation.attempts >= situation.max_attempts {
        return SURFACE;
    }
    if !situation.replay_safe {
        return here_alone(failure, situation).unwrap_or(SURFACE);
    }
    let onward = situation.successor.map_or(SURFACE, |to| Step::FallbackModel { to });
    if situation.delivered.is_answer() {
        let filter = failure.nuance == Some(Nuance::ContentFilter);
        let stays = filter && situation.on_content_filter == ContentFilter::Surface;
        return match situation.on_broken_stream {
            BrokenStream::Continue if situation.continuable && !stays => onward,
            BrokenStream::Error | BrokenStream::Hold | BrokenStream::Continue => SURFACE,
        };
    }
    if situation.on_status {
        return onward;
    }
    match failure.reason {
        Reason::Format => match (failure.nuance, situation.on_content_filter) {
            (Some(Nuance::ContentFilter), ContentFilter::Next) => onward,
            (Some(Nuance::ContentFilter), ContentFilter::Surface) => SURFACE,
            (Some(Nuance::Untranslatable), _) => onward,
            (Some(Nuance::PrefillRefused), _) if situation.prefilled => Step::RetrySame { after: Duration::ZERO },
            // the client's own request is well: somebody has answered it
            (Some(_) | None, _) if situation.going_on => onward,
            (
                Some(Nuance::LongWindow | Nuance::RequestSizeCeiling | Nuance::PrefillRefused | Nuance::OwnLimit)
                | None,
                _,
            ) => SURFACE,
        },
        Reason::ContextOverflow | Reason::TlsCertificate => onward,
        Reason::Auth
        | Reason::AuthPermanent
        | Reason::RateLimit
        | Reason::Overloaded
        | Reason::Billing
        | Reason::ServerError
        | Reason::Timeout
        | Reason::ModelNotFound
        | Reason::SessionExpired
        | Reason::EmptyResponse
        | Reason::NoErrorDetails
        | Reason::Unclassified
        | Reason::Unknown => same_candidate(failure, situation).unwrap_or(onward),
    }
}

/// After something that may not be done twice nobody else is asked, and with no other credential (contract §5.8): at most
/// the same again, which goes on from what has been done.
fn here_alone(failure: &Failure, situation: &Situation<'_>) -> Option<Step> {
    let alone = Situation {
        successor: None,
        other_credential: false,
        ..*situation
    };
    (!situation.delivered.is_answer())
        .then(|| same_candidate(failure, &alone))
        .flatten()
}

/// The same candidate once more, if that may help; otherwise a wait that is too long to begin is told to the client.
fn same_candidate(failure: &Failure, situation: &Situation<'_>) -> Option<Step> {
    let wait = same_again(failure, situation);
    match wait {
        Some(after) if after <= situation.retry.max_wait && after < situation.remaining => {
            return Some(Step::RetrySame { after });
        }
        Some(_) | None => {}
    }
    if may_rotate(failure, situation) {
        return Some(Step::RotateCredential);
    }
    let told = wait.filter(|_| situation.successor.is_none());
    told.map(|wait| Step::Surface {
        retry_after: Some(failure.retry_after.unwrap_or(wait)),
    })
}

/// The wait before the same model and credential are asked again; `None` where that would not help.
fn same_again(failure: &Failure, situation: &Situation<'_>) -> Option<Duration> {
    let retry = situation.retry;
    let allowed = retry
        .max_per_target
        .unwrap_or(if situation.successor.is_some() { 1 } else { 2 });
    let limit = matches!(
        failure.cut,
        Cut::FirstContentLimit | Cut::IdleLimit | Cut::WholeLimit | Cut::TooLarge
    );
    let long = failure.nuance == Some(Nuance::LongWindow);
    if !situation.same_again || situation.retries >= allowed || limit || long {
        return None;
    }
    let alone = situation.successor.is_none();
    match failure.reason {
        Reason::RateLimit if alone => Some(backoff(failure, situation)),
        Reason::RateLimit => failure.retry_after.filter(|wait| *wait <= retry.short_wait),
        Reason::ServerError | Reason::Timeout | Reason::Overloaded | Reason::EmptyResponse
            if alone || retry.max_per_target.is_some() =>
        {
            Some(backoff(failure, situation))
        }
        _ if situation.took > QUICK_FAILURE => None,
        Reason::ServerError => Some(SHORT_BACKOFF.max(failure.retry_after.unwrap_or_default())),
        Reason::Timeout if failure.cut == Cut::LostBeforeFirstByte => Some(Duration::ZERO),
        Reason::Timeout => (failure.cut == Cut::Lost).then_some(SHORT_BACKOFF),
        Reason::Overloaded
        | Reason::EmptyResponse
        | Reason::Auth
        | Reason::AuthPermanent
        | Reason::Billing
        | Reason::Format
        | Reason::ContextOverflow
        | Reason::TlsCertificate
        | Reason::ModelNotFound
        | Reason::SessionExpired
        | Reason::NoErrorDetails
        | Reason::Unclassified
        | Reason::Unknown => None,
    }
}

/// `backoff · 2ⁿ` up to 8 s, times the jitter; what the provider asked for is its floor.
fn backoff(failure: &Failure, situation: &Situation<'_>) -> Duration {
    let doubled = 1_u32
        .checked_shl(situation.retries)
        .and_then(|times| situation.retry.backoff.checked_mul(times));
    let jitter = situation.jitter.clamp(0.5, 1.5);
    let own = doubled.unwrap_or(BACKOFF_CAP).min(BACKOFF_CAP).mul_f64(jitter);
    own.max(failure.retry_after.unwrap_or_default())
}

/// Whether another credential may do better (contract §5.2, column "Rotate profile").
fn may_rotate(failure: &Failure, situation: &Situation<'_>) -> bool {
    let once = situation.successor.is_none() || situation.rotations == 0;
    situation.other_credential
        && match failure.reason {
            Reason::RateLimit | Reason::Overloaded => once,
            Reason::Auth
            | Reason::AuthPermanent
            | Reason::Billing
            | Reason::ServerError
            | Reason::ModelNotFound
            | Reason::SessionExpired
            | Reason::EmptyResponse
            | Reason::NoErrorDetails
            | Reason::Unclassified
            | Reason::Unknown => true,
            Reason::Timeout => matches!(failure.cut, Cut::Lost | Cut::CleanEnd),
            Reason::Format | Reason::ContextOverflow | Reason::TlsCertificate => false,
        }
}

#[cfg(test)]
mod tests;
