//! The contract's cases (§6) and measured results (§5.3).

use understudy_messages::failure::Reason::{
    Auth, AuthPermanent, Billing, ContextOverflow, Format, ModelNotFound, NoErrorDetails, Overloaded, RateLimit,
    ServerError, SessionExpired, Timeout, TlsCertificate, Unclassified, Unknown,
};
use understudy_messages::failure::{Cut, Nuance};

use super::super::{StreamError, TransportFault, classify_stream_error, transport};
use super::{assert_nuance, assert_reasons, respond, respond_as, words};

#[test]
fn a_402_is_billing_unless_a_window_reopens_case_26() {
    assert_reasons(&[
        (402, "", Billing),
        (402, "organisation usage limit, try again", RateLimit),
        (402, "workspace usage limit", RateLimit),
        (402, "usage limit reached", RateLimit),
        (402, "quota exceeded, add credits", Billing),
        (402, "monthly spend limit reached", RateLimit),
        (402, "reached its maximum allowed monthly spending limit", Billing),
        (
            402,
            r#"{"error":{"type":"rate_limit_error","message":"usage limit reached, retry after 30s"}}"#,
            RateLimit,
        ),
    ]);
}

#[test]
fn a_429_inside_an_abort_wrapper_is_a_rate_limit_case_27() {
    let body = r#"{"name":"AbortError","message":"The operation was aborted",
        "cause":{"status":429,"code":"RESOURCE_EXHAUSTED","message":"Resource has been exhausted"}}"#;
    let failure = words(body);
    assert_eq!((failure.reason, failure.status), (RateLimit, Some(429)));
}

#[test]
fn a_400_or_422_is_what_its_words_say_else_format_case_28() {
    assert_reasons(&[
        (
            400,
            r#"{"error":{"code":"insufficient_quota","message":"no"}}"#,
            Billing,
        ),
        (422, "insufficient credits", Billing),
        (422, "field x is wrong", Format),
        (400, "field x is wrong", Format),
        (400, "", Unclassified),
        (400, "400 status code (no body)", Unclassified),
        (400, r#"{"error":{"type":"invalid_request_error"}}"#, Format),
    ]);
}

#[test]
fn a_5xx_is_a_server_error_unless_it_says_why_case_29() {
    assert_reasons(&[
        (503, "", ServerError),
        (503, "model is overloaded", Overloaded),
        (529, "", Overloaded),
        (504, "", Timeout),
        (522, "", Timeout),
        (524, "", Timeout),
        (499, "", Timeout),
        (504, "the model is overloaded", Overloaded),
    ]);
}

#[test]
fn a_401_or_403_tells_key_from_account_from_money_case_30() {
    assert_reasons(&[
        (401, "", Auth),
        (401, r#"{"error":{"code":"invalid_api_key"}}"#, Auth),
        (403, "api key revoked", AuthPermanent),
        (403, "monthly spending limit reached", Billing),
        (403, "key limit exceeded", Auth),
        (403, "Key limit exceeded (monthly limit)", Auth),
    ]);
    let key_limit = respond_as("openrouter", 403, "Key limit exceeded (monthly limit)");
    assert_eq!(key_limit.reason, Billing);
}

#[test]
fn a_404_is_the_model_unless_the_text_overflows_case_31() {
    assert_reasons(&[
        (404, "", ModelNotFound),
        (404, "prompt is too long: 9 tokens > 8 maximum", ContextOverflow),
        (
            404,
            "The model `m3` does not exist or you do not have access to it.",
            ModelNotFound,
        ),
        (404, "No endpoints found that support image input", Format),
        (404, "conversation not found", SessionExpired),
    ]);
}

#[test]
fn a_number_in_prose_is_not_billing_case_32() {
    assert_reasons(&[(0, "use a 402 bolt", Unclassified), (400, "use a 402 bolt", Format)]);
}

#[test]
fn a_request_above_the_minutes_allowance_is_a_size_ceiling_case_33() {
    let over = "Request too large on tokens per minute (TPM): Limit 8000, Requested 8098";
    for failure in [respond(413, over), respond(429, over), words(over)] {
        assert_eq!(failure.reason, ContextOverflow);
        assert_eq!(failure.nuance, Some(Nuance::RequestSizeCeiling));
    }
    let busy = respond(429, "on tokens per min (TPM): Limit 30000, Used 29988, Requested 3422");
    assert_eq!((busy.reason, busy.nuance), (RateLimit, None));
}

#[test]
fn a_weekly_limit_is_a_rate_limit_with_a_long_window_case_34() {
    let failure = words("Weekly/monthly limit exhausted");
    assert_eq!((failure.reason, failure.nuance), (RateLimit, Some(Nuance::LongWindow)));
    assert_nuance(
        &[
            "You reached the daily limit",
            "quota: GenerateRequestsPerDayPerProject",
            "5-hour usage limit reached",
        ],
        Some(Nuance::LongWindow),
    );
    assert_nuance(
        &[
            "slow down",
            "daily budget: 5 requests per minute",
            "TPM limit of your subscription",
        ],
        None,
    );
}

#[test]
fn a_model_that_is_not_supported_is_not_found_case_66() {
    let failure = respond(
        400,
        r#"{"error":{"code":"model_not_supported","message":"The requested model is not supported."}}"#,
    );
    assert_eq!(failure.reason, ModelNotFound);
    assert_eq!(words("The 'x-codex' model is not supported here").reason, ModelNotFound);
}

#[test]
fn spent_credits_and_spending_caps_are_billing_case_67() {
    let cap = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"exceeded its monthly spending cap"}}"#;
    assert_reasons(&[(0, "You're out of usage credits", Billing), (429, cap, Billing)]);
}

