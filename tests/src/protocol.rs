//! Whether frames keep to the protocol of a client, read by nothing of the gateway's own.

use serde_json::Value;
use understudy_messages::request::Endpoint;

mod chat;
mod messages;
mod responses;
#[cfg(test)]
mod tests;

/// How a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The answer is whole.
    Whole,
    /// It broke off, and the client is told so.
    Error,
}

/// One event of a stream.
struct Event {
    name: Option<String>,
    data: String,
}

/// Checks a stream in the format of `client` from its first byte to its last.
///
/// # Errors
/// What is wrong with it.
pub fn check(client: Endpoint, stream: &[u8], ending: Ending) -> Result<(), String> {
    let events = events(stream)?;
    match client {
        Endpoint::Responses | Endpoint::Native => responses::check(&events, ending),
        Endpoint::Messages => messages::check(&events, ending),
        Endpoint::Chat | Endpoint::CountTokens | Endpoint::Embeddings => chat::check(&events, ending),
    }
}

/// The text of an answer in the format of `client`, as far as it has come: of a stream, or of one JSON body.
pub fn text(client: Endpoint, body: &[u8], stream: bool) -> String {
    let events = match stream {
        true => events(body).unwrap_or_default(),
        false => Vec::new(),
    };
    let deltas = events
        .iter()
        .filter_map(|event| event.json().ok())
        .map(|json| match client {
            Endpoint::Responses if json["type"] == "response.output_text.delta" => json["delta"].clone(),
            Endpoint::Messages if json["delta"]["type"] == "text_delta" => json["delta"]["text"].clone(),
            Endpoint::Chat => json["choices"][0]["delta"]["content"].clone(),
            _ => Value::Null,
        });
    let whole: Value = serde_json::from_slice(body).unwrap_or_default();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let parts = match client {
        Endpoint::Responses => list(&whole["output"])
            .iter()
            .flat_map(|item| list(&item["content"]))
            .collect(),
        Endpoint::Messages => list(&whole["content"]),
        _ => Vec::new(),
    };
    let parts = parts.into_iter().map(|part| part["text"].clone());
    let message = whole["choices"][0]["message"]["content"].clone();
    let texts = deltas.chain(parts).chain([message]);
    texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

fn events(stream: &[u8]) -> Result<Vec<Event>, String> {
    let text = std::str::from_utf8(stream).map_err(|_| "no UTF-8")?;
    let Some(text) = text.strip_suffix("\n\n") else {
        return Err("the last frame is open".to_owned());
    };
    let mut events = Vec::new();
    for frame in text.split("\n\n") {
        let (mut name, mut data) = (None, None);
        for line in frame.lines() {
            match line.split_once(": ") {
                Some(("event", value)) if name.is_none() => name = Some(value.to_owned()),
                Some(("data", value)) if data.is_none() => data = Some(value.to_owned()),
                _ if line.starts_with(':') => {}
                _ => return Err(format!("a strange line: {line}")),
            }
        }
        events.extend(data.map(|data| Event { name, data }));
    }
    Ok(events)
}

impl Event {
    fn json(&self) -> Result<Value, String> {
        serde_json::from_str(&self.data).map_err(|error| format!("{error}: {}", self.data))
    }

    /// An event whose name is the `type` of its data.
    fn typed(&self) -> Result<(String, Value), String> {
        let json = self.json()?;
        let kind = json["type"].as_str().unwrap_or_default().to_owned();
        if self.name.as_ref() == Some(&kind) {
            Ok((kind, json))
        } else {
            Err(format!("event {:?} of type {kind}", self.name))
        }
    }
}

/// Refuses what does not hold.
fn must(holds: bool, what: &str, seen: &Value) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what}: {seen}")) }
}
