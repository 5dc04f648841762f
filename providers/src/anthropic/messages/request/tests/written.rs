//! What a provider is asked.

use serde_json::{Value, json};
use understudy_messages::conversation::{
    Conversation, Media, MediaKind, MediaSource, Message, OutputFormat, Part, Reasoning, ReasoningWish, Sampling, Seal,
    Speaker, Tool, ToolCall, ToolChoice, ToolResult,
};
use understudy_messages::settings::Api;

use super::super::write;
use crate::wire::{Target, Unsupported};

fn written_for(model: &str, conversation: &Conversation) -> (Value, Vec<String>) {
    let target = Target {
        model,
        ask_usage: false,
    };
    let written = write(conversation, &target).expect("it can be said");
    (serde_json::from_slice(&written.body).expect("JSON"), written.dropped)
}

fn written(conversation: &Conversation) -> (Value, Vec<String>) {
    written_for("claude-sonnet-4-5", conversation)
}

fn refused(conversation: &Conversation) -> String {
    let target = Target {
        model: "m",
        ask_usage: false,
    };
    let Unsupported { what, api } = write(conversation, &target).expect_err("refused");
    assert_eq!(api, Api::AnthropicMessages);
    what
}

fn said(speaker: Speaker, parts: impl Into<Vec<Part>>) -> Message {
    let parts = parts.into();
    Message { speaker, parts }
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

fn call(id: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: id.to_owned(),
        name: "f".to_owned(),
        arguments: arguments.to_owned(),
        seal: None,
    })
}

fn result(id: &str) -> Part {
    Part::ToolResult(ToolResult {
        id: id.to_owned(),
        parts: vec![text("r")],
        ..ToolResult::default()
    })
}

fn thought(maker: Api, whole: bool) -> Part {
    Part::Reasoning(Reasoning {
        text: "hm".to_owned(),
        seal: Some(Seal {
            maker,
            whole,
            data: "s".to_owned(),
        }),
    })
}

fn of(messages: impl Into<Vec<Message>>) -> Conversation {
    Conversation {
        messages: messages.into(),
        ..Conversation::default()
    }
}

fn hello() -> Conversation {
    of([said(Speaker::User, [text("hi")])])
}

fn drawing(sampling: Sampling) -> Conversation {
    Conversation { sampling, ..hello() }
}

fn wishing(effort: &str, max_tokens: Option<u64>) -> Conversation {
    let reasoning = Some(ReasoningWish {
        effort: Some(effort.to_owned()),
        ..ReasoningWish::default()
    });
    let sampling = Sampling {
        max_tokens,
        ..Sampling::default()
    };
    Conversation {
        reasoning,
        ..drawing(sampling)
    }
}

/// Role and kinds of blocks of each message.
fn shape(conversation: &Conversation) -> Vec<(String, Vec<String>)> {
    let word = |value: &Value| value.as_str().expect("a word").to_owned();
    let (body, _) = written(conversation);
    let messages = body["messages"].as_array().expect("messages").clone();
    let shape = messages.iter().map(|message| {
        let blocks = message["content"].as_array().expect("blocks");
        (
            word(&message["role"]),
            blocks.iter().map(|block| word(&block["type"])).collect(),
        )
    });
    shape.collect()
}

fn turn(role: &str, blocks: &[&str]) -> (String, Vec<String>) {
    (
        role.to_owned(),
        blocks.iter().map(|block| (*block).to_owned()).collect(),
    )
}

#[test]
fn an_answer_has_a_limit_though_nobody_set_one() {
    let (body, dropped) = written(&hello());
    let content = json!([{ "type": "text", "text": "hi" }]);
    let messages = json!([{ "role": "user", "content": content }]);
    assert_eq!(
        body,
        json!({ "model": "claude-sonnet-4-5", "max_tokens": 8192, "messages": messages })
    );
    assert_eq!(dropped, Vec::<String>::new());
}

