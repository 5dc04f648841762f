//! Embeddings: the request and the answer pass as they are.

use bytes::Bytes;
use understudy_messages::request::RequestFacts;

use crate::answer::{AnswerError, Whole};
use crate::request_error::RequestError;

/// Reads a request for embeddings.
pub(crate) fn scan(_body: &Bytes) -> Result<RequestFacts, RequestError> {
    Err(RequestError::Missing { key: "input" })
}

/// Reads the vectors that came, as far as there are any.
pub(crate) fn read(_body: &[u8]) -> Result<Whole, AnswerError> {
    Err(AnswerError::NotAnAnswer)
}
