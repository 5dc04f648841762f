//! As a client of the native API reads.

use serde_json::{Value, json};

use super::{Answer, Call, Ending, take_error, text};

#[derive(Default)]
pub(super) struct Reader;

impl super::Reader for Reader {
    fn event(&mut self, name: Option<&str>, data: &Value, answer: &mut Answer) {
        let kind = text(data, "type");
        if name != Some(kind) {
            answer.faults.push("an event whose name is not its type");
        }
        match kind {
            "text.delta" => answer.text += text(data, "text"),
            "turn.completed" => {
                common(data, answer);
                if text(data, "text") != answer.text {
                    answer.faults.push("a last word that is not what was said");
                }
                answer.ending = Ending::Done;
            }
            "turn.failed" => {
                take_error(data, answer);
                answer.ending = Ending::ErrorEvent;
            }
            _other => {}
        }
    }

    fn body(&mut self, body: &Value, answer: &mut Answer) {
        take_error(body, answer);
        common(body, answer);
        answer.text += text(body, "text");
    }

    fn calls(self) -> Vec<Call> {
        Vec::new()
    }
}

fn common(told: &Value, answer: &mut Answer) {
    if let Some(finish) = told["finish"].as_str() {
        answer.finish_reason = Some(finish.to_owned());
    }
    if let usage @ Value::Object(_) = &told["usage"] {
        answer.usage = Some(json!({ "input": usage["input"], "output": usage["output"] }));
    }
}
