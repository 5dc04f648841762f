//! As a client of OpenAI's Responses reads: numbered events, pieces of items that were added, and at the end everything
//! once more.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Answer, Call, Ending, in_order, take_error, text};

#[derive(Default)]
pub(super) struct Reader {
    /// The number that the next event has.
    next: u64,
    /// The items that were added, by their place.
    items: BTreeMap<u64, Item>,
    /// Those of a whole answer.
    whole: Vec<Call>,
}

#[derive(Default)]
struct Item {
    text: String,
    call: Option<Call>,
    done: bool,
}

impl super::Reader for Reader {
    fn event(&mut self, name: Option<&str>, data: &Value, answer: &mut Answer) {
        let kind = text(data, "type");
        if kind.is_empty() || name != Some(kind) {
            answer.faults.push("an event whose name is not its type");
        }
        if data["sequence_number"] != self.next {
            answer.faults.push("an event out of order");
        }
        self.next += 1;
        match kind {
            "error" => {
                // the error's members stand in the event itself
                let error = data.get("error").filter(|error| error.is_object()).unwrap_or(data);
                answer.error = Some(error.clone());
                answer.ending = Ending::ErrorEvent;
            }
            "response.failed" => {
                if !take_error(&data["response"], answer) {
                    answer.faults.push("a failure without its error");
                }
                answer.ending = Ending::ErrorEvent;
            }
            "response.completed" => self.end(&data["response"], Ending::ResponseCompleted, answer),
            "response.incomplete" => self.end(&data["response"], Ending::ResponseIncomplete, answer),
            "response.created" if self.next != 1 => answer.faults.push("a beginning in the middle"),
            "response.output_item.added" => self.add(data, answer),
            _ if data["output_index"].is_u64() => self.piece(kind, data, answer),
            _ => {}
        }
    }

    fn body(&mut self, body: &Value, answer: &mut Answer) {
        take_error(body, answer);
        answer.text = said(body);
        self.whole = called(body);
        finish(body, answer);
    }

    fn calls(self) -> Vec<Call> {
        let streamed = self.items.into_iter();
        let streamed = streamed.filter_map(|(place, item)| Some((place, item.call?)));
        in_order(streamed.collect()).into_iter().chain(self.whole).collect()
    }
}

impl Reader {
    fn add(&mut self, data: &Value, answer: &mut Answer) {
        let place = data["output_index"].as_u64().unwrap_or(u64::MAX);
        if place != self.items.len() as u64 {
            answer.faults.push("an item that is not the next one");
        }
        let item = &data["item"];
        let call = (item["type"] == "function_call").then(|| Call {
            id: item["call_id"].clone(),
            name: item["name"].clone(),
            arguments: String::new(),
        });
        let item = Item {
            call,
            ..Item::default()
        };
        self.items.insert(place, item);
    }

    /// A piece of an item, or all of it once more.
    fn piece(&mut self, kind: &str, data: &Value, answer: &mut Answer) {
        let place = data["output_index"].as_u64().unwrap_or(u64::MAX);
        let Some(item) = self.items.get_mut(&place).filter(|item| !item.done) else {
            answer.faults.push("a piece of an item that is not open");
            return;
        };
        match (kind, &mut item.call) {
            ("response.output_text.delta", None) => {
                item.text += text(data, "delta");
                answer.text += text(data, "delta");
            }
            ("response.function_call_arguments.delta", Some(call)) => call.arguments += text(data, "delta"),
            ("response.output_text.delta", Some(_)) | ("response.function_call_arguments.delta", None) => {
                answer.faults.push("a piece that does not belong to its item");
            }
            ("response.output_text.done", _) if item.text.ends_with(text(data, "text")) => {}
            ("response.function_call_arguments.done", Some(call)) if call.arguments == text(data, "arguments") => {}
            ("response.output_text.done" | "response.function_call_arguments.done", _) => {
                answer.faults.push("an item that differs from its pieces");
            }
            ("response.output_item.done", _) => item.done = true,
            _ => {}
        }
    }

    /// The last event tells the whole answer: it must be what was told in pieces.
    fn end(&mut self, response: &Value, ending: Ending, answer: &mut Answer) {
        let calls: Vec<_> = self.items.values().filter_map(|item| item.call.as_ref()).collect();
        let told = called(response);
        let same = |(told, call): (&Call, &&Call)| {
            told.id == call.id && told.name == call.name && told.arguments == call.arguments
        };
        let same_calls = told.len() == calls.len() && told.iter().zip(&calls).all(same);
        if said(response) != answer.text || !same_calls {
            answer.faults.push("an end that differs from what came before");
        }
        answer.ending = ending;
        finish(response, answer);
    }
}

/// All text of a response's output.
fn said(response: &Value) -> String {
    let items = response["output"].as_array().into_iter().flatten();
    let parts = items.flat_map(|item| item["content"].as_array().into_iter().flatten());
    parts
        .filter(|part| part["type"] == "output_text")
        .map(|part| text(part, "text"))
        .collect()
}

/// The tool calls of a response's output.
fn called(response: &Value) -> Vec<Call> {
    let items = response["output"].as_array().into_iter().flatten();
    let calls = items.filter(|item| item["type"] == "function_call");
    calls
        .map(|item| Call {
            id: item["call_id"].clone(),
            name: item["name"].clone(),
            arguments: text(item, "arguments").to_owned(),
        })
        .collect()
}

/// Why it ended: what made it incomplete, else its status.
fn finish(response: &Value, answer: &mut Answer) {
    let why = response["incomplete_details"]["reason"].as_str();
    answer.finish_reason = why.or(response["status"].as_str()).map(str::to_owned);
    if let usage @ Value::Object(_) = &response["usage"] {
        answer.usage = Some(json!({ "input": usage["input_tokens"], "output": usage["output_tokens"] }));
    }
}