#[test]
fn leading_instructions_become_system_and_later_ones_the_users() {
    let conversation = of([
        said(Speaker::System, [text("a")]),
        said(Speaker::Developer, [text("b")]),
        said(Speaker::User, [text("hi")]),
        said(Speaker::System, [text("c")]),
    ]);
    let (body, _) = written(&conversation);
    assert_eq!(
        body["system"],
        json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }])
    );
    assert_eq!(shape(&conversation), [turn("user", &["text"]), turn("user", &["text"])]);
    let alone = of([said(Speaker::System, [text("a")]), said(Speaker::System, [text("b")])]);
    assert_eq!(shape(&alone), [turn("user", &["text"])]);
}

#[test]
fn results_come_right_after_their_calls_and_first() {
    let conversation = of([
        said(Speaker::User, [text("go")]),
        said(Speaker::Assistant, [text("  "), call("1", "{}"), call("2", "")]),
        said(Speaker::System, [text("note")]),
        said(Speaker::Tool, [result("1")]),
        said(Speaker::Tool, [result("2")]),
        said(Speaker::User, [text("and?"), result("3")]),
    ]);
    let expected = [
        turn("user", &["text"]),
        turn("assistant", &["tool_use", "tool_use"]),
        turn("user", &["tool_result", "tool_result", "tool_result"]),
        turn("user", &["text"]),
        turn("user", &["text"]),
    ];
    assert_eq!(shape(&conversation), expected);
}

#[test]
fn what_says_nothing_is_left_out() {
    let conversation = of([
        said(Speaker::User, [text("hi"), text("")]),
        said(Speaker::Assistant, [text(" \n")]),
        said(Speaker::User, [text("again")]),
    ]);
    assert_eq!(shape(&conversation), [turn("user", &["text"]), turn("user", &["text"])]);
}

#[test]
fn an_answer_that_is_begun_ends_without_white_space() {
    let conversation = of([
        said(Speaker::User, [text("hi")]),
        said(Speaker::Assistant, [text(" It is \n")]),
    ]);
    assert_eq!(written(&conversation).0["messages"][1]["content"][0]["text"], " It is");
}

#[test]
fn only_own_seals_go_back() {
    let thoughts = [
        thought(Api::AnthropicMessages, false),
        thought(Api::AnthropicMessages, true),
        thought(Api::Gemini, false),
        Part::Reasoning(Reasoning {
            text: "hm".to_owned(),
            seal: None,
        }),
        text("so"),
    ];
    let conversation = of([said(Speaker::Assistant, thoughts), said(Speaker::User, [text("go")])]);
    let (body, dropped) = written(&conversation);
    let expected = json!([{ "type": "thinking", "thinking": "hm", "signature": "s" },
        { "type": "redacted_thinking", "data": "s" }, { "type": "text", "text": "so" }]);
    assert_eq!(body["messages"][0]["content"], expected);
    assert!(dropped.is_empty());
}

#[test]
fn ids_of_calls_are_spelled_as_anthropic_wants_them_on_both_sides() {
    let conversation = of([
        said(Speaker::Assistant, [call("functions.f:0", "{\"b\":1,\"a\":1e2}")]),
        said(Speaker::Tool, [result("functions.f:0")]),
    ]);
    let (body, _) = written(&conversation);
    assert_eq!(body["messages"][0]["content"][0]["id"], "functions-2ef-3a0");
    assert_eq!(body["messages"][1]["content"][0]["tool_use_id"], "functions-2ef-3a0");
    let target = Target {
        model: "m",
        ask_usage: false,
    };
    let raw = write(&conversation, &target).expect("said").body;
    assert!(
        String::from_utf8_lossy(&raw).contains("\"input\":{\"b\":1,\"a\":1e2}"),
        "arguments keep their text"
    );
}

#[test]
fn arguments_that_are_no_object_go_as_text() {
    let conversation = of([
        said(Speaker::Assistant, [call("1", "{\"cut\":")]),
        said(Speaker::Tool, [result("1")]),
    ]);
    let (body, _) = written(&conversation);
    assert_eq!(
        body["messages"][0]["content"][0]["input"],
        json!({ "_unparsable": "{\"cut\":" })
    );
    let again = super::super::read(body.to_string().as_bytes()).expect("read");
    assert_eq!(again.messages, conversation.messages);
}

