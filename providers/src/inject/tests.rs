use proptest::prelude::*;
use serde_json::{Value, json};
use understudy_messages::conversation::{Conversation, Message, Part, Speaker};

use super::*;
use crate::wire;

const ALL: Segments<'static> = Segments {
    system_prompt: None,
    before_system: Some("BEFORE \"S\""),
    after_system: Some("AFTER S"),
    before_user: Some("BEFORE U\n"),
    after_user: Some("AFTER U"),
    tools: None,
};

fn injected(endpoint: Endpoint, body: &str, segments: &Segments<'_>) -> String {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let injected = inject(endpoint, &body, segments).expect("a conversation");
    wire::scan(endpoint, &injected).expect("still a request");
    serde_json::from_slice::<Value>(&injected).expect("still JSON");
    String::from_utf8(injected.to_vec()).expect("still text")
}

fn text(message: &Message) -> String {
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(&**text),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("|")
}

/// Who says what, system text of one kind.
fn said(endpoint: Endpoint, body: &str) -> Vec<(bool, String)> {
    let Conversation { messages, .. } = wire::read(endpoint, body.as_bytes()).expect("readable");
    let system = |speaker| matches!(speaker, Speaker::System | Speaker::Developer);
    messages
        .iter()
        .map(|message| (system(message.speaker), text(message)))
        .collect()
}

/// What is left of `after` when what was put in is taken out: `before` must be a subsequence of it.
fn keeps_every_byte(before: &str, after: &str) -> bool {
    let mut rest = after.bytes();
    before.bytes().all(|byte| rest.any(|other| other == byte))
}

#[test]
fn without_segments_the_body_is_not_copied() {
    let body = Bytes::from_static(br#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
    let same = inject(Endpoint::Chat, &body, &Segments::default()).expect("fine");
    assert_eq!(same.as_ptr(), body.as_ptr());
}

#[test]
fn a_chat_gets_messages_and_parts_of_their_own() {
    let body = r#"{"model":"m", "messages":[ {"role":"developer","content":"own"}, {"role":"user","content":"h\u0069"},{"role":"assistant","content":"a"}] , "x":1.0}"#;
    assert_eq!(
        injected(Endpoint::Chat, body, &ALL),
        r#"{"model":"m", "messages":[ {"content":"BEFORE \"S\"","role":"developer"},{"role":"developer","content":"own"},{"content":"AFTER S","role":"developer"}, {"role":"user","content":[{"text":"BEFORE U\n","type":"text"},{"type":"text","text":"h\u0069"},{"text":"AFTER U","type":"text"}]},{"role":"assistant","content":"a"}] , "x":1.0}"#
    );
}

#[test]
fn without_system_text_of_the_clients_both_stand_first() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}"#;
    let after = injected(Endpoint::Chat, body, &ALL);
    assert_eq!(
        said(Endpoint::Chat, &after),
        [
            (true, "BEFORE \"S\"".to_owned()),
            (true, "AFTER S".to_owned()),
            (false, "BEFORE U\n|hi|AFTER U".to_owned())
        ]
    );
}

