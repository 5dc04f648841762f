use proptest::prelude::*;
use serde_json::Value;
use understudy_messages::conversation::{
    Media, MediaKind, MediaSource, Message, Part, Reasoning, Sampling, Seal, Speaker, ToolCall, ToolResult,
};

use super::*;
use crate::openai::chat::request::read;

const TARGET: Target<'_> = Target {
    model: "m",
    ask_usage: false,
};

fn written(conversation: &Conversation) -> (Value, Vec<String>) {
    let written = write(conversation, &TARGET).expect("fits");
    (serde_json::from_slice(&written.body).expect("JSON"), written.dropped)
}

fn saying(messages: Vec<Message>) -> Conversation {
    Conversation {
        messages,
        ..Conversation::default()
    }
}

fn message(speaker: Speaker, parts: Vec<Part>) -> Message {
    Message { speaker, parts }
}

fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

fn picture() -> Part {
    Part::Media(Media {
        kind: MediaKind::Image,
        source: MediaSource::Inline {
            media_type: "image/png".to_owned(),
            data: "AA==".to_owned(),
        },
        name: None,
        detail: None,
    })
}

fn result(id: &str, parts: Vec<Part>) -> Part {
    Part::ToolResult(ToolResult {
        id: id.to_owned(),
        name: None,
        parts,
        is_error: true,
    })
}

