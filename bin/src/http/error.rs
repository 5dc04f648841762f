//! Errors as an OpenAI client reads them: `{"error": {message, type, param, code}}`, and our own `reason`.

use actix_web::HttpResponse;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use serde::Serialize;
use understudy_messages::terminal::{Source, TurnFailure};

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
    let body = Body {
        error: Detail {
            message: failure.client_message(),
            kind: failure.kind,
            param,
            code: &failure.code,
            reason: failure.reason_label(),
        },
    };
    serde_json::to_vec(&body).unwrap_or_default()
}

/// The failure as a whole response. After our own failover is exhausted a client's retries would only triple the load.
pub(super) fn respond(failure: &TurnFailure, param: Option<&str>) -> HttpResponse {
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    response.insert_header((header::CONTENT_TYPE, "application/json"));
    if let Some(seconds) = failure.retry_after {
        response.insert_header((header::RETRY_AFTER, seconds));
    }
    match failure.source {
        Source::Chain | Source::Cancelled(_) => {
            response.insert_header((ATTEMPTS, failure.attempts));
            response.insert_header((SHOULD_RETRY, "false"));
        }
        Source::Gateway => {}
    }
    response.body(body(failure, param))
}

/// Any path that is none of ours.
pub(super) async fn not_found() -> HttpResponse {
    let hint = "No such path. The API serves /v1/chat/completions and /v1/models.";
    respond(&TurnFailure::ours(404, "not_found", hint), None)
}

/// A method that a path of ours does not take: `OPTIONS` is told which ones it takes, any other is refused.
pub(super) async fn other_method(method: Method, allowed: &'static str) -> HttpResponse {
    let mut response = match method {
        Method::OPTIONS => HttpResponse::NoContent().finish(),
        _ => respond(
            &TurnFailure::ours(405, "method_not_allowed", "This path does not take this method."),
            None,
        ),
    };
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

#[cfg(test)]
mod tests {
    use understudy_messages::failure::CancelCause;

    use super::*;

    #[test]
    fn an_sdk_does_not_retry_what_the_chain_has_tried() {
        let exhausted = TurnFailure {
            source: Source::Chain,
            ..TurnFailure::ours(502, "upstream_error", "broken")
        };
        for failure in [exhausted, TurnFailure::cancelled(CancelCause::CallerDeadline, 2)] {
            assert_eq!(
                respond(&failure, None).headers().get("x-should-retry").expect("set"),
                "false"
            );
        }
        let busy = TurnFailure::ours(503, "gateway_busy", "busy");
        assert!(
            respond(&busy, None).headers().get("x-should-retry").is_none(),
            "a busy gateway may be asked again"
        );
    }
}
