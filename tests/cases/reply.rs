//! What a client got, and what a chat client reads in it.
//!
//! A reader of its own, as strict as a careful client: it shares no code with the gateway.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

/// What a client got. Times count from the simulator's start, on the case's clock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
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
    /// An error event, and no `[DONE]`.
    ErrorEvent,
    /// None of these.
    #[default]
    Cut,
}

/// An answer or an error, as a chat client reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// `{id, name, arguments}`; arguments that do not parse stay text.
    pub(crate) tool_calls: Vec<Value>,
    /// `{input, output}`
    pub(crate) usage: Option<Value>,
    pub(crate) finish_reason: Option<String>,
    pub(crate) error: Option<Value>,
    pub(crate) ending: Ending,
    /// What a client stumbles over.
    pub(crate) faults: Vec<&'static str>,
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
        let mut reading = Reading::default();
        if self.is_stream() {
            events(&self.text()).iter().for_each(|data| reading.event(data));
            if !self.whole {
                reading.answer.ending = Ending::Cut;
            }
        } else if let Ok(body) = serde_json::from_slice(&self.body) {
            reading.body(&body);
            reading.answer.ending = if self.whole { Ending::Whole } else { Ending::Cut };
        }
        reading.finish()
    }
}

/// The data of every complete event of a stream.
fn events(body: &str) -> Vec<String> {
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    let (complete, _unfinished) = body.rsplit_once("\n\n").unwrap_or_default();
    let data = |event: &str| {
        let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
        let lines: Vec<_> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    };
    complete.split("\n\n").filter_map(data).collect()
}

#[derive(Default)]
struct Reading {
    answer: Answer,
    calls: BTreeMap<u64, Call>,
}

#[derive(Default)]
struct Call {
    id: Value,
    name: Value,
    arguments: String,
}

impl Reading {
    fn event(&mut self, data: &str) {
        if self.answer.ending == Ending::Done {
            self.answer.faults.push("an event after the end");
        }
        if data == "[DONE]" {
            if self.answer.error.is_some() {
                self.answer.faults.push("[DONE] after an error");
            }
            self.answer.ending = Ending::Done;
            return;
        }
        let Ok(chunk) = serde_json::from_str::<Value>(data) else {
            self.answer.faults.push("an event that is no JSON");
            return;
        };
        self.common(&chunk);
        self.answer.ending = match chunk.get("error") {
            Some(_) => Ending::ErrorEvent,
            None => Ending::Cut,
        };
        let delta = &chunk["choices"][0]["delta"];
        self.answer.text += delta["content"].as_str().unwrap_or_default();
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            match piece["index"].as_u64() {
                Some(index) => self.piece(index, piece),
                None => self.answer.faults.push("a piece of a tool call without index"),
            }
        }
    }

    fn body(&mut self, body: &Value) {
        self.common(body);
        let message = &body["choices"][0]["message"];
        self.answer.text += message["content"].as_str().unwrap_or_default();
        for (index, call) in (0..).zip(message["tool_calls"].as_array().into_iter().flatten()) {
            self.piece(index, call);
        }
    }

    fn common(&mut self, value: &Value) {
        if let Some(error) = value.get("error") {
            self.answer.error = Some(error.clone());
        }
        if let Some(finish) = value["choices"][0]["finish_reason"].as_str() {
            self.answer.finish_reason = Some(finish.to_owned());
        }
        if value["usage"].is_object() {
            let usage = &value["usage"];
            self.answer.usage = Some(json!({ "input": usage["prompt_tokens"], "output": usage["completion_tokens"] }));
        }
    }

    fn piece(&mut self, index: u64, piece: &Value) {
        let call = self.calls.entry(index).or_default();
        if piece["id"].is_string() {
            call.id = piece["id"].clone();
        }
        if piece["function"]["name"].is_string() {
            call.name = piece["function"]["name"].clone();
        }
        call.arguments += piece["function"]["arguments"].as_str().unwrap_or_default();
    }

    fn finish(mut self) -> Answer {
        let calls = self.calls.into_values().map(|call| {
            let arguments = serde_json::from_str(&call.arguments).unwrap_or(Value::String(call.arguments));
            json!({ "id": call.id, "name": call.name, "arguments": arguments })
        });
        self.answer.tool_calls = calls.collect();
        self.answer
    }
}
