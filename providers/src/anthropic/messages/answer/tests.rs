use proptest::prelude::*;
use serde_json::{Value, json};
use understudy_messages::answer::Finish;

use super::*;
use crate::answer::Answer;

fn whole(body: &Value) -> (Whole, Answer) {
    let mut pieces = Vec::new();
    let text = body.to_string();
    let whole = read(text.as_bytes(), Some(&mut pieces)).expect("an answer");
    assert_eq!(read(text.as_bytes(), None).as_ref(), Ok(&whole));
    let mut answer = Answer::default();
    pieces.iter().for_each(|piece| answer.add(piece));
    (whole, answer)
}

#[test]
fn all_blocks_of_an_answer_are_told() {
    let body = json!({ "id": "msg_1", "type": "message", "model": "c", "role": "assistant", "stop_reason": "tool_use",
        "usage": { "input_tokens": 4, "output_tokens": 2 }, "content": [
            { "type": "thinking", "thinking": "hm", "signature": "s" },
            { "type": "redacted_thinking", "data": "d" },
            { "type": "text", "text": "Let me " }, { "type": "text", "text": "see.", "citations": null },
            { "type": "tool_use", "id": "t1", "name": "f", "input": { "a": [1, "}"] } },
            { "type": "tool_use", "id": "t2", "name": "g", "input": {} },
            { "type": "from_the_future", "text": "?" }] });
    let (whole, answer) = whole(&body);
    assert_eq!((&*answer.text, &*answer.reasoning), ("Let me see.", "hm"));
    let arguments: Vec<&str> = answer.tool_calls.iter().map(|call| &*call.arguments).collect();
    assert_eq!(arguments, ["{\"a\":[1,\"}\"]}", "{}"]);
    assert_eq!(
        (whole.finish, answer.finish),
        (Some(Finish::ToolCalls), Some(Finish::ToolCalls))
    );
    assert!(whole.says_something && whole.calls_tools);
    assert_eq!(whole.usage.map(|usage| (usage.input, usage.output)), Some((4, 2)));
}

#[test]
fn an_input_that_is_no_object_is_told_as_it_is() {
    let block = json!({ "type": "tool_use", "id": "t", "name": "f", "input": "rm {" });
    let (_, answer) = whole(&json!({ "type": "message", "content": [block] }));
    assert_eq!(answer.tool_calls[0].arguments, r#""rm {""#);
}

#[test]
fn an_answer_may_leave_out_its_usage_and_its_type() {
    let (whole, answer) = whole(&json!({ "content": [{ "type": "text", "text": "x" }], "stop_reason": "end_turn" }));
    assert_eq!((whole.usage, &*answer.text), (None, "x"));
}

#[test]
fn nothing_said_is_no_answer_unless_there_is_a_reason() {
    let body = |reason: &str| json!({ "type": "message", "content": [], "stop_reason": reason });
    assert!(whole(&body("end_turn")).0.is_empty());
    assert!(!whole(&body("refusal")).0.is_empty());
    let thought = json!({ "content": [{ "type": "thinking", "thinking": "hm" }], "stop_reason": "end_turn" });
    assert!(whole(&thought).0.is_empty());
}

#[test]
fn an_error_with_status_200_is_told() {
    let body = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "busy" } });
    assert_eq!(
        whole(&body).0.error.and_then(|error| error.kind).as_deref(),
        Some("overloaded_error")
    );
}

#[test]
fn what_is_no_answer_is_none() {
    let error = |body: &str| read(body.as_bytes(), None).expect_err("none");
    assert_eq!(error(" "), AnswerError::NoBody);
    assert_eq!(error("{\"content\":["), AnswerError::Truncated);
    assert_eq!(error("<html>"), AnswerError::NotJson { at: 0 });
    assert_eq!(error("[]"), AnswerError::NotJson { at: 0 });
    assert_eq!(error("{\"choices\":[]}"), AnswerError::NotAnAnswer);
    assert_eq!(read_count(b"{\"choices\":[]}"), Err(AnswerError::NotAnAnswer));
}

#[test]
fn a_count_of_tokens_says_something() {
    let counted = read_count(b"{\"input_tokens\": 12}").expect("a count");
    assert!(counted.says_something && !counted.is_empty() && counted.usage.is_none());
    let refused = read_count(b"{\"type\":\"error\",\"error\":{\"message\":\"no\"}}").expect("an error");
    assert!(refused.error.is_some());
}

proptest! {
    #[test]
    fn no_bytes_panic(body: Vec<u8>) {
        let _ = read(&body, Some(&mut Vec::new()));
        let _ = read_count(&body);
    }

    #[test]
    fn a_cut_answer_is_none(cut in 1usize..80) {
        let body = br#"{"type":"message","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn"}"#;
        prop_assume!(cut < body.len());
        prop_assert_eq!(read(&body[..cut], None), Err(AnswerError::Truncated));
    }
}
