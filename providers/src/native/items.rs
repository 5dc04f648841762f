//! Messages as items of a transcript: what is read back from them is what was said.

use serde_json::{Value, json};
use understudy_messages::conversation::{
    Media, MediaKind, MediaSource, Message, Part, Reasoning, Seal, Speaker, ToolCall, ToolResult,
};
use understudy_messages::settings::Api;

/// What a message says, as items of Responses, each as JSON. Seals name their maker; an item of a tool's result says
/// whether the tool failed.
pub fn items(message: &Message) -> Vec<String> {
    let mut items = Items {
        speaker: message.speaker,
        content: Vec::new(),
        items: Vec::new(),
    };
    for part in &message.parts {
        items.part(part);
    }
    items.say();
    items.items.iter().map(Value::to_string).collect()
}

struct Items {
    speaker: Speaker,
    /// Parts of a message that is not ended yet.
    content: Vec<Value>,
    items: Vec<Value>,
}

impl Items {
    fn part(&mut self, part: &Part) {
        match part {
            Part::ToolCall(call) => self.call(call),
            Part::ToolResult(result) => self.item(result_item(result)),
            Part::Reasoning(reasoning) => self.item(reasoning_item(reasoning)),
            // no model can be told what another one made
            Part::Media(_) if self.speaker == Speaker::Assistant => {}
            Part::Text(text) if text.is_empty() => {}
            Part::Text(_) | Part::Refusal(_) | Part::Media(_) => {
                let spoken = spoken(part, self.speaker);
                self.content.extend(spoken);
            }
        }
    }

    fn item(&mut self, item: Value) {
        self.say();
        self.items.push(item);
    }

