//! Strings of JSON and what they stand for.

use std::borrow::Cow;

use memchr::memchr;

/// A string's content, still escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JsonStr<'a> {
    pub(super) raw: &'a str,
    pub(super) len: usize,
}

impl<'a> JsonStr<'a> {
    /// A string with nothing in it.
    pub(crate) const EMPTY: Self = Self { raw: "", len: 0 };

    pub(crate) fn is_empty(self) -> bool {
        self.raw.is_empty()
    }

    /// It as written, without the quotes.
    pub(crate) fn raw(self) -> &'a str {
        self.raw
    }

    /// Its length when decoded, in bytes.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// The text that it stands for: borrowed unless it has escapes. A lone surrogate becomes U+FFFD.
    pub(crate) fn decode(self) -> Cow<'a, str> {
        if self.len == self.raw.len() {
            return Cow::Borrowed(self.raw);
        }
        let mut decoded = String::with_capacity(self.len);
        let mut rest = self.raw;
        while let Some(at) = memchr(b'\\', rest.as_bytes()) {
            decoded.push_str(&rest[..at]);
            let (character, len) = unescape(&rest.as_bytes()[at..]);
            decoded.push(character);
            rest = &rest[at + len..];
        }
        decoded.push_str(rest);
        Cow::Owned(decoded)
    }
}

/// The character that a checked escape, or pair of them, stands for, and its length in the text.
fn unescape(escape: &[u8]) -> (char, usize) {
    let simple = match escape[1] {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = unit(&escape[2..6]);
            let second = match escape.get(6..12) {
                Some([b'\\', b'u', digits @ ..]) => unit(digits),
                Some(_) | None => 0,
            };
            return match char::decode_utf16([first, second]).next() {
                Some(Ok(character)) => (character, if character > '\u{ffff}' { 12 } else { 6 }),
                Some(Err(_)) | None => (char::REPLACEMENT_CHARACTER, 6),
            };
        }
        other => char::from(other),
    };
    (simple, 2)
}

/// Four hexadecimal digits as a UTF-16 unit.
pub(super) fn unit(digits: &[u8]) -> u16 {
    let value = |digit: &u8| char::from(*digit).to_digit(16).unwrap_or(0) as u16;
    digits.iter().fold(0, |unit, digit| unit << 4 | value(digit))
}

/// How many bytes of UTF-8 a unit becomes; half a surrogate pair counts two.
pub(super) fn utf8_len(unit: u16) -> usize {
    match unit {
        0..0x80 => 1,
        0x80..0x800 | 0xd800..0xe000 => 2,
        0x800..0xd800 | 0xe000.. => 3,
    }
}
