use super::*;
use understudy_messages::answer::Usage;

fn going_on(text: &str, prefill: bool) -> Continuation {
    Continuation {
        text: text.to_owned(),
        sent: Vec::new(),
        prefill,
        usage: Usage::default(),
        after_text: false,
    }
}

fn told(endpoint: Endpoint, body: &'static str, prefill: bool) -> String {
    let body = Bytes::from_static(body.as_bytes());
    let told = extended(endpoint, &body, &going_on("Say \"hi\" ", prefill)).expect("a conversation");
    String::from_utf8(told.to_vec()).expect("text")
}

const TEXT: &str = r#"{"content":"Say \"hi\"","role":"assistant"}"#;

#[test]
fn the_text_so_far_stands_last_and_the_rest_keeps_its_bytes() {
    for endpoint in [Endpoint::Chat, Endpoint::Messages] {
        let body = r#"{ "model":"m", "messages" : [ {"role":"user","content":"x"} ], "n": 1.0 }"#;
        let expected = body.replace(" ], ", &format!(" ,{TEXT}], "));
        assert_eq!(told(endpoint, body, true), expected);
    }
    assert_eq!(
        told(Endpoint::Chat, r#"{"messages":[ ]}"#, true),
        format!(r#"{{"messages":[ {TEXT}]}}"#)
    );
}

#[test]
fn a_single_text_becomes_a_message_first() {
    assert_eq!(
        told(Endpoint::Responses, r#"{"input":"a\u0041","model":"m"}"#, true),
        format!(r#"{{"input":[{{"role":"user","content":"a\u0041"}},{TEXT}],"model":"m"}}"#)
    );
    assert_eq!(
        told(
            Endpoint::Responses,
            r#"{"input":[{"role":"user","content":"a"}]}"#,
            true
        ),
        format!(r#"{{"input":[{{"role":"user","content":"a"}},{TEXT}]}}"#)
    );
}

#[test]
fn without_prefill_a_user_asks_to_go_on() {
    let told = told(Endpoint::Chat, r#"{"messages":[{"role":"user","content":"x"}]}"#, false);
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
    let same = extended(Endpoint::Chat, &body, &going_on(" \n", true)).expect("a conversation");
    assert_eq!(same.as_ptr(), body.as_ptr());
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
        assert_eq!(extended(endpoint, &body, &going_on("text", true)), None);
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
