//! A whole Anthropic Messages answer.

use understudy_messages::answer::Piece;

use super::arguments::from_input;
use super::block::{Block, BlockKind, owned, sealed};
use super::event::{self, Message};
use crate::answer::{AnswerError, Whole};
use crate::json::{Cursor, JsonError, Kind};

#[cfg(test)]
mod tests;

/// Reads a body that is one JSON answer.
///
/// # Errors
/// [`AnswerError`] when it is no answer.
pub(crate) fn read(body: &[u8], mut pieces: Option<&mut Vec<Piece>>) -> Result<Whole, AnswerError> {
    if body.trim_ascii().is_empty() {
        return Err(AnswerError::NoBody);
    }
    let message = Message::read(body).map_err(unreadable)?;
    let error = message.error();
    let is_message = message.kind.is_some_and(|kind| kind.decode() == "message");
    if error.is_none() && message.content.is_none() && !is_message {
        return Err(AnswerError::NotAnAnswer);
    }
    let mut whole = Whole {
        finish: event::finish(message.stop_reason),
        usage: message.usage.usage(),
        error,
        ..Whole::default()
    };
    if let Some(pieces) = &mut pieces {
        pieces.push(Piece::Begin {
            id: message.id.map(owned),
            model: message.model.map(owned),
        });
    }
    let mut calls = 0;
    Cursor::over(message.content.unwrap_or("[]"))
        .array(|cursor| {
            let block = Block::read(cursor)?;
            note(&mut whole, &block);
            if let Some(pieces) = &mut pieces {
                say(pieces, &block, &mut calls);
            }
            Ok(())
        })
        .map_err(unreadable)?;
    if let Some(pieces) = pieces {
        pieces.extend(whole.usage.map(Piece::Usage));
        pieces.extend(whole.finish.map(|finish| Piece::Finish {
            choice: 0,
            finish,
            stop_sequence: event::stop_sequence(message.stop_reason, message.stop_sequence),
        }));
    }
    Ok(whole)
}

/// Reads a count of tokens.
pub(crate) fn read_count(body: &[u8]) -> Result<Whole, AnswerError> {
    if body.trim_ascii().is_empty() {
        return Err(AnswerError::NoBody);
    }
    let message = Message::read(body).map_err(unreadable)?;
    let error = message.error();
    let mut counted = false;
    Cursor::new(body)
        .and_then(|mut cursor| {
            cursor.object(|cursor, key| {
                counted |= key.decode() == "input_tokens" && cursor.kind()? == Kind::Number;
                cursor.skip()
            })
        })
        .map_err(unreadable)?;
    if error.is_none() && !counted {
        return Err(AnswerError::NotAnAnswer);
    }
    Ok(Whole {
        error,
        says_something: counted,
        ..Whole::default()
    })
}

fn note(whole: &mut Whole, block: &Block<'_>) {
    match block.kind() {
        BlockKind::Text => whole.says_something |= block.text.is_some(),
        BlockKind::Hosted => whole.says_something = true,
        BlockKind::ToolUse => {
            whole.says_something = true;
            whole.calls_tools = true;
        }
        BlockKind::Thinking | BlockKind::RedactedThinking | BlockKind::Other => {}
    }
}

/// What a block says; the body is bounded, and so are its blocks.
fn say(pieces: &mut Vec<Piece>, block: &Block<'_>, calls: &mut u32) {
    let choice = 0;
    match block.kind() {
        BlockKind::Text => pieces.extend(block.text.map(owned).map(|text| Piece::Text { choice, text })),
        BlockKind::Thinking => {
            pieces.extend(block.thinking.map(owned).map(|text| Piece::Reasoning { choice, text }));
            pieces.extend(block.signature.map(|data| sealed(false, owned(data))));
        }
        BlockKind::RedactedThinking => pieces.extend(block.data.map(|data| sealed(true, owned(data)))),
        BlockKind::ToolUse => {
            pieces.push(Piece::ToolCall {
                choice,
                index: *calls,
                id: block.id.map(owned),
                name: block.name.map(owned),
                arguments: from_input(block.input.unwrap_or("{}")),
                seal: None,
            });
            *calls += 1;
        }
        BlockKind::Hosted | BlockKind::Other => {}
    }
}

fn unreadable(error: JsonError) -> AnswerError {
    match error {
        JsonError::Truncated { .. } => AnswerError::Truncated,
        JsonError::Syntax { at } | JsonError::TooDeep { at } => AnswerError::NotJson { at },
    }
}
