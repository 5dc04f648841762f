use bytes::Bytes;
use proptest::prelude::*;
use understudy_messages::answer::{Finish, Usage};

use super::*;
use crate::answer::Answer;
use crate::sse::SseDecoder;
use crate::stream::{BodyEnd, StreamFailure, StreamMachine, Verdict};

/// A stream of these events, each named and numbered as OpenAI does it.
fn stream(events: &[&str]) -> String {
    let frame = |event: &&str| format!("data: {event}\n\n");
    events.iter().map(frame).collect()
}

struct Played {
    answer: Answer,
    pieces: Vec<Piece>,
    end: Result<(), StreamFailure>,
    verdicts: Vec<Verdict>,
}

/// Plays a body that arrives in these reads; passing and reading must agree on the course.
fn play(reads: &[&[u8]]) -> Played {
    let (mut frames, mut machine) = (SseDecoder::default(), StreamMachine::default());
    let (mut reader, mut passer) = (Decoder::default(), Decoder::default());
    let (mut pieces, mut verdicts) = (Vec::new(), Vec::new());
    for read in reads {
        frames.push(Bytes::copy_from_slice(read));
        while let Some(frame) = frames.next_frame().expect("small") {
            let read = reader.read(&frame, Some(&mut pieces));
            assert_eq!(read, passer.read(&frame, None));
            verdicts.push(machine.frame(read.signal, frame.raw.len()));
        }
    }
    let mut answer = Answer::default();
    pieces.iter().for_each(|piece| answer.add(piece));
    Played {
        answer,
        pieces,
        end: machine.end(BodyEnd::Clean),
        verdicts,
    }
}

fn told(events: &[&str]) -> Played {
    play(&[stream(events).as_bytes()])
}

const CREATED: &str =
    r#"{"type":"response.created","response":{"id":"resp_1","model":"m-1","status":"in_progress","output":[]}}"#;
const COMPLETED: &str = r#"{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":2},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":3}}}}"#;
const TEXT: &str = r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hi"}"#;
const TEXT_DONE: &str = r#"{"type":"response.output_text.done","output_index":0,"content_index":0,"text":"Hi"}"#;
const ITEM_DONE: &str = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[{"type":"output_text","text":"Hi"}]}}"#;
const WHOLE: &str = r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]}]}}"#;

#[test]
fn an_answer_is_whole_at_response_completed_whatever_the_socket_does() {
    let played = told(&[CREATED, TEXT, COMPLETED]);
    assert_eq!(played.end, Ok(()));
    assert_eq!(played.answer.text, "Hi");
    assert_eq!(played.answer.finish, Some(Finish::Stop));
    let usage = Usage {
        input: 7,
        output: 5,
        cache_read: 2,
        cache_write: 0,
        reasoning: 3,
    };
    assert_eq!(played.answer.usage, Some(usage));
    assert_eq!(played.verdicts, [Verdict::Hold, Verdict::Release, Verdict::Finished]);
    let begin = Piece::Begin {
        id: Some("resp_1".into()),
        model: Some("m-1".into()),
    };
    assert_eq!(played.pieces.first(), Some(&begin));
}

#[test]
fn a_text_is_told_once_from_wherever_it_came_first() {
    for events in [
        &[TEXT, TEXT_DONE, ITEM_DONE, WHOLE][..],
        &[TEXT_DONE, ITEM_DONE, WHOLE],
        &[ITEM_DONE, WHOLE],
        &[WHOLE],
        &[TEXT, WHOLE],
    ] {
        let played = told(events);
        assert_eq!((&*played.answer.text, played.end), ("Hi", Ok(())), "{events:?}");
    }
}

