//! What a client got, and what a client of its format reads in it.
//!
//! Readers of their own, as strict as careful clients: they share no code with the gateway.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::case::ClientApi;

mod chat;
mod messages;
mod native;
mod responses;

/// What a client got. Times count from the simulator's start, on the case's clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    /// The client's wire format.
    pub(crate) api: ClientApi,
    pub(crate) status: Option<u16>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Whether the body ended in the proper HTTP way.
    pub(crate) whole: bool,
    pub(crate) sent: Duration,
    pub(crate) ended: Duration,
}

/// How an answer ended, as its client sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    /// A JSON body, whole.
    Whole,
    /// `[DONE]`, and nothing after it.
    Done,
    /// Anthropic's `message_stop`, and nothing after it.
    MessageStop,
    /// `response.completed`, and nothing after it.
    ResponseCompleted,
    /// `response.incomplete`, and nothing after it.
    ResponseIncomplete,
    /// An error event of the client's own format, and nothing after it.
    ErrorEvent,
    /// None of these.
    #[default]
    Cut,
}

/// An answer or an error, as a client of its format reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// `{id, name, arguments}`; arguments that do not parse stay text.
    pub(crate) tool_calls: Vec<Value>,
    /// `{input, output}`
    pub(crate) usage: Option<Value>,
    /// In the format's own word.
    pub(crate) finish_reason: Option<String>,
    pub(crate) error: Option<Value>,
    pub(crate) ending: Ending,
    /// What a client stumbles over.
    pub(crate) faults: Vec<&'static str>,
}

/// A client's reading of one format.
trait Reader: Default {
    /// Reads an event's data as JSON, with the name that stood before it.
    fn event(&mut self, name: Option<&str>, data: &Value, answer: &mut Answer);
    /// Reads data that ends the stream and is no JSON; whether it was that.
    fn last_word(&mut self, _data: &str, _answer: &mut Answer) -> bool {
        false
    }
    /// Reads a whole body, whatever its status.
    fn body(&mut self, body: &Value, answer: &mut Answer);
    /// The tool calls, when all is read.
    fn calls(self) -> Vec<Call>;
}

/// A tool call while it is read.
#[derive(Default)]
struct Call {
    id: Value,
    name: Value,
    arguments: String,
}

/// An event of a stream.
struct Event {
    name: Option<String>,
    data: String,
}

impl Reply {
    /// The first value of a header; the name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers.find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }

    /// The body's text, with `\u{fffd}` for what is no text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Status line, headers and body: all that a client could see.
    pub(crate) fn transcript(&self) -> String {
        let headers = self.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
        format!("{:?}\n{}\n{}", self.status, headers.collect::<String>(), self.text())
    }

    /// From the request to the end of the answer.
    pub(crate) fn took(&self) -> Duration {
        self.ended.saturating_sub(self.sent)
    }

    fn is_stream(&self) -> bool {
        self.header("content-type")
            .is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// Reads the answer.
    pub(crate) fn answer(&self) -> Answer {
        match self.api {
            ClientApi::OpenaiChat => self.read_by(chat::Reader::default()),
            ClientApi::OpenaiResponses => self.read_by(responses::Reader::default()),
            ClientApi::Anthropic => self.read_by(messages::Reader::default()),
            ClientApi::Native => self.read_by(native::Reader),
        }
    }

    fn read_by(&self, mut reader: impl Reader) -> Answer {
        let mut answer = Answer::default();
        if self.is_stream() {
            for event in events(&self.text()) {
                read_event(&mut reader, &event, &mut answer);
            }
            if !self.whole {
                answer.ending = Ending::Cut;
            }
        } else if let Ok(body) = serde_json::from_slice(&self.body) {
            reader.body(&body, &mut answer);
            answer.ending = if self.whole { Ending::Whole } else { Ending::Cut };
        }
        let calls = reader.calls().into_iter().map(|call| {
            let arguments = serde_json::from_str(&call.arguments).unwrap_or(Value::String(call.arguments));
            json!({ "id": call.id, "name": call.name, "arguments": arguments })
        });
        answer.tool_calls = calls.collect();
        answer
    }
}

fn read_event(reader: &mut impl Reader, event: &Event, answer: &mut Answer) {
    if answer.ending != Ending::Cut {
        answer.faults.push("an event after the end");
    }
    if reader.last_word(&event.data, answer) {
        return;
    }
    match serde_json::from_str(&event.data) {
        Ok(data) => reader.event(event.name.as_deref(), &data, answer),
        Err(_) => answer.faults.push("an event that is no JSON"),
    }
}

/// Every complete event of a stream that has data.
fn events(body: &str) -> Vec<Event> {
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    let (complete, _unfinished) = body.rsplit_once("\n\n").unwrap_or_default();
    let event = |event: &str| {
        let named = |name: &'static str| {
            let lines = event.lines().filter_map(move |line| line.strip_prefix(name));
            lines.map(|line| line.strip_prefix(' ').unwrap_or(line))
        };
        let data: Vec<_> = named("data:").collect();
        (!data.is_empty()).then(|| Event {
            name: named("event:").next_back().map(str::to_owned),
            data: data.join("\n"),
        })
    };
    complete.split("\n\n").filter_map(event).collect()
}

/// Takes the error of a body or an event, if there is one.
fn take_error(value: &Value, answer: &mut Answer) -> bool {
    let error = value.get("error").filter(|error| !error.is_null());
    if let Some(error) = error {
        answer.error = Some(error.clone());
    }
    error.is_some()
}

/// An object's member that is text, or nothing.
fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

/// The calls in the order of their numbers.
fn in_order(calls: BTreeMap<u64, Call>) -> Vec<Call> {
    calls.into_values().collect()
}
