use super::*;
use proptest::prelude::*;

type Parsed = (Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);

fn decode(reads: &[&[u8]], limit: usize) -> Result<Vec<Frame>, FrameTooLarge> {
    let mut decoder = SseDecoder::with_limit(limit);
    let mut frames = Vec::new();
    for read in reads {
        decoder.push(Bytes::copy_from_slice(read));
        while let Some(frame) = decoder.next_frame()? {
            frames.push(frame);
        }
    }
    frames.extend(decoder.finish());
    Ok(frames)
}

fn whole(body: &str) -> Vec<Frame> {
    decode(&[body.as_bytes()], MAX_FRAME).expect("small frames")
}

fn data(frames: &[Frame]) -> Vec<&str> {
    let text = |frame: &'_ Frame| frame.data.is_some();
    frames
        .iter()
        .filter(|frame| text(frame))
        .map(|frame| std::str::from_utf8(frame.data.as_ref().expect("filtered")).expect("utf-8"))
        .collect()
}

fn bytewise(body: &[u8]) -> Vec<&[u8]> {
    body.chunks(1).collect()
}

#[test]
fn lf_cr_and_crlf_all_end_lines() {
    for end in ["\n", "\r", "\r\n"] {
        let body = format!("data: a{end}{end}data: b{end}{end}");
        let frames = whole(&body);
        assert_eq!(data(&frames), ["a", "b"], "{end:?}");
        assert_eq!(frames.len(), 2, "{end:?}");
        let one_by_one = decode(&bytewise(body.as_bytes()), MAX_FRAME);
        assert_eq!(one_by_one, Ok(frames), "{end:?}");
    }
}

#[test]
fn a_lone_cr_blank_line_ends_its_frame_without_waiting_for_more() {
    let mut decoder = SseDecoder::default();
    decoder.push(Bytes::from_static(b"data: [DONE]\r\r"));
    let frame = decoder.next_frame().expect("small").expect("whole");
    assert_eq!(frame.data.as_deref(), Some(&b"[DONE]"[..]));
}

#[test]
fn a_crlf_cut_between_reads_makes_one_frame() {
    let reads: [&[u8]; 4] = [b"data: a\r\n\r", b"\ndata: b\r", b"\n\r", b"\n"];
    let frames = decode(&reads, MAX_FRAME).expect("small");
    assert_eq!(data(&frames), ["a", "b"]);
    assert_eq!(frames[0].raw, "data: a\r\n\r\n");
    assert_eq!(frames[1].raw, "data: b\r\n\r\n");
}

#[test]
fn a_frame_split_inside_a_utf8_char_is_whole_again() {
    let body = "data: Grüße 👩‍🚀 漢字\n\n";
    for cut in 0..body.len() {
        let (head, tail) = body.as_bytes().split_at(cut);
        let frames = decode(&[head, tail], MAX_FRAME).expect("small");
        assert_eq!(data(&frames), ["Grüße 👩‍🚀 漢字"]);
    }
}

#[test]
fn a_frame_inside_one_read_is_not_copied() {
    let read = Bytes::from(b"data: one\n\ndata: two\n\n".to_vec());
    let mut decoder = SseDecoder::default();
    decoder.push(read.clone());
    let mut at = 0;
    while let Some(frame) = decoder.next_frame().expect("small") {
        assert_eq!(frame.raw.as_ptr(), read[at..].as_ptr());
        let data = frame.data.expect("has data");
        assert_eq!(data.as_ptr(), read[at + 6..].as_ptr());
        at += frame.raw.len();
    }
    assert_eq!(at, read.len());
}

#[test]
fn data_lines_are_joined_by_lf() {
    let frames = whole("data: {\ndata:\"a\":\ndata: 1}\n\n");
    assert_eq!(data(&frames), ["{\n\"a\":\n1}"]);
    assert_eq!(data(&whole("data\ndata\n\n")), ["\n"]);
}

#[test]
fn a_byte_order_mark_is_kept_in_the_bytes_and_not_in_the_field() {
    let frames = whole("\u{feff}data: a\n\n\u{feff}data: b\n\n");
    assert_eq!(data(&frames), ["a"]);
    assert_eq!(frames[0].raw, "\u{feff}data: a\n\n");
}

