//! What a request says when it is taken apart.

use proptest::prelude::*;
use serde_json::{Value, json};
use understudy_messages::conversation::{
    Conversation, Media, MediaKind, MediaSource, Message, OutputFormat, Part, Reasoning, Seal, Speaker, ToolCall,
    ToolChoice, ToolResult,
};
use understudy_messages::settings::Api;

use super::super::read;
use crate::request_error::RequestError;

fn taken(body: &Value) -> Conversation {
    read(body.to_string().as_bytes()).expect("a good request")
}

fn asking(members: Value) -> Conversation {
    let mut body = json!({ "model": "m", "max_tokens": 5, "messages": [{ "role": "user", "content": "hi" }] });
    let more = members.as_object().expect("members").clone();
    body.as_object_mut().expect("a body").extend(more);
    taken(&body)
}

fn saying(role: &str, content: Value) -> Vec<Message> {
    taken(&json!({ "model": "m", "messages": [{ "role": role, "content": content }] })).messages
}

fn refused(body: &Value) -> RequestError {
    read(body.to_string().as_bytes()).expect_err("refused")
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

fn message(speaker: Speaker, parts: impl Into<Vec<Part>>) -> Message {
    let parts = parts.into();
    Message { speaker, parts }
}

#[test]
fn strings_and_blocks_say_the_same() {
    let plain = asking(json!({ "system": "sys" }));
    let blocks =
        asking(json!({ "system": [{ "type": "text", "text": "sys", "cache_control": { "type": "ephemeral" } }] }));
    assert_eq!(plain.messages, blocks.messages);
    assert_eq!(
        plain.messages,
        [
            message(Speaker::System, [text("sys")]),
            message(Speaker::User, [text("hi")])
        ]
    );
    assert_eq!(
        (plain.unread.len(), blocks.unread),
        (0, vec!["cache_control".to_owned()])
    );
}

#[test]
fn results_are_said_by_tools_before_the_user_goes_on() {
    let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "AA==" } });
    let said = saying(
        "user",
        json!([
            { "type": "text", "text": "and?" },
            { "type": "tool_result", "tool_use_id": "t1", "content": "fine" },
            { "type": "tool_result", "tool_use_id": "t2", "is_error": true, "content": [{ "type": "text", "text": "no" }, image] },
            { "type": "tool_result", "tool_use_id": "t3" },
        ]),
    );
    let picture = Part::Media(Media {
        kind: MediaKind::Image,
        source: MediaSource::Inline {
            media_type: "image/png".to_owned(),
            data: "AA==".to_owned(),
        },
        name: None,
        detail: None,
    });
    let result = |id: &str, parts: Vec<Part>, is_error| {
        Part::ToolResult(ToolResult {
            id: id.to_owned(),
            name: None,
            parts,
            is_error,
        })
    };
    let results = [
        result("t1", vec![text("fine")], false),
        result("t2", vec![text("no"), picture], true),
        result("t3", vec![], false),
    ];
    assert_eq!(
        said,
        [message(Speaker::Tool, results), message(Speaker::User, [text("and?")])]
    );
}

#[test]
fn a_seal_is_known_by_the_name_before_it() {
    let said = saying(
        "assistant",
        json!([
            { "type": "thinking", "thinking": "hm", "signature": "sig" },
            { "type": "redacted_thinking", "data": "enc" },
            { "type": "thinking", "thinking": "oh", "signature": "openai-responses:gAAA:x" },
            { "type": "thinking", "thinking": "unsealed", "signature": "" },
            { "type": "thinking", "thinking": "", "signature": "gemini:tok" },
            { "type": "tool_use", "id": "t1", "name": "f", "input": { "z": 1e2, "a": "}" }, "caller": { "type": "direct" } },
        ]),
    );
    let seal = |maker, whole, data: &str| {
        Some(Seal {
            maker,
            whole,
            data: data.to_owned(),
        })
    };
    let thought = |text: &str, seal| {
        Part::Reasoning(Reasoning {
            text: text.to_owned(),
            seal,
        })
    };
    let expected = [
        thought("hm", seal(Api::AnthropicMessages, false, "sig")),
        thought("", seal(Api::AnthropicMessages, true, "enc")),
        thought("oh", seal(Api::OpenaiResponses, true, "gAAA:x")),
        thought("unsealed", None),
        Part::ToolCall(ToolCall {
            id: "t1".to_owned(),
            name: "f".to_owned(),
            arguments: "{\"a\":\"}\",\"z\":100.0}".to_owned(),
            seal: seal(Api::Gemini, false, "tok"),
        }),
    ];
    assert_eq!(said, [message(Speaker::Assistant, expected)]);
}