#[test]
fn anthropics_system_becomes_blocks_and_keeps_its_marks() {
    let text = r#"{"model":"m","max_tokens":9,"system":"own","messages":[{"role":"user","content":"hi"}]}"#;
    assert!(injected(Endpoint::Messages, text, &ALL).contains(
        r#""system":[{"text":"BEFORE \"S\"","type":"text"},{"type":"text","text":"own"},{"text":"AFTER S","type":"text"}],"#
    ));
    let blocks = r#"{"model":"m","max_tokens":9,"system":[{"type":"text","text":"own","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hi"}]}"#;
    let after = injected(Endpoint::Messages, blocks, &ALL);
    assert!(after.contains(r#"[{"text":"BEFORE \"S\"","type":"text"},{"type":"text","text":"own","cache_control":{"type":"ephemeral"}},{"text":"AFTER S","type":"text"}]"#));
    for none in [
        r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#,
        r#"{"model":"m","max_tokens":9,"system":null,"messages":[{"role":"user","content":"hi"}]}"#,
        r#"{"model":"m","max_tokens":9,"system":[],"messages":[{"role":"user","content":"hi"}]}"#,
        r#"{"model":"m","max_tokens":9,"system":"","messages":[{"role":"user","content":"hi"}]}"#,
    ] {
        let system = |said: Vec<(bool, String)>| said.into_iter().filter(|(system, _)| *system).map(|(_, text)| text);
        let after = system(said(Endpoint::Messages, &injected(Endpoint::Messages, none, &ALL)));
        assert_eq!(after.collect::<Vec<_>>().join("|"), "BEFORE \"S\"|AFTER S", "{none}");
    }
}

#[test]
fn what_tools_returned_stays_first_and_is_not_what_the_user_says() {
    let results = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"do it"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]}]}"#;
    let after = injected(Endpoint::Messages, results, &ALL);
    assert!(after.contains(r#"{"type":"text","text":"do it"}"#), "{after}");
    assert!(after.ends_with(r#"[{"type":"tool_result","tool_use_id":"t","content":"r"}]}]}"#));
    let mixed = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"},{"type":"text","text":"go on"}]}]}"#;
    let after = injected(Endpoint::Messages, mixed, &ALL);
    let places = ["tool_result", "BEFORE U", "go on", "AFTER U"].map(|word| after.find(word).expect("there"));
    assert!(places.is_sorted(), "{after}");
}

#[test]
fn a_responses_input_gets_items_and_instructions_keep_their_bytes() {
    let text = r#"{"model":"m","instructions":"own","input":"hi"}"#;
    assert_eq!(
        injected(Endpoint::Responses, text, &ALL),
        r#"{"model":"m","instructions":"own","input":[{"content":"BEFORE \"S\"","role":"system"},{"content":"AFTER S","role":"system"},{"role":"user","content":[{"text":"BEFORE U\n","type":"input_text"},{"type":"input_text","text":"hi"},{"text":"AFTER U","type":"input_text"}]}]}"#
    );
    let user_only = Segments {
        before_user: Some("u"),
        ..Segments::default()
    };
    assert_eq!(
        injected(Endpoint::Responses, text, &user_only),
        r#"{"model":"m","instructions":"own","input":[{"role":"user","content":[{"text":"u","type":"input_text"},{"type":"input_text","text":"hi"}]}]}"#
    );
    for absent in [
        r#"{"model":"m","previous_response_id":"resp_1"}"#,
        r#"{"model":"m","previous_response_id":"resp_1","input":null}"#,
        r#"{"model":"m","previous_response_id":"resp_1","input":[]}"#,
    ] {
        let after = injected(Endpoint::Responses, absent, &ALL);
        assert!(
            after.contains("BEFORE \\\"S\\\"") && after.contains("AFTER S"),
            "{after}"
        );
    }
}

#[test]
fn a_system_prompt_takes_the_place_of_the_clients_own() {
    let segments = Segments {
        system_prompt: Some("NEW"),
        before_system: Some("B"),
        ..Segments::default()
    };
    for (endpoint, body) in [
        (
            Endpoint::Chat,
            r#"{"model":"m","messages":[{"role":"system","content":"one"},{"role":"system","content":"two"},{"role":"user","content":"hi"}]}"#,
        ),
        (
            Endpoint::Chat,
            r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#,
        ),
        (
            Endpoint::Messages,
            r#"{"model":"m","max_tokens":9,"system":"one","messages":[{"role":"user","content":"hi"}]}"#,
        ),
        (
            Endpoint::Responses,
            r#"{"model":"m","instructions":"one","input":[{"role":"developer","content":"two"},{"role":"user","content":"hi"}]}"#,
        ),
        (
            Endpoint::Responses,
            r#"{"instructions":"one","input":"hi","model":"m"}"#,
        ),
    ] {
        let after = said(endpoint, &injected(endpoint, body, &segments));
        let (system, rest): (Vec<_>, Vec<_>) = after.into_iter().partition(|(system, _)| *system);
        let system: Vec<String> = system.into_iter().map(|(_, text)| text).collect();
        assert_eq!(system.join("|"), "B|NEW", "{body}");
        assert_eq!(rest, [(false, "hi".to_owned())], "{body}");
    }
}

#[test]
fn tools_that_may_not_be_called_are_not_offered_and_the_others_keep_their_bytes() {
    let stays = |name: &str| name == "read";
    let segments = Segments {
        tools: Some(&stays),
        ..Segments::default()
    };
    let chat = r#"{"tools":[{"type":"function","function":{"name":"write"}}, {"function":{"name":"read","x":1.0}}],"tool_choice":{"type":"function","function":{"name":"write"}},"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(
        injected(Endpoint::Chat, chat, &segments),
        r#"{"tools":[{"function":{"name":"read","x":1.0}}],"model":"m","messages":[{"role":"user","content":"hi"}]}"#
    );
    let kept = r#"{"tools":[{"name":"read","input_schema":{}},{"name":"write","input_schema":{}}],"tool_choice":{"type":"auto"},"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}"#;
    assert!(injected(Endpoint::Messages, kept, &segments).contains(r#""tool_choice":{"type":"auto"}"#));
}

#[test]
fn without_any_tool_left_nothing_speaks_of_tools() {
    let none = |_: &str| false;
    let segments = Segments {
        tools: Some(&none),
        ..Segments::default()
    };
    let offered = r#""tools":[{"type":"web_search"}]"#;
    let choice = r#""tool_choice":"auto""#;
    let parallel = r#""parallel_tool_calls":true"#;
    let (model, input) = (r#""model":"m""#, r#""input":"hi""#);
    for order in [
        [offered, choice, parallel, model, input],
        [model, offered, choice, input, parallel],
        [model, input, offered, choice, parallel],
    ] {
        let after = injected(Endpoint::Responses, &format!("{{{}}}", order.join(" , ")), &segments);
        let after: Value = serde_json::from_str(&after).expect("JSON");
        assert_eq!(after, json!({ "model": "m", "input": "hi" }), "{order:?}");
    }
}

fn content(block: &'static str) -> impl Strategy<Value = Value> {
    let text = "[a-z\"\\\\ü ]{0,8}";
    prop_oneof![
        text.prop_map(Value::from),
        prop::collection::vec(text.prop_map(move |text| json!({ "type": block, "text": text })), 0..3)
            .prop_map(Value::from),
    ]
}

fn turns(block: &'static str, systems: bool) -> impl Strategy<Value = Vec<Value>> {
    let roles = match systems {
        true => vec!["system", "developer", "user", "assistant"],
        false => vec!["user", "assistant"],
    };
    let turn = (prop::sample::select(roles), content(block))
        .prop_map(|(role, content)| json!({ "role": role, "content": content }));
    prop::collection::vec(turn, 1..6)
}

fn requests() -> impl Strategy<Value = (Endpoint, String)> {
    let write = |value: Value, pretty| match pretty {
        true => serde_json::to_string_pretty(&value).expect("JSON"),
        false => value.to_string(),
    };
    let chat = (turns("text", true), any::<bool>()).prop_map(move |(messages, pretty)| {
        (
            Endpoint::Chat,
            write(json!({ "model": "m", "messages": messages }), pretty),
        )
    });
    let anthropic = (turns("text", false), prop::option::of(content("text")), any::<bool>());
    let anthropic = anthropic.prop_map(move |(messages, system, pretty)| {
        let body = json!({ "model": "m", "max_tokens": 1, "messages": messages, "system": system });
        (Endpoint::Messages, write(body, pretty))
    });
    let responses = (turns("input_text", true), prop::option::of("[a-z]{1,5}"), any::<bool>());
    let responses = responses.prop_map(move |(input, instructions, pretty)| {
        let body = json!({ "model": "m", "input": input, "instructions": instructions });
        (Endpoint::Responses, write(body, pretty))
    });
    prop_oneof![chat, anthropic, responses]
}

proptest! {
    #[test]
    fn every_other_byte_stays_and_the_result_reads_back_with_the_segments((endpoint, body) in requests()) {
        let after = injected(endpoint, &body, &ALL);
        // an empty text, an empty list and null have no bytes to keep
        let hollow = ["\"\"", "[]", "null"].iter().any(|nothing| body.contains(nothing));
        prop_assert!(hollow || keeps_every_byte(&body, &after), "{}", after);
        let texts: Vec<String> = said(endpoint, &after).into_iter().map(|(_, text)| text).collect();
        let all = texts.join("|");
        for segment in ["BEFORE \"S\"", "AFTER S", "BEFORE U\n", "AFTER U"] {
            prop_assert_eq!(all.matches(segment).count(), 1, "{}", after);
        }
        let own: String = said(endpoint, &body).into_iter().map(|(_, text)| text).collect();
        let mut left = all.replace("BEFORE \"S\"", "").replace("AFTER S", "");
        left = left.replace("BEFORE U\n", "").replace("AFTER U", "");
        prop_assert_eq!(left.replace('|', ""), own.replace('|', ""));
    }

    #[test]
    fn random_bytes_never_panic(body: Vec<u8>) {
        for endpoint in [Endpoint::Chat, Endpoint::Responses, Endpoint::Messages, Endpoint::Embeddings] {
            let _refused = inject(endpoint, &Bytes::from(body.clone()), &ALL);
        }
    }
}