#[test]
fn measured_results_hold() {
    assert_reasons(&[
        (409, "", Unclassified),
        (409, "conflict", Unclassified),
        (413, "", Unclassified),
        (413, "too large", ContextOverflow),
        (
            413,
            "<html><h1>413 Request Entity Too Large</h1></html>",
            ContextOverflow,
        ),
        (
            429,
            r#"{"error":{"type":"insufficient_quota","message":"You exceeded your current quota"}}"#,
            Billing,
        ),
        (429, "insufficient account balance", RateLimit),
        (0, "402 payment required: weekly/monthly limit exhausted", Billing),
        (
            521,
            "<!DOCTYPE html><p>the page is overloaded, rate limit, prompt is too long</p>",
            ServerError,
        ),
        (0, "unhandled stop reason: error", ServerError),
        (0, "unhandled stop reason: abort", Timeout),
        (0, "roles must alternate", Format),
        (400, "messages: roles must alternate between user and assistant", Format),
    ]);
    for status in [500, 502, 503, 521, 523] {
        assert_eq!(respond(status, "").reason, ServerError, "{status}");
    }
    for status in [408, 410, 499, 504, 522, 524] {
        assert_eq!(respond(status, "").reason, Timeout, "{status}");
    }
    assert_eq!(
        respond_as("moonshot", 429, "insufficient account balance").reason,
        Billing
    );
}

