use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::openai::chat;

/// A chat request, as it is put to a Gemini model.
fn asked(model: &str, body: Value) -> Result<(Value, Vec<String>), Unsupported> {
    let conversation = chat::request::read(body.to_string().as_bytes()).expect("a good request");
    let target = Target {
        model,
        ask_usage: false,
    };
    let written = write(&conversation, &target)?;
    Ok((serde_json::from_slice(&written.body).expect("JSON"), written.dropped))
}

fn body(chat: Value) -> Value {
    asked("gemini-2.5-flash", chat).expect("fits").0
}

fn contents(messages: Value) -> Value {
    body(json!({"messages": messages}))["contents"].clone()
}

#[test]
fn instructions_lead_and_later_ones_are_heard_where_they_stand() {
    let body = body(json!({"messages": [
        {"role": "system", "content": "a"},
        {"role": "developer", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": ""},
        {"role": "system", "content": "d"},
    ]}));
    let expected = json!({
        "systemInstruction": {"parts": [{"text": "a"}, {"text": "b"}]},
        "contents": [{"role": "user", "parts": [{"text": "c"}]}, {"role": "user", "parts": [{"text": "d"}]}],
    });
    assert_eq!(body, expected);
    let alone = contents(json!([{"role": "system", "content": "a"}]));
    assert_eq!(alone, json!([{"role": "user", "parts": [{"text": "a"}]}]));
}

#[test]
fn results_of_one_round_are_one_content_and_name_their_function() {
    let call = |id: &str, name: &str| json!({"id": id, "function": {"name": name, "arguments": "{\"x\": 1}"}});
    let contents = contents(json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "tool_calls": [call("1", "f"), call("2", "g")]},
        {"role": "tool", "tool_call_id": "1", "content": [
            {"type": "text", "text": "seen"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]},
        {"role": "tool", "tool_call_id": "2", "content": "{\"ok\":true}"},
        {"role": "user", "content": "on"},
    ]));
    let expected = json!([
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [
            {"functionCall": {"id": "1", "name": "f", "args": {"x": 1}}},
            {"functionCall": {"id": "2", "name": "g", "args": {"x": 1}}},
        ]},
        {"role": "user", "parts": [
            {"functionResponse": {"id": "1", "name": "f", "response": {"result": "seen"}}},
            {"functionResponse": {"id": "2", "name": "g", "response": {"ok": true}}},
            {"inlineData": {"mimeType": "image/png", "data": "AA"}},
        ]},
        {"role": "user", "parts": [{"text": "on"}]},
    ]);
    assert_eq!(contents, expected);
}

#[test]
fn signatures_stand_on_what_came_of_the_thoughts() {
    let said = json!([{"role": "assistant", "content": "a",
        "reasoning_details": [{"type": "reasoning.text", "text": "t", "signature": "gemini:s"}],
        "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": ""},
            "extra_content": {"google": {"thought_signature": "c"}}}]}]);
    let expected = json!([
        {"text": "a", "thoughtSignature": "s"},
        {"functionCall": {"id": "1", "name": "f", "args": {}}, "thoughtSignature": "c"},
    ]);
    assert_eq!(contents(said)[0]["parts"], expected);
    let only_thought = json!([{"role": "assistant", "content": "",
        "reasoning_details": [{"type": "reasoning.text", "text": "t", "signature": "gemini:s"}]}]);
    assert_eq!(
        contents(only_thought)[0]["parts"],
        json!([{"text": "", "thoughtSignature": "s"}])
    );
}

#[test]
fn a_call_that_another_model_made_is_marked_for_models_that_ask_for_a_signature() {
    let said = json!({"messages": [{"role": "assistant",
        "reasoning_details": [{"type": "reasoning.text", "text": "t", "signature": "anthropic-messages:s"}],
        "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}},
            {"id": "2", "function": {"name": "f", "arguments": "{}"}}]}]});
    let parts = |model| asked(model, said.clone()).expect("fits").0["contents"][0]["parts"].clone();
    let newer = parts("gemini-3-pro-preview");
    assert_eq!(newer[0]["thoughtSignature"], "skip_thought_signature_validator");
    assert_eq!(newer[1].get("thoughtSignature"), None);
    assert_eq!(parts("gemini-2.5-pro")[0].get("thoughtSignature"), None);
}

