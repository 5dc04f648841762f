use super::*;
use proptest::prelude::*;
use understudy_messages::answer::Usage;
use understudy_messages::conversation::{Reasoning, Seal, ToolCall, ToolResult};

fn going_on(text: &str, prefill: bool) -> Continuation {
    Continuation {
        text: text.to_owned(),
        sent: Vec::new(),
        prefill,
        usage: Usage::default(),
        after_text: false,
    }
}

fn told_with(endpoint: Endpoint, body: &'static str, prefill: bool) -> String {
    let body = Bytes::from_static(body.as_bytes());
    let going_on = going_on("Say \"hi\" ", prefill);
    let told = extended(endpoint, &body, &[], Some(&going_on)).expect("words");
    let told = told.expect("a conversation");
    String::from_utf8(told.to_vec()).expect("text")
}

const TEXT: &str = r#"{"content":"Say \"hi\"","role":"assistant"}"#;

#[test]
fn the_text_so_far_stands_last_and_the_rest_keeps_its_bytes() {
    for endpoint in [Endpoint::Chat, Endpoint::Messages] {
        let body = r#"{ "model":"m", "messages" : [ {"role":"user","content":"x"} ], "n": 1.0 }"#;
        let expected = body.replace(" ], ", &format!(" ,{TEXT}], "));
        assert_eq!(told_with(endpoint, body, true), expected);
    }
    assert_eq!(
        told_with(Endpoint::Chat, r#"{"messages":[ ]}"#, true),
        format!(r#"{{"messages":[ {TEXT}]}}"#)
    );
}

#[test]
fn a_single_text_becomes_a_message_first() {
    assert_eq!(
        told_with(Endpoint::Responses, r#"{"input":"a\u0041","model":"m"}"#, true),
        format!(r#"{{"input":[{{"role":"user","content":"a\u0041"}},{TEXT}],"model":"m"}}"#)
    );
    assert_eq!(
        told_with(
            Endpoint::Responses,
            r#"{"input":[{"role":"user","content":"a"}]}"#,
            true
        ),
        format!(r#"{{"input":[{{"role":"user","content":"a"}},{TEXT}]}}"#)
    );
}

#[test]
fn without_prefill_a_user_asks_to_go_on() {
    let told = told_with(Endpoint::Chat, r#"{"messages":[{"role":"user","content":"x"}]}"#, false);
    let body: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    let roles: Vec<_> = body["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|it| &it["role"])
        .collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert_eq!(body["messages"][2]["content"], GO_ON);
}

#[test]
fn where_nothing_was_said_yet_the_body_is_the_clients() {
    let body = Bytes::from_static(br#"{"messages":[]}"#);
    let same = extended(Endpoint::Chat, &body, &[], Some(&going_on(" \n", true))).expect("words");
    assert_eq!(same.expect("a conversation").as_ptr(), body.as_ptr());
    assert_eq!(behind(&[], Some(&going_on("", true))), []);
}

#[test]
fn what_is_no_conversation_is_not_gone_on_with() {
    for (endpoint, body) in [
        (Endpoint::Chat, r#"{"messages":3}"#),
        (Endpoint::Chat, "{}"),
        (Endpoint::Chat, "["),
        (Endpoint::Embeddings, r#"{"input":"x"}"#),
    ] {
        let body = Bytes::from_static(body.as_bytes());
        assert_eq!(extended(endpoint, &body, &[], Some(&going_on("text", true))), Ok(None));
    }
}

#[test]
fn prefill_is_for_the_formats_that_take_it_and_not_beside_thinking() {
    let takes = |api, endpoint, body: &str| takes_prefill(api, endpoint, body.as_bytes());
    assert!(takes(Api::AnthropicMessages, Endpoint::Messages, "{}"));
    assert!(takes(Api::Gemini, Endpoint::Chat, "{}"));
    assert!(!takes(Api::OpenaiChat, Endpoint::Chat, "{}"));
    assert!(!takes(Api::OpenaiResponses, Endpoint::Responses, "{}"));
    for (endpoint, body, expected) in [
        (
            Endpoint::Messages,
            r#"{"thinking":{"type":"enabled","budget_tokens":1024}}"#,
            false,
        ),
        (Endpoint::Messages, r#"{"thinking":{"type":"adaptive"}}"#, false),
        (Endpoint::Messages, r#"{"thinking":{"type":"disabled"}}"#, true),
        (Endpoint::Chat, r#"{"reasoning_effort":"high"}"#, false),
        (Endpoint::Chat, r#"{"reasoning_effort":"none"}"#, true),
        (Endpoint::Chat, r#"{"reasoning_effort":null}"#, true),
        (Endpoint::Responses, r#"{"reasoning":{"effort":"low"}}"#, false),
        (Endpoint::Responses, r#"{"reasoning":{"effort":"none"}}"#, true),
    ] {
        assert_eq!(takes(Api::AnthropicMessages, endpoint, body), expected, "{body}");
    }
}

fn result(id: &str, text: &str, is_error: bool) -> ToolResult {
    ToolResult {
        id: id.to_owned(),
        name: None,
        parts: vec![Part::Text(text.to_owned())],
        is_error,
    }
}

fn call(id: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall {
        id: id.to_owned(),
        name: "look".to_owned(),
        arguments: arguments.to_owned(),
        seal: None,
    })
}

/// A thought that the maker of `api` signed.
fn thought(api: Api) -> Part {
    Part::Reasoning(Reasoning {
        text: "hm".to_owned(),
        seal: Some(Seal {
            maker: api,
            whole: api == Api::OpenaiResponses,
            data: "proof".to_owned(),
        }),
    })
}

const CLIENTS: [(Endpoint, &str); 4] = [
    (
        Endpoint::Chat,
        r#"{"model":"m","messages" : [{"role":"user","content":"hi"}], "x":1.0}"#,
    ),
    (
        Endpoint::Messages,
        r#"{"model":"m","messages" : [{"role":"user","content":"hi"}], "max_tokens":9}"#,
    ),
    (Endpoint::Responses, r#"{"model":"m","input":"hi"}"#),
    (
        Endpoint::Responses,
        r#"{"model":"m","input" : [{"role":"user","content":"hi"}] }"#,
    ),
];

/// Each part with who said it: formats cut messages in different places.
fn flat(messages: Vec<Message>) -> Vec<(Speaker, Part)> {
    let mut flat = Vec::new();
    for Message { speaker, parts } in messages {
        for mut part in parts {
            let result = matches!(part, Part::ToolResult(_));
            if let Part::ToolResult(result) = &mut part {
                result.name = None;
            }
            flat.push((if result { Speaker::Tool } else { speaker }, part));
        }
    }
    flat
}

fn body_with(endpoint: Endpoint, body: &'static str, rounds: &[ToolRound]) -> Bytes {
    let body = Bytes::from_static(body.as_bytes());
    let extended = extended(endpoint, &body, rounds, None).expect("words");
    extended.expect("a conversation")
}

#[test]
fn rounds_stand_behind_the_conversation_and_the_rest_keeps_its_bytes() {
    let round = ToolRound {
        said: vec![
            Part::Text("Let me see.".to_owned()),
            call("c1", "{\"a\":1}"),
            call("c2", "{}"),
        ],
        results: vec![result("c1", "one", false), result("c2", "two", true)],
    };
    for (endpoint, body) in [CLIENTS[0], CLIENTS[1], CLIENTS[3]] {
        let extended = body_with(endpoint, body, std::slice::from_ref(&round));
        let text = std::str::from_utf8(&extended).expect("text");
        let (before, after) = body.split_at(body.find(']').expect("a list"));
        assert!(
            text.starts_with(&format!("{before},{{")) && text.ends_with(&format!("}}{after}")),
            "{text}"
        );
    }
}

#[test]
fn the_results_of_one_answer_are_one_message_to_anthropic_and_its_own_thoughts_lead() {
    let round = ToolRound {
        said: vec![thought(Api::AnthropicMessages), call("c1", "{}"), call("c2", "{}")],
        results: vec![result("c1", "one", false), result("c2", "two", true)],
    };
    let (endpoint, body) = CLIENTS[1];
    let body: serde_json::Value = serde_json::from_slice(&body_with(endpoint, body, &[round])).expect("JSON");
    assert_eq!(body["messages"].as_array().map(Vec::len), Some(3));
    assert_eq!(body["messages"][1]["content"][0]["type"], "thinking");
    assert_eq!(body["messages"][1]["content"][0]["signature"], "proof");
    let results = &body["messages"][2];
    assert_eq!(
        (&results["role"], results["content"].as_array().map(Vec::len)),
        (&json!("user"), Some(2))
    );
    assert_eq!(results["content"][1]["is_error"], true);
}

#[test]
fn an_answer_that_broke_off_stands_behind_the_rounds() {
    let round = ToolRound {
        said: vec![call("c1", "{}")],
        results: vec![result("c1", "one", false)],
    };
    let (endpoint, body) = CLIENTS[0];
    let body = Bytes::from_static(body.as_bytes());
    let all = extended(
        endpoint,
        &body,
        std::slice::from_ref(&round),
        Some(&going_on("Once", true)),
    );
    let all: serde_json::Value = serde_json::from_slice(&all.expect("words").expect("a conversation")).expect("JSON");
    let roles = all["messages"].as_array().expect("messages").iter();
    assert_eq!(
        roles.map(|it| it["role"].as_str().expect("a role")).collect::<Vec<_>>(),
        ["user", "assistant", "tool", "assistant"]
    );
    let messages = behind(&[round], Some(&going_on("Once", false)));
    let speakers: Vec<_> = messages.iter().map(|message| message.speaker).collect();
    assert_eq!(
        speakers,
        [Speaker::Assistant, Speaker::Tool, Speaker::Assistant, Speaker::User]
    );
}

fn any_round(api: Api) -> impl Strategy<Value = ToolRound> {
    let text = prop::option::of("[a-z]{1,9}");
    (
        any::<bool>(),
        text,
        prop::collection::vec(("[a-z]{1,5}( [a-z]{1,5})?", any::<bool>()), 1..4),
    )
        .prop_map(move |(thinks, text, results)| {
            let thought = thinks.then(|| thought(api));
            let calls = (0..results.len()).map(|at| call(&format!("c{at}"), "{\"a\":1}"));
            let said = thought.into_iter().chain(text.map(Part::Text)).chain(calls);
            // only Anthropic's format has a word for it
            let failed = |failed| failed && api == Api::AnthropicMessages;
            let results = results.iter().enumerate();
            let results = results.map(|(at, (text, is_error))| result(&format!("c{at}"), text, failed(*is_error)));
            ToolRound {
                said: said.collect(),
                results: results.collect(),
            }
        })
}

proptest! {
    #[test]
    fn a_body_with_rounds_reads_back_as_its_conversation_and_the_rounds(
        (client, rounds) in (0..CLIENTS.len()).prop_flat_map(|client| {
            let api = CLIENTS[client].0.api();
            (Just(client), prop::collection::vec(any_round(api), 0..4))
        })
    ) {
        let (endpoint, body) = CLIENTS[client];
        let alone = wire::read(endpoint, body.as_bytes()).expect("a request");
        let extended = body_with(endpoint, body, &rounds);
        let read = wire::read(endpoint, &extended).expect("a request");
        let expected = alone.messages.into_iter().chain(rounds.iter().flat_map(ToolRound::messages));
        prop_assert_eq!(flat(read.messages), flat(expected.collect()));
        wire::scan(endpoint, &extended).expect("a request");
    }
}