#[test]
fn documents_come_as_data_text_addresses_files_and_content() {
    let document = |source: Value| json!([{ "type": "document", "title": "t", "source": source }]);
    let source = |source: Value| match saying("user", document(source)).remove(0).parts.remove(0) {
        Part::Media(media) => {
            assert_eq!((media.kind, media.name.as_deref()), (MediaKind::Document, Some("t")));
            media.source
        }
        other => panic!("{other:?}"),
    };
    let inline = |media_type: &str, data: &str| MediaSource::Inline {
        media_type: media_type.to_owned(),
        data: data.to_owned(),
    };
    let pdf = json!({ "type": "base64", "media_type": "application/pdf", "data": "AA==" });
    assert_eq!(source(pdf), inline("application/pdf", "AA=="));
    let plain = json!({ "type": "text", "media_type": "text/plain", "data": "hi" });
    assert_eq!(source(plain), inline("text/plain", "aGk="));
    assert_eq!(
        source(json!({ "type": "url", "url": "u" })),
        MediaSource::Url("u".to_owned())
    );
    let file = MediaSource::File {
        api: Api::AnthropicMessages,
        id: "f".to_owned(),
    };
    assert_eq!(source(json!({ "type": "file", "file_id": "f" })), file);
    let content = saying("user", document(json!({ "type": "content", "content": "inner" })));
    assert_eq!(content, [message(Speaker::User, [text("t"), text("inner")])]);
}

#[test]
fn tools_choice_and_sampling_are_read() {
    let read = asking(json!({
        "tools": [{ "name": "f", "description": "d", "input_schema": { "type": "object" }, "strict": true, "type": "custom" }],
        "tool_choice": { "type": "tool", "name": "f", "disable_parallel_tool_use": true },
        "temperature": 0.5, "top_p": 1, "top_k": 7, "stop_sequences": ["\n"], "stream": true,
        "metadata": { "user_id": "u" },
        "output_config": { "format": { "type": "json_schema", "schema": { "type": "object" } } },
    }));
    let tool = &read.tools[0];
    assert_eq!(
        (&*tool.name, tool.description.as_deref(), tool.strict),
        ("f", Some("d"), Some(true))
    );
    assert_eq!(tool.parameters.as_deref(), Some("{\"type\":\"object\"}"));
    assert_eq!(
        (read.tool_choice, read.parallel_tool_calls),
        (Some(ToolChoice::Named("f".to_owned())), Some(false))
    );
    let drawn = read.sampling;
    assert_eq!(
        (drawn.max_tokens, drawn.temperature, drawn.top_p, drawn.top_k),
        (Some(5), Some(0.5), Some(1.0), Some(7))
    );
    assert_eq!(drawn.stop, ["\n"]);
    assert!(read.stream && read.unread.is_empty());
    assert_eq!(read.user.as_deref(), Some("u"));
    assert!(matches!(read.output, OutputFormat::JsonSchema { schema, .. } if schema == "{\"type\":\"object\"}"));
    for (kind, choice) in [
        ("auto", ToolChoice::Auto),
        ("any", ToolChoice::Required),
        ("none", ToolChoice::None),
    ] {
        assert_eq!(
            asking(json!({ "tool_choice": { "type": kind } })).tool_choice,
            Some(choice)
        );
    }
}

