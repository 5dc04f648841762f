//! The requests of one round: all of a kind are the same but for the session's name and the turn's tag, and are made once.

use serde_json::{Value, json};

use super::address::Address;
use super::filler;
use super::plan::TOOL;
use super::scenario::{Client, Format, Mode};
use super::tag::Tag;

/// As long as a tag, and nowhere else in a request.
const TAG: &str = "#TAG-0000-TAG-0000-TAG-0000";

/// What is sent, streaming and not.
pub(crate) struct Requests {
    mode: Mode,
    streaming: Template,
    whole: Template,
    renew: Option<u32>,
}

/// A request in three parts: the session's name stands behind the first, the tag behind the second.
struct Template {
    before_name: String,
    before_tag: String,
    rest: String,
}

impl Requests {
    pub(crate) fn new(client: &Client, to: &Address, round: u32) -> Self {
        Self {
            mode: client.stream,
            renew: client.renew,
            streaming: Template::new(client, to, round, true),
            whole: Template::new(client, to, round, false),
        }
    }

    /// Whether the answer to this turn is to be streamed.
    pub(crate) fn streams(&self, tag: Tag) -> bool {
        match self.mode {
            Mode::Always => true,
            Mode::Never => false,
            Mode::Mixed => tag.session.wrapping_add(tag.turn).is_multiple_of(2),
        }
    }

    /// The request of a turn.
    pub(crate) fn of(&self, tag: Tag) -> Vec<u8> {
        let template = match self.streams(tag) {
            true => &self.streaming,
            false => &self.whole,
        };
        let mut name = format!("{:08x}", tag.session);
        if let Some(turns) = self.renew {
            name = format!("{name}-{:x}", tag.turn / turns.max(1));
        }
        let tag = tag.to_string();
        let parts = [&template.before_name, &name, &template.before_tag, &tag, &template.rest];
        parts.map(String::as_str).concat().into_bytes()
    }
}

impl Template {
    fn new(client: &Client, to: &Address, round: u32, stream: bool) -> Self {
        let body = body(client, stream).to_string();
        let (before_tag, rest) = body.split_once(TAG).unwrap_or((&body, ""));
        let session = format!("load-{round:08x}-");
        let path = match client.format {
            Format::Chat => "/chat/completions".to_owned(),
            Format::Messages => "/messages".to_owned(),
            Format::Responses => "/responses".to_owned(),
            Format::Native => format!("/sessions/{session}"),
        };
        let mut head = format!("POST {}{path}", to.path);
        let mut after = String::new();
        let common = format!(
            "host: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{}",
            to.host,
            body.len(),
            client
                .agent
                .as_ref()
                .map_or_else(String::new, |agent| format!("x-understudy-agent: {agent}\r\n")),
        );
        let key = to
            .key
            .as_ref()
            .map_or_else(String::new, |key| format!("authorization: Bearer {key}\r\n"));
        match client.format {
            Format::Native => after = format!("/turns HTTP/1.1\r\n{common}{key}\r\n"),
            Format::Chat | Format::Messages | Format::Responses => {
                head = format!("{head} HTTP/1.1\r\n{common}{key}x-session-id: {session}");
                after.push_str("\r\n\r\n");
            }
        }
        Self {
            before_name: head,
            before_tag: after + before_tag,
            rest: rest.to_owned(),
        }
    }
}

fn body(client: &Client, stream: bool) -> Value {
    let last = format!("{TAG} {}", filler::words(client.prompt.saturating_sub(Tag::LENGTH + 1)));
    let mut body = match client.format {
        Format::Native => json!({ "input": last }),
        Format::Responses => json!({ "input": messages(client, &last), "store": false }),
        Format::Chat => json!({ "messages": messages(client, &last) }),
        Format::Messages => json!({ "messages": messages(client, &last), "max_tokens": 1024 }),
    };
    body["model"] = client.model.as_str().into();
    body["stream"] = stream.into();
    if client.tool {
        body["tools"] = json!([tool(client.format)]);
    }
    body
}

/// What was said before, by turns, and what is said now.
fn messages(client: &Client, last: &str) -> Vec<Value> {
    let old = filler::words(client.prompt);
    let role = |number: u32| if number.is_multiple_of(2) { "user" } else { "assistant" };
    // the one before the last message is an answer, so that roles take turns
    let first = client.history % 2;
    let before = (first..first + client.history).map(|number| json!({ "role": role(number), "content": old }));
    before.chain([json!({ "role": "user", "content": last })]).collect()
}

fn tool(format: Format) -> Value {
    let schema = json!({ "type": "object", "properties": { "number": { "type": "integer" } } });
    match format {
        Format::Chat | Format::Native => {
            json!({ "type": "function", "function": { "name": TOOL, "parameters": schema } })
        }
        Format::Responses => json!({ "type": "function", "name": TOOL, "parameters": schema }),
        Format::Messages => json!({ "name": TOOL, "input_schema": schema }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::scenario::parse;

    #[test]
    fn a_session_goes_by_another_name_after_as_many_turns_as_it_is_to_have() {
        let to = Address::read("http://127.0.0.1", None).expect("is an address");
        let names = |text: &str| {
            let client = parse(text, &|_| None).expect("is valid").client;
            let requests = Requests::new(&client, &to, 1);
            let name = |turn| {
                let tag = Tag {
                    session: 7,
                    turn,
                    nonce: 0,
                };
                let request = String::from_utf8(requests.of(tag)).expect("is text");
                let (_, name) = request.split_once("load-00000001-").expect("has a name");
                name.split(['/', '\r']).next().unwrap_or_default().to_owned()
            };
            [0, 1, 2, 3].map(name)
        };
        assert_eq!(names("turns: 9"), ["00000007"; 4]);
        for format in ["chat", "native"] {
            let text = format!("turns: 9\nclient: {{ format: {format}, renew: 2 }}");
            let (one, two) = ("00000007-0", "00000007-1");
            assert_eq!(names(&text), [one, one, two, two], "{format}");
        }
    }
}
