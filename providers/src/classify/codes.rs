//! Error codes and the names of error kinds (contract §5.3).

use understudy_messages::failure::Reason::{
    Auth, AuthPermanent, Billing, ContextOverflow, Format, ModelNotFound, Overloaded, SessionExpired, Timeout,
};

use super::table::Outcome::{self, LikeStatus};
use super::table::Verdict;

const CONTENT_FILTER: Outcome = Outcome::Is(Verdict::CONTENT_FILTER);

/// Codes that decide whatever the status says. Case and separators do not matter.
const DECISIVE: &[(&str, Outcome)] = &[
    ("content_filter", CONTENT_FILTER),
    ("content_filter_error", CONTENT_FILTER),
    ("content_policy_violation", CONTENT_FILTER),
    ("responsible_ai_policy_violation", CONTENT_FILTER),
    ("moderation_blocked", CONTENT_FILTER),
    ("data_inspection_failed", CONTENT_FILTER),
    ("prohibited_content", CONTENT_FILTER),
    ("model_not_found", Outcome::of(ModelNotFound)),
    ("model_not_supported", Outcome::of(ModelNotFound)),
    ("model_not_available", Outcome::of(ModelNotFound)),
    ("unsupported_model", Outcome::of(ModelNotFound)),
    ("unknown_model", Outcome::of(ModelNotFound)),
    ("invalid_model", Outcome::of(ModelNotFound)),
    ("deployment_not_found", Outcome::of(ModelNotFound)),
    ("context_length_exceeded", Outcome::of(ContextOverflow)),
    ("context_window_exceeded", Outcome::of(ContextOverflow)),
    ("request_too_large", Outcome::of(ContextOverflow)),
    ("too_many_tokens", Outcome::of(ContextOverflow)),
    ("insufficient_quota", Outcome::of(Billing)),
    ("insufficient_credits", Outcome::of(Billing)),
    ("insufficient_balance", Outcome::of(Billing)),
    ("insufficient_balance_error", Outcome::of(Billing)),
    ("insufficient_user_quota", Outcome::of(Billing)),
    ("billing_error", Outcome::of(Billing)),
    ("billing_not_active", Outcome::of(Billing)),
    ("billing_hard_limit_reached", Outcome::of(Billing)),
    ("payment_required", Outcome::of(Billing)),
    ("budget_exceeded", Outcome::of(Billing)),
    ("arrearage", Outcome::of(Billing)),
    ("resource_exhausted", LikeStatus(429)),
    ("rate_limit", LikeStatus(429)),
    ("rate_limited", LikeStatus(429)),
    ("rate_limit_error", LikeStatus(429)),
    ("rate_limit_exceeded", LikeStatus(429)),
    ("rate_limit_reached", LikeStatus(429)),
    ("too_many_requests", LikeStatus(429)),
    ("throttled", LikeStatus(429)),
    ("throttling", LikeStatus(429)),
    ("throttling_exception", LikeStatus(429)),
    ("throttled_exception", LikeStatus(429)),
    ("throttling_rate_quota", LikeStatus(429)),
    ("throttling_allocation_quota", LikeStatus(429)),
    ("service_quota_exceeded_exception", LikeStatus(429)),
    ("overloaded", Outcome::of(Overloaded)),
    ("overloaded_error", LikeStatus(529)),
    ("server_is_overloaded", Outcome::of(Overloaded)),
    ("engine_overloaded", Outcome::of(Overloaded)),
    ("model_not_ready_exception", Outcome::of(Overloaded)),
    ("deactivated_workspace", Outcome::of(AuthPermanent)),
    ("account_deactivated", Outcome::of(AuthPermanent)),
    ("selected_auth_profile_unavailable", Outcome::of(Auth)),
    ("unknown_parameter", Outcome::of(Format)),
    ("unsupported_parameter", Outcome::of(Format)),
    ("unsupported_value", Outcome::of(Format)),
    ("missing_required_parameter", Outcome::of(Format)),
    ("invalid_image_url", Outcome::of(Format)),
    ("tool_use_failed", Outcome::of(Format)),
    ("previous_response_not_found", Outcome::of(Format)),
    ("session_expired", Outcome::of(SessionExpired)),
    ("session_not_found", Outcome::of(SessionExpired)),
    ("conversation_not_found", Outcome::of(SessionExpired)),
    ("econnreset", Outcome::of(Timeout)),
    ("econnrefused", Outcome::of(Timeout)),
    ("econnaborted", Outcome::of(Timeout)),
    ("enotfound", Outcome::of(Timeout)),
    ("enetdown", Outcome::of(Timeout)),
    ("enetunreach", Outcome::of(Timeout)),
    ("enetreset", Outcome::of(Timeout)),
    ("ehostdown", Outcome::of(Timeout)),
    ("ehostunreach", Outcome::of(Timeout)),
    ("epipe", Outcome::of(Timeout)),
    ("etimedout", Outcome::of(Timeout)),
    ("esockettimedout", Outcome::of(Timeout)),
    ("eai_again", Outcome::of(Timeout)),
    ("err_stream_premature_close", Outcome::of(Timeout)),
    ("und_err_connect_timeout", Outcome::of(Timeout)),
    ("und_err_headers_timeout", Outcome::of(Timeout)),
    ("und_err_body_timeout", Outcome::of(Timeout)),
    ("und_err_socket", Outcome::of(Timeout)),
];

