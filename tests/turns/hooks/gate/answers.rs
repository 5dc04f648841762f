//! Questions with tools, and the calls in answers, in every client's format.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use understudy_messages::request::Endpoint;

pub const CLIENTS: [Endpoint; 3] = [Endpoint::Chat, Endpoint::Responses, Endpoint::Messages];

/// A question that offers `exec` and `read`.
pub fn question(client: Endpoint, stream: bool) -> (&'static str, Value) {
    let schema = json!({ "type": "object" });
    let tools = |tool: &dyn Fn(&str) -> Value| json!([tool("exec"), tool("read")]);
    match client {
        Endpoint::Responses => {
            let tools =
                tools(&|name| json!({ "type": "function", "name": name, "parameters": schema, "strict": false }));
            let body =
                json!({ "model": "main", "stream": stream, "input": "hi", "instructions": "be kind", "tools": tools });
            ("/v1/responses", body)
        }
        Endpoint::Messages => {
            let tools = tools(&|name| json!({ "name": name, "input_schema": schema }));
            let body = json!({ "model": "main", "stream": stream, "max_tokens": 99, "system": "be kind",
                "messages": [{ "role": "user", "content": "hi" }], "tools": tools });
            ("/v1/messages", body)
        }
        _ => {
            let tools =
                tools(&|name| json!({ "type": "function", "function": { "name": name, "parameters": schema } }));
            let messages = json!([{ "role": "system", "content": "be kind" }, { "role": "user", "content": "hi" }]);
            (
                "/v1/chat/completions",
                json!({ "model": "main", "stream": stream, "messages": messages, "tools": tools }),
            )
        }
    }
}

/// The tools that an answer calls, with their arguments, in order.
pub fn calls(client: Endpoint, body: &[u8], stream: bool) -> Vec<(String, Value)> {
    let mut calls = BTreeMap::<u64, (String, String)>::new();
    let mut add = |index: u64, name: &Value, arguments: &Value| {
        let call = calls.entry(index).or_default();
        call.0.push_str(name.as_str().unwrap_or_default());
        call.1.push_str(arguments.as_str().unwrap_or_default());
    };
    for (place, event) in events(body, stream).iter().enumerate() {
        match client {
            Endpoint::Responses => {
                let whole = list(&event["output"]);
                let done = (event["type"] == "response.output_item.done").then(|| event["item"].clone());
                for (at, item) in whole.iter().chain(&done).enumerate() {
                    if item["type"] == "function_call" {
                        add((place * 100 + at) as u64, &item["name"], &item["arguments"]);
                    }
                }
            }
            Endpoint::Messages => {
                let index = event["index"].as_u64().unwrap_or_default();
                let block = &event["content_block"];
                if block["type"] == "tool_use" {
                    add(index, &block["name"], &Value::Null);
                }
                if event["delta"]["type"] == "input_json_delta" {
                    add(index, &Value::Null, &event["delta"]["partial_json"]);
                }
                for (index, block) in list(&event["content"]).iter().enumerate() {
                    if block["type"] == "tool_use" {
                        add(index as u64, &block["name"], &json!(block["input"].to_string()));
                    }
                }
            }
            _ => {
                let choice = &event["choices"][0];
                for said in ["delta", "message"] {
                    for (place, call) in list(&choice[said]["tool_calls"]).iter().enumerate() {
                        let index = call["index"].as_u64().unwrap_or(place as u64);
                        add(index, &call["function"]["name"], &call["function"]["arguments"]);
                    }
                }
            }
        }
    }
    let parsed = |arguments: &str| serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
    calls
        .into_values()
        .map(|(name, arguments)| {
            let arguments = parsed(&arguments);
            (name, arguments)
        })
        .collect()
}

/// The tokens of the answer that a stream reports last.
pub fn output_tokens(body: &[u8]) -> Option<u64> {
    let places = ["/usage", "/response/usage"];
    let mut reports = events(body, true).into_iter().filter_map(|event| {
        let usage = places.iter().find_map(|place| event.pointer(place))?;
        usage["completion_tokens"].as_u64().or(usage["output_tokens"].as_u64())
    });
    reports.next_back()
}

fn events(body: &[u8], stream: bool) -> Vec<Value> {
    if !stream {
        return serde_json::from_slice(body).into_iter().collect();
    }
    let text = String::from_utf8_lossy(body);
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}
