//! Context engines: plugins that say what of a session a model is told, in the place of the built-in way.

use std::sync::Arc;

use actix::{Message, Recipient};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::hooks::HookContext;
use crate::ids::Name;
use crate::plugin::CallError;

/// Ask the context engine of an instance.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Value, CallError>")]
pub struct CallEngine {
    /// For what.
    pub work: EngineWork,
    /// Who is at work.
    pub context: Arc<HookContext>,
    /// Ends the work.
    pub cancel: CancellationToken,
}

/// What an engine is asked for. Messages are items of Responses, as a session remembers them.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineWork {
    /// What a model is told before what is asked now.
    Assemble {
        /// What the session remembers, oldest first.
        messages: Vec<Value>,
        /// What is asked now: it is told whatever the engine says.
        asked: Vec<Value>,
        /// The window of the model, in tokens; `None`: not known.
        window: Option<u64>,
    },
    /// A turn has ended: this is what the session remembers of it.
    Commit {
        /// What was said in it, oldest first.
        messages: Vec<Value>,
    },
    /// Let go of everything: nothing comes after it.
    Dispose,
}

impl EngineWork {
    /// As it is spelled to plugins.
    pub const fn as_label(&self) -> &'static str {
        match self {
            Self::Assemble { .. } => "assemble",
            Self::Commit { .. } => "commit",
            Self::Dispose => "dispose",
        }
    }

    /// What a plugin that is not of this language is told.
    pub fn told(&self) -> Value {
        match self {
            Self::Assemble {
                messages,
                asked,
                window,
            } => json!({ "messages": messages, "asked": asked, "window": window }),
            Self::Commit { messages } => json!({ "messages": messages }),
            Self::Dispose => json!({}),
        }
    }
}

/// The engine of a turn's own generation.
#[derive(Clone, Debug)]
pub struct TurnEngine {
    /// Whose it is.
    pub plugin: Name,
    /// Its instance.
    pub port: Recipient<CallEngine>,
}

/// The messages of an answer to [`EngineWork::Assemble`]: a list, or an object that holds it as `messages`.
///
/// # Errors
/// [`CallError::Invalid`] where it is neither.
pub fn assembled(answer: Value) -> Result<Vec<Value>, CallError> {
    match answer {
        Value::Array(messages) => Ok(messages),
        Value::Object(mut answer) => match answer.remove("messages") {
            Some(Value::Array(messages)) => Ok(messages),
            Some(_) | None => Err(CallError::Invalid),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(CallError::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_a_list_of_messages_however_it_is_wrapped() {
        assert_eq!(assembled(json!([{}])), Ok(vec![json!({})]));
        assert_eq!(assembled(json!({ "messages": [] })), Ok(Vec::new()));
        for wrong in [json!(null), json!("all"), json!({}), json!({ "messages": "all" })] {
            assert_eq!(assembled(wrong), Err(CallError::Invalid));
        }
    }
}
