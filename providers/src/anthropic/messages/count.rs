//! Tokens of a request, estimated where no provider counts them.

use bytes::Bytes;
use understudy_messages::conversation::{Conversation, Part, Tool};
use understudy_messages::request::RequestFacts;

use super::request;

/// Bytes of text that make a token, of English or code; other languages need fewer.
const BYTES: u64 = 4;
/// What a message costs beside its text.
const MESSAGE: u64 = 4;
/// What a tool costs beside its name, description and schema.
const TOOL: u64 = 10;
/// An image or a document: the most that Anthropic takes for an image.
const MEDIUM: u64 = 1600;

/// About how many tokens a request has: text, names, arguments and schemas by their bytes, media and messages by the
/// piece. Of what cannot be taken apart only the text counts.
pub fn estimate(body: &Bytes, facts: &RequestFacts) -> u64 {
    match request::read(body) {
        Ok(conversation) => conversation_tokens(&conversation),
        Err(_) => facts.messages.text_bytes as u64 / BYTES + MESSAGE * facts.messages.count as u64,
    }
}

fn conversation_tokens(conversation: &Conversation) -> u64 {
    let mut counted = Counted::default();
    for message in &conversation.messages {
        counted.pieces += MESSAGE;
        counted.parts(&message.parts);
    }
    conversation.tools.iter().for_each(|tool| counted.tool(tool));
    counted.bytes.div_ceil(BYTES) + counted.pieces
}

#[derive(Default)]
struct Counted {
    bytes: u64,
    pieces: u64,
}

impl Counted {
    fn text(&mut self, text: &str) {
        self.bytes += text.len() as u64;
    }

    fn parts(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Text(text) | Part::Refusal(text) => self.text(text),
                Part::Reasoning(thought) => self.text(&thought.text),
                Part::ToolCall(call) => {
                    self.text(&call.name);
                    self.text(&call.arguments);
                }
                Part::ToolResult(result) => self.parts(&result.parts),
                Part::Media(_) => self.pieces += MEDIUM,
            }
        }
    }

    fn tool(&mut self, tool: &Tool) {
        self.pieces += TOOL;
        self.text(&tool.name);
        for text in [&tool.description, &tool.parameters].into_iter().flatten() {
            self.text(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimated(body: &'static str) -> u64 {
        let body = Bytes::from_static(body.as_bytes());
        let facts = request::scan(&body).expect("a good request");
        estimate(&body, &facts)
    }

    #[test]
    fn text_calls_tools_and_media_count() {
        let text = r#"{"model":"m","system":"12345678","messages":[{"role":"user","content":"1234"}]}"#;
        assert_eq!(estimated(text), 3 + 2 * MESSAGE);
        let tool = r#"{"model":"m","messages":[{"role":"user","content":"1234"}],"tools":[{"name":"f","input_schema":{"a":1}}]}"#;
        assert_eq!(estimated(tool), 3 + MESSAGE + TOOL);
        let image = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"u"}}]}]}"#;
        assert_eq!(estimated(image), MESSAGE + MEDIUM);
    }

    #[test]
    fn of_what_cannot_be_taken_apart_the_text_counts() {
        let body = r#"{"model":"m","messages":[{"role":"user","content":"1234"}],"mcp_servers":[{}]}"#;
        assert_eq!(estimated(body), 1 + MESSAGE);
    }
}
