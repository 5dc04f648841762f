//! A whole Responses answer.

use understudy_messages::answer::Piece;

use crate::answer::{AnswerError, Whole};

/// Reads a body that is one JSON answer.
///
/// # Errors
/// [`AnswerError`] when it is no answer.
pub(crate) fn read(_body: &[u8], _pieces: Option<&mut Vec<Piece>>) -> Result<Whole, AnswerError> {
    Err(AnswerError::NotAnAnswer)
}
