//! A whole Gemini answer.

use understudy_messages::answer::Piece;

use super::decode::Decoder;
use super::event::Event;
use crate::answer::{AnswerError, Whole};
use crate::json::JsonError;
use crate::stream::Delta;

/// Reads a body that is one JSON answer.
///
/// # Errors
/// [`AnswerError`] when it is no answer.
pub(crate) fn read(body: &[u8], pieces: Option<&mut Vec<Piece>>) -> Result<Whole, AnswerError> {
    if body.trim_ascii().is_empty() {
        return Err(AnswerError::NoBody);
    }
    let event = Event::read(body).map_err(|error| match error {
        JsonError::Truncated { .. } => AnswerError::Truncated,
        JsonError::Syntax { at } | JsonError::TooDeep { at } => AnswerError::NotJson { at },
    })?;
    if event.error.is_some() {
        return Ok(Whole {
            error: event.error,
            ..Whole::default()
        });
    }
    if !event.is_answer {
        return Err(AnswerError::NotAnAnswer);
    }
    let mut delta = Delta::default();
    Decoder::default().tell(event, &mut delta, pieces.unwrap_or(&mut Vec::new()));
    Ok(Whole {
        finish: delta.finish,
        usage: delta.usage,
        error: None,
        says_something: delta.content || delta.tool_call,
        calls_tools: delta.tool_call,
        untold: false,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use understudy_messages::answer::Finish;

    use super::*;

    #[test]
    fn a_blocked_prompt_is_an_answer_of_the_filter() {
        let mut pieces = Vec::new();
        let body = br#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":12}}"#;
        let whole = read(body, Some(&mut pieces)).expect("an answer");
        assert_eq!((whole.finish, whole.is_empty()), (Some(Finish::ContentFilter), false));
        assert!(matches!(
            pieces[1],
            Piece::Finish {
                finish: Finish::ContentFilter,
                ..
            }
        ));
    }

    #[test]
    fn a_call_that_could_not_be_read_is_no_answer() {
        let body = br#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}"#;
        assert!(read(body, None).expect("JSON").is_empty());
    }

    #[test]
    fn what_is_not_an_answer_is_told_apart() {
        assert_eq!(read(b" ", None), Err(AnswerError::NoBody));
        assert_eq!(read(b"{}", None), Err(AnswerError::NotAnAnswer));
        assert_eq!(read(b"[1]", None), Err(AnswerError::NotJson { at: 0 }));
        assert_eq!(read(br#"{"candidates":["#, None), Err(AnswerError::Truncated));
        let error = read(br#"{"error":{"code":503,"status":"UNAVAILABLE"}}"#, None).expect("an error");
        assert_eq!(error.error.and_then(|error| error.status), Some(503));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes: Vec<u8>) {
            let _ = read(&bytes, Some(&mut Vec::new()));
        }
    }
}
