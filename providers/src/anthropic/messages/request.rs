//! Anthropic Messages requests.

use bytes::Bytes;
use understudy_messages::conversation::Conversation;
use understudy_messages::request::RequestFacts;
use understudy_messages::settings::Api;

use crate::request_error::RequestError;
use crate::wire::{Target, Unsupported, Written};

/// Reads a request as far as routing depends on it.
pub(crate) fn scan(_body: &Bytes) -> Result<RequestFacts, RequestError> {
    Err(RequestError::Missing { key: "model" })
}

/// Takes a request apart.
pub(crate) fn read(_body: &[u8]) -> Result<Conversation, RequestError> {
    Err(RequestError::Missing { key: "model" })
}

/// Puts a request together.
pub(crate) fn write(_conversation: &Conversation, _target: &Target<'_>) -> Result<Written, Unsupported> {
    Err(Unsupported {
        what: "any request".to_owned(),
        api: Api::AnthropicMessages,
    })
}
