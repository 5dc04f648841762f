use proptest::prelude::*;
use understudy_messages::answer::Usage;

use super::*;
use crate::sse::SseDecoder;
use crate::stream::{BodyEnd, StreamMachine};

fn frame(data: &str) -> Frame {
    let mut frames = SseDecoder::default();
    frames.push(format!("data: {data}\r\n\r\n").into());
    frames.next_frame().expect("small").expect("whole")
}

/// What was said, and whether it is a whole answer.
fn read(data: &[&str]) -> (Vec<Piece>, bool) {
    let (mut decoder, mut machine, mut pieces) = (Decoder::default(), StreamMachine::default(), Vec::new());
    for data in data {
        let read = decoder.read(&frame(data), Some(&mut pieces));
        machine.frame(read.signal, data.len());
    }
    (pieces, machine.end(BodyEnd::Clean).is_ok())
}

fn parts(parts: &str) -> String {
    format!(r#"{{"candidates":[{{"content":{{"parts":[{parts}]}}}}],"responseId":"r"}}"#)
}

/// What one frame of parts says after the beginning.
fn said(list: &str) -> Vec<Piece> {
    read(&[&parts(list)]).0.split_off(1)
}

fn seal(data: &str) -> Seal {
    Seal {
        maker: Api::Gemini,
        whole: false,
        data: data.to_owned(),
    }
}

fn call(index: u32, id: &str, arguments: &str, seal: Option<Seal>) -> Piece {
    Piece::ToolCall {
        choice: 0,
        index,
        id: Some(id.to_owned()),
        name: Some("f".to_owned()),
        arguments: arguments.to_owned(),
        seal,
    }
}

fn finish(finish: Finish) -> Piece {
    Piece::Finish {
        choice: 0,
        finish,
        stop_sequence: None,
    }
}

#[test]
fn an_answer_is_whole_when_it_says_why_it_ended() {
    let begun =
        r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"index":0}],"modelVersion":"m","responseId":"r"}"#;
    let ended = r#"{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}],
        "usageMetadata":{"promptTokenCount":9,"cachedContentTokenCount":4,"candidatesTokenCount":2,"thoughtsTokenCount":3}}"#;
    assert!(!read(&[begun]).1);
    let (pieces, whole) = read(&[begun, &ended.replace('\n', "")]);
    assert!(whole);
    let text = |text: &str| Piece::Text {
        choice: 0,
        text: text.to_owned(),
    };
    let usage = Usage {
        input: 9,
        output: 5,
        cache_read: 4,
        cache_write: 0,
        reasoning: 3,
    };
    let begin = Piece::Begin {
        id: Some("r".to_owned()),
        model: Some("m".to_owned()),
    };
    assert_eq!(
        pieces,
        [begin, text("a"), text("b"), finish(Finish::Stop), Piece::Usage(usage)]
    );
}

#[test]
fn calls_keep_the_text_of_their_arguments_and_always_have_an_id() {
    let list = r#"{"functionCall":{"name":"f","args":{"z": 1,"a":"ü"}},"thoughtSignature":"s"},{"functionCall":{"name":"f","id":"x"}}"#;
    let expected = [
        call(0, "call_r_0_0", r#"{"z": 1,"a":"ü"}"#, Some(seal("s"))),
        call(1, "x", "{}", None),
    ];
    assert_eq!(said(list), expected);
    let stop = r#"{"candidates":[{"finishReason":"STOP"}]}"#;
    assert_eq!(read(&[&parts(list), stop]).0.pop(), Some(finish(Finish::ToolCalls)));
}

#[test]
fn thoughts_are_reasoning_and_a_texts_signature_seals_them() {
    let list = r#"{"text":"hm","thought":true},{"text":"a","thoughtSignature":"s"},{"text":"","thoughtSignature":"t"}"#;
    let sealed = |data| Piece::Sealed {
        choice: 0,
        seal: seal(data),
    };
    let expected = [
        Piece::Reasoning {
            choice: 0,
            text: "hm".to_owned(),
        },
        sealed("s"),
        Piece::Text {
            choice: 0,
            text: "a".to_owned(),
        },
        sealed("t"),
    ];
    assert_eq!(said(list), expected);
}

#[test]
fn every_filter_is_one_finish_and_an_answer() {
    for word in [
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
    ] {
        let (pieces, whole) = read(&[&format!(r#"{{"candidates":[{{"finishReason":"{word}"}}]}}"#)]);
        assert_eq!(
            (pieces.last(), whole),
            (Some(&finish(Finish::ContentFilter)), true),
            "{word}"
        );
    }
    let (pieces, whole) = read(&[r#"{"promptFeedback":{"blockReason":"OTHER"}}"#]);
    assert_eq!((pieces.last(), whole), (Some(&finish(Finish::ContentFilter)), true));
}

#[test]
fn an_error_in_the_stream_is_one() {
    let read = Decoder::default().read(&frame(r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}"#), None);
    assert!(matches!(read.signal, Signal::Delta(delta) if delta.error));
    assert_eq!(read.error.and_then(|error| error.status), Some(429));
}

#[test]
fn code_and_media_are_content_without_a_text() {
    let read = Decoder::default().read(&frame(&parts(r#"{"executableCode":{"code":"1"}}"#)), None);
    assert!(matches!(read.signal, Signal::Delta(delta) if delta.content));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(chunks in prop::collection::vec(any::<Vec<u8>>(), 0..8)) {
        let (mut decoder, mut frames) = (Decoder::default(), SseDecoder::default());
        for chunk in chunks {
            frames.push([&b"data: "[..], &chunk, b"\n\n"].concat().into());
            while let Ok(Some(frame)) = frames.next_frame() {
                decoder.read(&frame, Some(&mut Vec::new()));
            }
        }
    }

    #[test]
    fn nearly_answers_never_panic(value in r#"(null|1|"a"|\[\]|\{\}|\[1\]|\[\{\}\]|\{"name":1\})"#, key in "text|functionCall|inlineData|thought") {
        said(&format!(r#"{{"{key}":{value}}}"#));
    }
}
