//! The items of an answer that is being written.

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// An item, and how much of it there is.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) kind: Kind,
    /// How it was told to be, once it was told to be done.
    pub(super) done: Option<&'static str>,
}

/// What it is.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// What the model says.
    Message { parts: Vec<Part> },
    /// What it thinks.
    Reasoning {
        parts: Vec<Part>,
        encrypted: Option<String>,
    },
    /// A call of a tool.
    Call {
        call_id: String,
        name: String,
        arguments: String,
    },
    /// One that passed as the provider wrote it.
    Passed(Box<RawValue>),
}

/// A part of a message or of reasoning.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) voice: Voice,
    pub(super) text: String,
    pub(super) done: bool,
}

/// What a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voice {
    Text,
    Refusal,
    Summary,
    Reasoning,
}

impl Voice {
    /// The kind of its part.
    pub(super) fn of_part(kind: &str) -> Option<Self> {
        match kind {
            "output_text" => Some(Self::Text),
            "refusal" => Some(Self::Refusal),
            "summary_text" => Some(Self::Summary),
            "reasoning_text" => Some(Self::Reasoning),
            _ => None,
        }
    }

    /// What its events are called, without `.delta` and `.done`.
    pub(super) fn event(self) -> &'static str {
        match self {
            Self::Text => "response.output_text",
            Self::Refusal => "response.refusal",
            Self::Summary => "response.reasoning_summary_text",
            Self::Reasoning => "response.reasoning_text",
        }
    }

    /// What the events of its part are called, without `.added` and `.done`.
    pub(super) fn part_event(self) -> &'static str {
        match self {
            Self::Summary => "response.reasoning_summary_part",
            Self::Text | Self::Refusal | Self::Reasoning => "response.content_part",
        }
    }

    /// How the place of its part is called.
    pub(super) fn index(self) -> &'static str {
        match self {
            Self::Summary => "summary_index",
            Self::Text | Self::Refusal | Self::Reasoning => "content_index",
        }
    }
}

impl Item {
    /// The part that is still being written, and its place among those of its kind.
    pub(super) fn open_part(&mut self) -> Option<(usize, &mut Part)> {
        let (Kind::Message { parts } | Kind::Reasoning { parts, .. }) = &mut self.kind else {
            return None;
        };
        let last = parts.last()?;
        let place = parts
            .iter()
            .filter(|part| part.voice.index() == last.voice.index())
            .count()
            - 1;
        parts.last_mut().filter(|part| !part.done).map(|part| (place, part))
    }

    /// Begins a part; its place among those of its kind.
    pub(super) fn begin_part(&mut self, voice: Voice) -> usize {
        let (Kind::Message { parts } | Kind::Reasoning { parts, .. }) = &mut self.kind else {
            return 0;
        };
        parts.push(Part {
            voice,
            text: String::new(),
            done: false,
        });
        parts.iter().filter(|part| part.voice.index() == voice.index()).count() - 1
    }

    /// Whether text of this voice may go on in it.
    pub(super) fn takes(&self, voice: Voice) -> bool {
        self.done.is_none()
            && match self.kind {
                Kind::Message { .. } => matches!(voice, Voice::Text | Voice::Refusal),
                Kind::Reasoning { .. } => matches!(voice, Voice::Summary | Voice::Reasoning),
                Kind::Call { .. } | Kind::Passed(_) => false,
            }
    }

    /// As it is written, with this status.
    pub(super) fn as_wire(&self, status: &'static str) -> WireItem<'_> {
        match &self.kind {
            Kind::Message { parts } => WireItem::Known(Known::Message {
                id: &self.id,
                status,
                role: "assistant",
                content: parts.iter().map(Part::as_wire).collect(),
            }),
            Kind::Reasoning { parts, encrypted } => {
                let of = |summary: bool| {
                    let parts = parts
                        .iter()
                        .filter(move |part| (part.voice == Voice::Summary) == summary);
                    parts.map(Part::as_wire).collect::<Vec<_>>()
                };
                WireItem::Known(Known::Reasoning {
                    id: &self.id,
                    status,
                    summary: of(true),
                    content: Some(of(false)).filter(|content| !content.is_empty()),
                    encrypted_content: encrypted.as_deref(),
                })
            }
            Kind::Call {
                call_id,
                name,
                arguments,
            } => WireItem::Known(Known::FunctionCall {
                id: &self.id,
                status,
                call_id,
                name,
                arguments,
            }),
            Kind::Passed(raw) => WireItem::Passed(raw),
        }
    }
}

impl Part {
    pub(super) fn as_wire(&self) -> WirePart<'_> {
        let text = &*self.text;
        match self.voice {
            Voice::Text => WirePart::OutputText {
                text,
                annotations: Nothing,
                logprobs: Nothing,
            },
            Voice::Refusal => WirePart::Refusal { refusal: text },
            Voice::Summary => WirePart::SummaryText { text },
            Voice::Reasoning => WirePart::ReasoningText { text },
        }
    }
}

/// An item as it is written.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum WireItem<'a> {
    Known(Known<'a>),
    Passed(&'a RawValue),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Known<'a> {
    Message {
        id: &'a str,
        status: &'static str,
        role: &'static str,
        content: Vec<WirePart<'a>>,
    },
    Reasoning {
        id: &'a str,
        status: &'static str,
        summary: Vec<WirePart<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Vec<WirePart<'a>>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        encrypted_content: Option<&'a str>,
    },
    FunctionCall {
        id: &'a str,
        status: &'static str,
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
}

/// A part as it is written.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum WirePart<'a> {
    OutputText {
        text: &'a str,
        annotations: Nothing,
        logprobs: Nothing,
    },
    Refusal {
        refusal: &'a str,
    },
    SummaryText {
        text: &'a str,
    },
    ReasoningText {
        text: &'a str,
    },
}

/// An empty list.
#[derive(Clone, Copy)]
pub(super) struct Nothing;

impl Serialize for Nothing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq::<[(); 0]>([])
    }
}
