//! A request taken apart for hooks: the conversation in the shape that plugins know.
//!
//! `{role, content: […]}`, oldest first, with parts `text`, `thinking`, `image`, `toolCall`; what a tool returned is a message
//! of its own, `{role: "toolResult", toolCallId, toolName?, isError, content}`. System messages stand apart. Data of media
//! and seals of reasoning are left out.

use std::sync::Arc;

use serde_json::{Value, json};
use understudy_messages::conversation::{
    Conversation, MediaKind, MediaSource, Message, Part, Speaker, Tool, ToolResult,
};
use understudy_messages::hooks::Parsed;
use understudy_messages::request::Endpoint;
use understudy_messages::turn::TurnRequest;
use understudy_providers::wire;

/// The conversation in a request.
pub(crate) fn request(request: &TurnRequest) -> Parsed {
    body(request.endpoint, &request.body)
}

/// The conversation in a body; an empty one where it cannot be read.
pub fn body(endpoint: Endpoint, body: &[u8]) -> Parsed {
    match endpoint {
        Endpoint::Embeddings => embedded(body),
        Endpoint::Chat | Endpoint::Responses | Endpoint::Messages | Endpoint::CountTokens | Endpoint::Native => {
            wire::read(endpoint, body).map_or_else(|_| Parsed::default(), conversation)
        }
    }
}

