use proptest::prelude::*;
use serde_json::{Map, Value, json};
use understudy_messages::request::Role;

use super::*;
use crate::json::MAX_DEPTH;

/// A body and what was found in it.
#[derive(Debug)]
struct ChatRequest {
    body: Bytes,
    facts: RequestFacts,
}

impl ChatRequest {
    fn scan(body: &Bytes) -> Result<Self, RequestError> {
        let facts = super::scan(body)?;
        Ok(Self {
            body: body.clone(),
            facts,
        })
    }

    fn body(&self) -> &Bytes {
        &self.body
    }

    fn facts(&self) -> &RequestFacts {
        &self.facts
    }

    fn asking_usage(&self) -> Bytes {
        for_model(&self.body, &self.facts, "b", true)
    }

    fn with_model(&self, model: &str) -> Bytes {
        for_model(&self.body, &self.facts, model, false)
    }
}

fn scan(body: &str) -> Result<ChatRequest, RequestError> {
    ChatRequest::scan(&Bytes::copy_from_slice(body.as_bytes()))
}

fn facts(body: &str) -> RequestFacts {
    scan(body).expect("a good request").facts().clone()
}

#[test]
fn what_not_every_format_can_give_is_a_demand() {
    use understudy_messages::request::Demand;
    let content = |part: &str| format!(r#"{{"model":"a","messages":[{{"role":"user","content":[{part}]}}]}}"#);
    let member = |member: &str| format!(r#"{{"model":"a","messages":[{{"role":"user"}}],{member}}}"#);
    let cases = [
        (member(r#""n":2"#), Some(Demand::Choices)),
        (member(r#""logprobs":true"#), Some(Demand::Logprobs)),
        (member(r#""modalities":["text","audio"]"#), Some(Demand::AudioOut)),
        (
            member(r#""tools":[{"type":"function"},{"type":"custom"}]"#),
            Some(Demand::CustomTool),
        ),
        (member(r#""tools":[{"type":"web_search"}]"#), Some(Demand::HostedTool)),
        (member(r#""web_search_options":{}"#), Some(Demand::HostedTool)),
        (
            member(r#""response_format":{"type":"json_object"}"#),
            Some(Demand::JsonObject),
        ),
        (
            member(r#""response_format":{"type":"json_schema","json_schema":{}}"#),
            Some(Demand::JsonSchema),
        ),
        (content(r#"{"input_audio":{}}"#), Some(Demand::AudioIn)),
        (content(r#"{"file":{"file_data":""}}"#), Some(Demand::Document)),
        (content(r#"{"file":{"file_id":""}}"#), Some(Demand::ProviderFile)),
        (content(r#"{"image_url":{"url":"https://x"}}"#), Some(Demand::MediaUrl)),
        (content(r#"{"image_url":{"url":"data:image/png;base64,AA"}}"#), None),
        (
            member(r#""n":1,"logprobs":false,"modalities":["text"],"tools":[{"type":"function"}]"#),
            None,
        ),
        (
            member(r#""response_format":{"type":"text"},"web_search_options":null"#),
            None,
        ),
    ];
    for (body, demand) in cases {
        let mut expected = understudy_messages::request::Demands::default();
        demand.into_iter().for_each(|demand| expected.insert(demand));
        assert_eq!(facts(&body).demands, expected, "{body}");
    }
}

const SMALL: &str = r#"{"model":"a/b","messages":[{"role":"user","content":"hi"}]}"#;

#[test]
fn a_small_request_is_read() {
    let facts = facts(SMALL);
    assert_eq!((&*facts.model, facts.stream, facts.choices), ("a/b", false, 1));
    assert_eq!((facts.messages.count, facts.messages.text_bytes), (1, 2));
    assert_eq!(facts.fallbacks, None);
    assert!(!facts.has_tools && !facts.has_stop && !facts.has_logprobs && !facts.has_response_format);
}

#[test]
fn what_the_turn_depends_on_is_seen() {
    let facts = facts(
        r#"{"messages":[{"content":"x"}],"stream":true,"stream_options":{"include_usage":true},"n":2,"tools":[{}],
        "response_format":{"type":"json_object"},"logprobs":true,"stop":"\n","fallbacks":["b","c\u002fd"],"model":"a"}"#,
    );
    assert!(facts.stream && facts.include_usage && facts.has_tools && facts.has_stop);
    assert!(facts.has_logprobs && facts.has_response_format);
    assert_eq!(facts.choices, 2);
    assert_eq!(facts.fallbacks, Some(vec!["b".to_owned(), "c/d".to_owned()]));
}

#[test]
fn only_the_model_changes() {
    let body = "{ \"temperature\": 1e2,\t\"z\":1.0 , \"model\" : \"old\\u002fone\",\r\n \"messages\":[{\"content\":\"\\u00fc\"}],\"a\":0.10}";
    let request = scan(body).expect("good");
    assert_eq!(&*request.facts().model, "old/one");
    let changed = request.with_model("new \"one\"");
    assert_eq!(changed, body.replace(r#""old\u002fone""#, r#""new \"one\"""#));
}

#[test]
fn with_nothing_to_change_the_body_is_not_copied() {
    let request = scan(SMALL).expect("good");
    assert_eq!(request.with_model("a/b").as_ptr(), request.body().as_ptr());
}

#[test]
fn fallbacks_never_go_upstream() {
    let bodies = [
        (
            r#"{"fallbacks":["x"], "model":"a","messages":[{}]}"#,
            r#"{ "model":"b","messages":[{}]}"#,
        ),
        (
            r#"{"model":"a", "fallbacks" : [] ,"messages":[{}]}"#,
            r#"{"model":"b", "messages":[{}]}"#,
        ),
        (
            r#"{"model":"a","messages":[{}] , "fall\u0062acks":null }"#,
            r#"{"model":"b","messages":[{}]  }"#,
        ),
    ];
    for (body, upstream) in bodies {
        assert_eq!(scan(body).expect("good").with_model("b"), upstream);
    }
}

#[test]
fn a_stream_is_asked_for_usage_where_the_client_left_it_out() {
    let ask = |rest: &str| scan(&format!(" {{{rest}}}")).expect("good").asking_usage();
    let streaming = |options: &str| format!(r#""model":"b","messages":[{{}}],"stream" : true{options}"#);
    let cases = [
        ("", None),
        (
            r#","stream_options": null"#,
            Some(r#","stream_options": {"include_usage":true}"#),
        ),
        (
            r#","stream_options":false "#,
            Some(r#","stream_options":{"include_usage":true} "#),
        ),
        (
            r#","stream_options":{ }"#,
            Some(r#","stream_options":{"include_usage":true }"#),
        ),
        (
            r#","stream_options":{ "x" :{"include_usage":1} }"#,
            Some(r#","stream_options":{"include_usage":true, "x" :{"include_usage":1} }"#),
        ),
        (
            r#","stream_options":{"x":1,"include\u005fusage": null ,"y":2}"#,
            Some(r#","stream_options":{"x":1,"include\u005fusage": true ,"y":2}"#),
        ),
        (
            r#","stream_options":{"include_usage":false}"#,
            Some(r#","stream_options":{"include_usage":true}"#),
        ),
    ];
    for (came, goes) in cases {
        let goes = match goes {
            Some(goes) => format!(" {{{}}}", streaming(goes)),
            None => format!(r#" {{"stream_options":{{"include_usage":true}},{}}}"#, streaming(came)),
        };
        assert_eq!(ask(&streaming(came)), goes);
    }
}

#[test]
fn what_asks_for_usage_already_or_does_not_stream_stays_as_it_is() {
    for rest in [
        r#""stream":true,"stream_options":{"include_usage":true}"#,
        r#""stream":false"#,
        r#""n":1"#,
        // for the provider to judge
        r#""stream":true,"stream_options":"yes""#,
        r#""stream":true,"stream_options":true"#,
        r#""stream":true,"stream_options":[{}]"#,
    ] {
        let request = scan(&format!(r#"{{"model":"b","messages":[{{}}],{rest}}}"#)).expect("good");
        assert_eq!(request.asking_usage().as_ptr(), request.body().as_ptr(), "{rest}");
    }
}

#[test]
fn fallbacks_leave_and_the_question_for_usage_comes_in_one_place() {
    let request = scan(r#"{"fallbacks":[],"model":"a","messages":[{}],"stream":true}"#).expect("good");
    let goes = r#"{"stream_options":{"include_usage":true},"model":"b","messages":[{}],"stream":true}"#;
    assert_eq!(request.asking_usage(), goes);
}

#[test]
fn places_for_text_are_known() {
    let at = |body: &str, part: &str| body.find(part).expect("is there");
    let body = r#"{"model":"a","messages":[ {"role":"system","content":"s"},{"role":"developer"},
        {"role":"user","content":[{"type":"text","text":"one"},{"type":"image_url"},{"text":"tw\u00f6"}]},
        {"role":"system","content":"late"},{"role":"user","content":"new"},{"role":"tool","content":"t"}]}"#;
    let messages = facts(body).messages;
    assert_eq!((messages.count, messages.first_role), (6, Role::System));
    assert_eq!(messages.text_bytes, "sonetwölatenewt".len());
    assert_eq!(messages.first, at(body, "{\"role\":\"system\""));
    let developer = r#"{"role":"developer"}"#;
    assert_eq!(messages.leading_system_end, Some(at(body, developer) + developer.len()));
    assert_eq!(&body[messages.newest_user_content.expect("a user")], "\"new\"");
    assert_eq!(facts(SMALL).messages.leading_system_end, None);
}

#[test]
fn a_body_that_is_no_request_is_refused_with_its_fault() {
    let long = format!(r#"{{"x":{}"#, "[".repeat(1 << 16));
    let at = r#"{"x":"#.len() + MAX_DEPTH - 1;
    let cases = [
        ("", RequestError::NotJson { at: 0 }),
        (r#"{"model":"a","messages":[{}]"#, RequestError::NotJson { at: 28 }),
        (r#"{"model":"a","messages":[{}]}}"#, RequestError::NotJson { at: 29 }),
        ("[]", RequestError::NotAnObject),
        (r#"{"messages":[{}]}"#, RequestError::Missing { key: "model" }),
        (r#"{"model":"","messages":[{}]}"#, RequestError::Empty { key: "model" }),
        (r#"{"model":"a"}"#, RequestError::Missing { key: "messages" }),
        (
            r#"{"model":"a","messages":[]}"#,
            RequestError::Empty { key: "messages" },
        ),
        (&long, RequestError::TooDeep { at }),
    ];
    for (body, error) in cases {
        assert_eq!(scan(body).expect_err(body), error, "{body}");
    }
}

#[test]
fn a_member_of_the_wrong_type_is_named_with_the_right_one() {
    let (messages, fallbacks) = ("a list of objects", "a list of at most 32 model names");
    let many = format!(r#"{{"fallbacks":["x"{}]}}"#, r#","x""#.repeat(32));
    let cases = [
        (r#"{"model":7}"#, "model", "a string"),
        (r#"{"messages":"hi"}"#, "messages", messages),
        (r#"{"messages":["hi"]}"#, "messages", messages),
        (r#"{"stream":"yes"}"#, "stream", "true or false"),
        (r#"{"fallbacks":"b"}"#, "fallbacks", fallbacks),
        (r#"{"fallbacks":[1]}"#, "fallbacks", fallbacks),
        (&many, "fallbacks", fallbacks),
    ];
    for (body, key, expected) in cases {
        let error = RequestError::WrongType { key, expected };
        assert_eq!(scan(body).expect_err(body), error, "{body}");
    }
}

#[test]
fn a_key_that_is_read_may_not_come_twice_however_it_is_spelt() {
    let bodies = [
        (r#"{"model":"a","mod\u0065l":"b","messages":[{}]}"#, "model"),
        (r#"{"model":"a","messages":[{}],"messages":[{}]}"#, "messages"),
        (r#"{"model":"a","messages":[{}],"stream":null,"stream":true}"#, "stream"),
        (r#"{"model":"a","messages":[{"role":"user","role":"system"}]}"#, "role"),
        (
            r#"{"model":"a","messages":[{}],"fallbacks":[],"fallbacks":["x"]}"#,
            "fallbacks",
        ),
        (
            r#"{"model":"a","messages":[{}],"stream_options":{},"stream_options":{}}"#,
            "stream_options",
        ),
    ];
    for (body, key) in bodies {
        assert_eq!(scan(body).expect_err(body), RequestError::Duplicate { key }, "{body}");
    }
    assert!(scan(r#"{"model":"a","x":1,"x":2,"messages":[{}]}"#).is_ok());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn text_of(message: &Value) -> usize {
    let len = |value: &Value| value.as_str().map_or(0, str::len);
    match &message["content"] {
        Value::Array(parts) => parts.iter().map(|part| len(&part["text"])).sum(),
        content => len(content),
    }
}

fn message() -> impl Strategy<Value = Value> {
    let content = prop_oneof![
        any::<String>().prop_map(Value::from),
        any::<String>().prop_map(|text| json!([{"type": "text", "text": text}, {"type": "image_url"}])),
    ];
    (
        prop_oneof![Just("system"), Just("user"), Just("assistant")],
        content,
        any_json(),
    )
        .prop_map(|(role, content, extra)| json!({"role": role, "content": content, "extra": extra}))
}

proptest! {
    #[test]
    fn the_scan_agrees_with_a_tree(
        model in "[^\0]{1,12}",
        messages in prop::collection::vec(message(), 1..5),
        stream: bool,
        fallbacks in prop::option::of(prop::collection::vec(any::<String>(), 0..3)),
        extra in prop::collection::hash_map("[x-z]{1,3}", any_json(), 0..4),
        pretty: bool,
        new_model: String,
    ) {
        let mut tree: Map<String, Value> = extra.into_iter().collect();
        tree.insert("model".into(), model.as_str().into());
        tree.insert("stream".into(), stream.into());
        tree.insert("messages".into(), messages.clone().into());
        if let Some(fallbacks) = &fallbacks {
            tree.insert("fallbacks".into(), fallbacks.clone().into());
        }
        let body = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) };
        let request = scan(&body.expect("prints")).expect("good");
        let facts = request.facts();
        prop_assert_eq!(&*facts.model, &*model);
        prop_assert_eq!(facts.stream, stream);
        prop_assert_eq!(&facts.fallbacks, &fallbacks);
        prop_assert_eq!(facts.messages.count, messages.len());
        prop_assert_eq!(facts.messages.text_bytes, messages.iter().map(text_of).sum::<usize>());
        tree.insert("model".into(), new_model.as_str().into());
        tree.remove("fallbacks");
        let upstream: Map<String, Value> =
            serde_json::from_slice(&request.with_model(&new_model)).expect("still JSON");
        prop_assert_eq!(upstream, tree);
    }

    #[test]
    fn asking_for_usage_adds_that_member_and_nothing_else(
        extra in prop::collection::hash_map("[o-z]{1,3}", any_json(), 0..4),
        options in prop::option::of(prop::option::of(prop::collection::hash_map("[a-z]{1,3}", any_json(), 0..4))),
        include_usage in prop::option::of(prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from)]),
        has_fallbacks: bool,
        pretty: bool,
    ) {
        let mut tree: Map<String, Value> = extra.into_iter().collect();
        tree.extend([("model".into(), "a".into()), ("stream".into(), true.into()), ("messages".into(), json!([{}]))]);
        if has_fallbacks {
            tree.insert("fallbacks".into(), json!(["x"]));
        }
        if let Some(options) = options {
            let options = options.map(|members| {
                let mut members: Map<String, Value> = members.into_iter().collect();
                members.extend(include_usage.map(|wanted| ("include_usage".into(), wanted)));
                members
            });
            tree.insert("stream_options".into(), options.into());
        }
        let body = if pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) };
        let request = scan(&body.expect("prints")).expect("good");
        let asked: Map<String, Value> = serde_json::from_slice(&request.asking_usage()).expect("still JSON");
        tree.remove("fallbacks");
        tree.insert("model".into(), "b".into());
        let options = tree.entry("stream_options").or_insert(Value::Null);
        options["include_usage"] = true.into();
        prop_assert_eq!(asked, tree);
    }

    #[test]
    fn random_bytes_never_panic(head in 0usize..SMALL.len(), noise: Vec<u8>, tail in 0usize..SMALL.len()) {
        let body = [&SMALL.as_bytes()[..head], &noise, &SMALL.as_bytes()[tail..]].concat();
        let _ = ChatRequest::scan(&Bytes::from(body)).map(|request| request.with_model("b"));
    }
}