#[test]
fn words_alone_are_sorted_by_the_first_family_that_knows_them() {
    assert_reasons(&[
        (0, "", Unknown),
        (0, "the cat sat on the keyboard", Unclassified),
        (0, "self-signed certificate in certificate chain", TlsCertificate),
        (0, "image dimensions exceed max allowed size", Format),
        (0, "this model does not support image input", Format),
        (0, "Session has expired", SessionExpired),
        (0, "unknown model: x", ModelNotFound),
        (0, "No endpoints found for meta/llama", ModelNotFound),
        (0, "This model's maximum context length is 8 tokens", ContextOverflow),
        (
            0,
            "input length and `max_tokens` exceed context limit: 9 > 8",
            ContextOverflow,
        ),
        (0, "Previous response with id 'r' not found.", Format),
        (0, "HTTP 402", Billing),
        (0, "账户余额不足", Billing),
        (0, "Insufficient credits", Billing),
        (0, "429 You are out of credits", RateLimit),
        (0, "429: slow down", RateLimit),
        (0, "Request was throttled", RateLimit),
        (0, "too many concurrent requests", RateLimit),
        (0, "The engine is at capacity", Overloaded),
        (0, "Service Unavailable", Overloaded),
        (0, "Your account has been deactivated", AuthPermanent),
        (0, "OAuth token refresh failed", AuthPermanent),
        (0, "Incorrect API key provided", Auth),
        (0, "Forbidden", Auth),
        (0, "An unknown error occurred", Timeout),
        (0, "502 Bad Gateway", Timeout),
        (0, "read: connection reset by peer", Timeout),
        (0, "The conversation must end with a user message", Format),
        (0, "No error details in response", NoErrorDetails),
        (0, "context deadline exceeded", Timeout),
        (0, "stream ended before message_stop", Timeout),
        (0, "404: nothing", ModelNotFound),
    ]);
}

#[test]
fn a_parameters_name_does_not_sound_like_another_failure() {
    for name in [
        "rate_limit",
        "timeout",
        "overloaded",
        "payment required",
        "unauthorized",
    ] {
        for body in [
            format!("Invalid 'tools[0].{name}': expected a string."),
            format!("Invalid schema for function 'set {name}': bad."),
            format!("Unsupported parameter: '{name}'"),
        ] {
            assert_eq!(respond(400, &body).reason, Format, "{body}");
        }
    }
}

#[test]
fn an_empty_account_is_billing_whatever_the_status() {
    let empty = r#"{"error":{"type":"insufficient_balance_error","message":"insufficient balance (1008)"}}"#;
    assert_reasons(&[
        (500, empty, Billing),
        (400, "Your credit balance is too low", Billing),
        (400, empty, Billing),
    ]);
}

#[test]
fn a_provider_may_mean_something_else_by_the_same_words() {
    let throttle = r#"{"error":{"code":"insufficient_quota","message":"Quota exceeded, please wait."}}"#;
    assert_eq!(respond_as("dashscope", 429, throttle).reason, RateLimit);
    assert_eq!(respond_as("qwen-eu", 429, throttle).reason, RateLimit);
    assert_eq!(respond(429, throttle).reason, Billing);
}

