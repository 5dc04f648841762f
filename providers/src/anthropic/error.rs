//! Errors as an Anthropic client reads them.

use bytes::Bytes;
use understudy_messages::terminal::TurnFailure;

/// The failure as a JSON body.
pub(crate) fn body(failure: &TurnFailure) -> Vec<u8> {
    crate::openai::error::body(failure, None)
}

/// The protocol's way to end a stream that is not whole: an `error` event.
pub(crate) fn frame(failure: &TurnFailure) -> Bytes {
    crate::openai::error::frame(failure)
}