#[test]
fn a_call_is_told_once_from_wherever_it_came_first() {
    let item = r#"{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"a\":1}"}"#;
    let added = format!(r#"{{"type":"response.output_item.added","output_index":0,"item":{item}}}"#);
    let delta = r#"{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{\"a\":1}"}"#;
    let all = r#"{"type":"response.function_call_arguments.done","output_index":0,"arguments":"{\"a\":1}"}"#;
    let done = format!(r#"{{"type":"response.output_item.done","output_index":0,"item":{item}}}"#);
    let end = format!(r#"{{"type":"response.completed","response":{{"status":"completed","output":[{item}]}}}}"#);
    for events in [
        &[&*added, delta, all, &*done, &*end][..],
        &[&*added, all, &*done, &*end],
        &[&*added, &*done, &*end],
        &[&*done, &*end],
        &[&*end],
        &[delta, all, &*done, &*end],
    ] {
        let played = told(events);
        let [call] = &played.answer.tool_calls[..] else {
            panic!("{events:?}: {:?}", played.answer.tool_calls)
        };
        let call = (&*call.id, &*call.name, &*call.arguments);
        assert_eq!(call, ("c1", "f", r#"{"a":1}"#), "{events:?}");
        assert_eq!(played.answer.finish, Some(Finish::ToolCalls));
    }
}

#[test]
fn the_parts_of_a_summary_are_paragraphs_and_the_seal_ends_the_block() {
    let part = |part: u8, text: &str| {
        format!(
            r#"{{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":{part},"delta":"{text}"}}"#
        )
    };
    let done = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","summary":[{"type":"summary_text","text":"one"},{"type":"summary_text","text":"two"}],"encrypted_content":"gAAA"}}"#;
    for events in [&[&*part(0, "o"), &*part(0, "ne"), &*part(1, "two"), done][..], &[done]] {
        let played = told(&[events, &[ITEM_DONE, COMPLETED]].concat());
        assert_eq!(played.answer.reasoning, "one\n\ntwo");
        let sealed = |piece: &&Piece| matches!(piece, Piece::Sealed { seal, .. } if seal.data == "gAAA" && seal.whole);
        assert_eq!(played.pieces.iter().filter(sealed).count(), 1);
    }
}

#[test]
fn nothing_but_reasoning_is_an_empty_answer_before_the_client_hears_of_its_end() {
    let thought = r#"{"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":"hm"}"#;
    let played = told(&[CREATED, thought, COMPLETED]);
    assert_eq!(played.verdicts.last(), Some(&Verdict::Failed(StreamFailure::Empty)));
}

#[test]
fn an_incomplete_answer_ends_for_its_reason() {
    for (reason, finish) in [
        ("max_output_tokens", Finish::Length),
        ("content_filter", Finish::ContentFilter),
        ("else", Finish::Other),
    ] {
        let end = format!(
            r#"{{"type":"response.incomplete","response":{{"status":"incomplete","incomplete_details":{{"reason":"{reason}"}}}}}}"#
        );
        assert_eq!(told(&[CREATED, TEXT, &end]).answer.finish, Some(finish), "{reason}");
    }
}

#[test]
fn a_failure_is_one_in_whatever_event_it_comes() {
    for event in [
        r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"no"}}}"#,
        r#"{"type":"response.completed","response":{"status":"failed","error":{"code":"server_error","message":"no"}}}"#,
        r#"{"type":"error","code":"server_error","message":"no","param":null,"sequence_number":3}"#,
        r#"{"type":"error","error":{"code":"server_error","message":"no"}}"#,
        r#"{"error":{"code":"server_error","message":"no"}}"#,
    ] {
        let frames = stream(&[event]);
        let mut decoder = SseDecoder::default();
        decoder.push(frames.into());
        let frame = decoder.next_frame().expect("small").expect("whole");
        let error = Decoder::default().read(&frame, None).error.expect(event);
        assert_eq!(error.code.as_deref(), Some("server_error"), "{event}");
        assert_eq!(error.kind, None, "{event}");
        let played = told(&[CREATED, TEXT, event]);
        assert_eq!(played.verdicts.last(), Some(&Verdict::Failed(StreamFailure::Answered)));
    }
}

#[test]
fn a_tool_of_the_providers_counts_as_content_and_gives_no_piece() {
    let added = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"web_search_call","id":"ws_1","status":"in_progress"}}"#;
    let searching = r#"{"type":"response.web_search_call.searching","output_index":0,"item_id":"ws_1"}"#;
    let played = told(&[CREATED, added, searching]);
    assert_eq!(played.verdicts, [Verdict::Hold, Verdict::Release, Verdict::Forward]);
    assert_eq!(played.pieces.len(), 1);
    assert_eq!(played.end, Err(StreamFailure::Truncated));
}

#[test]
fn comments_unknown_events_and_broken_json_do_no_harm() {
    let body = [
        ": ping\n\n",
        "data: {\"type\":\"response.invented\",\"x\":1}\n\n",
        "data: {\"type\":\"response.out\n\n",
        "data: []\n\n",
        &stream(&[TEXT, COMPLETED]),
        "data: [DONE]\n\n",
    ];
    let played = play(&[body.concat().as_bytes()]);
    assert_eq!((&*played.answer.text, played.end), ("Hi", Ok(())));
    let [.., whole, after] = played.verdicts[..] else {
        panic!("there are more");
    };
    assert_eq!((whole, after), (Verdict::Finished, Verdict::Drop));
    assert_eq!(played.verdicts[2], Verdict::Drop);
}

