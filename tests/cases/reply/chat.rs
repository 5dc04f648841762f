//! As a client of OpenAI's chat completions reads.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Answer, Call, Ending, in_order, take_error, text};

#[derive(Default)]
pub(super) struct Reader {
    calls: BTreeMap<u64, Call>,
}

impl super::Reader for Reader {
    fn event(&mut self, _name: Option<&str>, chunk: &Value, answer: &mut Answer) {
        common(chunk, answer);
        if take_error(chunk, answer) {
            answer.ending = Ending::ErrorEvent;
        }
        let delta = &chunk["choices"][0]["delta"];
        answer.text += text(delta, "content");
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            match piece["index"].as_u64() {
                Some(index) => self.piece(index, piece),
                None => answer.faults.push("a piece of a tool call without index"),
            }
        }
    }

    fn last_word(&mut self, data: &str, answer: &mut Answer) -> bool {
        let is_it = data == "[DONE]";
        if is_it {
            answer.ending = Ending::Done;
        }
        is_it
    }

    fn body(&mut self, body: &Value, answer: &mut Answer) {
        take_error(body, answer);
        common(body, answer);
        let message = &body["choices"][0]["message"];
        answer.text += text(message, "content");
        for (index, call) in (0..).zip(message["tool_calls"].as_array().into_iter().flatten()) {
            self.piece(index, call);
        }
    }

    fn calls(self) -> Vec<Call> {
        in_order(self.calls)
    }
}

impl Reader {
    fn piece(&mut self, index: u64, piece: &Value) {
        let call = self.calls.entry(index).or_default();
        if piece["id"].is_string() {
            call.id = piece["id"].clone();
        }
        if piece["function"]["name"].is_string() {
            call.name = piece["function"]["name"].clone();
        }
        call.arguments += text(&piece["function"], "arguments");
    }
}

fn common(value: &Value, answer: &mut Answer) {
    if let Some(finish) = value["choices"][0]["finish_reason"].as_str() {
        answer.finish_reason = Some(finish.to_owned());
    }
    if let usage @ Value::Object(_) = &value["usage"] {
        answer.usage = Some(json!({ "input": usage["prompt_tokens"], "output": usage["completion_tokens"] }));
    }
}
