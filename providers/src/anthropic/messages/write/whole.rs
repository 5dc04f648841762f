//! The content of an answer that does not stream.

use understudy_messages::answer::Piece;
use understudy_messages::ids::TurnId;
use understudy_messages::settings::Api;

use super::super::arguments::to_input;
use super::MAX_CALLS;
use super::json::{Block, Input};

/// A block, put together.
#[derive(Debug)]
pub(super) enum Part {
    Text(String),
    Thinking {
        text: String,
        signature: Option<String>,
    },
    Redacted(String),
    Call {
        index: u32,
        id: Option<String>,
        name: String,
        arguments: String,
    },
}

/// Adds what a piece says.
pub(super) fn add(parts: &mut Vec<Part>, piece: Piece) {
    match piece {
        Piece::Text { choice: 0, text } | Piece::Refusal { choice: 0, text } => match parts.last_mut() {
            Some(Part::Text(whole)) => whole.push_str(&text),
            _ => parts.push(Part::Text(text)),
        },
        Piece::Reasoning { choice: 0, text } => match parts.last_mut() {
            Some(Part::Thinking {
                text: whole,
                signature: None,
            }) => whole.push_str(&text),
            _ => parts.push(Part::Thinking { text, signature: None }),
        },
        Piece::Sealed { choice: 0, seal } => {
            let data = seal.in_format(Api::AnthropicMessages);
            match parts.last_mut() {
                Some(Part::Thinking { signature, .. }) if signature.is_none() => *signature = Some(data),
                _ if seal.whole => parts.push(Part::Redacted(data)),
                _ => parts.push(sealed(data)),
            }
        }
        Piece::ToolCall {
            choice: 0,
            index,
            id,
            name,
            arguments: more,
            seal,
        } => {
            let begun = parts.iter_mut().rev().find_map(|part| match part {
                Part::Call {
                    index: begun,
                    arguments,
                    ..
                } if *begun == index => Some(arguments),
                _ => None,
            });
            if let Some(arguments) = begun {
                arguments.push_str(&more);
            } else if (index as usize) < MAX_CALLS {
                parts.extend(seal.map(|seal| sealed(seal.in_format(Api::AnthropicMessages))));
                parts.push(Part::Call {
                    index,
                    id,
                    name: name.unwrap_or_default(),
                    arguments: more,
                });
            }
        }
        _ => {}
    }
}

/// The blocks.
pub(super) fn content<'a>(parts: &'a mut [Part], turn: &TurnId) -> Vec<Block<'a>> {
    for part in parts.iter_mut() {
        if let Part::Call {
            index, id, arguments, ..
        } = part
        {
            id.get_or_insert_with(|| made_up_id(turn, *index));
            *arguments = to_input(arguments).get().to_owned();
        }
    }
    parts.iter().map(block).collect()
}

/// The id of a call whose provider gave it none.
pub(super) fn made_up_id(turn: &TurnId, call: u32) -> String {
    format!("toolu_{turn}_{call}")
}

fn sealed(data: String) -> Part {
    Part::Thinking {
        text: String::new(),
        signature: Some(data),
    }
}

fn block(part: &Part) -> Block<'_> {
    match part {
        Part::Text(text) => Block::Text { text },
        Part::Thinking { text, signature } => Block::thinking(text, signature.as_deref().unwrap_or_default()),
        Part::Redacted(data) => Block::RedactedThinking { data },
        Part::Call {
            id, name, arguments, ..
        } => Block::ToolUse {
            id: id.as_deref().unwrap_or_default(),
            name,
            input: serde_json::from_str(arguments).map_or(Input::None {}, Input::Json),
        },
    }
}
