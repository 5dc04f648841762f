//! What holds for any body at all.

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use secrecy::SecretString;
use serde_json::{Value, json};
use understudy_messages::failure::Failure;

use super::super::{Signal, StreamError, classify, classify_stream_error};

const CANARIES: [&str; 4] = [
    "sk-CANARY1111111111111111",
    "AIzaCANARY0000000000000000",
    "canary7canary7canary7",
    "CANARY",
];

/// Everything of a failure that may leave the classifier.
fn shown(failure: &Failure) -> String {
    let words = failure.words.as_ref().map_or("", |words| words.reveal());
    format!("{failure:?} {failure} {words}")
}

fn signal<'a>(status: Option<u16>, body: &'a [u8], secrets: &'a [SecretString]) -> Signal<'a> {
    Signal {
        provider: "p",
        status,
        headers: &|_| None,
        body,
        secrets,
        now: SystemTime::UNIX_EPOCH,
    }
}

/// Puts `inner` at the bottom of `depth` errors.
fn nest(inner: Value, depth: usize) -> Value {
    const MEMBERS: [&str; 4] = ["error", "cause", "innererror", "detail"];
    (0..depth).fold(inner, |value, level| json!({ MEMBERS[level % MEMBERS.len()]: value }))
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        status in proptest::option::of(0u16..1000),
        body in proptest::collection::vec(any::<u8>(), 0..400),
        header in "\\PC{0,40}",
    ) {
        let headers = |_: &str| Some(header.as_str());
        let signal = Signal { headers: &headers, ..signal(status, &body, &[]) };
        let failure = classify(&signal);
        prop_assert!(failure.retry_after.is_none_or(|wait| wait <= Duration::from_secs(86_400)));
    }

    #[test]
    fn random_words_never_panic(message in "(try again in |limit |requested |[0-9a-zé余*^# .:\\n{}\\[\\]\"-]){0,40}") {
        classify_stream_error(&StreamError { message: Some(&message), ..StreamError::default() });
    }

    #[test]
    fn a_planted_key_never_leaves(
        canary in proptest::sample::select(&CANARIES[..]),
        status in proptest::sample::select(&[0u16, 200, 400, 401, 404, 413, 422, 429, 500][..]),
        before in "[a-z :='\"(]{0,12}",
        after in "[ .,'\")]{0,3}[a-z ]{0,12}",
        member in proptest::sample::select(&["message", "code", "type", "status", "detail", "reason", "msg"][..]),
        depth in 0usize..6,
        as_text in any::<bool>(),
        is_bare in any::<bool>(),
    ) {
        let said = if is_bare { canary.to_owned() } else { format!("{before}{canary}{after}") };
        let value = nest(json!({ member: said, "param": canary, "message_": canary }), depth);
        let body = if as_text { said } else { value.to_string() };
        // the last canary looks like a word: only who knows the credential can hide it
        let failure = classify(&signal((status > 0).then_some(status), body.as_bytes(), &["another-key".into(), canary.into()]));
        prop_assert!(!shown(&failure).contains(canary), "{}", shown(&failure));
        if canary != "CANARY" {
            let failure = classify(&signal((status > 0).then_some(status), body.as_bytes(), &["other".into()]));
            let alone = is_bare || !before.ends_with(|c: char| c.is_ascii_alphanumeric());
            prop_assert!(!alone || !shown(&failure).contains(canary), "{}", shown(&failure));
        }
    }

    #[test]
    fn a_reason_is_found_down_to_the_depth_limit(depth in 0usize..24) {
        let body = nest(json!({ "code": "content_filter", "message": "no" }), depth).to_string();
        let failure = classify(&signal(Some(400), body.as_bytes(), &[]));
        prop_assert_eq!(failure.code.map(|code| code.as_str().to_owned()), Some("content_filter".to_owned()));
    }
}

#[test]
fn a_body_of_any_size_or_depth_is_bounded() {
    let wide = json!({ "errors": vec![json!({ "message": "x".repeat(5000), "errors": vec![json!({}); 50] }); 40] });
    let deep = "{\"error\":".repeat(100_000);
    let strings = (0..12).fold("{}".to_owned(), |inner, _| json!({ "message": inner }).to_string());
    for body in [
        wide.to_string(),
        deep,
        strings,
        nest(json!({ "code": "content_filter" }), 60).to_string(),
    ] {
        let failure = classify(&signal(Some(400), body.as_bytes(), &[]));
        assert_eq!(failure.nuance, None);
    }
}