#[test]
fn a_wish_to_think_is_read() {
    let wish = |members: Value| {
        let wish = asking(members).reasoning.expect("a wish");
        (wish.effort, wish.budget, wish.summary.is_some())
    };
    let low = Some("low".to_owned());
    assert_eq!(
        wish(json!({ "thinking": { "type": "enabled", "budget_tokens": 2000 } })),
        (None, Some(2000), true)
    );
    assert_eq!(
        wish(json!({ "thinking": { "type": "disabled" } })),
        (None, Some(0), false)
    );
    let adaptive = json!({ "thinking": { "type": "adaptive" }, "output_config": { "effort": "low" } });
    assert_eq!(wish(adaptive), (low, None, false));
    assert_eq!(
        wish(json!({ "output_config": { "effort": "max" } })),
        (Some("xhigh".to_owned()), None, false)
    );
    assert_eq!(asking(json!({})).reasoning, None);
}

#[test]
fn what_has_no_place_elsewhere_is_left_out_by_name() {
    let read = asking(
        json!({ "service_tier": "auto", "context_management": { "edits": [1] }, "a b": 1, "nothing": null,
        "fallbacks": ["x"], "tools": [{ "name": "f", "defer_loading": true }] }),
    );
    assert_eq!(
        read.unread,
        ["context_management", "defer_loading", "other", "service_tier"]
    );
    let body = json!({ "messages": [{ "role": "assistant", "content": [
        { "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} },
        { "type": "web_search_tool_result", "tool_use_id": "s", "content": [] },
        { "type": "text", "text": "found", "citations": [{ "cited_text": "x" }] }] }] });
    let read = taken(&body);
    assert_eq!(read.messages, [message(Speaker::Assistant, [text("found")])]);
    assert_eq!(read.unread, ["citations", "server_tool_use", "web_search_tool_result"]);
}

#[test]
fn what_would_make_it_another_request_is_refused_by_its_key() {
    let key = |members: Value| {
        let mut body = json!({ "messages": [{ "role": "user", "content": "x" }] });
        body.as_object_mut()
            .expect("a body")
            .extend(members.as_object().expect("members").clone());
        match refused(&body) {
            RequestError::WrongType { key, .. }
            | RequestError::Missing { key }
            | RequestError::Untranslatable { key } => key,
            other => panic!("{other}"),
        }
    };
    assert_eq!(
        key(json!({ "tools": [{ "type": "web_search_20250305", "name": "web_search" }] })),
        "tools"
    );
    assert_eq!(key(json!({ "mcp_servers": [{ "url": "u" }] })), "mcp_servers");
    assert_eq!(
        key(json!({ "messages": [{ "role": "user", "content": [{ "type": "container_upload" }] }] })),
        "content"
    );
    assert_eq!(key(json!({ "messages": [{ "role": "tool", "content": "x" }] })), "role");
    assert_eq!(key(json!({ "messages": [{ "role": "user" }] })), "content");
    assert_eq!(key(json!({ "messages": "x" })), "messages");
    assert_eq!(key(json!({ "max_tokens": "5" })), "max_tokens");
    assert_eq!(key(json!({ "thinking": { "type": "wild" } })), "thinking");
    let call = json!({ "type": "tool_use", "id": "t", "name": "f", "input": "x" });
    assert_eq!(
        key(json!({ "messages": [{ "role": "assistant", "content": [call] }] })),
        "input"
    );
}

proptest! {
    #[test]
    fn no_bytes_panic(body: Vec<u8>, inside in "[\\[\\]{}\":,a-z0-9 ]{0,60}") {
        let _ = read(&body);
        let block = format!(r#"{{"type":"tool_result","tool_use_id":"t","content":{inside}}}"#);
        let _ = read(format!(r#"{{"messages":[{{"role":"user","content":[{block}]}}],"tools":{inside}}}"#).as_bytes());
    }
}
