//! JSON read in place: spans instead of values, nothing allocated.
//!
//! Of a body a gateway wants a few members and where they stand; all else is checked and stepped over in the same
//! pass. The grammar is that of RFC 8259; lone surrogate escapes are let through, as clients do send them.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

#[cfg(test)]
mod tests;

/// The deepest nesting that is followed: as deep as the usual parsers go.
pub(crate) const MAX_DEPTH: usize = 128;

/// Why bytes could not be read as JSON. Offsets, never content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JsonError {
    /// Something at this byte does not belong there.
    Syntax { at: usize },
    /// The text ends, here, inside a value.
    Truncated { at: usize },
    /// A container at this byte is nested deeper than [`MAX_DEPTH`].
    TooDeep { at: usize },
}

/// What a value is, told from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

/// A place in a JSON text. Each method steps over the value that it read.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor before the text's value.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, JsonError> {
        let text = std::str::from_utf8(bytes).map_err(|error| match error.error_len() {
            Some(_) => JsonError::Syntax { at: error.valid_up_to() },
            None => JsonError::Truncated { at: bytes.len() },
        })?;
        Ok(Self::over(text))
    }

    /// A cursor before the value of a text, such as one that [`Cursor::value`] gave.
    pub(crate) fn over(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// The offset behind what was read last, or of the value whose kind was asked.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Where a part of the text stands that this cursor gave.
    pub(crate) fn span(&self, part: &'a str) -> Range<usize> {
        let start = part.as_ptr().addr().wrapping_sub(self.text.as_ptr().addr());
        start..start + part.len()
    }

    /// What the next value is. Steps up to it.
    pub(crate) fn kind(&mut self) -> Result<Kind, JsonError> {
        match self.peek()? {
            b'{' => Ok(Kind::Object),
            b'[' => Ok(Kind::Array),
            b'"' => Ok(Kind::String),
            b'-' | b'0'..=b'9' => Ok(Kind::Number),
            b't' | b'f' => Ok(Kind::Bool),
            b'n' => Ok(Kind::Null),
            _ => Err(self.syntax()),
        }
    }

    /// Calls `member` at each value of an object, with its key. Any other kind is stepped over.
    pub(crate) fn object<E: From<JsonError>>(
        &mut self,
        mut member: impl FnMut(&mut Self, JsonStr<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.kind()? != Kind::Object {
            return Ok(self.skip()?);
        }
        let mut more = self.open(b'}')?;
        while more {
            let key = self.string()?;
            self.take(b':')?;
            member(self, key)?;
            more = self.more(b'}')?;
        }
        Ok(())
    }

    /// Calls `element` at each value of an array. Any other kind is stepped over.
    pub(crate) fn array<E: From<JsonError>>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.kind()? != Kind::Array {
            return Ok(self.skip()?);
        }
        let mut more = self.open(b']')?;
        while more {
            element(self)?;
            more = self.more(b']')?;
        }
        Ok(())
    }

    /// Steps over a value of any kind.
    pub(crate) fn skip(&mut self) -> Result<(), JsonError> {
        match self.kind()? {
            Kind::Object => self.object(|cursor, _| cursor.skip()),
            Kind::Array => self.array(Self::skip),
            Kind::String => self.string().map(|_| ()),
            Kind::Number => self.number(),
            Kind::Bool if self.byte() == Some(b't') => self.word("true"),
            Kind::Bool => self.word("false"),
            Kind::Null => self.word("null"),
        }
    }

    /// Steps over a value of any kind and gives its text.
    pub(crate) fn value(&mut self) -> Result<&'a str, JsonError> {
        self.kind()?;
        let start = self.at;
        self.skip()?;
        Ok(&self.text[start..self.at])
    }

    /// A string's content; any other kind is stepped over and `None`.
    pub(crate) fn text(&mut self) -> Result<Option<JsonStr<'a>>, JsonError> {
        if self.kind()? == Kind::String {
            return self.string().map(Some);
        }
        self.skip()?;
        Ok(None)
    }

    /// A whole number that is not negative; fractions are cut, anything else is stepped over and 0.
    pub(crate) fn count(&mut self) -> Result<u64, JsonError> {
        let number = self.value()?;
        let whole = number.parse::<u64>().ok();
        Ok(whole.or_else(|| number.parse::<f64>().ok().map(|n| n as u64)).unwrap_or(0))
    }

    /// Checks that nothing but white space follows.
    pub(crate) fn end(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            Ok(_) => Err(self.syntax()),
            Err(_) => Ok(()),
        }
    }

    fn peek(&mut self) -> Result<u8, JsonError> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                _ => return Ok(*byte),
            }
        }
        Err(self.truncated())
    }

    /// Enters a container; whether it has anything in it.
    fn open(&mut self, close: u8) -> Result<bool, JsonError> {
        if self.depth == MAX_DEPTH {
            return Err(JsonError::TooDeep { at: self.at });
        }
        self.at += 1;
        self.depth += 1;
        let empty = self.peek()? == close;
        if empty {
            self.leave();
        }
        Ok(!empty)
    }

    /// Steps over a comma or the container's end; whether it was a comma.
    fn more(&mut self, close: u8) -> Result<bool, JsonError> {
        match self.peek()? {
            b',' => {
                self.at += 1;
                Ok(true)
            }
            byte if byte == close => {
                self.leave();
                Ok(false)
            }
            _ => Err(self.syntax()),
        }
    }

    fn leave(&mut self) {
        self.at += 1;
        self.depth -= 1;
    }

    fn take(&mut self, wanted: u8) -> Result<(), JsonError> {
        if self.peek()? != wanted {
            return Err(self.syntax());
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<JsonStr<'a>, JsonError> {
        self.take(b'"')?;
        let start = self.at;
        let mut saved = 0;
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let len = memchr2(b'"', b'\\', rest);
            let plain = &rest[..len.unwrap_or(rest.len())];
            if has_control(plain) {
                self.at += plain.iter().position(|&byte| byte < b' ').unwrap_or(0);
                return Err(self.syntax());
            }
            self.at += plain.len();
            match len.map(|len| rest[len]) {
                None => return Err(self.truncated()),
                Some(b'\\') => saved += self.escape()?,
                Some(_) => break,
            }
        }
        let raw = &self.text[start..self.at];
        self.at += 1;
        Ok(JsonStr { raw, len: raw.len() - saved })
    }

    /// Steps over an escape; by how much it is longer than what it stands for.
    fn escape(&mut self) -> Result<usize, JsonError> {
        let rest = &self.text.as_bytes()[self.at..];
        match rest.get(1) {
            None => Err(self.truncated()),
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.at += 2;
                Ok(1)
            }
            Some(b'u') => {
                let digits = rest[2..].iter().take(4).take_while(|byte| byte.is_ascii_hexdigit());
                let digits = digits.count();
                if digits < 4 {
                    self.at += 2 + digits;
                    return Err(self.syntax());
                }
                self.at += 6;
                Ok(6 - utf8_len(unit(&rest[2..6])))
            }
            Some(_) => {
                self.at += 1;
                Err(self.syntax())
            }
        }
    }

    fn number(&mut self) -> Result<(), JsonError> {
        self.at += usize::from(self.byte() == Some(b'-'));
        if self.byte() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(self.syntax()) } else { Ok(()) }
    }

    fn word(&mut self, word: &str) -> Result<(), JsonError> {
        for wanted in word.bytes() {
            if self.byte() != Some(wanted) {
                return Err(self.syntax());
            }
            self.at += 1;
        }
        Ok(())
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn truncated(&self) -> JsonError {
        JsonError::Truncated { at: self.text.len() }
    }

    /// The error for what stands here: out of place, or nothing at all.
    fn syntax(&self) -> JsonError {
        if self.at < self.text.len() {
            JsonError::Syntax { at: self.at }
        } else {
            self.truncated()
        }
    }
}

/// A string's content, still escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JsonStr<'a> {
    raw: &'a str,
    len: usize,
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
        while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
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
fn unit(digits: &[u8]) -> u16 {
    let value = |digit: &u8| char::from(*digit).to_digit(16).unwrap_or(0) as u16;
    digits.iter().fold(0, |unit, digit| unit << 4 | value(digit))
}

/// How many bytes of UTF-8 a unit becomes; half a surrogate pair counts two.
fn utf8_len(unit: u16) -> usize {
    match unit {
        0..0x80 => 1,
        0x80..0x800 | 0xd800..0xe000 => 2,
        0x800..0xd800 | 0xe000.. => 3,
    }
}

/// Whether there is a control character: no early exit, so that it is vectorised.
fn has_control(bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |found, &byte| found | (byte < b' '))
}
