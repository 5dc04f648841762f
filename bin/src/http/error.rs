//! Failures as whole responses, in the format of whoever asked.

use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, HttpResponse};
use understudy_messages::request::Endpoint;
use understudy_messages::terminal::{Source, TurnFailure};
use understudy_providers::wire::error_body;

const ATTEMPTS: HeaderName = HeaderName::from_static("x-understudy-attempts");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// A refusal, and what of the request it is about.
pub(super) struct Refused {
    pub(super) failure: Box<TurnFailure>,
    pub(super) param: Option<&'static str>,
}

impl From<TurnFailure> for Refused {
    fn from(failure: TurnFailure) -> Self {
        Self {
            failure: Box::new(failure),
            param: None,
        }
    }
}

/// The failure as a whole response. After our own failover is exhausted a client's retries would only triple the load.
pub(super) fn respond(endpoint: Endpoint, failure: &TurnFailure, param: Option<&str>) -> HttpResponse {
    let status = StatusCode::from_u16(failure.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = HttpResponse::build(status);
    response.insert_header((header::CONTENT_TYPE, "application/json"));
    if let Some(seconds) = failure.retry_after {
        response.insert_header((header::RETRY_AFTER, seconds));
    }
    match failure.source {
        Source::Chain | Source::Cancelled(_) | Source::Guard => {
            response.insert_header((ATTEMPTS, failure.attempts));
            response.insert_header((SHOULD_RETRY, "false"));
        }
        Source::Gateway => {}
    }
    response.body(error_body(endpoint, failure, param))
}

/// The failure as a whole response, in the format that clients of this path read.
pub(super) fn respond_at(path: &str, failure: &TurnFailure) -> HttpResponse {
    let endpoint = match path.starts_with("/v1/messages") {
        true => Endpoint::Messages,
        false => Endpoint::Chat,
    };
    respond(endpoint, failure, None)
}

/// Any path that is none of ours.
pub(super) async fn not_found(request: HttpRequest) -> HttpResponse {
    let hint = "No such path. The API serves /v1/chat/completions, /v1/responses, /v1/messages, /v1/embeddings, /v1/sessions, \
        /v1/models and /plugins.";
    respond_at(request.path(), &TurnFailure::ours(404, "not_found", hint))
}

/// A method that a path of ours does not take: `OPTIONS` is told which ones it takes, any other is refused.
pub(super) async fn other_method(request: HttpRequest, allowed: &'static str) -> HttpResponse {
    let refusal = TurnFailure::ours(405, "method_not_allowed", "This path does not take this method.");
    let mut response = match *request.method() {
        Method::OPTIONS => HttpResponse::NoContent().finish(),
        _ => respond_at(request.path(), &refusal),
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
                respond(Endpoint::Chat, &failure, None)
                    .headers()
                    .get("x-should-retry")
                    .expect("set"),
                "false"
            );
        }
        let busy = TurnFailure::ours(503, "gateway_busy", "busy");
        assert!(
            respond(Endpoint::Chat, &busy, None)
                .headers()
                .get("x-should-retry")
                .is_none(),
            "a busy gateway may be asked again"
        );
    }
}
