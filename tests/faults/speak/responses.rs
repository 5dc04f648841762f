//! OpenAI Responses.

use serde_json::{Value, json};

use super::{Frames, INPUT, event};

pub(super) fn frames(said: &[String], filtered: bool) -> Frames {
    let text = said.concat();
    let mut number = 0_u64..;
    let mut numbered = |kind: &str, mut json: Value| {
        json["type"] = kind.into();
        json["sequence_number"] = number.next().into();
        event(kind, &json)
    };
    let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
    let begun = response("in_progress", &[], None);
    let before = vec![
        numbered("response.created", json!({ "response": begun })),
        numbered("response.in_progress", json!({ "response": begun })),
        numbered(
            "response.output_item.added",
            json!({ "output_index": 0, "item": item("in_progress", &[]) }),
        ),
        numbered(
            "response.content_part.added",
            json!({ "item_id": "msg_1", "output_index": 0, "content_index": 0, "part": part("") }),
        ),
    ];
    let place = |mut json: Value| {
        json["item_id"] = "msg_1".into();
        json["output_index"] = 0.into();
        json["content_index"] = 0.into();
        json
    };
    let deltas = said
        .iter()
        .map(|text| {
            numbered(
                "response.output_text.delta",
                place(json!({ "delta": text, "logprobs": [] })),
            )
        })
        .collect();
    let call = json!({ "id": "fc_1", "type": "function_call", "status": "in_progress", "call_id": "t1", "name": "look",
        "arguments": "" });
    let call = vec![numbered(
        "response.output_item.added",
        json!({ "output_index": 1, "item": call }),
    )];
    let mut number = (before.len() + said.len()) as u64..;
    let mut numbered = |kind: &str, mut json: Value| {
        json["type"] = kind.into();
        json["sequence_number"] = number.next().into();
        event(kind, &json)
    };
    let broken = json!({ "response": { "id": "resp_1", "object": "response", "status": "failed", "output": [], "model": "m",
        "error": { "code": "server_is_overloaded", "message": "simulated" } } });
    let error = numbered("response.failed", broken);
    let mut number = (before.len() + said.len()) as u64..;
    let mut numbered = |kind: &str, mut json: Value| {
        json["type"] = kind.into();
        json["sequence_number"] = number.next().into();
        event(kind, &json)
    };
    let done = item("completed", &[part(&text)]);
    let finish = vec![
        numbered(
            "response.output_text.done",
            place(json!({ "text": text, "logprobs": [] })),
        ),
        numbered("response.content_part.done", place(json!({ "part": part(&text) }))),
        numbered("response.output_item.done", json!({ "output_index": 0, "item": done })),
    ];
    let mut whole = response("completed", &[done], Some(said.len() as u64));
    let mut ended = "response.completed";
    if filtered {
        ended = "response.incomplete";
        whole["status"] = "incomplete".into();
        whole["incomplete_details"] = json!({ "reason": "content_filter" });
    }
    Frames {
        before,
        text: deltas,
        finish,
        closing: vec![numbered(ended, json!({ "response": whole }))],
        call,
        error,
        malformed: "event: response.output_text.delta\ndata: {\"type\":\"resp\n\n".to_owned(),
    }
}

pub(super) fn whole(text: &str, output: u64) -> Value {
    let part = json!({ "type": "output_text", "text": text, "annotations": [] });
    response("completed", &[item("completed", &[part])], Some(output))
}

fn item(status: &str, content: &[Value]) -> Value {
    json!({ "id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": content })
}

fn response(status: &str, output: &[Value], tokens: Option<u64>) -> Value {
    let usage =
        tokens.map(|tokens| json!({ "input_tokens": INPUT, "output_tokens": tokens, "total_tokens": INPUT + tokens }));
    json!({ "id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m", "output": output,
        "error": null, "incomplete_details": null, "usage": usage })
}
