use proptest::prelude::*;

use super::*;

fn facts(input: &str) -> Result<RequestFacts, RequestError> {
    let body = format!(r#"{{"fallbacks":["b"],"model":"m","input":{input},"encoding_format":"base64"}}"#);
    scan(&Bytes::from(body))
}

#[test]
fn each_input_is_weighed_for_itself() {
    let cases = [
        (r#""abc""#, 3),
        (r#"["a","bcd"]"#, 3),
        ("[1,2,3]", 24),
        ("[[1],[2,3]]", 16),
    ];
    for (input, bytes) in cases {
        let facts = facts(input).expect("good");
        assert_eq!(facts.messages.text_bytes, bytes, "{input}");
        assert_eq!((&*facts.model, facts.fallbacks), ("m", Some(vec!["b".to_owned()])));
    }
}

#[test]
fn what_is_no_input_is_refused() {
    for input in ["1", "{}", "null", "[{}]"] {
        assert!(
            matches!(facts(input), Err(RequestError::WrongType { key: "input", .. })),
            "{input}"
        );
    }
    assert_eq!(facts("[]").err(), Some(RequestError::Empty { key: "input" }));
    let missing = scan(&Bytes::from_static(br#"{"model":"m"}"#)).err();
    assert_eq!(missing, Some(RequestError::Missing { key: "input" }));
}

#[test]
fn vectors_are_an_answer_and_none_are_not() {
    let answer =
        read(br#"{"object":"list","data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":4,"total_tokens":4}}"#);
    let answer = answer.expect("an answer");
    assert_eq!(
        (answer.is_empty(), answer.usage.map(|usage| usage.input)),
        (false, Some(4))
    );
    assert!(read(br#"{"data":[]}"#).expect("an answer").is_empty());
    assert!(
        read(br#"{"error":{"message":"no"}}"#)
            .expect("an error")
            .error
            .is_some()
    );
    assert_eq!(read(b"{}"), Err(AnswerError::NotAnAnswer));
    assert_eq!(read(b"{\"data\":["), Err(AnswerError::Truncated));
    assert_eq!(read(b" "), Err(AnswerError::NoBody));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        let _ = (read(&bytes), scan(&Bytes::from(bytes)));
    }
}
