//! Errors as an Anthropic client reads them: `{"type":"error","error":{type, message}}`, and our own `code` and `reason`.

use bytes::Bytes;
use serde::Serialize;
use understudy_messages::terminal::TurnFailure;

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: Detail<'a>,
}

#[derive(Serialize)]
struct Detail<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: &'a str,
    code: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// The failure as a JSON body.
pub(crate) fn body(failure: &TurnFailure) -> Vec<u8> {
    let body = Body {
        kind: "error",
        error: Detail {
            kind: kind(failure.status),
            message: failure.client_message(),
            code: &failure.code,
            reason: failure.reason_label(),
        },
    };
    serde_json::to_vec(&body).unwrap_or_default()
}

/// The protocol's way to end a stream that is not whole: an `error` event.
pub(crate) fn frame(failure: &TurnFailure) -> Bytes {
    let mut frame = b"event: error\ndata: ".to_vec();
    frame.extend_from_slice(&body(failure));
    frame.extend_from_slice(b"\n\n");
    frame.into()
}

/// The error's type, which Anthropic ties to the status.
const fn kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        408 | 504 => "timeout_error",
        503 | 529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use understudy_messages::failure::{CancelCause, ProviderWords};

    use super::*;

    fn told(failure: &TurnFailure) -> Value {
        serde_json::from_slice(&body(failure)).expect("JSON")
    }

    #[test]
    fn a_failure_has_the_type_of_its_status() {
        for (status, kind) in [
            (400, "invalid_request_error"),
            (401, "authentication_error"),
            (402, "billing_error"),
            (404, "not_found_error"),
            (413, "request_too_large"),
            (429, "rate_limit_error"),
            (500, "api_error"),
            (502, "api_error"),
            (503, "overloaded_error"),
            (504, "timeout_error"),
            (529, "overloaded_error"),
        ] {
            let told = told(&TurnFailure::ours(status, "why", "Ours."));
            let error = json!({ "type": kind, "message": "Ours.", "code": "why" });
            assert_eq!(told, json!({ "type": "error", "error": error }));
        }
    }

    #[test]
    fn the_cause_and_the_providers_words_are_told() {
        let mut failure = TurnFailure::cancelled(CancelCause::CallerDeadline, 1);
        failure.words = Some(ProviderWords::new("theirs"));
        let told = told(&failure);
        assert_eq!(
            (&told["error"]["reason"], &told["error"]["message"]),
            (&json!("timeout"), &json!("theirs"))
        );
    }

    #[test]
    fn a_broken_stream_ends_in_an_error_event() {
        let frame = frame(&TurnFailure::ours(503, "why", "Ours."));
        let text = std::str::from_utf8(&frame).expect("text");
        assert!(text.starts_with("event: error\ndata: {\"type\":\"error\"") && text.ends_with("}\n\n"));
    }
}