#[test]
fn what_tools_showed_follows_their_messages() {
    let conversation = saying(vec![
        message(Speaker::Tool, vec![result("a", vec![text("seen"), picture()])]),
        message(Speaker::Tool, vec![result("b", vec![])]),
        message(Speaker::User, vec![text("go on")]),
    ]);
    let (body, dropped) = written(&conversation);
    let roles: Vec<_> = body["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| &it["role"])
        .collect();
    assert_eq!(roles, ["tool", "tool", "user", "user"]);
    assert_eq!(body["messages"][0]["content"], "seen");
    assert_eq!(body["messages"][2]["content"][0]["type"], "image_url");
    assert_eq!(dropped, ["is_error"]);
}

#[test]
fn reasoning_goes_back_to_its_maker_alone() {
    let thought = |maker, data: &str| {
        Part::Reasoning(Reasoning {
            text: "t".to_owned(),
            seal: Some(Seal {
                maker,
                whole: false,
                data: data.to_owned(),
            }),
        })
    };
    let conversation = saying(vec![
        message(Speaker::Assistant, vec![thought(Api::AnthropicMessages, "a")]),
        message(Speaker::Assistant, vec![thought(Api::OpenaiChat, "o"), text("said")]),
    ]);
    let (body, dropped) = written(&conversation);
    let expected = json!([{
        "role": "assistant",
        "content": "said",
        "reasoning_details": [{"type": "reasoning.text", "text": "t", "signature": "o"}],
    }]);
    assert_eq!((&body["messages"], dropped.len()), (&expected, 0));
}

#[test]
fn the_limit_has_the_name_that_the_model_knows() {
    for model in ["gpt-5.5", "openai/o3-mini", "chatgpt-4o-latest", "gpt-4o"] {
        assert_eq!(limit_member(model), "max_completion_tokens", "{model}");
    }
    for model in ["openai/gpt-oss-120b", "mistral-large", "olmo-2", "deepseek-chat"] {
        assert_eq!(limit_member(model), "max_tokens", "{model}");
    }
}

#[test]
fn what_does_not_stream_asks_for_no_report_and_without_tools_there_is_no_choice() {
    let mut conversation = Conversation {
        tool_choice: Some(ToolChoice::Auto),
        parallel_tool_calls: Some(true),
        ..Conversation::default()
    };
    assert_eq!(written(&conversation).0, json!({"model": "m", "messages": []}));
    conversation.stream = true;
    assert_eq!(
        written(&conversation).0["stream_options"],
        json!({"include_usage": true})
    );
}

#[test]
fn what_has_no_place_is_named_or_refused() {
    let mut conversation = Conversation {
        sampling: Sampling {
            top_k: Some(3),
            ..Sampling::default()
        },
        unread: vec!["cache_control".to_owned()],
        ..Conversation::default()
    };
    assert_eq!(written(&conversation).1, ["cache_control", "top_k"]);
    conversation.messages = vec![message(Speaker::Assistant, vec![picture()])];
    assert!(write(&conversation, &TARGET).is_err());
    conversation.messages.clear();
    conversation.sampling.logprobs = true;
    assert_eq!(write(&conversation, &TARGET), Err(unsupported("logprobs")));
}

#[test]
fn a_schema_keeps_its_text() {
    let schema = r#"{"z": 1, "a":1.0}"#;
    let conversation = Conversation {
        output: OutputFormat::JsonSchema {
            name: String::new(),
            schema: schema.to_owned(),
            strict: Some(true),
        },
        ..Conversation::default()
    };
    let body = write(&conversation, &TARGET).expect("fits").body;
    let body = String::from_utf8(body.to_vec()).expect("text");
    assert!(
        body.contains(&format!(
            r#""json_schema":{{"name":"answer","schema":{schema},"strict":true}}"#
        )),
        "{body}"
    );
}

fn seal() -> impl Strategy<Value = Option<Seal>> {
    prop::option::of((any::<bool>(), "[a-z]{1,4}").prop_map(|(whole, data)| Seal {
        maker: Api::OpenaiChat,
        whole,
        data,
    }))
}

fn said() -> impl Strategy<Value = Vec<Part>> {
    let texts = prop::collection::vec(".{1,5}".prop_map(Part::Text), 1..3);
    let calls = prop::collection::vec(("[a-z]{1,3}", "[a-z]{1,3}"), 0..3);
    (seal(), ".{1,5}", texts, calls).prop_map(|(seal, thought, texts, calls)| {
        let text = if seal.as_ref().is_some_and(|seal| seal.whole) {
            String::new()
        } else {
            thought
        };
        let reasoning = seal.map(|seal| Part::Reasoning(Reasoning { text, seal: Some(seal) }));
        let calls = calls.into_iter().map(|(id, name)| {
            Part::ToolCall(ToolCall {
                id,
                name,
                arguments: r#"{"b": 1,"a":2}"#.to_owned(),
                seal: None,
            })
        });
        reasoning.into_iter().chain(texts).chain(calls).collect()
    })
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let shown = prop_oneof![
        3 => ".{1,5}".prop_map(Part::Text),
        1 => Just(picture()),
    ];
    let message = prop_oneof![
        prop::collection::vec(".{1,5}".prop_map(Part::Text), 0..3).prop_map(|parts| message(Speaker::System, parts)),
        prop::collection::vec(shown, 0..3).prop_map(|parts| message(Speaker::User, parts)),
        said().prop_map(|parts| message(Speaker::Assistant, parts)),
        ("[a-z]{1,3}", prop::collection::vec(".{1,5}".prop_map(Part::Text), 0..3)).prop_map(|(id, parts)| {
            let result = ToolResult {
                id,
                parts,
                ..ToolResult::default()
            };
            message(Speaker::Tool, vec![Part::ToolResult(result)])
        }),
    ];
    prop::collection::vec(message, 0..6)
}

fn sampling() -> impl Strategy<Value = Sampling> {
    let number = prop::option::of((-8i32..8).prop_map(|n| f64::from(n) / 4.0));
    let count = prop::option::of(1u64..99);
    let stop = prop::collection::vec(".{1,4}", 0..3);
    (
        count.clone(),
        number.clone(),
        number.clone(),
        stop,
        prop::option::of(any::<i64>()),
        count,
        number,
    )
        .prop_map(
            |(max_tokens, temperature, top_p, stop, seed, choices, presence_penalty)| Sampling {
                max_tokens,
                temperature,
                top_p,
                stop,
                seed,
                choices,
                presence_penalty,
                ..Sampling::default()
            },
        )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        messages in messages(),
        sampling in sampling(),
        stream: bool,
        schema in prop::option::of(Just(r#"{"z": 1, "a":1.0}"#)),
        named in prop::option::of("[a-z]{1,4}"),
        effort in prop::option::of("low|high"),
    ) {
        let tool = Tool {
            name: "f".to_owned(),
            description: Some("d".to_owned()),
            parameters: schema.map(str::to_owned),
            strict: None,
        };
        let conversation = Conversation {
            messages,
            tools: vec![tool],
            tool_choice: named.map(ToolChoice::Named),
            sampling,
            output: schema.map_or(OutputFormat::JsonObject, |schema| OutputFormat::JsonSchema {
                name: "n".to_owned(),
                schema: schema.to_owned(),
                strict: Some(false),
            }),
            reasoning: effort.map(|effort| ReasoningWish { effort: Some(effort), ..ReasoningWish::default() }),
            stream,
            user: Some("u".to_owned()),
            ..Conversation::default()
        };
        let written = write(&conversation, &TARGET).expect("fits");
        prop_assert_eq!(&written.dropped, &Vec::<String>::new());
        prop_assert_eq!(read(&written.body), Ok(conversation));
    }
}
