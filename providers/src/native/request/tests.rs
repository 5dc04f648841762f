//! Turns as clients ask for them, and as models are asked.

use understudy_messages::conversation::{Conversation, Message, Part};
use understudy_messages::request::Endpoint;

use super::*;
use crate::wire;

fn ask(body: &str) -> Result<Ask, AskError> {
    read(body.as_bytes(), "one")
}

fn refusal(body: &str) -> String {
    ask(body).expect_err("refused").to_string()
}

fn understood(body: &Bytes) -> (RequestFacts, Conversation) {
    let facts = wire::scan(Endpoint::Native, body).expect("scanned");
    (facts, wire::read(Endpoint::Native, body).expect("read"))
}

fn user(text: &str) -> Message {
    Message {
        speaker: Speaker::User,
        parts: vec![Part::Text(text.to_owned())],
    }
}

#[test]
fn a_text_is_all_that_a_turn_needs() {
    let asked = ask(r#"{"input":"hi"}"#).expect("good");
    assert!(!asked.names_model);
    let (facts, conversation) = understood(&asked.body);
    assert_eq!((&*facts.model, facts.stream, facts.fallbacks), ("one", true, None));
    assert_eq!(conversation.messages, [user("hi")]);
}

#[test]
fn what_a_turn_says_of_itself_is_kept_and_null_is_nothing() {
    let asked = ask(
        r#"{"instructions":"be kind","stream":false,"model":"fast","fallbacks":["b/m"],"max_output_tokens":9,"temperature":0.5,
            "reasoning":{"effort":"low"},"input":[{"role":"user","content":"a"},{"type":"message","role":"user",
            "content":[{"type":"input_text","text":"b"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]}"#,
    );
    let asked = asked.expect("good");
    assert!(asked.names_model);
    let (facts, conversation) = understood(&asked.body);
    assert_eq!((&*facts.model, facts.stream), ("fast", false));
    assert_eq!(facts.fallbacks, Some(vec!["b/m".to_owned()]));
    assert_eq!(conversation.sampling.max_tokens, Some(9));
    assert_eq!(conversation.messages.len(), 3);
    let nothing =
        ask(r#"{"input":"hi","model":null,"stream":null,"fallbacks":null,"instructions":null,"reasoning":null}"#);
    assert_eq!(nothing, ask(r#"{"input":"hi"}"#));
}

#[test]
fn an_unknown_key_is_named_with_those_that_are_known() {
    let told = refusal(r#"{"input":"hi","tools":[]}"#);
    assert!(told.starts_with("`tools` is none of `input`, `model`"), "{told}");
    let long = refusal(&format!(r#"{{"{}\n":1}}"#, "k".repeat(1000)));
    assert!(long.len() < 250 && !long.contains('\n'), "{long}");
}

#[test]
fn nobody_but_the_user_speaks_in_a_turn() {
    for input in [
        r#"[{"role":"assistant","content":"I said so"}]"#,
        r#"[{"role":"system","content":"obey"}]"#,
        r#"[{"role":"user","content":"a"},{"type":"function_call_output","call_id":"c","output":"x"}]"#,
        r#"[{"type":"function_call","call_id":"c","name":"n","arguments":"{}"}]"#,
        r#"[{"type":"item_reference","id":"msg_1"}]"#,
        r#"[{"id":"msg_1"}]"#,
    ] {
        let told = ask(&format!(r#"{{"input":{input}}}"#)).expect_err(input);
        assert_eq!(told, AskError::NotTheUser, "{input}");
    }
}

#[test]
fn members_of_the_wrong_kind_are_named() {
    for (body, named) in [
        ("[]", "JSON object"),
        ("{", "not JSON"),
        (r#"{"model":"m"}"#, "`input` is missing"),
        (r#"{"input":""}"#, "`input` is empty"),
        (r#"{"input":[]}"#, "`input` is empty"),
        (r#"{"input":7}"#, "`input` must be"),
        (r#"{"input":"a","input":"b"}"#, "`input` is given twice"),
        (r#"{"input":"a","model":7}"#, "`model` must be"),
        (r#"{"input":"a","model":""}"#, "`model` is empty"),
        (r#"{"input":"a","stream":"yes"}"#, "`stream` must be"),
        (r#"{"input":"a","fallbacks":"b"}"#, "`fallbacks` must be"),
        (r#"{"input":"a","temperature":"hot"}"#, "`temperature` must be"),
        (
            r#"{"input":"a","max_output_tokens":"few"}"#,
            "`max_output_tokens` must be",
        ),
        (r#"{"input":"a","instructions":["b"]}"#, "`instructions` must be"),
        (r#"{"input":"a","reasoning":"much"}"#, "`reasoning` must be"),
    ] {
        let told = refusal(body);
        assert!(told.contains(named), "{body}: {told}");
    }
}

#[test]
fn the_transcript_comes_first_and_the_tools_with_it() {
    let asked = ask(r#"{"instructions":"be kind","input":"and now?"}"#).expect("good");
    let before: Vec<Arc<str>> = items(&user("hi")).into_iter().map(Arc::from).collect();
    let tools = [
        ToolSpec {
            name: "look".into(),
            plugin: "p".into(),
            description: Some("looks \"around\"".to_owned()),
            parameters: Some(r#"{"type":"object","required":["at"]}"#.to_owned()),
            replay_safe: true,
        },
        ToolSpec {
            name: "wait".into(),
            plugin: "p".into(),
            description: None,
            parameters: Some("no JSON".to_owned()),
            replay_safe: false,
        },
    ];
    let setting = Setting {
        transcript: &before,
        tools: &tools,
        model: Some("a \"pinned\" one"),
        strict: true,
    };
    let (facts, _) = understood(&asked.body);
    let body = compose(&asked.body, &facts, &setting);
    let (told, conversation) = understood(&body);
    assert_eq!((&*told.model, told.fallbacks), ("a \"pinned\" one", Some(Vec::new())));
    assert_eq!(conversation.messages[1..], [user("hi"), user("and now?")]);
    let tools: Vec<_> = conversation
        .tools
        .iter()
        .map(|tool| (&*tool.name, tool.parameters.as_deref()))
        .collect();
    assert_eq!(
        tools,
        [
            ("look", Some(r#"{"type":"object","required":["at"]}"#)),
            ("wait", Some(r#"{"type":"object","properties":{}}"#))
        ]
    );
    assert_eq!(own_items(&asked.body, &facts), items(&user("and now?")));
}

#[test]
fn with_nothing_to_add_the_request_says_the_same() {
    let asked = ask(r#"{"input":"hi","fallbacks":["b/m"]}"#).expect("good");
    let (facts, conversation) = understood(&asked.body);
    let setting = Setting {
        strict: true,
        ..Setting::default()
    };
    let (told, same) = understood(&compose(&asked.body, &facts, &setting));
    assert_eq!(
        told.fallbacks,
        Some(vec!["b/m".to_owned()]),
        "the client says who else is asked"
    );
    assert_eq!(same, conversation);
}

#[test]
fn a_choice_is_a_name_or_none() {
    assert_eq!(read_choice(br#"{"model":"fast"}"#), Ok(Some("fast".to_owned())));
    assert_eq!(read_choice(br#"{"model":null}"#), Ok(None));
    for (body, named) in [
        ("{}", "`model` is missing"),
        (r#"{"model":""}"#, "`model` is empty"),
        (r#"{"model":[]}"#, "`model` must be"),
        (r#"{"model":"a","agent":"b"}"#, "`agent` is none of `model`"),
    ] {
        let told = read_choice(body.as_bytes()).expect_err(body).to_string();
        assert!(told.contains(named), "{told}");
    }
}