#[test]
fn options_have_their_places() {
    let (body, dropped) = asked(
        "gemini-2.5-flash",
        json!({
            "messages": [{"role": "user", "content": "hi"}],
            "max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "top_k": 3, "stop": ["x"], "seed": 7, "n": 2,
            "presence_penalty": 0.25, "frequency_penalty": 0.5, "reasoning_effort": "low", "user": "u", "store": true,
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": true}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": false,
        }),
    )
    .expect("fits");
    let expected = json!({
        "maxOutputTokens": 5, "temperature": 0.5, "topP": 0.9, "topK": 3, "stopSequences": ["x"], "seed": 7,
        "candidateCount": 2, "presencePenalty": 0.25, "frequencyPenalty": 0.5,
        "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"},
        "thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": true},
    });
    assert_eq!(body["generationConfig"], expected);
    let config = json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}});
    assert_eq!(body["toolConfig"], config);
    let tools = json!([{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}]);
    assert_eq!(body["tools"], tools);
    assert_eq!(dropped, ["store", "user", "tools.strict", "parallel_tool_calls"]);
}

#[test]
fn effort_is_a_level_where_the_model_knows_levels() {
    let thinking = |model, effort: &str| {
        let chat = json!({"messages": [], "reasoning_effort": effort});
        asked(model, chat).expect("fits").0["generationConfig"]["thinkingConfig"].clone()
    };
    let level = |level, thoughts: bool| json!({"thinkingLevel": level, "includeThoughts": thoughts});
    assert_eq!(thinking("gemini-3-flash", "minimal"), level("minimal", true));
    assert_eq!(thinking("gemini-3-pro", "none"), level("low", false));
    assert_eq!(thinking("gemini-3-pro", "xhigh"), level("high", true));
    let budget = json!({"thinkingBudget": 128, "includeThoughts": false});
    assert_eq!(thinking("gemini-2.5-pro", "none"), budget);
}

#[test]
fn what_would_be_another_request_is_refused() {
    let refused = |chat| asked("gemini-3", chat).expect_err("refused").what;
    assert_eq!(refused(json!({"messages": [], "logprobs": true})), "logprobs");
    let lost = json!({"messages": [{"role": "tool", "tool_call_id": "1", "content": "x"}]});
    assert_eq!(refused(lost), "a tool result without its call");
    let call = json!({"id": "1", "function": {"name": "f", "arguments": "[1"}});
    let cut = json!({"messages": [{"role": "assistant", "tool_calls": [call]}]});
    assert_eq!(refused(cut), "a tool call whose arguments are no JSON object");
    let file = json!({"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]});
    assert_eq!(refused(file), "a file of another provider");
}

#[test]
fn a_medium_at_an_address_tells_its_type_by_its_ending() {
    let shown = json!([{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "https://x/a.PNG?b=.pdf"}}, {"type": "image_url", "image_url": {"url": "https://x/a"}}]}]);
    let parts = &contents(shown)[0]["parts"];
    assert_eq!(
        parts[0],
        json!({"fileData": {"fileUri": "https://x/a.PNG?b=.pdf", "mimeType": "image/png"}})
    );
    assert_eq!(parts[1], json!({"fileData": {"fileUri": "https://x/a"}}));
}

proptest! {
    #[test]
    fn every_text_arrives_once(texts in prop::collection::vec(("system|user|assistant", "[a-z]{3,6}"), 1..6)) {
        let messages: Vec<Value> = texts.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
        let written = body(json!({"messages": messages}));
        let mut parts: Vec<&Value> = written["systemInstruction"]["parts"].as_array().into_iter().flatten().collect();
        let contents = written["contents"].as_array().expect("a list").iter();
        parts.extend(contents.flat_map(|content| content["parts"].as_array().expect("a list")));
        let arrived: Vec<&str> = parts.iter().map(|part| part["text"].as_str().expect("text")).collect();
        let sent: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
        prop_assert_eq!(arrived, sent);
    }
}