/// Names that stand for a status. They count where the status itself says too little: an error inside a stream,
/// or a 400 that means something else.
const STATUS_NAMES: &[(&str, u16)] = &[
    ("invalid_request_error", 400),
    ("invalid_argument", 400),
    ("failed_precondition", 400),
    ("bad_request_error", 400),
    ("validation_exception", 400),
    ("authentication_error", 401),
    ("invalid_api_key", 401),
    ("api_key_invalid", 401),
    ("unauthenticated", 401),
    ("unauthorized", 401),
    ("permission_error", 403),
    ("permission_denied", 403),
    ("access_denied_exception", 403),
    ("forbidden", 403),
    ("not_found_error", 404),
    ("not_found", 404),
    ("timeout_error", 408),
    ("request_timeout", 408),
    ("model_timeout_exception", 408),
    ("client_closed_request", 499),
    ("api_error", 500),
    ("server_error", 500),
    ("upstream_error", 500),
    ("internal_error", 500),
    ("internal_server_error", 500),
    ("internal_server_exception", 500),
    ("internal", 500),
    ("model_error_exception", 500),
    ("model_stream_error_exception", 500),
    ("service_unavailable_error", 503),
    ("service_unavailable_exception", 503),
    ("unavailable", 503),
    ("deadline_exceeded", 504),
];

/// What the first known code says, whatever the status.
pub(super) fn decisive(codes: &[String]) -> Option<Outcome> {
    codes.iter().find_map(|code| find(DECISIVE, code))
}

/// The statuses that the codes stand for, in the order of the codes.
pub(super) fn statuses(codes: &[String]) -> impl Iterator<Item = u16> {
    codes.iter().filter_map(|code| match find(DECISIVE, code) {
        Some(LikeStatus(status)) => Some(status),
        Some(Outcome::Is(_)) | None => find(STATUS_NAMES, code),
    })
}

fn find<T: Copy>(table: &[(&str, T)], code: &str) -> Option<T> {
    // AWS puts a namespace before the name: `com.example#ThrottlingException`
    let name = code.rsplit('#').next().unwrap_or(code);
    table
        .iter()
        .find(|(entry, _)| letters(entry).eq(letters(name)))
        .map(|(_, found)| *found)
}

/// A name without case and separators.
fn letters(name: &str) -> impl Iterator<Item = char> {
    name.chars()
        .filter(|c| !matches!(c, '_' | '-' | '.' | ' '))
        .map(|c| c.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(code: &str) -> Option<Verdict> {
        match decisive(&[code.to_owned()])? {
            Outcome::Is(verdict) => Some(verdict),
            LikeStatus(_) => None,
        }
    }

    #[test]
    fn case_separators_and_namespaces_do_not_matter() {
        for code in [
            "ThrottlingException",
            "com.amazon.coral#ThrottlingException",
            "RATE_LIMIT_EXCEEDED",
            "rateLimitExceeded",
        ] {
            assert!(matches!(decisive(&[code.to_owned()]), Some(LikeStatus(429))), "{code}");
        }
        assert_eq!(reason("ResponsibleAIPolicyViolation"), Some(Verdict::CONTENT_FILTER));
    }

    #[test]
    fn a_code_is_known_whole_or_not_at_all() {
        assert_eq!(reason("arrearage"), Some(Verdict::of(Billing)));
        assert_eq!(reason("no_arrearage"), None);
    }

    #[test]
    fn no_name_is_listed_twice() {
        let names: Vec<&str> = DECISIVE
            .iter()
            .map(|row| row.0)
            .chain(STATUS_NAMES.iter().map(|row| row.0))
            .collect();
        for (at, name) in names.iter().enumerate() {
            assert!(
                !names[..at].iter().any(|other| letters(other).eq(letters(name))),
                "{name}"
            );
        }
    }
}
