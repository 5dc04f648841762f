//! The scalars of JSON: strings, numbers, words.

use memchr::memchr2;

use super::string::{JsonStr, unit, utf8_len};
use super::{Cursor, JsonError};

impl<'a> Cursor<'a> {
    pub(super) fn string(&mut self) -> Result<JsonStr<'a>, JsonError> {
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

/// Whether there is a control character: no early exit, so that it is vectorised.
fn has_control(bytes: &[u8]) -> bool {
    bytes.iter().fold(false, |found, &byte| found | (byte < b' '))
}
