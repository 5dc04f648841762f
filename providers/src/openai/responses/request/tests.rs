use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use understudy_messages::conversation::*;
use understudy_messages::request::{Demand, RequestFacts, Role};
use understudy_messages::settings::Api;

use super::*;
use crate::wire::{Target, Unsupported, for_model};
use understudy_messages::request::Endpoint;

fn facts(body: &str) -> RequestFacts {
    scan(&Bytes::copy_from_slice(body.as_bytes())).expect(body)
}

fn refusal(body: &str) -> RequestError {
    scan(&Bytes::copy_from_slice(body.as_bytes())).expect_err(body)
}

fn target() -> Target<'static> {
    Target {
        model: "m-1",
        ask_usage: false,
    }
}

fn written(conversation: &Conversation) -> (Value, Vec<String>) {
    let written = write(conversation, &target()).expect("can be written");
    let body = serde_json::from_slice(&written.body).expect("JSON");
    (body, written.dropped)
}

fn refused(conversation: &Conversation) -> Unsupported {
    write(conversation, &target()).expect_err("cannot be written")
}

#[test]
fn a_text_is_one_message_of_the_user() {
    let body = r#"{"model":"m","input":"héllo","instructions":"be brief"}"#;
    let facts = facts(body);
    assert_eq!((facts.messages.count, facts.messages.text_bytes), (1, 14));
    assert_eq!(facts.messages.first_role, Role::User);
    let responses = facts.responses.expect("Responses");
    assert!(responses.input_is_text && responses.store);
    assert_eq!(&body[responses.input], "\"héllo\"");
    assert_eq!(&body[facts.messages.newest_user_content.expect("given")], "\"héllo\"");
}

#[test]
fn items_are_counted_and_their_places_noted() {
    let body = r#"{"model":"m","stream":true,"store":false,"input":[ {"role":"developer","content":"d"},
        {"type":"message","role":"user","content":[{"type":"input_text","text":"four"}]},
        {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
        {"type":"function_call_output","call_id":"c","output":"out"} ]}"#;
    let facts = facts(body);
    let messages = &facts.messages;
    assert_eq!((messages.count, messages.text_bytes), (4, 1 + 4 + 2 + 3));
    assert_eq!(messages.first_role, Role::Developer);
    assert!(body[messages.first..].starts_with("{\"role\":\"developer\""));
    assert!(body[..messages.end].ends_with("\"out\"}"));
    assert!(body[..messages.leading_system_end.expect("leads")].ends_with("\"d\"}"));
    assert!(body[messages.newest_user_content.clone().expect("given")].starts_with("[{\"type\""));
    assert!(facts.stream && facts.include_usage && facts.usage_edit.is_none());
    let responses = facts.responses.expect("Responses");
    assert!(!responses.store && !responses.input_is_text);
    assert_eq!(facts.demands, understudy_messages::request::Demands::default());
}

