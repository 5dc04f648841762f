use super::*;
use crate::openai::chat::chunk;
use crate::sse::SseDecoder;

fn assembled(deltas: &[&str], limit: usize) -> Answer {
    let mut assembly = Assembly::with_limit(limit);
    let mut decoder = SseDecoder::default();
    for delta in deltas {
        let raw = format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n");
        decoder.push(raw.into_bytes().into());
        let frame = decoder.next_frame().expect("small").expect("whole");
        chunk::decode(&frame, &mut assembly);
    }
    assembly.finish()
}

fn calls(deltas: &[&str]) -> Vec<(String, String, String)> {
    let answer = assembled(deltas, 10_000);
    let calls = answer.tool_calls.into_iter();
    calls.map(|call| (call.id, call.name, call.arguments)).collect()
}

fn call(id: &str, name: &str, arguments: &str) -> (String, String, String) {
    (id.to_owned(), name.to_owned(), arguments.to_owned())
}

#[test]
fn texts_are_joined_and_their_escapes_resolved() {
    let answer = assembled(
        &[
            r#"{"reasoning":"h\u006d"}"#,
            r#"{"content":"Gr\u00fc"}"#,
            r#"{"content":"ße\n"}"#,
        ],
        100,
    );
    assert_eq!((&*answer.reasoning, &*answer.text), ("hm", "Grüße\n"));
    assert!(answer.says_something && !answer.is_cut);
}

#[test]
fn reasoning_sent_under_two_names_is_kept_once() {
    let answer = assembled(&[r#"{"reasoning":"hm","reasoning_content":"hm"}"#], 100);
    assert_eq!(answer.reasoning, "hm");
    assert!(!answer.says_something);
}

#[test]
fn interleaved_pieces_go_to_the_call_with_their_index() {
    let deltas = [
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":""}}]}"#,
        r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"mul","arguments":""}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}"#,
        r#"{"tool_calls":[{"index":1,"function":{"name":"","arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"add","arguments":"1}"}}]}"#,
    ];
    assert_eq!(calls(&deltas), [call("a", "add", "{\"x\":1}"), call("b", "mul", "{}")]);
}

#[test]
fn without_an_index_an_id_begins_a_call_and_the_rest_continues_it() {
    let deltas = [
        r#"{"tool_calls":[{"id":"a","function":{"name":"w","arguments":"{\"c\":"}}]}"#,
        r#"{"tool_calls":[{"function":{"arguments":"1}"}}]}"#,
        r#"{"tool_calls":[{"id":"b","function":{"name":"z","arguments":"{}"}}]}"#,
    ];
    assert_eq!(calls(&deltas), [call("a", "w", "{\"c\":1}"), call("b", "z", "{}")]);
    let nameless = [r#"{"tool_calls":[{"function":{"name":"f","arguments":{"x":[1]}}},{"function":{"name":"g"}}]}"#];
    assert_eq!(calls(&nameless), [call("", "f", "{\"x\":[1]}"), call("", "g", "")]);
}

#[test]
fn a_new_id_with_a_name_begins_a_call_even_under_a_used_index() {
    let deltas = [
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{"}}]}"#,
        r#"{"tool_calls":[{"index":0,"id":"c","function":{"arguments":"}"}}]}"#,
    ];
    assert_eq!(calls(&deltas), [call("a", "f", "{}"), call("b", "f", "{}")]);
}

#[test]
fn an_answer_over_the_bound_is_marked_as_cut() {
    let answer = assembled(
        &[r#"{"content":"1234"}"#, r#"{"content":"56"}"#, r#"{"content":"7"}"#],
        5,
    );
    assert_eq!((&*answer.text, answer.is_cut), ("1234", true));
}

fn body(message: &str, finish: &str) -> Answer {
    let body = format!(r#"{{"choices":[{{"index":0,"message":{message},"finish_reason":{finish}}}]}}"#);
    read(body.as_bytes()).expect("an answer")
}

#[test]
fn nothing_with_a_normal_stop_is_empty_and_anything_else_is_not() {
    for (message, finish, empty) in [
        (r#"{"content":""}"#, "\"stop\"", true),
        (r#"{"content":null,"reasoning":"hm"}"#, "\"stop\"", true),
        (r#"{"content":null}"#, "null", true),
        ("null", "\"odd\"", true),
        (r#"{"content":" "}"#, "\"stop\"", false),
        (r#"{"refusal":"no"}"#, "\"stop\"", false),
        (r#"{"audio":{"id":"a"}}"#, "\"stop\"", false),
        (
            r#"{"tool_calls":[{"id":"1","function":{"name":"now","arguments":"{}"}}]}"#,
            "\"stop\"",
            false,
        ),
        (r#"{"content":""}"#, "\"length\"", false),
        (r#"{"content":""}"#, "\"content_filter\"", false),
        (r#"{"content":null}"#, "\"tool_calls\"", false),
    ] {
        assert_eq!(body(message, finish).is_empty(), empty, "{message} {finish}");
    }
    assert!(read(br#"{"choices":[]}"#).expect("an answer").is_empty());
}

#[test]
fn an_error_under_a_good_status_is_read() {
    let answer = read(br#"{"error":{"message":"busy","code":"overloaded"}}"#).expect("an answer");
    let error = answer.error.expect("an error");
    assert_eq!(error.code.as_deref(), Some("overloaded"));
}

#[test]
fn what_is_not_an_answer_is_told_apart() {
    for (body, error) in [
        (" \n", AnswerError::NoBody),
        (r#"{"choices":[{"message":{"content":"Step on"#, AnswerError::Truncated),
        ("<html>", AnswerError::NotJson { at: 0 }),
        ("{\n  this", AnswerError::NotJson { at: 4 }),
        (r#"{"nothing":{}}"#, AnswerError::NotAnAnswer),
        ("[]", AnswerError::NotJson { at: 0 }),
    ] {
        assert_eq!(read(body.as_bytes()), Err(error), "{body}");
    }
}
