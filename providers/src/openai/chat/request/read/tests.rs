use proptest::prelude::*;
use serde_json::{Value, json};
use understudy_messages::conversation::{
    Media, MediaKind, MediaSource, Message, Part, Reasoning, Seal, Speaker, Tool, ToolCall, ToolChoice, ToolResult,
};
use understudy_messages::settings::Api;

use super::*;
use crate::json::members::wrong;

fn conversation(body: Value) -> Conversation {
    read(body.to_string().as_bytes()).expect("a good request")
}

fn parts(message: Value) -> Vec<Part> {
    let mut messages = conversation(json!({"messages": [message]})).messages;
    messages.pop().expect("a message").parts
}

fn media(kind: MediaKind, source: MediaSource) -> Part {
    Part::Media(Media {
        kind,
        source,
        name: None,
        detail: None,
    })
}

fn inline(media_type: &str, data: &str) -> MediaSource {
    MediaSource::Inline {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
    }
}

#[test]
fn a_user_may_show_and_play_and_attach() {
    let content = json!([
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "input_audio", "input_audio": {"data": "BB", "format": "mp3"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,CC"}},
        {"type": "file", "file": {"file_id": "f1"}},
    ]);
    let expected = [
        Part::Text("look".to_owned()),
        media(MediaKind::Image, inline("image/png", "AA==")),
        media(MediaKind::Image, MediaSource::Url("https://x/y.png".to_owned())),
        media(MediaKind::Audio, inline("audio/mpeg", "BB")),
        media(MediaKind::Document, inline("application/pdf", "CC")),
        media(
            MediaKind::Document,
            MediaSource::File {
                api: Api::OpenaiChat,
                id: "f1".to_owned(),
            },
        ),
    ];
    assert_eq!(parts(json!({"role": "user", "content": content})), expected);
}

#[test]
fn what_the_model_said_comes_back_in_order_of_thought_word_and_deed() {
    let said = json!({
        "role": "assistant",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"b\":1,\"a\":2}"},
            "extra_content": {"google": {"thought_signature": "g"}}}],
        "content": "text", "refusal": null, "annotations": [], "audio": null,
        "reasoning_content": "ab",
    });
    let expected = [
        Part::Reasoning(Reasoning {
            text: "ab".to_owned(),
            seal: None,
        }),
        Part::Text("text".to_owned()),
        Part::ToolCall(ToolCall {
            id: "c".to_owned(),
            name: "f".to_owned(),
            arguments: r#"{"b":1,"a":2}"#.to_owned(),
            seal: Some(Seal {
                maker: Api::Gemini,
                whole: false,
                data: "g".to_owned(),
            }),
        }),
    ];
    assert_eq!(parts(said), expected);
}

#[test]
fn a_seal_is_known_by_its_makers_name() {
    let block = |text: &str, maker, whole, data: &str| {
        Part::Reasoning(Reasoning {
            text: text.to_owned(),
            seal: Some(Seal {
                maker,
                whole,
                data: data.to_owned(),
            }),
        })
    };
    let details = json!([
        {"type": "reasoning.text", "text": "a", "signature": "anthropic-messages:s:1"},
        {"type": "reasoning.summary", "summary": "b"},
        {"type": "reasoning.encrypted", "data": "openai-responses:e"},
        {"type": "reasoning.encrypted", "data": "native:e"},
    ]);
    let said = json!({"role": "assistant", "reasoning_content": "ab", "reasoning_details": details});
    let expected = [
        block("a", Api::AnthropicMessages, false, "s:1"),
        block("b", Api::OpenaiResponses, true, "e"),
        block("", Api::OpenaiChat, true, "native:e"),
    ];
    assert_eq!(parts(said), expected);
}

#[test]
fn results_find_their_calls_in_the_old_style_too() {
    let body = json!({"messages": [
        {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "1"},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "2"}]},
    ]});
    let ids: Vec<String> = conversation(body)
        .messages
        .into_iter()
        .flat_map(|message| message.parts)
        .map(|part| match part {
            Part::ToolCall(call) => call.id,
            Part::ToolResult(ToolResult { id, .. }) => id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, ["call_1", "call_1", "c"]);
}