#[test]
fn what_is_remembered_of_items_is_bounded() {
    let mut decoder = Decoder::default();
    for _ in 0..2 * MAX_ITEMS {
        decoder.insert(0, ItemKind::Message);
    }
    assert_eq!(decoder.items.len(), MAX_ITEMS);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>, kind in "response\\.[a-z_.]{0,30}|error") {
        let _ = play(&[&bytes]);
        let data = format!("data: {{\"type\":\"{kind}\",\"item\":{{\"type\":\"message\"}},\"delta\":\"x\"}}\n\n");
        let _ = play(&[data.as_bytes(), &bytes]);
    }

    #[test]
    fn the_cut_of_the_reads_does_not_matter(cuts in prop::collection::vec(1usize..60, 1..40)) {
        let body = stream(&[CREATED, TEXT, TEXT_DONE, ITEM_DONE, COMPLETED]);
        let (mut rest, mut reads) = (body.as_bytes(), Vec::new());
        for cut in cuts.iter().cycle() {
            let (read, left) = rest.split_at((*cut).min(rest.len()));
            reads.push(read);
            rest = left;
            if rest.is_empty() { break; }
        }
        prop_assert_eq!(play(&reads).pieces, play(&[body.as_bytes()]).pieces);
    }
}

/// Whether a call was told in two ways, and the names and arguments in the pieces.
fn compared(events: &[&str]) -> (bool, String) {
    let (mut decoder, mut frames, mut pieces) = (Decoder::default(), SseDecoder::default(), Vec::new());
    frames.push(stream(events).into());
    while let Ok(Some(frame)) = frames.next_frame() {
        decoder.read(&frame, Some(&mut pieces));
    }
    let calls = pieces.into_iter().filter_map(|piece| match piece {
        Piece::ToolCall { name, arguments, .. } => Some(name.unwrap_or_default() + &arguments),
        _ => None,
    });
    let calls = calls.collect();
    (decoder.differs(), calls)
}

#[test]
fn a_call_that_is_told_in_two_ways_is_known_and_the_first_stands() {
    let added = r#"{"type":"response.output_item.added","item":{"type":"function_call","call_id":"c","name":"ls","arguments":""}}"#;
    let delta = r#"{"type":"response.function_call_arguments.delta","delta":"{\"a\":1}"}"#;
    let whole = |arguments: &str| {
        format!(r#"{{"type":"response.function_call_arguments.done","arguments":"{{\"a\":{arguments}}}"}}"#)
    };
    let item = |name: &str, arguments: &str| {
        format!(r#"{{"type":"function_call","call_id":"c","name":"{name}","arguments":"{{\"a\":{arguments}}}"}}"#)
    };
    let done = |item: String| format!(r#"{{"type":"response.output_item.done","item":{item}}}"#);
    let end = |item: String| format!(r#"{{"type":"response.completed","response":{{"output":[{item}]}}}}"#);
    for (last, differs) in [
        (whole("1"), false),
        (whole("2"), true),
        (done(item("ls", "1")), false),
        (done(item("ls", "2")), true),
        (done(item("rm", "1")), true),
        (end(item("ls", "1")), false),
        (end(item("ls", "2")), true),
        (end(item("rm", "1")), true),
    ] {
        let told = compared(&[CREATED, added, delta, &last]);
        assert_eq!(told, (differs, r#"ls{"a":1}"#.to_owned()), "{last}");
    }
}

#[test]
fn what_wants_an_answer_of_the_client_is_no_progress_of_the_provider() {
    for (item, errand) in [
        (r#"{"type":"browser_call","call_id":"c"}"#, true),
        (r#"{"type":"shell\u005fcall","id":"c"}"#, true),
        (
            r#"{"type":"function_call","call_id":"c","name":"rm","arguments":{"a":1}}"#,
            true,
        ),
        (r#"{"type":"web_search_call","id":"c"}"#, false),
        (r#"{"type":"shell_call_output","call_id":"c"}"#, false),
        (r#"{"type":"function\u005fcall","call_id":"c","name":"ls"}"#, false),
    ] {
        let mut decoder = Decoder::default();
        let mut frames = SseDecoder::default();
        let done = format!(r#"{{"type":"response.output_item.done","item":{item}}}"#);
        frames.push(stream(&[CREATED, &done]).into());
        while let Ok(Some(frame)) = frames.next_frame() {
            decoder.read(&frame, Some(&mut Vec::new()));
        }
        assert_eq!(decoder.untold(), errand, "{item}");
    }
}