/// What a transcript says; its items are those of Responses, each as JSON.
pub fn transcript(items: &[Arc<str>]) -> Vec<Value> {
    let items: Vec<&str> = items.iter().map(|item| &**item).collect();
    let request = format!(r#"{{"model":"-","input":[{}]}}"#, items.join(","));
    body(Endpoint::Native, request.as_bytes()).messages.to_vec()
}

/// The conversation with an answer behind it.
pub(super) fn with_answer(parsed: &Parsed, answer: Option<&str>) -> Parsed {
    let Some(answer) = answer else {
        return parsed.clone();
    };
    let said = json!({ "role": "assistant", "content": [{ "type": "text", "text": answer }] });
    Parsed {
        messages: parsed.messages.iter().cloned().chain([said]).collect(),
        ..parsed.clone()
    }
}

/// The conversation with these messages behind it.
pub(crate) fn with_messages(parsed: &Parsed, said: &[Message]) -> Parsed {
    let mut messages = parsed.messages.to_vec();
    said.iter().for_each(|message| add(message, &mut messages));
    Parsed {
        messages: messages.into(),
        ..parsed.clone()
    }
}

/// The texts that vectors are asked for, as what the user says.
fn embedded(body: &[u8]) -> Parsed {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let texts: Vec<&str> = match &body["input"] {
        Value::String(text) => vec![text],
        Value::Array(texts) => texts.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let prompt = texts.join("\n");
    let message = json!({ "role": "user", "content": [{ "type": "text", "text": prompt }] });
    Parsed {
        prompt: prompt.into(),
        messages: [message].into(),
        ..Parsed::default()
    }
}

fn conversation(conversation: Conversation) -> Parsed {
    let is_systems = |message: &&Message| matches!(message.speaker, Speaker::System | Speaker::Developer);
    let system: Vec<String> = conversation.messages.iter().filter(is_systems).map(text).collect();
    let newest = conversation.messages.iter().rev();
    let prompt = newest.filter(|message| message.speaker == Speaker::User).map(text);
    let mut messages = Vec::with_capacity(conversation.messages.len());
    for message in conversation.messages.iter().filter(|message| !is_systems(message)) {
        add(message, &mut messages);
    }
    Parsed {
        prompt: prompt
            .map(Arc::from)
            .find(|text: &Arc<str>| !text.is_empty())
            .unwrap_or_default(),
        system_prompt: (!system.is_empty()).then(|| system.join("\n\n").into()),
        messages: messages.into(),
        tools: Some(conversation.tools.iter().map(tool).collect()),
    }
}

/// The texts in a message, one below the other.
fn text(message: &Message) -> String {
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(&**text),
        Part::Refusal(_) | Part::Media(_) | Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Adds a message; what tools returned in it comes first, as messages of their own.
fn add(message: &Message, messages: &mut Vec<Value>) {
    let mut content = Vec::new();
    for part in &message.parts {
        match part {
            Part::ToolResult(result) => messages.push(returned(result)),
            part => content.extend(self::part(part)),
        }
    }
    let role = match message.speaker {
        Speaker::Assistant => "assistant",
        Speaker::User => "user",
        Speaker::System | Speaker::Developer => "system",
        Speaker::Tool => return,
    };
    let only_results = content.is_empty() && !message.parts.is_empty();
    if !only_results {
        messages.push(json!({ "role": role, "content": content }));
    }
}

fn returned(result: &ToolResult) -> Value {
    let content: Vec<Value> = result.parts.iter().filter_map(part).collect();
    let mut message = json!({
        "role": "toolResult", "toolCallId": result.id, "isError": result.is_error, "content": content,
    });
    if let Some(name) = &result.name {
        message["toolName"] = json!(name);
    }
    message
}

fn part(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text(text) | Part::Refusal(text) => json!({ "type": "text", "text": text }),
        Part::Media(media) => {
            let kind = match media.kind {
                MediaKind::Image => "image",
                MediaKind::Document => "document",
                MediaKind::Audio => "audio",
            };
            match &media.source {
                MediaSource::Inline { media_type, .. } => json!({ "type": kind, "mimeType": media_type }),
                MediaSource::Url(_) | MediaSource::File { .. } => json!({ "type": kind }),
            }
        }
        Part::Reasoning(reasoning) if reasoning.text.is_empty() => return None,
        Part::Reasoning(reasoning) => json!({ "type": "thinking", "thinking": reasoning.text }),
        Part::ToolCall(call) => json!({
            "type": "toolCall", "id": call.id, "name": call.name, "arguments": written(&call.arguments),
        }),
        Part::ToolResult(_) => return None,
    })
}

fn tool(tool: &Tool) -> Value {
    let mut shown = json!({ "name": tool.name });
    if let Some(description) = &tool.description {
        shown["description"] = json!(description);
    }
    if let Some(parameters) = &tool.parameters {
        shown["parameters"] = written(parameters);
    }
    shown
}

/// JSON that somebody wrote as text; a text that is none stays one.
fn written(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chat(messages: Value) -> Parsed {
        let request = json!({ "model": "m", "messages": messages, "tools": [{ "type": "function",
            "function": { "name": "look", "parameters": { "type": "object" } } }] });
        body(Endpoint::Chat, request.to_string().as_bytes())
    }

    #[test]
    fn a_conversation_has_the_shape_that_plugins_know() {
        let parsed = chat(json!([
            { "role": "system", "content": "be kind" },
            { "role": "user", "content": "first" },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "c1", "type": "function", "function": { "name": "look", "arguments": "{\"at\":1}" } } ] },
            { "role": "tool", "tool_call_id": "c1", "content": "a cat" },
            { "role": "user", "content": [{ "type": "text", "text": "second" },
                { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } }] },
        ]));
        assert_eq!(
            (&*parsed.prompt, parsed.system_prompt.as_deref()),
            ("second", Some("be kind"))
        );
        assert_eq!(
            Value::from(parsed.messages.to_vec()),
            json!([
                { "role": "user", "content": [{ "type": "text", "text": "first" }] },
                { "role": "assistant", "content": [
                    { "type": "toolCall", "id": "c1", "name": "look", "arguments": { "at": 1 } } ] },
                { "role": "toolResult", "toolCallId": "c1", "isError": false,
                    "content": [{ "type": "text", "text": "a cat" }] },
                { "role": "user", "content": [{ "type": "text", "text": "second" },
                    { "type": "image", "mimeType": "image/png" }] },
            ])
        );
        assert_eq!(
            Value::from(parsed.tools.expect("known").to_vec()),
            json!([{ "name": "look", "parameters": { "type": "object" } }])
        );
    }

    #[test]
    fn where_there_is_no_system_prompt_none_is_known_case_17() {
        assert_eq!(chat(json!([{ "role": "user", "content": "hi" }])).system_prompt, None);
    }

    #[test]
    fn a_body_that_cannot_be_read_is_an_empty_conversation() {
        assert_eq!(body(Endpoint::Messages, b"{"), Parsed::default());
    }

    #[test]
    fn an_answer_stands_last_and_leaves_the_conversation_as_it_was() {
        let before = chat(json!([{ "role": "user", "content": "hi" }]));
        let after = with_answer(&before, Some("hello"));
        assert_eq!((before.messages.len(), after.messages.len()), (1, 2));
        assert_eq!(after.messages[1]["content"][0]["text"], "hello");
    }
}
