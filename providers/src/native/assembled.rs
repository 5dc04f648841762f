//! What somebody else says a model is told, in the place of what a session remembers.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use understudy_messages::request::{Endpoint, RequestFacts};

use crate::openai::responses::request as responses;
use crate::request_error::RequestError;
use crate::splice::{Edit, splice};
use crate::wire;

/// An input in its parts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// What operators say, plugins among them.
    pub system: Vec<Value>,
    /// What the session remembers.
    pub remembered: Vec<Value>,
    /// What is asked now.
    pub asked: Vec<Value>,
}

/// Why what somebody says a model is told is nothing that it can be told.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// A call of a tool and its result do not stand together.
    #[error("a call of a tool has no result, or a result no call")]
    Unpaired,
    /// It is no conversation.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// Takes an input apart, of which the last `asked` items are asked now.
pub fn parts(body: &Bytes, facts: &RequestFacts, asked: usize) -> Parts {
    let list = format!("[{}]", responses::own_items(body, facts));
    let raw: Vec<&RawValue> = serde_json::from_str(&list).unwrap_or_default();
    let items = raw.iter().filter_map(|item| serde_json::from_str(item.get()).ok());
    let mut items: Vec<Value> = items.collect();
    let asked = items.split_off(items.len().saturating_sub(asked));
    let is_systems = |item: &Value| matches!(item["role"].as_str(), Some("system" | "developer"));
    let (system, remembered) = items.into_iter().partition(is_systems);
    Parts {
        system,
        remembered,
        asked,
    }
}

/// The request with these parts as its input, and what one scan of it finds.
///
/// # Errors
/// [`AssembleError`]: no model can be told it.
pub fn assemble(body: &Bytes, facts: &RequestFacts, parts: &Parts) -> Result<(Bytes, RequestFacts), AssembleError> {
    if !is_paired(&parts.remembered) {
        return Err(AssembleError::Unpaired);
    }
    let items = [&parts.system, &parts.remembered, &parts.asked];
    let items: Vec<&Value> = items.into_iter().flatten().collect();
    let input = json!(items).to_string();
    let edit = facts.responses.as_ref().map(|facts| Edit {
        span: facts.input.clone(),
        text: input.as_bytes(),
    });
    let body = splice(body, edit.as_slice());
    wire::read(Endpoint::Native, &body)?;
    let facts = wire::scan(Endpoint::Native, &body)?;
    Ok((body, facts))
}

/// Whether each call has one result behind it, and each result a call.
fn is_paired(items: &[Value]) -> bool {
    let mut open = BTreeSet::new();
    items.iter().all(|item| {
        let id = item["call_id"].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("function_call") => open.insert(id),
            Some("function_call_output") => open.remove(id),
            Some(_) | None => true,
        }
    }) && open.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(input: &Value) -> (Bytes, RequestFacts) {
        let body = Bytes::from(json!({ "model": "m", "input": input }).to_string());
        let facts = wire::scan(Endpoint::Native, &body).expect("a request");
        (body, facts)
    }

    fn says(role: &str, text: &str) -> Value {
        json!({ "role": role, "content": text })
    }

    #[test]
    fn what_is_asked_and_what_operators_say_stays_around_what_was_chosen() {
        let (body, facts) = request(&json!([says("system", "rules"), says("user", "a"), says("user", "b")]));
        let parts = parts(&body, &facts, 1);
        assert_eq!(
            (&parts.system, &parts.asked),
            (&vec![says("system", "rules")], &vec![says("user", "b")])
        );
        let chosen = Parts {
            remembered: vec![says("user", "in short")],
            ..parts
        };
        let (body, _) = assemble(&body, &facts, &chosen).expect("a conversation");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!(
            body["input"],
            json!([says("system", "rules"), says("user", "in short"), says("user", "b")])
        );
    }

    #[test]
    fn a_call_without_its_result_and_what_is_no_message_are_refused() {
        let (body, facts) = request(&json!([says("user", "a")]));
        let call = json!({ "type": "function_call", "call_id": "c", "name": "n", "arguments": "{}" });
        let result = json!({ "type": "function_call_output", "call_id": "c", "output": "" });
        let assembled = |remembered: Vec<Value>| {
            let parts = Parts {
                remembered,
                asked: vec![says("user", "a")],
                ..Parts::default()
            };
            assemble(&body, &facts, &parts).is_ok()
        };
        assert!(assembled(vec![call.clone(), result.clone()]));
        assert!(!assembled(vec![call.clone()]) && !assembled(vec![result.clone(), call]));
        assert!(!assembled(vec![result]) && !assembled(vec![json!({ "role": 7 })]));
    }
}