#[test]
fn comments_and_spare_blank_lines_carry_no_data() {
    let frames = whole(": busy\n\n\ndata: a\n\n");
    assert_eq!(frames.len(), 3);
    assert!(frames[0].data.is_none() && frames[1].data.is_none());
    assert_eq!(data(&frames), ["a"]);
    let mixed = whole(": note\nid: 7\ndata: a\nretry: 10\n\n");
    assert_eq!(data(&mixed), ["a"]);
}

#[test]
fn fields_need_neither_colon_nor_space() {
    let frames = whole("event:error\ndata:x\n\nevent\ndata\n\ndata:  two\n\n");
    assert_eq!(frames[0].event.as_deref(), Some(&b"error"[..]));
    assert_eq!(frames[1].event.as_deref(), Some(&b""[..]));
    assert_eq!(data(&frames), ["x", "", " two"]);
}

#[test]
fn an_unfinished_last_frame_is_given_at_the_end() {
    assert_eq!(data(&whole("data: a\n\ndata: [DONE]")), ["a", "[DONE]"]);
    assert_eq!(data(&whole("data: a\n\ndata: [DONE]\n")), ["a", "[DONE]"]);
    assert_eq!(data(&whole("data: a\r\n\r")), ["a"]);
    assert!(whole("").is_empty());
}

#[test]
fn a_frame_over_the_bound_is_refused_by_name_however_it_was_cut() {
    let body = b"data: 0123456789\n\n";
    let refused = Err(FrameTooLarge { limit: 17 });
    assert_eq!(decode(&[body], 17), refused);
    assert_eq!(decode(&bytewise(body), 17), refused);
    assert!(decode(&[body], 18).is_ok());
    let words = FrameTooLarge { limit: 17 }.to_string();
    assert_eq!(words, "server-sent event larger than 17 bytes");
}

fn parsed(frames: &[Frame]) -> Vec<Parsed> {
    let copy = |bytes: &Option<Bytes>| bytes.as_ref().map(|bytes| bytes.to_vec());
    frames
        .iter()
        .map(|frame| (frame.raw.to_vec(), copy(&frame.event), copy(&frame.data)))
        .collect()
}

/// Bodies that are mostly framing, so that line ends meet cuts often.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just("\n"),
        Just("\r"),
        Just("\r\n"),
        Just("data: "),
        Just("data:"),
        Just("event: e"),
        Just(": c"),
        Just("ü"),
        Just("{\"a\":1}"),
        Just("\u{feff}"),
    ];
    let framed = prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat().into_bytes());
    prop_oneof![4 => framed, 1 => any::<Vec<u8>>()]
}

proptest! {
    #[test]
    fn any_split_of_any_body_gives_the_same_frames(
        body in body(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        limit in prop_oneof![Just(MAX_FRAME), 1usize..40],
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        cuts.sort_unstable();
        cuts.push(body.len());
        let mut start = 0;
        let mut reads: Vec<&[u8]> = Vec::new();
        for cut in cuts {
            reads.push(&body[start..cut]);
            start = cut;
        }
        let whole = decode(&[&body], limit).map(|frames| parsed(&frames));
        let split = decode(&reads, limit).map(|frames| parsed(&frames));
        let single = decode(&bytewise(&body), limit).map(|frames| parsed(&frames));
        prop_assert_eq!(&whole, &split);
        prop_assert_eq!(&whole, &single);
    }

    #[test]
    fn no_byte_is_lost(body in body()) {
        let frames = decode(&bytewise(&body), MAX_FRAME).expect("small");
        let joined: Vec<u8> = frames.iter().flat_map(|frame| frame.raw.to_vec()).collect();
        prop_assert_eq!(joined, body);
    }
}

#[test]
fn every_byte_of_the_data_has_its_place_in_the_frame() {
    let raw = "\u{feff}data: ab\r\n: no data\r\ndata\r\nevent: e\r\ndata:  cd\r\n\r\n";
    let mut decoder = SseDecoder::default();
    decoder.push(Bytes::from_static(raw.as_bytes()));
    let frame = decoder.next_frame().expect("small").expect("whole");
    let data = frame.data.clone().expect("data");
    assert_eq!(data, "ab\n\n cd");
    let mut place = frame.places_in_raw();
    for (at, byte) in data.iter().enumerate() {
        let in_raw = frame.raw[place(at).expect("a place")];
        assert_eq!(in_raw, if *byte == b'\n' { b'\r' } else { *byte }, "{at}");
    }
    assert_eq!(place(data.len()), Some(raw.len() - 4));
    assert_eq!((place(data.len() + 1), place(0)), (None, None));
}