#[test]
fn a_schema_says_that_it_is_an_objects() {
    let schema = |parameters: Option<&str>| {
        let tool = Tool {
            name: "f".to_owned(),
            parameters: parameters.map(str::to_owned),
            ..Tool::default()
        };
        let conversation = Conversation {
            tools: vec![tool],
            ..hello()
        };
        written(&conversation).0["tools"][0]["input_schema"].to_string()
    };
    let empty = "{\"properties\":{},\"type\":\"object\"}";
    assert_eq!((&*schema(None), &*schema(Some("{ }"))), (empty, empty));
    assert_eq!(
        schema(Some("{\"properties\":{\"a\":{}}}")),
        "{\"properties\":{\"a\":{}},\"type\":\"object\"}"
    );
    assert_eq!(
        schema(Some("{\"type\":\"object\",\"x\":1}")),
        "{\"type\":\"object\",\"x\":1}"
    );
}

#[test]
fn a_choice_needs_tools_and_carries_whether_several_may_be_called() {
    let choice = |tools, tool_choice, parallel_tool_calls| {
        let conversation = Conversation {
            tools,
            tool_choice,
            parallel_tool_calls,
            ..hello()
        };
        written(&conversation).0["tool_choice"].clone()
    };
    let tools = vec![Tool {
        name: "f".to_owned(),
        ..Tool::default()
    }];
    let named = Some(ToolChoice::Named("f".to_owned()));
    assert_eq!(choice(vec![], Some(ToolChoice::Required), Some(false)), Value::Null);
    assert_eq!(
        choice(tools.clone(), named, None),
        json!({ "type": "tool", "name": "f" })
    );
    let auto = json!({ "type": "auto", "disable_parallel_tool_use": true });
    assert_eq!(choice(tools.clone(), None, Some(false)), auto);
    assert_eq!(
        choice(tools, Some(ToolChoice::None), Some(true)),
        json!({ "type": "none" })
    );
}

#[test]
fn what_anthropic_has_no_word_for_is_named() {
    let (body, dropped) = written(&drawing(Sampling {
        temperature: Some(1.5),
        top_p: Some(0.9),
        top_k: Some(3),
        seed: Some(1),
        presence_penalty: Some(0.5),
        frequency_penalty: Some(0.0),
        stop: vec!["\n".to_owned(), "END".to_owned()],
        ..Sampling::default()
    }));
    assert_eq!(dropped, ["seed", "presence_penalty", "stop", "temperature"]);
    assert_eq!(
        (&body["top_p"], &body["top_k"], &body["stop_sequences"]),
        (&json!(0.9), &json!(3), &json!(["END"]))
    );
    assert_eq!(body["temperature"], Value::Null, "1 is what Anthropic takes by itself");
    let both = Sampling {
        temperature: Some(0.2),
        top_p: Some(0.9),
        ..Sampling::default()
    };
    let (body, dropped) = written(&drawing(both.clone()));
    assert_eq!(
        (&body["temperature"], &body["top_p"], dropped),
        (&json!(0.2), &Value::Null, vec!["top_p".to_owned()])
    );
    let (body, dropped) = written_for("claude-opus-5", &drawing(both));
    assert_eq!((&body["temperature"], &body["top_p"]), (&Value::Null, &Value::Null));
    assert_eq!(dropped, ["temperature", "top_p"]);
}

#[test]
fn what_would_be_another_request_is_refused() {
    let sampling = |sampling| refused(&drawing(sampling));
    assert_eq!(
        sampling(Sampling {
            choices: Some(2),
            ..Sampling::default()
        }),
        "n"
    );
    assert_eq!(
        sampling(Sampling {
            logprobs: true,
            ..Sampling::default()
        }),
        "logprobs"
    );
    let output = OutputFormat::JsonObject;
    assert_eq!(refused(&Conversation { output, ..hello() }), "response_format");
    let media = |kind, source| {
        refused(&of([said(
            Speaker::User,
            [Part::Media(Media {
                kind,
                source,
                name: None,
                detail: None,
            })],
        )]))
    };
    let inline = |media_type: &str| MediaSource::Inline {
        media_type: media_type.to_owned(),
        data: "AA==".to_owned(),
    };
    assert_eq!(media(MediaKind::Audio, inline("audio/wav")), "input_audio");
    assert!(media(MediaKind::Document, inline("application/zip")).contains("document"));
    let file = MediaSource::File {
        api: Api::Gemini,
        id: "f".to_owned(),
    };
    assert!(media(MediaKind::Image, file).contains("file"));
}

