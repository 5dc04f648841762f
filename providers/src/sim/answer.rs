//! A correct OpenAI chat answer to whatever was asked.

use std::time::Duration;

use serde_json::{Value, json};

use super::asked::Asked;
use super::call::{Answer, AnswerUsage, Piece};

/// `created` of every answer: the same answer has the same bytes.
const CREATED: u64 = 1_760_000_000;

/// One answer, made to measure for one request.
pub(crate) struct ChatAnswer<'a> {
    script: &'a Answer,
    text: String,
    model: &'a str,
    number: u64,
    usage: Value,
}

impl<'a> ChatAnswer<'a> {
    /// The answer to the request with this number.
    pub(crate) fn new(script: &'a Answer, asked: &'a Asked<'_>, number: u64) -> Self {
        let model = asked.model.as_deref().unwrap_or_default();
        let last = asked.last_user_text();
        let text = fill(&script.text, number, model, &last);
        let words = |text: &str| text.split_whitespace().count() as u64;
        let used = script.usage.unwrap_or_else(|| AnswerUsage {
            prompt_tokens: words(&last),
            completion_tokens: words(&text),
        });
        let usage = json!({
            "prompt_tokens": used.prompt_tokens,
            "completion_tokens": used.completion_tokens,
            "total_tokens": used.prompt_tokens.saturating_add(used.completion_tokens),
        });
        Self {
            script,
            text,
            model,
            number,
            usage,
        }
    }

    /// The frames of the streamed answer.
    pub(crate) fn frames(&self, include_usage: bool) -> Vec<Piece> {
        let delta = |delta: Value, finish: Option<&str>| {
            let choice = json!([{ "index": 0, "delta": delta, "finish_reason": finish }]);
            self.chunk(choice, include_usage.then_some(Value::Null))
        };
        let role = delta(json!({ "role": "assistant", "content": "" }), None);
        let mut frames = vec![Piece::once(Duration::ZERO, role)];
        let reasoning = self.script.reasoning.as_ref();
        let thoughts = reasoning.map(|text| json!({ "reasoning_content": text }));
        let parts = pieces_of(&self.text, self.script.chunks.get() as usize);
        let texts = parts.into_iter().map(|text| json!({ "content": text }));
        let mut wait = self.script.first;
        for part in thoughts.into_iter().chain(texts) {
            frames.push(Piece::once(wait, delta(part, None)));
            wait = self.script.every;
        }
        frames.push(Piece::once(Duration::ZERO, delta(json!({}), Some("stop"))));
        if include_usage {
            let usage = self.chunk(json!([]), Some(self.usage.clone()));
            frames.push(Piece::once(Duration::ZERO, usage));
        }
        frames.push(Piece::once(Duration::ZERO, "data: [DONE]\n\n"));
        frames
    }

    /// The answer as one JSON body, and how long it takes to write: as long as the stream would.
    pub(crate) fn whole(&self) -> (Duration, String) {
        let mut message = json!({ "role": "assistant", "content": self.text });
        if let Some(reasoning) = &self.script.reasoning {
            message["reasoning_content"] = json!(reasoning);
        }
        let body = json!({
            "id": self.id(), "object": "chat.completion", "created": CREATED, "model": self.model,
            "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
            "usage": self.usage,
        });
        let takes = self.frames(false).iter().map(|frame| frame.after).sum();
        (takes, body.to_string())
    }

    fn chunk(&self, choices: Value, usage: Option<Value>) -> String {
        let mut chunk = json!({
            "id": self.id(), "object": "chat.completion.chunk", "created": CREATED, "model": self.model,
            "choices": choices,
        });
        if let Some(usage) = usage {
            chunk["usage"] = usage;
        }
        format!("data: {chunk}\n\n")
    }

    fn id(&self) -> String {
        format!("chatcmpl-sim-{}", self.number)
    }
}

