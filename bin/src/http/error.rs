//! Errors as an OpenAI client reads them: `{"error": {message, type, param, code}}`, and our own `reason`.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName};
use serde::Serialize;
use understudy_messages::ending::TurnFailure;

const ATTEMPTS: HeaderName = HeaderName::from_static("x-understudy-attempts");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

#[derive(Serialize)]
struct Body<'a> {
    error: Detail<'a>,
}

#[derive(Serialize)]
struct Detail<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// The failure as a JSON body.
pub(super) fn body(failure: &TurnFailure, param: Option<&str>) -> Vec<u8> {
    let words = failure.words.as_ref().map(|words| words.reveal());
    let body = Body {
        error: Detail {
            message: words.unwrap_or(&failure.message),
            kind: kind(failure.status),
            param,
            code: &failure.code,
            reason: failure.reason.map(|reason| reason.as_label()),
        },
    };
    serde_json::to_vec(&body).unwrap_or_default()
}

/// The failure as a whole response. After our own failover is exhausted a client's retries would only triple the load.
pub(super) fn respond(failure: &TurnFailure, param: Option<&str>) -> HttpResponse {
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    response.insert_header((header::CONTENT_TYPE, "application/json"));
    if let Some(after) = failure.retry_after {
        let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
        response.insert_header((header::RETRY_AFTER, seconds.max(1)));
    }
    if failure.attempts > 0 || failure.reason.is_some() {
        response.insert_header((ATTEMPTS, failure.attempts));
        response.insert_header((SHOULD_RETRY, "false"));
    }
    response.body(body(failure, param))
}

/// Any path that is none of ours.
pub(super) async fn not_found() -> HttpResponse {
    let hint = "No such path. The API serves /v1/chat/completions and /v1/models.";
    respond(&TurnFailure::ours(404, "not_found", hint), None)
}

fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        503 => "service_unavailable_error",
        504 => "timeout_error",
        _ => "server_error",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_wait_is_rounded_up_to_whole_seconds_and_never_zero() {
        let mut failure = TurnFailure::ours(429, "rate_limit", "later");
        failure.retry_after = Some(Duration::from_millis(1200));
        assert_eq!(respond(&failure, None).headers().get("retry-after").expect("set"), "2");
        failure.retry_after = Some(Duration::ZERO);
        assert_eq!(respond(&failure, None).headers().get("retry-after").expect("set"), "1");
    }
}