#[test]
fn a_content_filter_is_a_format_failure_with_one_code() {
    let nested = r#"{"error":{"code":"bad","message":"no","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#;
    for failure in [
        respond(400, r#"{"error":{"code":"content_filter","message":"filtered"}}"#),
        respond(400, nested),
        respond(400, "Output blocked by content filtering policy"),
        respond(403, "x requires moderation and your input was flagged for \"violence\""),
        respond(
            400,
            r#"{"error":{"code":"content_policy_violation","message":"rejected"}}"#,
        ),
    ] {
        assert_eq!((failure.reason, failure.nuance), (Format, Some(Nuance::ContentFilter)));
        assert_eq!(failure.code.as_ref().map(|code| code.as_str()), Some("content_filter"));
        assert!(failure.words.is_some());
    }
}

#[test]
fn a_model_that_takes_no_prefill_says_so_in_many_ways() {
    for words in [
        "This model does not support assistant message prefill. The conversation must end with a user message.",
        "Prefilling assistant messages is not supported for this model.",
        "messages.3.content.0.type: Expected `thinking`, but found `text`. When `thinking` is enabled, a final \
         `assistant` message must start with a thinking block",
        "Please ensure that single turn requests end with a user role or the role field is empty.",
        "Your request has an `assistant` message in the final position. When using tools, pre-filling is not supported.",
        "Assistant response prefill is incompatible with enable_thinking.",
        "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
    ] {
        let body = serde_json::json!({ "error": { "type": "invalid_request_error", "message": words } });
        let failure = respond(400, &body.to_string());
        assert_eq!(
            (failure.reason, failure.nuance),
            (Format, Some(Nuance::PrefillRefused)),
            "{words}"
        );
    }
    let other = respond(400, r#"{"error":{"message":"messages: roles must alternate"}}"#);
    assert_eq!((other.reason, other.nuance), (Format, None));
}

#[test]
fn json_is_found_behind_a_status_or_a_stream_field() {
    let json = r#"{"error":{"code":"insufficient_quota","message":"no"}}"#;
    for body in [
        format!("429 {json}"),
        format!("event: error\ndata: {json}\n\ndata: [DONE]\n\n"),
    ] {
        assert_eq!(words(&body).reason, Billing, "{body}");
    }
    let prose = respond(400, "[0] is not a number");
    assert_eq!(
        prose.words.as_ref().map(|words| words.reveal()),
        Some("[0] is not a number")
    );
}

#[test]
fn an_error_in_a_stream_means_what_its_status_would_mean() {
    let error = StreamError {
        provider: "p",
        ..StreamError::default()
    };
    let kind = |kind| StreamError {
        kind: Some(kind),
        message: Some("x"),
        ..error
    };
    for (error, reason, status) in [
        (kind("overloaded_error"), Overloaded, Some(529)),
        (kind("api_error"), ServerError, Some(500)),
        (
            StreamError {
                code: Some("429"),
                ..error
            },
            RateLimit,
            Some(429),
        ),
        (kind("authentication_error"), Auth, Some(401)),
        (kind("rate_limit_error"), RateLimit, Some(429)),
        (kind("invalid_request_error"), Format, Some(400)),
        (
            StreamError {
                status: Some(502),
                message: Some("Provider returned error"),
                ..error
            },
            ServerError,
            Some(502),
        ),
        (
            StreamError {
                code: Some("insufficient_quota"),
                ..error
            },
            Billing,
            None,
        ),
    ] {
        let failure = classify_stream_error(&error);
        assert_eq!((failure.reason, failure.status), (reason, status));
        assert_eq!(failure.cut, Cut::Answered);
    }
}

#[test]
fn the_words_of_an_aggregators_wrapper_are_passed_over() {
    let body = r#"{"error":{"code":400,"message":"Provider returned error",
        "metadata":{"raw":"{\"error\":{\"message\":\"Invalid 'top_p'\",\"code\":\"invalid_value\"}}"}}}"#;
    let failure = respond(400, body);
    assert_eq!(
        failure.words.as_ref().map(|words| words.reveal()),
        Some("Invalid 'top_p'")
    );
    assert_eq!(failure.code.as_ref().map(|code| code.as_str()), Some("invalid_value"));
}

#[test]
fn words_are_kept_only_where_the_request_was_at_fault() {
    assert!(respond(400, "field x is wrong").words.is_some());
    assert!(respond(404, "no such model").words.is_some());
    for status in [401, 402, 403, 429, 500, 503] {
        assert!(respond(status, "org-123 is limited").words.is_none(), "{status}");
    }
    assert!(respond(404, "<html>nginx</html>").words.is_none());
}

#[test]
fn a_fault_of_the_transport_is_a_timeout_except_for_the_certificate() {
    use TransportFault as Fault;
    for (fault, cut) in [
        (Fault::Refused, Cut::Refused),
        (Fault::Unreachable, Cut::Refused),
        (Fault::NameNotFound, Cut::Refused),
        (Fault::ConnectTimeout, Cut::Refused),
        (Fault::TlsHandshake, Cut::Refused),
        (Fault::LostBeforeFirstByte, Cut::LostBeforeFirstByte),
        (Fault::Lost, Cut::Lost),
        (Fault::FirstContentLimit, Cut::FirstContentLimit),
        (Fault::IdleLimit, Cut::IdleLimit),
        (Fault::WholeLimit, Cut::WholeLimit),
    ] {
        assert_eq!((transport(fault).reason, transport(fault).cut), (Timeout, cut));
    }
    let certificate = transport(Fault::TlsCertificate);
    assert_eq!((certificate.reason, certificate.cut), (TlsCertificate, Cut::Refused));
}