/// The template with its three names replaced, in one pass: what is put in is not read again.
fn fill(template: &str, number: u64, model: &str, last: &str) -> String {
    let number = number.to_string();
    let names = [("{n}", number.as_str()), ("{model}", model), ("{last}", last)];
    let mut filled = String::with_capacity(template.len() + last.len());
    let mut rest = template;
    while let Some(brace) = rest.find('{') {
        filled.push_str(&rest[..brace]);
        rest = &rest[brace..];
        let named = names.iter().find(|(name, _)| rest.starts_with(name));
        let (name, value) = named.copied().unwrap_or(("{", "{"));
        filled.push_str(value);
        rest = &rest[name.len()..];
    }
    filled + rest
}

/// The text in at most `count` pieces of about the same number of characters; no piece is empty.
fn pieces_of(text: &str, count: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(count.max(1)).max(1);
    let pieces = characters.chunks(size);
    pieces.map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(frame: &Piece) -> Value {
        let text = std::str::from_utf8(&frame.bytes).expect("utf-8");
        let data = text.strip_prefix("data: ").expect("data").trim_end();
        serde_json::from_str(data).unwrap_or_else(|_| json!(data))
    }

    fn script(json: Value) -> Answer {
        serde_json::from_value(json).expect("parses")
    }

    #[test]
    fn what_fills_a_name_is_not_filled_again() {
        assert_eq!(fill("{n}:{model}:{last}{x", 7, "m", "{n}"), "7:m:{n}{x");
    }

    #[test]
    fn pieces_join_to_the_text_and_none_is_empty() {
        for (text, count) in [("", 3), ("é", 3), ("grüße dich", 4), ("abc", 1)] {
            let pieces = pieces_of(text, count);
            assert_eq!(pieces.concat(), text);
            assert!(pieces.len() <= count && pieces.iter().all(|piece| !piece.is_empty()));
        }
    }

    #[test]
    fn a_stream_has_role_reasoning_content_finish_usage_and_done() {
        let answer = script(json!({
            "text": "hello {last}", "chunks": 2, "first_ms": 30, "every_ms": 10, "reasoning": "hm",
            "usage": { "prompt_tokens": 4, "completion_tokens": 2 },
        }));
        let body = br#"{"model":"m1","messages":[{"role":"user","content":"you"}]}"#;
        let asked = Asked::read(body);
        let frames = ChatAnswer::new(&answer, &asked, 3).frames(true);
        let choices: Vec<Value> = frames.iter().map(|f| data(f)["choices"].clone()).collect();
        assert_eq!(choices[0][0]["delta"]["role"], "assistant");
        assert_eq!(choices[1][0]["delta"]["reasoning_content"], "hm");
        assert_eq!(choices[2][0]["delta"]["content"], "hello");
        assert_eq!(choices[3][0]["delta"]["content"], " you");
        assert_eq!(choices[4][0]["finish_reason"], "stop");
        assert_eq!(choices[5], json!([]));
        assert_eq!(data(&frames[5])["usage"]["total_tokens"], 6);
        assert_eq!(data(&frames[6]), "[DONE]");
        let waits: Vec<u128> = frames.iter().map(|f| f.after.as_millis()).collect();
        assert_eq!(waits, [0, 30, 10, 10, 0, 0, 0]);
    }

    #[test]
    fn usage_is_streamed_only_when_it_was_asked_for() {
        let answer = script(json!({ "text": "x" }));
        let asked = Asked::default();
        let frames = ChatAnswer::new(&answer, &asked, 1).frames(false);
        assert!(frames.iter().all(|frame| data(frame).get("usage").is_none()));
    }

    #[test]
    fn a_whole_answer_takes_as_long_as_its_stream() {
        let answer = script(json!({ "text": "abc", "first_ms": 30, "every_ms": 10 }));
        let asked = Asked::default();
        let (takes, body) = ChatAnswer::new(&answer, &asked, 1).whole();
        assert_eq!(takes.as_millis(), 50);
        let body: Value = serde_json::from_str(&body).expect("json");
        assert_eq!(body["choices"][0]["message"]["content"], "abc");
    }
}
