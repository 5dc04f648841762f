//! Messages as items.

use std::borrow::Cow;

use serde::Serialize;
use understudy_messages::conversation::{Media, MediaKind, MediaSource, Message, Part, Reasoning, Speaker, ToolResult};
use understudy_messages::settings::Api;

use super::unsupported;
use crate::wire::Unsupported;

/// An item of the input.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum WireItem<'a> {
    Message {
        role: &'static str,
        content: Vec<WirePart<'a>>,
    },
    Reasoning {
        summary: Vec<WirePart<'a>>,
        encrypted_content: &'a str,
    },
    FunctionCall {
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: WireOutput<'a>,
    },
}

/// A part of a content.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum WirePart<'a> {
    InputText {
        text: &'a str,
    },
    OutputText {
        text: &'a str,
        annotations: [(); 0],
    },
    SummaryText {
        text: &'a str,
    },
    Refusal {
        refusal: &'a str,
    },
    InputImage {
        #[serde(skip_serializing_if = "Option::is_none")]
        image_url: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<&'a str>,
    },
    InputFile {
        #[serde(skip_serializing_if = "Option::is_none")]
        filename: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_data: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_url: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        file_id: Option<&'a str>,
    },
}

/// What a tool returned.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum WireOutput<'a> {
    Text(&'a str),
    Parts(Vec<WirePart<'a>>),
}

/// The items so far.
#[derive(Default)]
pub(super) struct Items<'a> {
    pub(super) items: Vec<WireItem<'a>>,
    /// Whether a tool failed: there is no place to say so.
    pub(super) drops_errors: bool,
}

impl<'a> Items<'a> {
    /// Adds what a message says. Parts that are items of their own cut it in two.
    pub(super) fn message(&mut self, message: &'a Message) -> Result<(), Unsupported> {
        let mut content = Vec::new();
        for part in &message.parts {
            match part {
                Part::Text(text) if text.is_empty() => {}
                Part::Text(text) if message.speaker == Speaker::Assistant => {
                    content.push(WirePart::OutputText { text, annotations: [] })
                }
                Part::Text(text) => content.push(WirePart::InputText { text }),
                Part::Refusal(refusal) => content.push(WirePart::Refusal { refusal }),
                Part::Media(_) if message.speaker == Speaker::Assistant => {
                    return Err(unsupported("a medium that the model made"));
                }
                Part::Media(media) => content.push(self::media(media)?),
                Part::Reasoning(reasoning) => {
                    self.say(message.speaker, &mut content);
                    self.reasoning(reasoning);
                }
                Part::ToolCall(call) => {
                    self.say(message.speaker, &mut content);
                    let arguments = call.arguments.trim();
                    self.items.push(WireItem::FunctionCall {
                        call_id: &call.id,
                        name: &call.name,
                        arguments: if arguments.is_empty() { "{}" } else { &call.arguments },
                    });
                }
                Part::ToolResult(result) => {
                    self.say(message.speaker, &mut content);
                    self.result(result)?;
                }
            }
        }
        self.say(message.speaker, &mut content);
        Ok(())
    }

    fn say(&mut self, speaker: Speaker, content: &mut Vec<WirePart<'a>>) {
        let role = match speaker {
            Speaker::System => "system",
            Speaker::Developer => "developer",
            Speaker::User | Speaker::Tool => "user",
            Speaker::Assistant => "assistant",
        };
        if !content.is_empty() {
            let content = std::mem::take(content);
            self.items.push(WireItem::Message { role, content });
        }
    }

    /// Reasoning goes back to who sealed it and to nobody else.
    fn reasoning(&mut self, reasoning: &'a Reasoning) {
        if let Some(seal) = &reasoning.seal
            && seal.maker == Api::OpenaiResponses
        {
            let text = Some(&*reasoning.text).filter(|text| !text.is_empty());
            self.items.push(WireItem::Reasoning {
                summary: text.map(|text| WirePart::SummaryText { text }).into_iter().collect(),
                encrypted_content: &seal.data,
            });
        }
    }

    fn result(&mut self, result: &'a ToolResult) -> Result<(), Unsupported> {
        self.drops_errors |= result.is_error;
        let output = match &result.parts[..] {
            [] => WireOutput::Text(""),
            [Part::Text(text)] => WireOutput::Text(text),
            parts => WireOutput::Parts(parts.iter().map(returned).collect::<Result<_, _>>()?),
        };
        self.items.push(WireItem::FunctionCallOutput {
            call_id: &result.id,
            output,
        });
        Ok(())
    }
}

fn returned(part: &Part) -> Result<WirePart<'_>, Unsupported> {
    match part {
        Part::Text(text) => Ok(WirePart::InputText { text }),
        Part::Media(media) => self::media(media),
        Part::Refusal(_) | Part::Reasoning(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
            Err(unsupported("a tool result that is neither text nor a medium"))
        }
    }
}

fn media(media: &Media) -> Result<WirePart<'_>, Unsupported> {
    let (mut file_id, mut url, mut data) = (None, None, None);
    match &media.source {
        MediaSource::File {
            api: Api::OpenaiResponses | Api::OpenaiChat,
            id,
        } => file_id = Some(&**id),
        MediaSource::File { .. } => return Err(unsupported("a file that another provider keeps")),
        MediaSource::Url(at) => url = Some(&**at),
        MediaSource::Inline {
            media_type,
            data: bytes,
        } => data = Some(format!("data:{media_type};base64,{bytes}")),
    }
    match media.kind {
        MediaKind::Audio => Err(unsupported("a sound")),
        MediaKind::Image => Ok(WirePart::InputImage {
            image_url: url.map(Cow::Borrowed).or(data.map(Cow::Owned)),
            file_id,
            detail: media.detail.as_deref(),
        }),
        // data without a name is refused
        MediaKind::Document => Ok(WirePart::InputFile {
            filename: media.name.as_deref().or(data.is_some().then_some("document")),
            file_data: data.map(Cow::Owned),
            file_url: url,
            file_id,
        }),
    }
}