#[test]
fn a_schema_for_the_text_is_written() {
    let output = OutputFormat::JsonSchema {
        name: "x".to_owned(),
        schema: "{\"type\":\"object\"}".to_owned(),
        strict: None,
    };
    let (body, _) = written(&Conversation { output, ..hello() });
    assert_eq!(
        body["output_config"]["format"],
        json!({ "type": "json_schema", "schema": { "type": "object" } })
    );
}

#[test]
fn an_effort_is_a_budget_within_the_limit_or_for_newer_models_an_effort() {
    let thinking = |model: &str, conversation: &Conversation| {
        let (body, dropped) = written_for(model, conversation);
        (
            body["thinking"].clone(),
            body["max_tokens"].clone(),
            body["output_config"].clone(),
            dropped,
        )
    };
    let enabled = |budget: u64| json!({ "type": "enabled", "budget_tokens": budget });
    let old = "claude-sonnet-4-5";
    let none = Vec::<String>::new();
    assert_eq!(
        thinking(old, &wishing("low", None)),
        (enabled(2048), json!(10_240), Value::Null, none.clone())
    );
    assert_eq!(
        thinking(old, &wishing("high", Some(5000))),
        (enabled(4999), json!(5000), Value::Null, none.clone())
    );
    let left_out = (Value::Null, json!(500), Value::Null, vec!["reasoning".to_owned()]);
    assert_eq!(thinking(old, &wishing("high", Some(500))), left_out);
    let adaptive = json!({ "type": "adaptive" });
    let expected = (adaptive, json!(32_768), json!({ "effort": "max" }), none.clone());
    assert_eq!(thinking("claude-opus-5", &wishing("xhigh", None)), expected);
    let disabled = (json!({ "type": "disabled" }), json!(8192), Value::Null, none);
    assert_eq!(thinking("claude-opus-5", &wishing("none", None)), disabled);
}

#[test]
fn where_anthropic_would_refuse_to_think_the_wish_is_left_out_by_name() {
    let tool = Tool {
        name: "f".to_owned(),
        ..Tool::default()
    };
    let wish = |messages: Vec<Message>, tool_choice| Conversation {
        messages,
        tools: vec![tool.clone()],
        tool_choice,
        ..wishing("low", None)
    };
    let user = || said(Speaker::User, [text("hi")]);
    let looped = |before: Vec<Part>| {
        let parts = [before, vec![call("1", "{}")]].concat();
        vec![
            user(),
            said(Speaker::Assistant, parts),
            said(Speaker::Tool, [result("1")]),
        ]
    };
    let thinks = |conversation: &Conversation| {
        let (body, dropped) = written(conversation);
        assert_eq!(dropped.contains(&"reasoning".to_owned()), body["thinking"].is_null());
        body["thinking"].is_object()
    };
    assert!(thinks(&wish(vec![user()], None)));
    assert!(!thinks(&wish(vec![user()], Some(ToolChoice::Required))));
    assert!(!thinks(&wish(
        vec![user(), said(Speaker::Assistant, [text("It")])],
        None
    )));
    assert!(!thinks(&wish(looped(vec![]), None)));
    assert!(thinks(&wish(
        looped(vec![thought(Api::AnthropicMessages, false)]),
        None
    )));
}

#[test]
fn who_thinks_draws_as_it_likes() {
    let mut conversation = wishing("low", None);
    conversation.sampling.temperature = Some(0.3);
    conversation.sampling.top_k = Some(3);
    let (body, dropped) = written(&conversation);
    assert_eq!((&body["temperature"], &body["top_k"]), (&Value::Null, &Value::Null));
    assert_eq!(dropped, ["temperature", "top_k"]);
}
