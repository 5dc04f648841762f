use proptest::prelude::*;
use understudy_messages::answer::Finish;
use understudy_messages::conversation::Seal;
use understudy_messages::settings::Api;

use super::*;
use crate::sse::SseDecoder;

fn pieces(data: &[&str]) -> Vec<Piece> {
    let (mut decoder, mut frames, mut pieces) = (Decoder::default(), SseDecoder::default(), Vec::new());
    for data in data {
        frames.push(format!("data: {data}\n\n").into());
        while let Ok(Some(frame)) = frames.next_frame() {
            decoder.read(&frame, Some(&mut pieces));
        }
    }
    pieces
}

fn delta(delta: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#)
}

/// What was said after the beginning.
fn said(deltas: &[&str]) -> Vec<Piece> {
    let data: Vec<String> = deltas.iter().map(|it| delta(it)).collect();
    let data: Vec<&str> = data.iter().map(String::as_str).collect();
    pieces(&data).split_off(1)
}

fn call(index: u32, begin: Option<(&str, &str)>, arguments: &str) -> Piece {
    Piece::ToolCall {
        choice: 0,
        index,
        id: begin.map(|(id, _)| id.to_owned()),
        name: begin.map(|(_, name)| name.to_owned()),
        arguments: arguments.to_owned(),
        seal: None,
    }
}

fn think(text: &str) -> Piece {
    Piece::Reasoning {
        choice: 0,
        text: text.to_owned(),
    }
}

fn sealed(whole: bool, data: &str) -> Piece {
    Piece::Sealed {
        choice: 0,
        seal: Seal {
            maker: Api::OpenaiChat,
            whole,
            data: data.to_owned(),
        },
    }
}

#[test]
fn an_answer_begins_with_who_gives_it() {
    let first = r#"{"id":"x","model":"m","choices":[]}"#;
    let begin = Piece::Begin {
        id: Some("x".to_owned()),
        model: Some("m".to_owned()),
    };
    assert_eq!(pieces(&[first, first]), [begin]);
}

#[test]
fn an_end_comes_after_what_was_said_with_it() {
    let frame = r#"{"choices":[{"finish_reason":"stop","delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}"#;
    let pieces = pieces(&[frame]);
    assert!(matches!(pieces[1], Piece::Text { .. }));
    assert!(matches!(pieces[2], Piece::Usage(_)));
    assert!(matches!(
        pieces[3],
        Piece::Finish {
            choice: 0,
            finish: Finish::Stop,
            ..
        }
    ));
}

#[test]
fn calls_are_counted_from_0_whatever_the_provider_counts() {
    let deltas = [
        r#"{"tool_calls":[{"index":4,"id":"a","function":{"name":"f","arguments":""}}]}"#,
        r#"{"tool_calls":[{"index":4,"function":{"arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"index":4,"id":"b","function":{"name":"g","arguments":"{\"x\""}}]}"#,
        r#"{"tool_calls":[{"id":"b","function":{"arguments":":1}"}}]}"#,
    ];
    let expected = [
        call(0, Some(("a", "f")), ""),
        call(0, None, "{}"),
        call(1, Some(("b", "g")), r#"{"x""#),
        call(1, None, ":1}"),
    ];
    assert_eq!(said(&deltas), expected);
}

#[test]
fn a_call_begins_with_its_name_and_may_have_no_id() {
    let deltas = [
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"["}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"]"}}]}"#,
        r#"{"function_call":{"name":"g","arguments":"{"}}"#,
        r#"{"function_call":{"arguments":"}"}}"#,
    ];
    let expected = [
        call(0, Some(("a", "f")), "[]"),
        Piece::ToolCall {
            choice: 0,
            index: 1,
            id: None,
            name: Some("g".to_owned()),
            arguments: "{".to_owned(),
            seal: None,
        },
        call(1, None, "}"),
    ];
    assert_eq!(said(&deltas), expected);
}

#[test]
fn reasoning_is_told_once_with_its_seals() {
    let deltas = [
        r#"{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","signature":null}]}"#,
        r#"{"reasoning_details":[{"type":"reasoning.text","text":"","signature":"s"}],"reasoning":null}"#,
        r#"{"reasoning":"b","reasoning_details":[{"type":"reasoning.encrypted","data":"e"}]}"#,
    ];
    assert_eq!(
        said(&deltas),
        [think("a"), sealed(false, "s"), think("b"), sealed(true, "e")]
    );
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
    fn with_and_without_pieces_a_frame_means_the_same(text in r#"[{}\[\]":,a-z0-9]{0,40}"#) {
        let frame = |text: &str| {
            let mut frames = SseDecoder::default();
            frames.push(format!("data: {text}\n\n").into());
            frames.next_frame().expect("small").expect("whole")
        };
        for text in [text.clone(), delta(&format!("{{\"content\":{text}}}"))] {
            let frame = frame(&text);
            let told = Decoder::default().read(&frame, Some(&mut Vec::new()));
            prop_assert_eq!(told, Decoder::default().read(&frame, None));
        }
    }
}

fn compared(deltas: &[&str]) -> (bool, bool) {
    let (mut decoder, mut frames) = (Decoder::default(), SseDecoder::default());
    for it in deltas {
        frames.push(format!("data: {}\n\n", delta(it)).into());
        while let Ok(Some(frame)) = frames.next_frame() {
            decoder.read(&frame, Some(&mut Vec::new()));
        }
    }
    (decoder.differs(), decoder.untold())
}

#[test]
fn a_call_that_is_named_or_numbered_in_two_ways_is_known() {
    let begin = r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"re","arguments":""}}]}"#;
    for (more, differs) in [
        (r#"{"index":0,"function":{"arguments":"{}"}}"#, false),
        (
            r#"{"index":0,"id":"a","function":{"name":"re","arguments":"{}"}}"#,
            false,
        ),
        (r#"{"index":0,"function":{"name":"move","arguments":"{}"}}"#, true),
        (r#"{"index":1,"id":"a","function":{"arguments":"{}"}}"#, true),
    ] {
        let more = format!(r#"{{"tool_calls":[{more}]}}"#);
        assert_eq!(compared(&[begin, &more]), (differs, false), "{more}");
    }
}

#[test]
fn a_call_of_no_function_is_a_call_that_no_piece_tells_of() {
    let custom = r#"{"tool_calls":[{"index":0,"type":"custom","custom":{"name":"rm","input":"x"}}]}"#;
    assert_eq!(compared(&[custom]), (false, true));
}

#[test]
fn of_a_delta_and_a_message_in_one_choice_the_delta_is_told() {
    let hi = [Piece::Text {
        choice: 0,
        text: "hi".to_owned(),
    }];
    for both in [
        r#"{"content":"hi"},"message":{"content":"ho"}"#,
        r#"{"content":"hi"},"message":{"tool_calls":[{"id":"a"}]}"#,
    ] {
        assert_eq!(said(&[both]), hi, "{both}");
    }
    let alone = pieces(&[r#"{"choices":[{"message":{"content":"hi"}}]}"#]);
    assert_eq!(alone[1..], hi);
}
