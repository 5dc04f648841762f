use proptest::prelude::*;
use understudy_messages::answer::Finish;

use super::*;
use crate::answer::Answer;

fn told(body: &str) -> (Result<Whole, AnswerError>, Answer) {
    let (mut pieces, mut answer) = (Vec::new(), Answer::default());
    let whole = read(body.as_bytes(), Some(&mut pieces));
    pieces.iter().for_each(|piece| answer.add(piece));
    assert_eq!(whole, read(body.as_bytes(), None));
    (whole, answer)
}

#[test]
fn everything_that_an_answer_says_is_told_in_its_order() {
    let body = r#"{"id":"resp_1","object":"response","model":"m-1","status":"completed","error":null,"output":[
        {"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"think"}],"encrypted_content":"gAAA"},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hel"},{"type":"output_text","text":"lo"}]},
        {"type":"function_call","call_id":"c1","name":"f","arguments":"{}"},
        {"type":"custom_tool_call","call_id":"c2","name":"g","input":"free"}],
        "usage":{"input_tokens":1,"output_tokens":2}}"#;
    let (whole, answer) = told(body);
    let whole = whole.expect("an answer");
    assert!(whole.says_something && whole.calls_tools);
    assert_eq!(whole.finish, Some(Finish::ToolCalls));
    assert_eq!((&*answer.text, &*answer.reasoning), ("Hello", "think"));
    let calls: Vec<_> = answer
        .tool_calls
        .iter()
        .map(|call| (&*call.id, &*call.arguments))
        .collect();
    assert_eq!(calls, [("c1", "{}"), ("c2", "free")]);
}

#[test]
fn a_failed_response_is_an_error_and_a_pending_one_no_answer() {
    let failed = r#"{"object":"response","status":"failed","error":{"code":"server_error","message":"x"},"output":[]}"#;
    let error = told(failed).0.expect("read").error.expect("an error");
    assert_eq!(error.code.as_deref(), Some("server_error"));
    assert!(told(r#"{"error":"plain words"}"#).0.expect("read").error.is_some());
    for body in [
        r#"{"object":"response","status":"queued","output":[]}"#,
        r#"{"object":"list","data":[]}"#,
    ] {
        assert_eq!(told(body).0, Err(AnswerError::NotAnAnswer));
    }
    assert_eq!(told("").0, Err(AnswerError::NoBody));
    assert_eq!(told("{\"output\":[").0, Err(AnswerError::Truncated));
    assert_eq!(told("<html>").0, Err(AnswerError::NotJson { at: 0 }));
}

#[test]
fn a_limit_is_an_answer_even_with_nothing_in_it() {
    let body = r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}"#;
    let whole = told(body).0.expect("an answer");
    assert_eq!((whole.finish, whole.is_empty()), (Some(Finish::Length), false));
    assert!(
        told(r#"{"status":"completed","output":[]}"#)
            .0
            .expect("an answer")
            .is_empty()
    );
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        let _ = read(&bytes, Some(&mut Vec::new()));
    }
}
