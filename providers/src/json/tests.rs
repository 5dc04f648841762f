use super::lex::plain;
use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn check(text: &[u8]) -> Result<(), JsonError> {
    let mut cursor = Cursor::new(text)?;
    cursor.skip()?;
    cursor.end()
}

fn decoded(quoted: &str) -> (String, usize) {
    let text = Cursor::over(quoted).text().expect("a string").expect("a string");
    (text.decode().into_owned(), text.len())
}

#[test]
fn errors_name_the_byte_and_the_end() {
    assert_eq!(check(b"{\"a\":1,}"), Err(JsonError::Syntax { at: 7 }));
    assert_eq!(check(b"{\"a\" 1}"), Err(JsonError::Syntax { at: 5 }));
    assert_eq!(check(b"[1] 2"), Err(JsonError::Syntax { at: 4 }));
    assert_eq!(check(b"[\"\x01\"]"), Err(JsonError::Syntax { at: 2 }));
    assert_eq!(check(b"[\"\xff\"]"), Err(JsonError::Syntax { at: 2 }));
    assert_eq!(check(b"\"\\x\""), Err(JsonError::Syntax { at: 2 }));
    for cut in [
        "", " ", "{", "[1", "\"a", "\"\\", "\"\\u00", "{\"a\"", "{\"a\":", "tru", "1e", "-", "1.",
    ] {
        assert_eq!(
            check(cut.as_bytes()),
            Err(JsonError::Truncated { at: cut.len() }),
            "{cut:?}"
        );
    }
}

#[test]
fn nesting_is_followed_to_its_bound_and_no_deeper() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(check(nested(MAX_DEPTH).as_bytes()), Ok(()));
    let deeper = nested(MAX_DEPTH + 1);
    assert_eq!(check(deeper.as_bytes()), Err(JsonError::TooDeep { at: MAX_DEPTH }));
    let hostile = "[".repeat(1 << 20);
    assert_eq!(check(hostile.as_bytes()), Err(JsonError::TooDeep { at: MAX_DEPTH }));
}

#[test]
fn escapes_are_decoded_and_their_length_foreseen() {
    let cases = [
        (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
        (r#""mod\u0065l""#, "model"),
        (r#""\ud83d\ude00 \u00fc \u6f22""#, "😀 ü 漢"),
    ];
    for (quoted, plain) in cases {
        assert_eq!(decoded(quoted), (plain.to_owned(), plain.len()), "{quoted}");
    }
    assert_eq!(decoded(r#""\ud83d!""#).0, "\u{fffd}!");
    assert_eq!(decoded(r#""\ud83d\u0041""#).0, "\u{fffd}A");
}

#[test]
fn a_count_is_read_from_whatever_number_it_is_written_as() {
    for (text, count) in [("7", 7), ("7.0", 7), ("1e2", 100), ("-3", 0), ("null", 0), ("\"9\"", 0)] {
        assert_eq!(Cursor::over(text).count(), Ok(count), "{text}");
    }
}

/// Texts that are nearly JSON.
fn nearly_json() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just(","),
        Just(":"),
        Just("\"a\""),
        Just("\""),
        Just("\\"),
        Just("\\n"),
        Just("\\u00e9"),
        Just("0"),
        Just("-1"),
        Just(".5"),
        Just("e+7"),
        Just("true"),
        Just("null"),
        Just("fals"),
        Just(" "),
        Just("ü"),
        Just("\u{1}"),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn eight_bytes_at_a_time_find_what_one_at_a_time_finds(
        bytes in prop::collection::vec(prop_oneof![8 => any::<u8>(), 40 => b' '..=b'~', 1 => Just(b'"'), 1 => Just(b'\\')], 0..64),
    ) {
        let one_at_a_time = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..b' '));
        prop_assert_eq!(plain(&bytes), one_at_a_time.unwrap_or(bytes.len()));
    }

    #[test]
    fn what_is_json_agrees_with_another_parser(text in nearly_json()) {
        let theirs = serde_json::from_str::<serde::de::IgnoredAny>(&text);
        prop_assert_eq!(check(text.as_bytes()).is_ok(), theirs.is_ok());
    }

    #[test]
    fn strings_decode_as_another_parser_decodes_them(text: String, every: bool) {
        let quoted = if every {
            text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<String>()
        } else {
            let quoted = Value::from(text.as_str()).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        };
        prop_assert_eq!(decoded(&format!("\"{quoted}\"")), (text.clone(), text.len()));
    }

    #[test]
    fn random_bytes_never_panic(bytes: Vec<u8>) {
        let _ = check(&bytes);
    }
}
