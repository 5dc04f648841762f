//! The JSON of chat answers.

use serde::Serialize;
use serde_json::{Value, json};
use understudy_messages::answer::Usage;
use understudy_messages::conversation::Seal;

/// What every chunk and every whole answer begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub(super) id: &'a str,
    pub(super) created: u64,
    pub(super) model: &'a str,
}

#[derive(Serialize)]
struct Body<'a, C> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<C>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Value>,
}

#[derive(Serialize)]
struct ChunkChoice<'a> {
    index: u32,
    delta: &'a Delta,
    finish_reason: Option<&'static str>,
}

#[derive(Serialize)]
struct WholeChoice<'a> {
    index: usize,
    message: &'a Message,
    logprobs: Option<()>,
    finish_reason: &'static str,
}

impl Head<'_> {
    /// Adds a frame about one choice.
    pub(super) fn chunk(self, frames: &mut Vec<u8>, index: u32, delta: &Delta, finish_reason: Option<&'static str>) {
        let choice = ChunkChoice {
            index,
            delta,
            finish_reason,
        };
        self.frame(frames, vec![choice], None);
    }

    /// Adds the frame that reports tokens.
    pub(super) fn usage_chunk(self, frames: &mut Vec<u8>, usage: Usage) {
        self.frame(frames, Vec::<()>::new(), Some(usage));
    }

    fn frame<C: Serialize>(self, frames: &mut Vec<u8>, choices: Vec<C>, usage: Option<Usage>) {
        frames.extend_from_slice(b"data: ");
        frames.extend(self.json("chat.completion.chunk", choices, usage));
        frames.extend_from_slice(b"\n\n");
    }

    /// A whole answer.
    pub(super) fn whole<'m>(
        self,
        choices: impl Iterator<Item = (&'m Message, &'static str)>,
        usage: Option<Usage>,
    ) -> Vec<u8> {
        let choices = choices
            .enumerate()
            .map(|(index, (message, finish_reason))| WholeChoice {
                index,
                message,
                logprobs: None,
                finish_reason,
            });
        self.json("chat.completion", choices.collect(), usage)
    }

    fn json<C: Serialize>(self, object: &'static str, choices: Vec<C>, usage: Option<Usage>) -> Vec<u8> {
        let body = Body {
            id: self.id,
            object,
            created: self.created,
            model: self.model,
            choices,
            usage: usage.map(self::usage),
        };
        serde_json::to_vec(&body).unwrap_or_default()
    }
}

fn usage(usage: Usage) -> Value {
    let mut read = json!({"cached_tokens": usage.cache_read});
    if usage.cache_write > 0 {
        read["cache_write_tokens"] = json!(usage.cache_write);
    }
    json!({
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input.saturating_add(usage.output),
        "prompt_tokens_details": read,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    })
}

/// What a chunk adds to a choice.
#[derive(Debug, Default, Serialize)]
pub(super) struct Delta {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) reasoning_details: Vec<Detail>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ToolCall>,
}

/// Some reasoning with its seal.
#[derive(Debug, Serialize)]
pub(super) struct Detail {
    #[serde(rename = "type")]
    kind: &'static str,
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
}

impl Detail {
    fn of(kind: &'static str, index: usize) -> Self {
        Self {
            kind,
            index,
            text: None,
            summary: None,
            signature: None,
            data: None,
        }
    }

    /// Readable reasoning and its signature.
    pub(super) fn signed(index: usize, text: String, signature: String) -> Self {
        Self {
            text: Some(text),
            signature: Some(signature),
            ..Self::of("reasoning.text", index)
        }
    }

    /// What is readable of the encrypted reasoning that comes next.
    pub(super) fn summary(index: usize, summary: String) -> Self {
        Self {
            summary: Some(summary),
            ..Self::of("reasoning.summary", index)
        }
    }

    /// Encrypted reasoning.
    pub(super) fn encrypted(index: usize, data: String) -> Self {
        Self {
            data: Some(data),
            ..Self::of("reasoning.encrypted", index)
        }
    }
}

/// A tool call or more of one.
#[derive(Debug, Serialize)]
pub(super) struct ToolCall {
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    function: Function,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<Value>,
}

#[derive(Debug, Serialize)]
struct Function {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    arguments: String,
}

impl ToolCall {
    pub(super) fn new(
        index: u32,
        id: Option<String>,
        name: Option<String>,
        arguments: String,
        seal: Option<&Seal>,
    ) -> Self {
        Self {
            index: Some(index),
            kind: id.is_some().then_some("function"),
            id,
            function: Function { name, arguments },
            extra_content: seal.map(|seal| json!({"google": {"thought_signature": super::signature(seal)}})),
        }
    }
}

/// The message of a choice that does not stream.
#[derive(Debug, Serialize)]
pub(super) struct Message {
    role: &'static str,
    content: Option<String>,
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<Detail>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
}

impl Default for Message {
    fn default() -> Self {
        Self {
            role: "assistant",
            content: None,
            refusal: None,
            reasoning_content: None,
            reasoning_details: Vec::new(),
            tool_calls: Vec::new(),
        }
    }
}

impl Message {
    /// Puts a delta to what came before it.
    pub(super) fn add(&mut self, delta: Delta) {
        let Delta {
            role: _,
            content,
            refusal,
            reasoning_content,
            reasoning_details,
            tool_calls,
        } = delta;
        append(&mut self.content, content);
        append(&mut self.refusal, refusal);
        append(&mut self.reasoning_content, reasoning_content);
        self.reasoning_details.extend(reasoning_details);
        for mut call in tool_calls {
            match call
                .index
                .take()
                .and_then(|index| self.tool_calls.get_mut(index as usize))
            {
                Some(begun) => {
                    begun.function.arguments.push_str(&call.function.arguments);
                    begun.extra_content = call.extra_content.or(begun.extra_content.take());
                }
                None => self.tool_calls.push(call),
            }
        }
    }
}

fn append(slot: &mut Option<String>, more: Option<String>) {
    if let Some(more) = more {
        slot.get_or_insert_default().push_str(&more);
    }
}