#[test]
fn tools_keep_the_text_of_their_schema() {
    let body = r#"{"messages":[],"tool_choice":{"type":"function","function":{"name":"f"}},
        "tools":[{"type":"function","function":{"name":"f","parameters":{"z": 1, "a":1.0},"strict":true}}],
        "functions":[{"name":"g","description":"d"}]}"#;
    let conversation = read(body.as_bytes()).expect("good");
    let expected = [
        Tool {
            name: "f".to_owned(),
            description: None,
            parameters: Some(r#"{"z": 1, "a":1.0}"#.to_owned()),
            strict: Some(true),
        },
        Tool {
            name: "g".to_owned(),
            description: Some("d".to_owned()),
            ..Tool::default()
        },
    ];
    assert_eq!(conversation.tools, expected);
    assert_eq!(conversation.tool_choice, Some(ToolChoice::Named("f".to_owned())));
}

#[test]
fn options_are_read_by_any_of_their_names() {
    let body = json!({
        "messages": [], "max_tokens": 1, "max_completion_tokens": 2, "stop": "s", "seed": -4, "n": 2,
        "temperature": 0, "reasoning": {"max_tokens": 100, "enabled": true}, "stream": true, "safety_identifier": "u",
    });
    let read = conversation(body);
    assert_eq!(
        (read.sampling.max_tokens, read.sampling.stop),
        (Some(2), vec!["s".to_owned()])
    );
    assert_eq!((read.sampling.seed, read.sampling.choices), (Some(-4), Some(2)));
    assert_eq!((read.sampling.temperature, read.stream), (Some(0.0), true));
    assert_eq!(read.reasoning.and_then(|wish| wish.budget), Some(100));
    assert_eq!(read.user.as_deref(), Some("u"));
}

#[test]
fn what_has_no_place_is_named_and_what_says_nothing_is_not() {
    let body = json!({
        "model": "m", "fallbacks": ["a"], "logit_bias": {"1": 2}, "metadata": {}, "store": false, "audio": null,
        "stream_options": {"include_usage": true, "include_obfuscation": false}, "modalities": ["text"],
        "messages": [{"role": "user", "name": "n", "content": [{"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}}]}],
    });
    let mut unread = conversation(body).unread;
    unread.sort();
    let expected = [
        "logit_bias",
        "messages.content.cache_control",
        "messages.name",
        "store",
        "stream_options.include_obfuscation",
    ];
    assert_eq!(unread, expected);
}

#[test]
fn a_wrong_type_is_named() {
    let cases = [
        (json!([]), RequestError::NotAnObject),
        (json!({}), RequestError::Missing { key: "messages" }),
        (json!({"messages": {}}), wrong("messages", "a list")),
        (
            json!({"messages": [{"content": "a"}]}),
            RequestError::Missing { key: "role" },
        ),
        (
            json!({"messages": [{"role": "tool", "content": ""}]}),
            RequestError::Missing { key: "tool_call_id" },
        ),
        (
            json!({"messages": [], "temperature": "hot"}),
            wrong("temperature", "a number"),
        ),
        (json!({"messages": [], "stop": [1]}), wrong("stop", "a string")),
        (json!({"messages": [], "n": 1.5}), wrong("n", "a whole number")),
    ];
    for (body, error) in cases {
        assert_eq!(read(body.to_string().as_bytes()), Err(error), "{body}");
    }
}

#[test]
fn what_no_other_format_has_words_for_is_told_from_a_wrong_type() {
    let part = json!({"messages": [{"role": "user", "content": [{"type": "video"}]}]});
    let allowed = json!({"messages": [], "tool_choice": {"type": "allowed_tools", "allowed_tools": {}}});
    let grammar = json!({"messages": [], "response_format": {"type": "grammar", "grammar": "x"}});
    for (body, key) in [
        (part, "content"),
        (allowed, "tool_choice"),
        (grammar, "response_format"),
    ] {
        let unread = read(body.to_string().as_bytes());
        assert_eq!(unread, Err(RequestError::Untranslatable { key }));
    }
}

#[test]
fn a_user_is_no_tool() {
    let message = json!({"role": "user", "content": ""});
    let messages = conversation(json!({"messages": [message]})).messages;
    let expected = Message {
        speaker: Speaker::User,
        parts: Vec::new(),
    };
    assert_eq!(messages, [expected]);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        let _ = read(&bytes);
    }

    #[test]
    fn nearly_requests_never_panic(
        key in "role|content|tool_calls|function_call|reasoning_details|tool_call_id",
        value in r#"(null|1|"a"|\[\]|\{\}|\[1\]|\[\{\}\]|\[\{"type":"(text|file|image_url|input_audio|x)","text":1\}\])"#,
        role in "user|assistant|tool|function|x",
    ) {
        let _ = read(format!(r#"{{"messages":[{{"role":"{role}","{key}":{value}}}]}}"#).as_bytes());
    }
}
