//! A Messages request taken apart.

use understudy_messages::conversation::Conversation;

use crate::request_error::RequestError;

/// Takes a request apart.
pub(crate) fn read(_body: &[u8]) -> Result<Conversation, RequestError> {
    Err(RequestError::Missing { key: "model" })
}
