//! Errors as an OpenAI client reads them: `{"error": {message, type, param, code}}`, and our own `reason`.

use bytes::Bytes;
use serde::Serialize;
use understudy_messages::terminal::TurnFailure;

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
pub(crate) fn body(failure: &TurnFailure, param: Option<&str>) -> Vec<u8> {
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

/// The protocol's way to end a stream that is not whole: an error, and no closing frame.
pub(crate) fn frame(failure: &TurnFailure) -> Bytes {
    let mut frame = b"data: ".to_vec();
    frame.extend_from_slice(&body(failure, None));
    frame.extend_from_slice(b"\n\n");
    frame.into()
}