    /// What seals a call stands before it.
    fn call(&mut self, call: &ToolCall) {
        if let Some(seal) = &call.seal {
            self.item(json!({ "type": "reasoning", "summary": [], "encrypted_content": sealed(seal) }));
        }
        let arguments = if call.arguments.is_empty() {
            "{}"
        } else {
            &call.arguments
        };
        self.item(json!({ "type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments }));
    }

    /// Ends the message.
    fn say(&mut self) {
        if self.content.is_empty() {
            return;
        }
        let role = match self.speaker {
            Speaker::System => "system",
            Speaker::Developer => "developer",
            Speaker::User | Speaker::Tool => "user",
            Speaker::Assistant => "assistant",
        };
        let content = std::mem::take(&mut self.content);
        self.items
            .push(json!({ "type": "message", "role": role, "content": content }));
    }
}

fn sealed(seal: &Seal) -> String {
    seal.in_format(Api::OpenaiResponses)
}

fn reasoning_item(reasoning: &Reasoning) -> Value {
    let summary: Vec<Value> = Some(&reasoning.text)
        .filter(|text| !text.is_empty())
        .map(|text| json!({ "type": "summary_text", "text": text }))
        .into_iter()
        .collect();
    let mut item = json!({ "type": "reasoning", "summary": summary });
    if let Some(seal) = &reasoning.seal {
        item["encrypted_content"] = json!(sealed(seal));
    }
    item
}

fn result_item(result: &ToolResult) -> Value {
    let output = match &result.parts[..] {
        [] => json!(""),
        [Part::Text(text)] => json!(text),
        parts => parts.iter().filter_map(|part| spoken(part, Speaker::User)).collect(),
    };
    let mut item = json!({ "type": "function_call_output", "call_id": result.id, "output": output });
    if result.is_error {
        item["is_error"] = json!(true);
    }
    item
}

/// A part of a message's content; `None` for what is an item of its own.
fn spoken(part: &Part, speaker: Speaker) -> Option<Value> {
    match part {
        Part::Text(text) if speaker == Speaker::Assistant => {
            Some(json!({ "type": "output_text", "text": text, "annotations": [] }))
        }
        Part::Text(text) => Some(json!({ "type": "input_text", "text": text })),
        Part::Refusal(refusal) => Some(json!({ "type": "refusal", "refusal": refusal })),
        Part::Media(media) => Some(self::media(media)),
        Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    }
}

fn media(media: &Media) -> Value {
    let (kind, url) = match media.kind {
        MediaKind::Image => ("input_image", "image_url"),
        MediaKind::Document => ("input_file", "file_url"),
        MediaKind::Audio => ("input_audio", "file_url"),
    };
    let mut part = json!({ "type": kind });
    match &media.source {
        MediaSource::File { id, .. } => part["file_id"] = json!(id),
        MediaSource::Url(at) => part[url] = json!(at),
        MediaSource::Inline { media_type, data } => match media.kind {
            MediaKind::Image => part[url] = json!(format!("data:{media_type};base64,{data}")),
            MediaKind::Document => part["file_data"] = json!(format!("data:{media_type};base64,{data}")),
            MediaKind::Audio => {
                let format = media_type.strip_prefix("audio/").unwrap_or(media_type);
                part["input_audio"] = json!({ "data": data, "format": format });
            }
        },
    }
    for (key, value) in [("filename", &media.name), ("detail", &media.detail)] {
        if let Some(value) = value {
            part[key] = json!(value);
        }
    }
    part
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use understudy_messages::request::Endpoint;

    use super::*;
    use crate::wire;

    /// What is read back from the items of these messages.
    fn read_back(messages: &[Message]) -> Vec<Message> {
        let input = messages.iter().flat_map(items).collect::<Vec<_>>().join(",");
        let body = format!(r#"{{"model":"m","input":[{input}]}}"#);
        wire::read(Endpoint::Native, body.as_bytes()).expect("is read").messages
    }

    fn message(speaker: Speaker, parts: Vec<Part>) -> Message {
        Message { speaker, parts }
    }

    fn seal(maker: Api) -> Seal {
        Seal {
            maker,
            whole: false,
            data: "c2VhbA==".to_owned(),
        }
    }

    fn reasoning(maker: Api) -> Part {
        Part::Reasoning(Reasoning {
            text: "hm".to_owned(),
            seal: Some(Seal {
                whole: maker == Api::OpenaiResponses,
                ..seal(maker)
            }),
        })
    }

    #[test]
    fn a_turn_with_a_tool_is_read_back_with_every_makers_seals_and_the_tools_failure() {
        let call = |id: &str, seal| {
            Part::ToolCall(ToolCall {
                id: id.to_owned(),
                name: "look".to_owned(),
                arguments: r#"{"at":1}"#.to_owned(),
                seal,
            })
        };
        let result = |id: &str, is_error| {
            Part::ToolResult(ToolResult {
                id: id.to_owned(),
                name: None,
                parts: vec![Part::Text("a cat".to_owned())],
                is_error,
            })
        };
        for maker in Api::ALL {
            let said = [
                message(Speaker::User, vec![Part::Text("look".to_owned())]),
                message(
                    Speaker::Assistant,
                    vec![
                        reasoning(maker),
                        Part::Text("I look.".to_owned()),
                        call("c1", (maker == Api::Gemini).then(|| seal(maker))),
                        call("c2", None),
                    ],
                ),
                message(Speaker::Tool, vec![result("c1", false), result("c2", true)]),
                message(Speaker::Assistant, vec![Part::Refusal("no".to_owned())]),
            ];
            assert_eq!(read_back(&said), said, "{maker:?}");
        }
    }

    #[test]
    fn media_of_the_user_are_read_back() {
        let inline = |media_type: &str| MediaSource::Inline {
            media_type: media_type.to_owned(),
            data: "AAAA".to_owned(),
        };
        let file = MediaSource::File {
            api: Api::OpenaiResponses,
            id: "f1".to_owned(),
        };
        let medium = |kind, source| {
            Part::Media(Media {
                kind,
                source,
                name: None,
                detail: None,
            })
        };
        let said = [message(
            Speaker::User,
            vec![
                medium(MediaKind::Image, inline("image/png")),
                medium(MediaKind::Image, MediaSource::Url("https://x/y.png".to_owned())),
                medium(MediaKind::Document, inline("application/pdf")),
                medium(MediaKind::Document, file),
                medium(MediaKind::Audio, inline("audio/wav")),
            ],
        )];
        assert_eq!(read_back(&said), said);
    }

    #[test]
    fn what_says_nothing_is_no_item() {
        assert_eq!(
            items(&message(Speaker::Assistant, vec![Part::Text(String::new())])),
            [""; 0]
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read_back(texts in proptest::collection::vec(".{1,40}", 1..4)) {
            let said = [message(Speaker::User, texts.into_iter().map(Part::Text).collect())];
            prop_assert_eq!(read_back(&said), said);
        }
    }
}
