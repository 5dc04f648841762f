//! The answer as OpenAI's Responses.

use serde_json::{Value, json};

use super::{Beat, CREATED, MadeAnswer, MadeCall, named};

/// An answer while it is written as events: each item is begun, told in pieces, and told once more.
struct Telling {
    beats: Vec<Beat>,
    /// The items that are done.
    output: Vec<Value>,
}

pub(super) fn beats(answer: &MadeAnswer<'_>) -> Vec<Beat> {
    let begun = response(answer, "in_progress", &[]);
    let mut telling = Telling {
        beats: Vec::new(),
        output: Vec::new(),
    };
    telling.silent(json!({ "type": "response.created", "response": begun }));
    telling.silent(json!({ "type": "response.in_progress", "response": begun }));
    for done in output(answer) {
        let pieces = match text(&done, "type") {
            "message" => answer.texts(),
            "function_call" => super::pieces_of(text(&done, "arguments"), 2),
            _ => vec![text(&done["summary"][0], "text").to_owned()],
        };
        telling.item(done, pieces);
    }
    let end = response(answer, "completed", &telling.output);
    telling.silent(json!({ "type": "response.completed", "response": end }));
    telling.beats
}

pub(super) fn whole(answer: &MadeAnswer<'_>) -> Value {
    response(answer, "completed", &output(answer))
}

impl Telling {
    fn silent(&mut self, event: Value) {
        let frame = self.numbered(event);
        self.beats.push(Beat::silent(frame));
    }

    fn numbered(&self, mut event: Value) -> String {
        event["sequence_number"] = json!(self.beats.len());
        named(&event)
    }

    fn item(&mut self, done: Value, pieces: Vec<String>) {
        let place = json!({ "item_id": done["id"], "output_index": self.output.len() });
        let mut begun = done.clone();
        begun["status"] = json!("in_progress");
        let (kind, part) = match text(&done, "type") {
            "message" => ("output_text", Some(done["content"][0].clone())),
            "function_call" => ("function_call_arguments", None),
            _ => ("reasoning_summary_text", Some(done["summary"][0].clone())),
        };
        for emptied in ["content", "summary"] {
            if begun[emptied].is_array() {
                begun[emptied] = json!([]);
            }
        }
        if begun["arguments"].is_string() {
            begun["arguments"] = json!("");
        }
        let whole = pieces.concat();
        self.silent(event(
            "output_item.added",
            &json!({ "output_index": self.output.len() }),
            "item",
            begun,
        ));
        let inner = match kind {
            "output_text" => json!({ "content_index": 0 }),
            "reasoning_summary_text" => json!({ "summary_index": 0 }),
            _ => json!({}),
        };
        let place = joined(&place, &inner);
        let part_kind = match kind {
            "output_text" => "content_part",
            _ => "reasoning_summary_part",
        };
        if let Some(part) = &part {
            let mut empty = part.clone();
            empty["text"] = json!("");
            self.silent(event(&format!("{part_kind}.added"), &place, "part", empty));
        }
        for piece in pieces {
            let frame = self.numbered(event(&format!("{kind}.delta"), &place, "delta", json!(piece)));
            self.beats.push(Beat::content(frame));
        }
        let member = match part {
            Some(_) => "text",
            None => "arguments",
        };
        self.silent(event(&format!("{kind}.done"), &place, member, json!(whole)));
        if let Some(part) = part {
            self.silent(event(&format!("{part_kind}.done"), &place, "part", part));
        }
        let outer = json!({ "output_index": self.output.len() });
        self.silent(event("output_item.done", &outer, "item", done.clone()));
        self.output.push(done);
    }
}

fn event(kind: &str, place: &Value, member: &str, value: Value) -> Value {
    joined(place, &json!({ "type": format!("response.{kind}"), member: value }))
}

/// The members of both objects.
fn joined(one: &Value, other: &Value) -> Value {
    let members = |object: &Value| object.as_object().cloned().unwrap_or_default();
    Value::Object(members(one).into_iter().chain(members(other)).collect())
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

/// The items of the answer, each whole.
fn output(answer: &MadeAnswer<'_>) -> Vec<Value> {
    let thoughts = answer.script.reasoning.iter().map(|text| {
        let summary = json!([{ "type": "summary_text", "text": text }]);
        json!({ "id": answer.id("rs_sim_"), "type": "reasoning", "summary": summary })
    });
    let message = (!answer.text.is_empty()).then(|| {
        let content = json!([{ "type": "output_text", "text": answer.text, "annotations": [], "logprobs": [] }]);
        json!({ "id": answer.id("msg_sim_"), "type": "message", "role": "assistant", "status": "completed", "content": content })
    });
    let call = |(index, call): (u64, MadeCall<'_>)| {
        json!({
            "id": answer.id(&format!("fc_sim_{index}_")), "type": "function_call", "status": "completed",
            "call_id": call.id, "name": call.name, "arguments": call.arguments.to_string(),
        })
    };
    let calls = (0..).zip(answer.calls()).map(call);
    thoughts.chain(message).chain(calls).collect()
}

fn response(answer: &MadeAnswer<'_>, status: &str, output: &[Value]) -> Value {
    let used = answer.usage;
    let usage = (status == "completed").then(|| {
        json!({
            "input_tokens": used.prompt_tokens, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": used.completion_tokens, "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": answer.total(),
        })
    });
    json!({
        "id": answer.id("resp_sim_"), "object": "response", "created_at": CREATED, "status": status,
        "model": answer.model, "output": output, "usage": usage, "error": null, "incomplete_details": null,
        "instructions": null, "metadata": {}, "parallel_tool_calls": true, "temperature": 1.0, "top_p": 1.0,
        "tool_choice": "auto", "tools": [],
    })
}
