//! The scalars of JSON: strings, numbers, words.

use super::string::{JsonStr, unit, utf8_len};
use super::{Cursor, JsonError};

impl<'a> Cursor<'a> {
    pub(super) fn string(&mut self) -> Result<JsonStr<'a>, JsonError> {
        self.take(b'"')?;
        let start = self.at;
        let mut saved = 0;
        loop {
            self.at += plain(&self.text.as_bytes()[self.at..]);
            match self.byte() {
                None => return Err(self.truncated()),
                Some(b'"') => break,
                Some(b'\\') => saved += self.escape()?,
                Some(_control) => return Err(self.syntax()),
            }
        }
        let raw = &self.text[start..self.at];
        self.at += 1;
        Ok(JsonStr {
            raw,
            len: raw.len() - saved,
        })
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

    pub(super) fn number(&mut self) -> Result<(), JsonError> {
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

    pub(super) fn word(&mut self, word: &str) -> Result<(), JsonError> {
        for wanted in word.bytes() {
            if self.byte() != Some(wanted) {
                return Err(self.syntax());
            }
            self.at += 1;
        }
        Ok(())
    }
}

/// How many bytes come before the first quote, backslash or control character; read eight at a time.
pub(super) fn plain(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (place, word) in words.iter().enumerate() {
        let found = special(u64::from_le_bytes(*word));
        if found != 0 {
            return place * 8 + (found.trailing_zeros() / 8) as usize;
        }
    }
    let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | ..b' ');
    words.len() * 8 + rest.iter().position(ends).unwrap_or(rest.len())
}

/// The high bit of the lowest byte that is a quote, a backslash or a control character is set, and none below it.
fn special(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = EACH * 0x80;
    // a byte below `limit` borrows from its high bit, which was clear; borrowed from others only above such a byte
    let below = |word: u64, limit: u8| word.wrapping_sub(EACH * u64::from(limit)) & !word & HIGH;
    let is = |byte: u8| below(word ^ (EACH * u64::from(byte)), 1);
    is(b'"') | is(b'\\') | below(word, b' ')
}
