//! Events as JSON, for handlers that are not of this language.
//!
//! A handler gets the facts of an event, and the fields of the conversation where its plugin may see them. What is not known,
//! or may not be seen, is absent: never null.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{Hook, HookEvent, Parsed};

/// A field of an event that shows the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `prompt`: the newest text of the user.
    Prompt,
    /// `attachments`: the kinds of what the newest message of the user holds beside text; absent where there is nothing.
    Attachments,
    /// `cleanedBody`: the same, as [`Hook::BeforeAgentReply`] calls it.
    CleanedBody,
    /// `systemPrompt`
    SystemPrompt,
    /// `messages`: all of them, oldest first.
    Messages,
    /// `historyMessages`: those before the message that the prompt is of.
    HistoryMessages,
    /// `tools`: what the model may call.
    Tools,
    /// `imagesCount`: how many images the newest message of the user holds.
    ImagesCount,
}

/// The value of a [`Field`], borrowed from the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum FieldValue<'a> {
    /// A text.
    Text(&'a str),
    /// A list.
    List(&'a [Value]),
    /// A number.
    Count(usize),
    /// What the parts of a message are beside text.
    Attached(Attached<'a>),
}

/// The parts of a message, shown as `{kind, mimeType?}`, those of text left out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attached<'a>(&'a [Value]);

impl<'a> Attached<'a> {
    fn parts(self) -> impl Iterator<Item = &'a Value> {
        let beside_text = |part: &&Value| ["image", "document", "audio"].iter().any(|kind| part["type"] == *kind);
        self.0.iter().filter(beside_text)
    }
}

impl Serialize for Attached<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.parts().map(|part| match part.get("mimeType") {
            Some(mime_type) => json!({ "kind": part["type"], "mimeType": mime_type }),
            None => json!({ "kind": part["type"] }),
        }))
    }
}

impl Field {
    /// The fields that events of `hook` show to plugins that may see the conversation.
    pub const fn of(hook: Hook) -> &'static [Self] {
        use Field::{Attachments, CleanedBody, HistoryMessages, ImagesCount, Messages, Prompt, SystemPrompt, Tools};
        match hook {
            Hook::BeforeModelResolve => &[Prompt, Attachments],
            Hook::LlmOutput => &[Prompt],
            Hook::AgentTurnPrepare | Hook::BeforePromptBuild => &[Prompt, Messages],
            Hook::BeforeAgentRun => &[Prompt, Messages, SystemPrompt],
            Hook::BeforeAgentReply => &[CleanedBody],
            Hook::AgentEnd | Hook::BeforeCompaction => &[Messages],
            Hook::LlmInput => &[Prompt, HistoryMessages, SystemPrompt, Tools, ImagesCount],
            Hook::BeforeToolCall => &[SystemPrompt, Messages, Tools],
            Hook::ModelCallStarted
            | Hook::ModelCallEnded
            | Hook::AfterToolCall
            | Hook::AfterCompaction
            | Hook::ModelFailover
            | Hook::ModelFailureTerminal
            | Hook::GatewayStart
            | Hook::GatewayStop => &[],
        }
    }

    /// Its name in the event.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Attachments => "attachments",
            Self::CleanedBody => "cleanedBody",
            Self::SystemPrompt => "systemPrompt",
            Self::Messages => "messages",
            Self::HistoryMessages => "historyMessages",
            Self::Tools => "tools",
            Self::ImagesCount => "imagesCount",
        }
    }

    /// Its value; `None` where it is not known, and then absent from the event.
    pub fn value(self, conversation: &Parsed) -> Option<FieldValue<'_>> {
        let messages = &conversation.messages;
        match self {
            Self::Prompt | Self::CleanedBody => Some(FieldValue::Text(&conversation.prompt)),
            Self::Attachments => {
                let attached = Attached(newest_parts(messages));
                attached.parts().next().map(|_| FieldValue::Attached(attached))
            }
            Self::SystemPrompt => conversation.system_prompt.as_deref().map(FieldValue::Text),
            Self::Messages => Some(FieldValue::List(messages)),
            Self::HistoryMessages => Some(FieldValue::List(match messages.split_last() {
                Some((newest, history)) if is_users(newest) => history,
                _ => messages,
            })),
            Self::Tools => conversation.tools.as_deref().map(FieldValue::List),
            Self::ImagesCount => Some(FieldValue::Count(images(messages))),
        }
    }
}

/// An event as a handler is told it. Serializing it copies no conversation.
#[derive(Clone, Copy, Debug)]
pub struct EventView<'a> {
    /// The event.
    pub event: &'a HookEvent,
    /// Whether the conversation may be seen.
    pub conversation: bool,
}

impl Serialize for EventView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, fact) in &self.event.facts() {
            map.serialize_entry(name, fact)?;
        }
        if let Some(snapshot) = self.event.conversation().filter(|_| self.conversation) {
            for field in Field::of(self.event.hook()) {
                if let Some(value) = field.value(snapshot.look()) {
                    map.serialize_entry(field.name(), &value)?;
                }
            }
        }
        map.end()
    }
}

