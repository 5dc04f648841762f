//! What is written can be read again, and says the same.
//!
//! But for what the format has no place for: names of schemas and of tools in results, empty text, developers; an effort comes
//! back as a budget, and a wish that several tools may be called as the choice `auto`.

use proptest::option;
use proptest::prelude::*;
use understudy_messages::conversation::{
    Conversation, Media, MediaKind, MediaSource, Message, OutputFormat, Part, Reasoning, ReasoningWish, Sampling, Seal,
    Speaker, Tool, ToolCall, ToolChoice, ToolResult,
};
use understudy_messages::settings::Api;

use super::super::{read, write};
use crate::wire::Target;

fn word() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_-]{1,12}"
}

fn line() -> impl Strategy<Value = String> {
    "[a-z\"\\\\é😀\n]{0,20}[a-z]"
}

fn text() -> impl Strategy<Value = Part> {
    line().prop_map(Part::Text)
}

fn object() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "{}",
        "{\"z\":1e2,\"a\":[\"}\"]}",
        "{\"type\":\"object\",\"x\":{}}",
    ])
    .prop_map(str::to_owned)
}

fn media() -> impl Strategy<Value = Part> {
    let inline = |media_type: &str| MediaSource::Inline {
        media_type: media_type.to_owned(),
        data: "aGk=".to_owned(),
    };
    let image = prop_oneof![
        Just(inline("image/png")),
        word().prop_map(MediaSource::Url),
        word().prop_map(|id| MediaSource::File {
            api: Api::AnthropicMessages,
            id
        }),
    ];
    let image = image.prop_map(|source| (MediaKind::Image, source, None));
    let document = prop_oneof![Just(inline("application/pdf")), Just(inline("text/plain"))];
    let document = (document, option::of(word())).prop_map(|(source, name)| (MediaKind::Document, source, name));
    prop_oneof![image, document].prop_map(|(kind, source, name)| {
        Part::Media(Media {
            kind,
            source,
            name,
            detail: None,
        })
    })
}

fn thought() -> impl Strategy<Value = Part> {
    (line(), word(), any::<bool>()).prop_map(|(text, data, whole)| {
        let seal = Seal {
            maker: Api::AnthropicMessages,
            whole,
            data,
        };
        Part::Reasoning(Reasoning {
            text: if whole { String::new() } else { text },
            seal: Some(seal),
        })
    })
}

fn call() -> impl Strategy<Value = Part> {
    (word(), word(), object()).prop_map(|(id, name, arguments)| {
        Part::ToolCall(ToolCall {
            id,
            name,
            arguments,
            seal: None,
        })
    })
}

fn result() -> impl Strategy<Value = Part> {
    let parts = prop::collection::vec(prop_oneof![text(), media()], 0..3);
    (word(), parts, any::<bool>()).prop_map(|(id, parts, is_error)| {
        Part::ToolResult(ToolResult {
            id,
            name: None,
            parts,
            is_error,
        })
    })
}

fn said(speaker: Speaker, part: impl Strategy<Value = Part> + 'static) -> BoxedStrategy<Message> {
    let parts = prop::collection::vec(part, 1..4);
    parts.prop_map(move |parts| Message { speaker, parts }).boxed()
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let assistant = || said(Speaker::Assistant, prop_oneof![text(), thought(), call()]);
    let user = || said(Speaker::User, prop_oneof![text(), media()]);
    let round = (
        assistant(),
        option::of(said(Speaker::Tool, result())),
        prop::collection::vec(user(), 1..3),
    );
    let round = round
        .prop_map(|(assistant, tools, users)| std::iter::once(assistant).chain(tools).chain(users).collect::<Vec<_>>());
    let rounds = prop::collection::vec(round, 0..3);
    (option::of(said(Speaker::System, text())), user(), rounds).prop_map(|(system, user, rounds)| {
        system
            .into_iter()
            .chain([user])
            .chain(rounds.into_iter().flatten())
            .collect()
    })
}

fn tools() -> impl Strategy<Value = (Vec<Tool>, Option<ToolChoice>, Option<bool>)> {
    let schema = "{\"type\":\"object\",\"properties\":{\"b\":{},\"a\":{}}}".to_owned();
    let tool = (word(), option::of(line()), option::of(Just(true))).prop_map(move |(name, description, strict)| Tool {
        name,
        description,
        parameters: Some(schema.clone()),
        strict,
    });
    let choice = prop_oneof![
        Just(ToolChoice::Auto),
        Just(ToolChoice::Required),
        word().prop_map(ToolChoice::Named)
    ];
    let choices = (choice, option::of(any::<bool>()));
    (prop::collection::vec(tool, 1..3), option::of(choices)).prop_map(|(tools, choices)| {
        let (choice, parallel) = choices.unzip();
        (tools, choice, parallel.flatten())
    })
}

fn sampling() -> impl Strategy<Value = Sampling> {
    let drawn = prop_oneof![
        option::of(0.0..1.0).prop_map(|temperature| (temperature, None)),
        (0.1..0.9).prop_map(|top_p| (None, Some(top_p))),
    ];
    let stop = prop::collection::vec(line(), 0..3);
    (1u64..9000, drawn, option::of(1u64..99), stop).prop_map(|(max_tokens, (temperature, top_p), top_k, stop)| {
        Sampling {
            max_tokens: Some(max_tokens),
            temperature,
            top_p,
            top_k,
            stop,
            ..Sampling::default()
        }
    })
}

fn conversation() -> impl Strategy<Value = Conversation> {
    let schema = OutputFormat::JsonSchema {
        name: "answer".to_owned(),
        schema: "{\"type\":\"object\"}".to_owned(),
        strict: None,
    };
    let output = prop_oneof![Just(OutputFormat::Text), Just(schema)];
    let rest = (sampling(), output, option::of(word()), any::<bool>());
    (messages(), option::of(tools()), rest).prop_map(|(messages, tools, (sampling, output, user, stream))| {
        let (tools, tool_choice, parallel_tool_calls) = tools.unwrap_or_default();
        Conversation {
            messages,
            tools,
            tool_choice,
            parallel_tool_calls,
            sampling,
            output,
            user,
            stream,
            ..Conversation::default()
        }
    })
}

fn again(conversation: &Conversation, model: &str) -> (Conversation, Vec<String>) {
    let target = Target {
        model,
        ask_usage: false,
    };
    let written = write(conversation, &target).expect("it can be said");
    (read(&written.body).expect("it can be read"), written.dropped)
}

#[test]
fn a_wish_to_think_comes_back() {
    let wish = |budget, effort: Option<&str>, summary: Option<&str>| ReasoningWish {
        effort: effort.map(str::to_owned),
        budget,
        summary: summary.map(str::to_owned),
    };
    for (model, reasoning) in [
        ("claude-sonnet-4-5", wish(Some(2000), None, Some("auto"))),
        ("claude-opus-5", wish(None, Some("high"), Some("auto"))),
        ("claude-opus-5", wish(None, None, None)),
        ("claude-opus-5", wish(Some(0), None, None)),
    ] {
        let conversation = Conversation {
            messages: vec![Message {
                speaker: Speaker::User,
                parts: vec![Part::Text("hi".to_owned())],
            }],
            reasoning: Some(reasoning),
            ..Conversation::default()
        };
        assert_eq!(again(&conversation, model).0.reasoning, conversation.reasoning);
    }
}

proptest! {
    #[test]
    fn a_conversation_that_is_written_reads_the_same(conversation in conversation()) {
        let (read, dropped) = again(&conversation, "m");
        prop_assert_eq!(dropped, Vec::<String>::new());
        prop_assert_eq!(read, conversation);
    }
}