#[test]
fn what_not_every_format_can_give_is_noted() {
    let input = |part: &str| format!(r#""input":[{{"role":"user","content":[{part}]}}]"#);
    for (members, demand) in [
        (
            r#""input":"x","tools":[{"type":"web_search"}]"#.to_owned(),
            Demand::HostedTool,
        ),
        (
            r#""input":"x","tools":[{"type":"custom","name":"c"}]"#.to_owned(),
            Demand::CustomTool,
        ),
        (r#""input":"x","background":true"#.to_owned(), Demand::Background),
        (
            r#""input":"x","conversation":"conv_1""#.to_owned(),
            Demand::ProviderState,
        ),
        (
            r#""input":[{"type":"item_reference","id":"i"}]"#.to_owned(),
            Demand::ProviderState,
        ),
        (r#""input":[{"id":"i"}]"#.to_owned(), Demand::ProviderState),
        (r#""input":[{"type":"web_search_call"}]"#.to_owned(), Demand::HostedTool),
        (r#""prompt":{"id":"p"}"#.to_owned(), Demand::ProviderPrompt),
        (input(r#"{"type":"input_image","file_id":"f"}"#), Demand::ProviderFile),
        (
            input(r#"{"type":"input_image","image_url":"https://x/y"}"#),
            Demand::MediaUrl,
        ),
        (input(r#"{"type":"input_file","file_data":"AAAA"}"#), Demand::Document),
        (input(r#"{"type":"input_audio","input_audio":{}}"#), Demand::AudioIn),
        (r#""input":"x","top_logprobs":2"#.to_owned(), Demand::Logprobs),
        (
            r#""input":"x","include":["message.output_text.logprobs"]"#.to_owned(),
            Demand::Logprobs,
        ),
        (
            r#""input":"x","text":{"format":{"type":"json_schema"}}"#.to_owned(),
            Demand::JsonSchema,
        ),
        (
            r#""input":"x","text":{"format":{"type":"json_object"}}"#.to_owned(),
            Demand::JsonObject,
        ),
    ] {
        let facts = facts(&format!(r#"{{"model":"m",{members}}}"#));
        assert!(facts.demands.contains(demand), "{members}");
    }
    let plain = facts(
        r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AA"}]}],"tools":[{"type":"function","name":"f"}],"text":{"format":{"type":"text"}}}"#,
    );
    assert_eq!(plain.demands, understudy_messages::request::Demands::default());
    assert!(plain.has_tools && !plain.has_response_format);
}

#[test]
fn the_member_that_names_the_response_before_can_be_cut_out() {
    for body in [
        r#"{"model":"m","previous_response_id":"resp_1","input":"x"}"#,
        r#"{"model":"m","input":"x" , "previous_response_id" : "resp_1"}"#,
    ] {
        let responses = facts(body).responses.expect("Responses");
        assert_eq!(responses.previous.as_deref(), Some("resp_1"));
        let mut rest = body.to_owned();
        rest.replace_range(responses.previous_span.expect("given"), "");
        let rest: Value = serde_json::from_str(&rest).expect("JSON");
        assert_eq!(rest, json!({"model": "m", "input": "x"}));
    }
}

#[test]
fn a_request_that_is_none_is_refused() {
    for body in ["", "{", "[]", "{}", r#"{"model":"m"}"#, r#"{"model":"m","input":[]}"#] {
        let _ = refusal(body);
    }
    assert_eq!(
        refusal(r#"{"model":"m","input":""}"#),
        RequestError::Empty { key: "input" }
    );
    let twice = r#"{"model":"m","input":"a","input":"b"}"#;
    assert_eq!(refusal(twice), RequestError::Duplicate { key: "input" });
    for body in [
        r#"{"model":"m","input":[1]}"#,
        r#"{"model":"m","input":"a","previous_response_id":5}"#,
    ] {
        assert!(matches!(refusal(body), RequestError::WrongType { .. }), "{body}");
    }
    let goes_on = facts(r#"{"model":"m","previous_response_id":"r"}"#);
    assert_eq!(
        (goes_on.messages.count, goes_on.responses.expect("Responses").input),
        (0, 1..1)
    );
}

#[test]
fn for_its_own_format_only_the_model_changes_and_fallbacks_go() {
    let body = r#"{"zeta":1e2, "fallbacks":["b"],"model" :"m","input":"x","store":true }"#;
    let body = Bytes::from_static(body.as_bytes());
    let out = for_model(Endpoint::Responses, &body, &scan(&body).expect("fine"), &target());
    assert_eq!(out, r#"{"zeta":1e2, "model" :"m-1","input":"x","store":true }"#);
}

#[test]
fn reasoning_that_another_maker_sealed_does_not_go_to_a_provider_of_this_format() {
    let own_id = format!("rs_{}_3", "0123456789abcdef".repeat(2));
    let theirs = r#"{"type":"reasoning","summary":[],"encrypted_content":"anthropic-messages:sig"}"#;
    let unsealed = format!(r#"{{"type":"reasoning","id":"{own_id}","summary":[]}}"#);
    let native = r#"{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"}"#;
    let user = r#"{"role":"user","content":"x"}"#;
    for (items, left) in [
        (vec![theirs, user], vec![user]),
        (vec![user, theirs, &*unsealed], vec![user]),
        (vec![user, &*unsealed, user, theirs], vec![user, user]),
        (vec![theirs, theirs, native, user], vec![native, user]),
        (vec![native, user], vec![native, user]),
        (vec![theirs], vec![]),
    ] {
        let body = Bytes::from(format!(r#"{{"model":"m","input":[{}]}}"#, items.join(" , ")));
        let out = for_model(Endpoint::Responses, &body, &scan(&body).expect("fine"), &target());
        let out: Value = serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{error}: {out:?}"));
        let left: Vec<Value> = left
            .iter()
            .map(|item| serde_json::from_str(item).expect("JSON"))
            .collect();
        assert_eq!(out["input"], json!(left));
    }
}

#[test]
fn a_request_that_goes_on_stands_for_itself_when_it_is_expanded() {
    let said = r#"{"type":"message","role":"user","content":"né\n"}"#;
    for (body, own) in [
        (
            r#"{"model":"m", "previous_response_id":"r","input":"né\n","zeta":1e2 }"#,
            Some(said),
        ),
        (
            r#"{"previous_response_id":"r","zeta":1e2,"input":[ {"b":1,"a":2} ],"model":"m"}"#,
            Some(r#"{"b":1,"a":2}"#),
        ),
        (r#"{"previous_response_id":"r","zeta":1e2,"model":"m"}"#, None),
        (
            r#"{"model":"m","input":null,"zeta":1e2,"previous_response_id":"r"}"#,
            None,
        ),
        (
            r#"{"model":"m","input":[],"zeta":1e2,"previous_response_id":"r"}"#,
            None,
        ),
        (
            r#"{"model":"m","input":"","zeta":1e2,"previous_response_id":"r"}"#,
            None,
        ),
    ] {
        let bytes = Bytes::from(body);
        let facts = scan(&bytes).expect(body);
        assert_eq!(own_items(&bytes, &facts), own.unwrap_or_default(), "{body}");
        let out = expand(&bytes, &facts, &[r#"{"x":1},{"y":2}"#, r#"{"z":3}"#]);
        let expected = [r#"{"x":1},{"y":2}"#, r#"{"z":3}"#]
            .into_iter()
            .chain(own)
            .collect::<Vec<_>>()
            .join(",");
        let out = std::str::from_utf8(&out).expect("text");
        assert!(out.contains(&format!("[{expected}]")), "{out}");
        assert!(!out.contains("previous_response_id") && out.contains("1e2"), "{out}");
        serde_json::from_str::<Value>(out).unwrap_or_else(|error| panic!("{error}: {out}"));
    }
}

#[test]
fn everything_is_read_into_its_place() {
    let body = json!({
        "model": "m", "instructions": "be brief", "stream": true, "max_output_tokens": 9, "temperature": 0.5,
        "reasoning": {"effort": "low", "summary": "auto"}, "safety_identifier": "u", "metadata": {"a": "b"},
        "parallel_tool_calls": false, "tool_choice": {"type": "function", "name": "f"}, "service_tier": "flex",
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"b": 1, "a": 2}, "strict": true}, "verbosity": "low"},
        "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true}],
        "input": [
            {"role": "user", "content": "hi"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "gAAA"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"z\": 1}"},
            {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "r"}]},
            {"type": "function_call_output", "call_id": "c2", "output": "s"},
        ],
    });
    let read = read(body.to_string().as_bytes()).expect("fine");
    assert_eq!(read.unread, ["service_tier", "text.verbosity"]);
    let speakers: Vec<_> = read
        .messages
        .iter()
        .map(|message| (message.speaker, message.parts.len()))
        .collect();
    let expected = [
        (Speaker::System, 1),
        (Speaker::User, 1),
        (Speaker::Assistant, 3),
        (Speaker::Tool, 2),
    ];
    assert_eq!(speakers, expected);
    let Part::Reasoning(reasoning) = &read.messages[2].parts[0] else {
        panic!("reasoning")
    };
    let seal = reasoning.seal.as_ref().expect("sealed");
    assert_eq!(
        (seal.maker, seal.whole, &*seal.data),
        (Api::OpenaiResponses, true, "gAAA")
    );
    assert_eq!(read.tool_choice, Some(ToolChoice::Named("f".into())));
    assert_eq!(read.user.as_deref(), Some("u"));
    assert_eq!(read.reasoning.expect("wished").effort.as_deref(), Some("low"));
}

#[test]
fn a_foreign_seal_is_known_by_its_prefix_and_a_call_gets_its_own_back() {
    let body = json!({"model": "m", "input": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "anthropic-messages:sig"},
        {"type": "reasoning", "summary": [], "encrypted_content": "gemini:thought"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    ]});
    let read = read(body.to_string().as_bytes()).expect("fine");
    let [
        Part::Reasoning(Reasoning { seal: Some(signed), .. }),
        Part::ToolCall(call),
    ] = &read.messages[0].parts[..]
    else {
        panic!("{:?}", read.messages)
    };
    assert_eq!(
        (signed.maker, signed.whole, &*signed.data),
        (Api::AnthropicMessages, false, "sig")
    );
    let sealed = call.seal.as_ref().expect("sealed");
    assert_eq!((sealed.maker, &*sealed.data), (Api::Gemini, "thought"));
}

#[test]
fn what_only_this_format_has_is_not_translated() {
    for members in [
        r#""input":"x","background":true"#,
        r#""input":"x","conversation":"c""#,
        r#""input":"x","prompt":{"id":"p"}"#,
        r#""input":"x","previous_response_id":"r""#,
        r#""input":"x","tools":[{"type":"web_search"}]"#,
        r#""input":"x","tool_choice":{"type":"web_search"}"#,
        r#""input":[{"type":"item_reference","id":"i"}]"#,
        r#""input":[{"role":"user","content":[{"type":"hologram"}]}]"#,
    ] {
        let read = read(format!("{{\"model\":\"m\",{members}}}").as_bytes());
        assert!(matches!(read, Err(RequestError::Untranslatable { .. })), "{members}");
    }
}

#[test]
fn the_provider_keeps_nothing_and_hands_out_its_reasoning_where_some_is_wanted() {
    let mut conversation = Conversation::default();
    let (body, _) = written(&conversation);
    assert_eq!(
        body,
        json!({"model": "m-1", "input": [], "store": false, "stream": false})
    );
    conversation.reasoning = Some(ReasoningWish {
        budget: Some(4000),
        ..ReasoningWish::default()
    });
    let (body, _) = written(&conversation);
    assert_eq!(body["reasoning"], json!({"effort": "medium"}));
    assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
}

#[test]
fn what_is_left_out_is_named_and_what_cannot_be_is_refused() {
    let sampled = |sampling: Sampling| Conversation {
        sampling,
        unread: vec!["odd".into()],
        ..Conversation::default()
    };
    let (_, dropped) = written(&sampled(Sampling {
        seed: Some(1),
        top_k: Some(2),
        presence_penalty: Some(0.1),
        frequency_penalty: Some(0.2),
        ..Sampling::default()
    }));
    assert_eq!(
        dropped,
        ["odd", "seed", "presence_penalty", "frequency_penalty", "top_k"]
    );
    for (what, sampling) in [
        (
            "stop",
            Sampling {
                stop: vec!["x".into()],
                ..Sampling::default()
            },
        ),
        (
            "n",
            Sampling {
                choices: Some(2),
                ..Sampling::default()
            },
        ),
        (
            "logprobs",
            Sampling {
                logprobs: true,
                ..Sampling::default()
            },
        ),
    ] {
        assert_eq!(refused(&sampled(sampling)).what, what);
    }
}

#[test]
fn reasoning_goes_back_to_its_maker_alone() {
    let sealed = |maker| {
        Part::Reasoning(Reasoning {
            text: "t".into(),
            seal: Some(Seal {
                maker,
                whole: true,
                data: "d".into(),
            }),
        })
    };
    let parts = vec![
        sealed(Api::AnthropicMessages),
        sealed(Api::OpenaiResponses),
        Part::Text("a".into()),
    ];
    let conversation = Conversation {
        messages: vec![Message {
            speaker: Speaker::Assistant,
            parts,
        }],
        ..Conversation::default()
    };
    let (body, dropped) = written(&conversation);
    assert!(dropped.is_empty());
    assert_eq!(body["input"].as_array().expect("items").len(), 2);
    let reasoning =
        json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "d"});
    assert_eq!(body["input"][0], reasoning);
}

fn word() -> impl Strategy<Value = String> {
    "[a-zé\"\\\\\n ]{1,12}"
}

fn media() -> impl Strategy<Value = Part> {
    let source = prop_oneof![
        word().prop_map(|word| MediaSource::Url(format!("https://x/{word}"))),
        word().prop_map(|id| MediaSource::File {
            api: Api::OpenaiResponses,
            id
        }),
        "[A-Za-z0-9+/]{0,12}".prop_map(|data| MediaSource::Inline {
            media_type: "image/png".into(),
            data
        }),
    ];
    (source, any::<bool>()).prop_map(|(source, image)| {
        Part::Media(Media {
            kind: if image { MediaKind::Image } else { MediaKind::Document },
            source,
            name: (!image).then(|| "n.pdf".to_owned()),
            detail: image.then(|| "low".to_owned()),
        })
    })
}

fn spoken() -> impl Strategy<Value = Vec<Part>> {
    prop::collection::vec(prop_oneof![word().prop_map(Part::Text), media()], 1..4)
}

fn answered() -> impl Strategy<Value = Vec<Part>> {
    let reasoning = (word(), "[a-zA-Z0-9]{1,9}").prop_map(|(text, data)| {
        let seal = Some(Seal {
            maker: Api::OpenaiResponses,
            whole: true,
            data,
        });
        Part::Reasoning(Reasoning { text, seal })
    });
    let call = (word(), word(), word()).prop_map(|(id, name, word)| {
        let arguments = json!({ "w": word }).to_string();
        Part::ToolCall(ToolCall {
            id,
            name,
            arguments,
            seal: None,
        })
    });
    prop::collection::vec(
        prop_oneof![
            word().prop_map(Part::Text),
            word().prop_map(Part::Refusal),
            reasoning,
            call
        ],
        1..5,
    )
}

fn returned() -> impl Strategy<Value = Vec<Part>> {
    let result = (word(), spoken()).prop_map(|(id, parts)| {
        Part::ToolResult(ToolResult {
            id,
            name: None,
            parts,
            is_error: false,
        })
    });
    prop::collection::vec(result, 1..3)
}

/// One round: who may speak twice in a row does, who would become one message does not.
fn round() -> impl Strategy<Value = Vec<Message>> {
    let said = |speaker| move |parts| Message { speaker, parts };
    (
        word()
            .prop_map(|text| vec![Part::Text(text)])
            .prop_map(said(Speaker::Developer)),
        spoken().prop_map(said(Speaker::User)),
        answered().prop_map(said(Speaker::Assistant)),
        returned().prop_map(said(Speaker::Tool)),
    )
        .prop_map(|(developer, user, assistant, tool)| vec![developer, user, assistant, tool])
}

fn conversation() -> impl Strategy<Value = Conversation> {
    let tool = (word(), prop::option::of(word()), any::<bool>()).prop_map(|(name, description, strict)| Tool {
        name,
        description,
        parameters: Some(r#"{"type": "object", "z": 1, "a": 2}"#.to_owned()),
        strict: Some(strict),
    });
    let choice = prop_oneof![
        Just(ToolChoice::Auto),
        Just(ToolChoice::Required),
        Just(ToolChoice::None),
        word().prop_map(ToolChoice::Named)
    ];
    let output = prop_oneof![
        Just(OutputFormat::Text),
        Just(OutputFormat::JsonObject),
        word().prop_map(|name| OutputFormat::JsonSchema {
            name,
            schema: r#"{"b":1, "a":2}"#.into(),
            strict: Some(true)
        })
    ];
    let wish = prop::option::of(word()).prop_map(|effort| {
        effort.map(|effort| ReasoningWish {
            effort: Some(effort),
            ..ReasoningWish::default()
        })
    });
    (
        prop::collection::vec(round(), 0..3),
        prop::collection::vec(tool, 0..3),
        (prop::option::of(choice), output, wish, prop::option::of(any::<bool>())),
        (
            prop::option::of(any::<u64>()),
            prop::option::of((0u8..64).prop_map(|n| f64::from(n) / 32.0)),
            any::<bool>(),
            prop::option::of(word()),
        ),
    )
        .prop_map(
            |(rounds, tools, (tool_choice, output, reasoning, parallel), (max_tokens, temperature, stream, user))| {
                Conversation {
                    messages: rounds.concat(),
                    tools,
                    tool_choice,
                    parallel_tool_calls: parallel,
                    sampling: Sampling {
                        max_tokens,
                        temperature,
                        ..Sampling::default()
                    },
                    output,
                    reasoning,
                    stream,
                    user,
                    unread: Vec::new(),
                }
            },
        )
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        let _ = scan(&Bytes::from(bytes.clone()));
        let _ = read(&bytes);
    }

    #[test]
    fn what_is_written_is_read_again(conversation in conversation()) {
        let written = write(&conversation, &target()).expect("can be written");
        prop_assert!(written.dropped.is_empty());
        prop_assert!(conversation.messages.is_empty() || scan(&written.body).is_ok());
        prop_assert_eq!(read(&written.body).expect("reads"), conversation);
    }
}