/// The whole event as one JSON value. The conversation is copied: whoever only writes it serializes an [`EventView`], and
/// whoever may not need all of it asks for each [`Field`].
pub fn event_json(event: &HookEvent, conversation: bool) -> Value {
    serde_json::to_value(EventView { event, conversation }).unwrap_or_default()
}

fn is_users(message: &Value) -> bool {
    message["role"] == "user"
}

fn images(messages: &[Value]) -> usize {
    let image = |part: &&Value| part["type"].as_str().is_some_and(|kind| kind.contains("image"));
    newest_parts(messages).iter().filter(image).count()
}

/// The parts of the newest message of the user.
fn newest_parts(messages: &[Value]) -> &[Value] {
    let newest = messages.iter().rev().find(|message| is_users(message));
    let parts = newest.and_then(|message| message["content"].as_array());
    parts.map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::answer::Finish;
    use crate::hooks::{HOOKS, ModelCall, Snapshot};

    fn call() -> ModelCall {
        ModelCall {
            run_id: Some("t1".to_owned()),
            call_id: "t1:model:1".to_owned(),
            session_key: None,
            session_id: None,
            provider: "a".into(),
            model: "m".into(),
            api: "openai-chat",
            transport: "http",
            context_token_budget: Some(8000),
        }
    }

    fn conversation() -> Arc<Snapshot> {
        Snapshot::new(|| Parsed {
            prompt: "newest".into(),
            system_prompt: Some("rules".into()),
            messages: [
                json!({ "role": "user", "content": [{ "type": "text", "text": "oldest" }] }),
                json!({ "role": "assistant", "content": [{ "type": "text", "text": "yes" }] }),
                json!({ "role": "user", "content": [{ "type": "text", "text": "newest" },
                    { "type": "image", "mimeType": "image/png" }] }),
            ]
            .into(),
            tools: None,
        })
    }

    #[test]
    fn a_narrow_event_has_no_key_of_the_conversation_and_nobody_looks_at_it() {
        let snapshot = conversation();
        let event = HookEvent::BeforeToolCall {
            run_id: None,
            tool_name: "exec".into(),
            params: Arc::default(),
            tool_call_id: "c1".to_owned(),
            conversation: snapshot.clone(),
        };
        let narrow = json!({ "toolName": "exec", "params": {}, "toolCallId": "c1" });
        assert_eq!(event_json(&event, false), narrow);
        assert!(!snapshot.was_looked_at());
        let wide = event_json(&event, true);
        assert_eq!(wide["systemPrompt"], "rules");
        assert_eq!(wide["messages"].as_array().map(Vec::len), Some(3));
        assert!(wide.get("tools").is_none(), "not known is absent, not null");
    }

    #[test]
    fn what_a_model_is_told_is_the_history_and_the_prompt() {
        let event = HookEvent::LlmInput {
            call: call(),
            conversation: conversation(),
        };
        let told = event_json(&event, true);
        let named = ["runId", "sessionId", "provider", "model"].map(|key| told[key].as_str().unwrap_or("none"));
        assert_eq!(named, ["t1", "none", "a", "m"]);
        assert_eq!(told["historyMessages"].as_array().map(Vec::len), Some(2));
        assert_eq!((&told["prompt"], &told["imagesCount"]), (&json!("newest"), &json!(1)));
    }

    #[test]
    fn what_a_model_said_stands_beside_who_it_is_and_what_it_was_asked() {
        let event = HookEvent::LlmOutput {
            call: call(),
            conversation: conversation(),
            text: "yes".into(),
            finish: Some(Finish::Stop),
            usage: None,
        };
        let expected = json!({
            "runId": "t1", "provider": "a", "model": "m", "resolvedRef": "a/m", "contextTokenBudget": 8000,
            "prompt": "newest", "assistantTexts": ["yes"],
            "lastAssistant": { "role": "assistant", "content": [{ "type": "text", "text": "yes" }],
                "api": "openai-chat", "provider": "a", "model": "m", "stopReason": "stop" },
        });
        assert_eq!(event_json(&event, true), expected);
    }

    #[test]
    fn attachments_are_what_the_newest_message_holds_beside_text() {
        let event = HookEvent::BeforeModelResolve {
            conversation: conversation(),
        };
        assert_eq!(
            event_json(&event, true),
            json!({ "prompt": "newest", "attachments": [{ "kind": "image", "mimeType": "image/png" }] })
        );
        let event = HookEvent::BeforeModelResolve {
            conversation: Snapshot::new(Parsed::default),
        };
        assert_eq!(event_json(&event, true), json!({ "prompt": "" }));
    }

    #[test]
    fn the_prompt_of_a_reply_hook_is_its_cleaned_body() {
        let event = HookEvent::BeforeAgentReply {
            conversation: conversation(),
        };
        assert_eq!(event_json(&event, true), json!({ "cleanedBody": "newest" }));
    }

    #[test]
    fn only_hooks_behind_the_access_gate_show_the_conversation_save_the_tool_gate() {
        for row in HOOKS {
            if !Field::of(row.hook).is_empty() {
                assert!(
                    row.shows_conversation || row.hook == Hook::BeforeToolCall,
                    "{}",
                    row.name
                );
            }
        }
    }
}
