use super::*;
use crate::sse::SseDecoder;
use bytes::Bytes;
use proptest::prelude::*;
use understudy_messages::answer::Usage;
use understudy_messages::failure::ProviderWords;

fn frame(raw: &str) -> Frame {
    let mut decoder = SseDecoder::default();
    decoder.push(Bytes::copy_from_slice(raw.as_bytes()));
    decoder.next_frame().expect("small").expect("whole")
}

fn scanned(json: &str) -> ChunkRead {
    scan(&frame(&format!("data: {json}\n\n")))
}

fn delta(json: &str) -> Delta {
    match scanned(json).signal {
        Signal::Delta(delta) => delta,
        other => panic!("{other:?} from {json}"),
    }
}

fn says(delta_json: &str) -> (bool, bool, bool) {
    let delta = delta(&format!(r#"{{"choices":[{{"delta":{delta_json}}}]}}"#));
    (delta.reasoning, delta.content, delta.tool_call)
}

fn message(read: &ChunkRead) -> &str {
    let words = read.error.as_ref().and_then(|error| error.message.as_ref());
    words.map_or("", ProviderWords::reveal)
}

#[test]
fn role_chunks_and_empty_deltas_carry_nothing() {
    for json in [
        r#"{"role":"assistant","content":"","refusal":null,"reasoning":"","tool_calls":[]}"#,
        r#"{"content":null,"reasoning_details":[],"audio":null,"tool_calls":null}"#,
        "{}",
        "null",
        r#"{},"message":null"#,
    ] {
        assert_eq!(says(json), (false, false, false), "{json}");
    }
    assert_eq!(
        delta(r#"{"choices":[],"prompt_filter_results":[{}]}"#),
        Delta::default()
    );
}

#[test]
fn each_kind_of_delta_is_told_apart() {
    let (reasoning, content, tool_call) = ((true, false, false), (false, true, false), (false, false, true));
    for (json, said) in [
        (r#"{"reasoning_content":"hm"}"#, reasoning),
        (r#"{"reasoning":"hm"}"#, reasoning),
        (
            r#"{"content":"","reasoning_details":[{"type":"reasoning.encrypted"}]}"#,
            reasoning,
        ),
        (
            r#"{"content":[{"type":"thinking","thinking":[{"text":"hm"}]}]}"#,
            reasoning,
        ),
        (r#"{"content":" "}"#, content),
        (r#"{"content":[{"type":"text","text":"a"}]}"#, content),
        (r#"{"refusal":"no"}"#, content),
        (r#"{"audio":{"data":"AA"}}"#, content),
        (r#"{"con\u0074ent":"\n"}"#, content),
        (
            r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}"#,
            tool_call,
        ),
        (r#"{"tool_calls":[{"function":{"arguments":{"x":1}}}]}"#, tool_call),
        (r#"{"function_call":{"name":"f","arguments":""}}"#, tool_call),
    ] {
        assert_eq!(says(json), said, "{json}");
    }
}

#[test]
fn finish_reasons_are_read_from_the_first_choice() {
    for (reason, finish) in [
        ("stop", Finish::Stop),
        ("length", Finish::Length),
        ("tool_calls", Finish::ToolCalls),
        ("function_call", Finish::ToolCalls),
        ("content_filter", Finish::ContentFilter),
        ("eos", Finish::Other),
    ] {
        let json = format!(r#"{{"choices":[{{"finish_reason":"{reason}","index":0}}]}}"#);
        assert_eq!(delta(&json).finish, Some(finish), "{reason}");
    }
    let second = delta(r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"stop","index":1}]}"#);
    assert_eq!((second.finish, second.content), (None, true));
    assert_eq!((second.choices, second.ended), (second.ended, second.choices));
    assert_eq!(second.choices.iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn usage_is_read_wherever_it_stands() {
    let usage = Some(Usage {
        input: 7,
        output: 0,
        cache_read: 3,
        cache_write: 0,
        reasoning: 2,
    });
    let tokens = r#"{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":2}}"#;
    for json in [
        format!(r#"{{"choices":[],"usage":{tokens}}}"#),
        format!(r#"{{"x_groq":{{"id":"r","usage":{tokens}}}}}"#),
        format!(r#"{{"choices":[{{"usage":{tokens}}}]}}"#),
    ] {
        assert_eq!(delta(&json).usage, usage, "{json}");
    }
    assert_eq!(delta(r#"{"choices":[],"usage":null}"#).usage, None);
}

#[test]
fn errors_are_found_in_every_place() {
    for json in [
        r#"{"error":{"message":"busy","code":502},"choices":[{"delta":{"content":""}}]}"#,
        r#"{"error":"busy"}"#,
        r#"{"x_groq":{"error":"busy"},"choices":[]}"#,
        r#"{"choices":[{"finish_reason":"error","error":{"message":"busy"}}]}"#,
        r#"{"choices":[{"finish_reason":"error"}],"error":{"message":"busy"}}"#,
        r#"{"object":"error","message":"busy","type":"BadRequestError","code":400}"#,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
    ] {
        assert!(delta(json).error, "{json}");
        assert_eq!(message(&scanned(json)), "busy", "{json}");
    }
    assert!(delta(r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#).error);
    assert!(!delta(r#"{"error":null,"choices":[]}"#).error);
}

#[test]
fn a_frame_named_error_is_an_error_whatever_its_data() {
    for data in [
        r#"{"error":{"message":"busy"}}"#,
        r#"{"message":"busy"}"#,
        "busy",
        "\"busy\"",
    ] {
        let read = scan(&frame(&format!("event: error\ndata: {data}\n\n")));
        assert!(
            matches!(read.signal, Signal::Delta(Delta { error: true, .. })),
            "{data}"
        );
        assert_eq!(message(&read), "busy", "{data}");
    }
    assert!(scan(&frame("event: error\n\n")).error.is_some());
}

#[test]
fn comments_the_terminal_word_and_broken_frames_are_signals_of_their_own() {
    for raw in [": busy\n\n", "\n", "data:\n\n", "event: ping\n\n"] {
        assert_eq!(scan(&frame(raw)).signal, Signal::Comment, "{raw:?}");
    }
    assert_eq!(scan(&frame("data:[DONE] \n\n")).signal, Signal::Done);
    for json in [
        r#"{"choices":[{"delta":{"content":"#,
        "nonsense",
        "[]",
        "7",
        r#"{"a":1}{"#,
    ] {
        assert_eq!(scanned(json).signal, Signal::Malformed, "{json}");
    }
}

#[test]
fn a_broken_frame_adds_nothing_to_the_answer() {
    let mut answer = Assembly::with_limit(100);
    let broken = frame("data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]\n\n");
    assert_eq!(decode(&broken, &mut answer).signal, Signal::Malformed);
    assert_eq!(answer.finish().text, "");
}

proptest! {
    #[test]
    fn scanning_and_decoding_agree_and_never_panic(
        pieces in prop::collection::vec(prop_oneof![
            Just(r#"{"choices":["#), Just(r#"{"delta":{"#), Just(r#""content":"x""#), Just("}"), Just("]"), Just(","),
            Just(r#""finish_reason":"stop""#), Just(r#""usage":{"prompt_tokens":1}"#), Just(r#""error":{"code":"#),
            Just("1"), Just("\"\\"), Just("event: error\n"), Just("data: "),
        ], 0..12),
    ) {
        let frame = frame(&format!("data: {}\n\n", pieces.concat()));
        let mut answer = Assembly::with_limit(1000);
        prop_assert_eq!(scan(&frame), decode(&frame, &mut answer));
    }
}
