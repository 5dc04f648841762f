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

fn scanned(json: &str) -> FrameRead {
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

fn message(read: &FrameRead) -> &str {
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

/// What the client gets of these frames.
fn numbered<'a>(raw: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut numbering = Numbering::default();
    let raw = raw.into_iter().map(|raw| {
        let bytes = scan_numbered(&frame(raw), &mut numbering).1;
        String::from_utf8(bytes.to_vec()).expect("text")
    });
    raw.collect()
}

fn tool_calls(pieces: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{pieces}]}}}}]}}\n\n")
}

#[test]
fn a_frame_that_has_its_indexes_is_not_copied() {
    for raw in [
        tool_calls(r#"{"index":0,"id":"a","function":{"name":"f"}},{"id":"b","in\u0064ex":1}"#),
        tool_calls(r#"null,"odd""#),
        r#"data: {"choices":[{"delta":{"function_call":{"name":"f","arguments":"{}"}}}]}"#.to_owned() + "\n\n",
    ] {
        let frame = frame(&raw);
        let (_, bytes) = scan_numbered(&frame, &mut Numbering::default());
        assert_eq!(bytes, raw);
        assert_eq!(bytes.as_ptr(), frame.raw.as_ptr());
    }
}

#[test]
fn an_index_is_put_where_it_is_missing_and_the_rest_stays() {
    let frames = [
        (
            tool_calls(r#"{"id":"a","function":{"arguments":"{ \"index\":7"}}"#),
            tool_calls(r#"{"index":0,"id":"a","function":{"arguments":"{ \"index\":7"}}"#),
        ),
        (tool_calls("{}"), tool_calls(r#"{"index":0}"#)),
        (
            tool_calls(r#" { "\u0069d" :"b" } , {"id":"c", "index" : null},{"index":9,"id":"d"},{"id":"e"}"#),
            tool_calls(
                r#" {"index":1, "\u0069d" :"b" } , {"id":"c", "index" : 2},{"index":9,"id":"d"},{"index":10,"id":"e"}"#,
            ),
        ),
    ];
    let (came, goes): (Vec<_>, Vec<_>) = frames.into_iter().unzip();
    assert_eq!(numbered(came.iter().map(String::as_str)), goes);
}

#[test]
fn a_choice_may_tell_its_index_after_its_pieces() {
    let came = [
        r#"{"delta":{"tool_calls":[{"id":"a"}]},"index":1}"#,
        r#"{"index":0,"delta":{"tool_calls":[{"id":"b"}]}}"#,
        r#"{"delta":{"tool_calls":[{"id":"c"}]},"index":1}"#,
    ];
    let frame = |choices: &[&str]| format!("data: {{\"choices\":[{}]}}\n\n", choices.join(","));
    let goes = [
        came[0].replace("{\"id", "{\"index\":0,\"id"),
        came[1].replace("{\"id", "{\"index\":0,\"id"),
        came[2].replace("{\"id", "{\"index\":1,\"id"),
    ];
    let goes: Vec<&str> = goes.iter().map(String::as_str).collect();
    assert_eq!(numbered([&*frame(&came)]), [frame(&goes)]);
}

#[test]
fn indexes_find_their_place_in_a_frame_of_any_shape() {
    let came = "\u{feff}: hello\r\nevent: x\r\ndata:\t {\"choices\":[{\"delta\":{\"tool_calls\":[{\r\nid: 7\r\n\
        data:\"id\":\"a\"},\r\ndata: {\r\ndata: \"id\":\r\ndata: \"b\",\"index\":\"1\"}]}}]}\r\n\r\n";
    let goes = came
        .replace("[{\r\nid", "[{\"index\":0,\r\nid")
        .replace("\"index\":\"1\"", "\"index\":1");
    assert_eq!(numbered([came]), [goes]);
}

#[test]
fn a_malformed_frame_opens_no_call() {
    let broken = tool_calls(r#"{"id":"a"},{"id""#);
    let whole = tool_calls(r#"{"id":"b"}"#);
    assert_eq!(numbered([&*broken, &whole])[1], tool_calls(r#"{"index":0,"id":"b"}"#));
}

/// Pieces of tool calls as one choice sends them: an id with a name, or arguments alone; an index or none.
fn pieces() -> impl Strategy<Value = Vec<Vec<(Option<u8>, bool, String)>>> {
    let piece = (prop::option::of(0u8..4), any::<bool>(), "[a-z\"\\\\{}é]{0,4}");
    prop::collection::vec(prop::collection::vec(piece, 0..4), 0..8)
}

proptest! {
    #[test]
    fn what_is_filled_in_changes_nothing_else_and_is_never_missing(pieces in pieces(), pretty: bool, crlf: bool) {
        let (mut numbering, mut ids) = (Numbering::default(), 0..);
        let (mut before, mut after) = (Assembly::with_limit(1 << 20), Assembly::with_limit(1 << 20));
        // an index on one piece and not on another of the same call is for the reader to sort out: all or none
        let given = pieces.iter().flatten().all(|(index, ..)| index.is_some());
        for pieces in &pieces {
            let pieces = pieces.iter().map(|(index, opens, text)| {
                let mut piece = serde_json::json!({ "function": { "arguments": text } });
                if *opens {
                    piece["id"] = ids.next().map(|id: u32| id.to_string()).into();
                    piece["function"]["name"] = "f".into();
                }
                if given {
                    piece["index"] = (*index).into();
                }
                piece
            });
            let chunk = serde_json::json!({
                "choices": [{ "index": 0, "delta": { "tool_calls": pieces.collect::<Vec<_>>() } }],
            });
            let json = if pretty { serde_json::to_string_pretty(&chunk) } else { serde_json::to_string(&chunk) };
            let end = if crlf { "\r\n" } else { "\n" };
            let raw = format!("data: {}{end}{end}", json.expect("prints").replace('\n', &format!("{end}data: ")));
            let came = frame(&raw);
            let (read, bytes) = scan_numbered(&came, &mut numbering);
            prop_assert_eq!(&read, &scan(&came));
            let goes = frame(std::str::from_utf8(&bytes).expect("text"));
            prop_assert_eq!(&decode(&came, &mut before), &decode(&goes, &mut after));
            let mut filled: serde_json::Value = serde_json::from_slice(&goes.data.expect("data")).expect("JSON");
            for piece in filled["choices"][0]["delta"]["tool_calls"].as_array_mut().expect("a list") {
                prop_assert!(piece["index"].is_u64());
                if !given {
                    piece.as_object_mut().expect("an object").remove("index");
                }
            }
            prop_assert_eq!(filled, chunk);
        }
        prop_assert_eq!(before.finish(), after.finish());
    }
}
