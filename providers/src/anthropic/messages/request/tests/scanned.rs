//! What one scan finds.

use bytes::Bytes;
use proptest::prelude::*;
use understudy_messages::request::{Demand, Endpoint, RequestFacts, Role};

use super::super::scan;
use crate::openai::chat::request::for_model;
use crate::request_error::RequestError;
use crate::wire;

fn facts_of(body: &str) -> Result<RequestFacts, RequestError> {
    scan(&Bytes::copy_from_slice(body.as_bytes()))
}

fn facts(body: &str) -> RequestFacts {
    facts_of(body).expect("a good request")
}

fn demands(members: &str, demand: Demand) -> bool {
    let body = format!(r#"{{"model":"a",{members}}}"#);
    facts(&body).demands.contains(demand)
}

fn says(block: &str, demand: Demand) -> bool {
    demands(
        &format!(r#""messages":[{{"role":"user","content":[{block}]}}]"#),
        demand,
    )
}

const SMALL: &str = r#"{"model":"a/b","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;

#[test]
fn a_small_request_is_read() {
    let facts = facts(SMALL);
    assert_eq!((&*facts.model, facts.stream, facts.choices), ("a/b", false, 1));
    assert_eq!((facts.messages.count, facts.messages.text_bytes), (1, 2));
    assert_eq!(facts.messages.first_role, Role::User);
    assert!(facts.include_usage && facts.usage_edit.is_none() && facts.fallbacks.is_none());
    assert!(!facts.has_tools && !facts.has_stop && !facts.has_logprobs && !facts.has_response_format);
}

#[test]
fn what_the_turn_depends_on_is_seen() {
    let facts = facts(
        r#"{"messages":[{"content":"x"}],"stream":true,"tools":[{"name":"f"}],"stop_sequences":["\n"],
        "output_config":{"effort":"low","format":{"type":"json_schema"}},"fallbacks":["b"],"model":"a"}"#,
    );
    assert!(facts.stream && facts.has_tools && facts.has_stop && facts.has_response_format);
    assert!(facts.demands.contains(Demand::JsonSchema) && !facts.demands.contains(Demand::HostedTool));
    assert_eq!(facts.fallbacks, Some(vec!["b".to_owned()]));
}

#[test]
fn a_count_does_not_stream() {
    let body = Bytes::from_static(br#"{"model":"m","stream":true,"messages":[{"role":"user","content":"a"}]}"#);
    let streams = |endpoint| wire::scan(endpoint, &body).expect("good").stream;
    assert!(streams(Endpoint::Messages) && !streams(Endpoint::CountTokens));
}

#[test]
fn text_is_counted_wherever_it_stands() {
    let body = r#"{"system":[{"type":"text","text":"ab"}],"model":"m","messages":[
        {"role":"user","content":"c"},
        {"role":"assistant","content":[{"type":"text","text":"\u00e9"},{"type":"tool_use","input":{"text":"not me"}}]},
        {"role":"user","content":[{"type":"tool_result","content":"dd"},
            {"type":"tool_result","content":[{"type":"text","text":"eee"}]},{"type":"text","text":"f"}]} ]}"#;
    let facts = facts(body);
    assert_eq!(
        (facts.messages.count, facts.messages.text_bytes),
        (3, 2 + 1 + 2 + 2 + 3 + 1)
    );
}

#[test]
fn where_the_messages_and_the_system_text_stand_is_noted() {
    let body = r#"{"model":"m", "system" : "sys" , "messages":[ {"role":"user","content":"a"} , {"role":"assistant","content":"b"} ]}"#;
    let messages = facts(body).messages;
    assert!(body[..messages.leading_system_end.expect("system")].ends_with("\"sys\""));
    assert!(body[messages.first..].starts_with("{\"role\":\"user\""));
    assert!(body[..messages.end].ends_with("\"b\"}"));
    assert_eq!(&body[messages.newest_user_content.expect("user")], "\"a\"");
}

#[test]
fn what_not_every_format_can_give_is_noted() {
    assert!(says(
        r#"{"source":{"data":"","type":"base64"},"type":"document"}"#,
        Demand::Document
    ));
    assert!(says(
        r#"{"type":"image","source":{"type":"url","url":"u"}}"#,
        Demand::MediaUrl
    ));
    assert!(says(
        r#"{"type":"image","source":{"type":"file","file_id":"f"}}"#,
        Demand::ProviderFile
    ));
    let nested = r#"{"type":"tool_result","content":[{"type":"image","source":{"type":"url"}}]}"#;
    assert!(says(nested, Demand::MediaUrl) && !says(nested, Demand::Document));
    assert!(!says(
        r#"{"type":"image","source":{"type":"base64"}}"#,
        Demand::MediaUrl
    ));
    let rest = r#""messages":[{}]"#;
    let hosted = r#""tools":[{"name":"f","input_schema":{}},{"type":"web_search_20250305","name":"web_search"}]"#;
    assert!(demands(&format!("{hosted},{rest}"), Demand::HostedTool));
    assert!(!demands(
        &format!(r#""tools":[{{"type":"custom"}},{{"type":null}}],{rest}"#),
        Demand::HostedTool
    ));
    assert!(demands(&format!(r#""mcp_servers":[{{}}],{rest}"#), Demand::HostedTool));
    assert!(!demands(
        &format!(r#""mcp_servers":[],"container":null,{rest}"#),
        Demand::HostedTool
    ));
}

#[test]
fn what_is_wrong_is_named() {
    let error = |body: &str| facts_of(body).expect_err("refused");
    assert_eq!(error("[]"), RequestError::NotAnObject);
    assert_eq!(error(r#"{"messages":[{}]}"#), RequestError::Missing { key: "model" });
    assert_eq!(error(r#"{"model":"m"}"#), RequestError::Missing { key: "messages" });
    assert_eq!(
        error(r#"{"model":"m","messages":[]}"#),
        RequestError::Empty { key: "messages" }
    );
    for (body, key) in [
        (r#"{"model":"m","model":"n","messages":[{}]}"#, "model"),
        (
            r#"{"model":"m","messages":[{}],"stream":true,"stream":false}"#,
            "stream",
        ),
        (r#"{"model":"m","messages":[{"role":"user","role":"user"}]}"#, "role"),
        (
            r#"{"model":"m","messages":[{"content":[{"text":"a","text":"b"}]}]}"#,
            "text",
        ),
        (r#"{"model":"m","system":"a","system":"b","messages":[{}]}"#, "system"),
    ] {
        assert_eq!(error(body), RequestError::Duplicate { key });
    }
}

#[test]
fn only_the_model_changes_and_the_fallbacks_go() {
    let body = r#"{ "z":1e2, "fallbacks":["x"], "model" : "old", "messages":[{"content":"\u00fc"}],"stream":true}"#;
    let body = Bytes::from_static(body.as_bytes());
    let facts = scan(&body).expect("good");
    let upstream = r#"{ "z":1e2,  "model" : "new", "messages":[{"content":"\u00fc"}],"stream":true}"#;
    assert_eq!(for_model(&body, &facts, "new", true), upstream);
}

proptest! {
    #[test]
    fn no_bytes_panic(body: Vec<u8>, inside in "[\\[\\]{}\":,a-z0-9 ]{0,60}") {
        let _ = scan(&Bytes::from(body));
        let _ = scan(&Bytes::from(format!(r#"{{"model":"m","system":{inside},"messages":[{{"content":[{inside}]}}]}}"#)));
    }
}
