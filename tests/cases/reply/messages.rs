//! As a client of Anthropic's Messages reads: blocks one after the other, each begun and ended once.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Answer, Call, Ending, in_order, take_error, text};

#[derive(Default)]
pub(super) struct Reader {
    /// How far the message has come.
    stage: Stage,
    /// The index that the next block has.
    next: u64,
    calls: BTreeMap<u64, Call>,
    usage: Usage,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Nothing,
    Between,
    InBlock,
    Ending,
}

#[derive(Default)]
struct Usage {
    input: Option<Value>,
    output: Option<Value>,
}

impl super::Reader for Reader {
    fn event(&mut self, name: Option<&str>, data: &Value, answer: &mut Answer) {
        let kind = text(data, "type");
        if name != Some(kind) {
            answer.faults.push("an event whose name is not its type");
        }
        match (kind, self.stage) {
            ("ping", _) => {}
            ("error", _) => {
                if !take_error(data, answer) {
                    answer.faults.push("an error event without its error");
                }
                answer.ending = Ending::ErrorEvent;
            }
            ("message_start", Stage::Nothing) => {
                self.stage = Stage::Between;
                self.report(&data["message"]["usage"], answer);
            }
            ("content_block_start", Stage::Between) if data["index"] == self.next => {
                self.stage = Stage::InBlock;
                self.block(self.next, &data["content_block"], answer);
                self.next += 1;
            }
            ("content_block_delta", Stage::InBlock) if data["index"] == self.next - 1 => {
                self.delta(&data["delta"], answer);
            }
            ("content_block_stop", Stage::InBlock) if data["index"] == self.next - 1 => self.stage = Stage::Between,
            ("message_delta", Stage::Between | Stage::Ending) => {
                self.stage = Stage::Ending;
                self.finish(&data["delta"], answer);
                self.report(&data["usage"], answer);
            }
            ("message_stop", Stage::Ending) => answer.ending = Ending::MessageStop,
            _ => answer.faults.push("an event out of order"),
        }
    }

    fn body(&mut self, body: &Value, answer: &mut Answer) {
        take_error(body, answer);
        for (index, block) in (0..).zip(body["content"].as_array().into_iter().flatten()) {
            self.block(index, block, answer);
            if block["type"] == "tool_use" {
                self.calls.entry(index).or_default().arguments = block["input"].to_string();
            }
        }
        self.finish(body, answer);
        self.report(&body["usage"], answer);
    }

    fn calls(self) -> Vec<Call> {
        in_order(self.calls)
    }
}

impl Reader {
    fn block(&mut self, index: u64, block: &Value, answer: &mut Answer) {
        match text(block, "type") {
            "text" => answer.text += text(block, "text"),
            "tool_use" => {
                let call = self.calls.entry(index).or_default();
                call.id = block["id"].clone();
                call.name = block["name"].clone();
            }
            "" => answer.faults.push("a block without a type"),
            _ => {}
        }
    }

    fn delta(&mut self, delta: &Value, answer: &mut Answer) {
        let call = self.calls.get_mut(&(self.next - 1));
        match (text(delta, "type"), call) {
            ("text_delta", None) => answer.text += text(delta, "text"),
            ("input_json_delta", Some(call)) => call.arguments += text(delta, "partial_json"),
            ("text_delta", Some(_)) | ("input_json_delta", None) | ("", _) => {
                answer.faults.push("a delta that does not belong to its block");
            }
            _ => {}
        }
    }

    fn finish(&mut self, from: &Value, answer: &mut Answer) {
        if let Some(reason) = from["stop_reason"].as_str() {
            answer.finish_reason = Some(reason.to_owned());
        }
    }

    /// Each member of a later report stands for the earlier one.
    fn report(&mut self, usage: &Value, answer: &mut Answer) {
        for (member, known) in [
            ("input_tokens", &mut self.usage.input),
            ("output_tokens", &mut self.usage.output),
        ] {
            if usage[member].is_u64() {
                *known = Some(usage[member].clone());
            }
        }
        if let (Some(input), Some(output)) = (&self.usage.input, &self.usage.output) {
            answer.usage = Some(json!({ "input": input, "output": output }));
        }
    }
}
