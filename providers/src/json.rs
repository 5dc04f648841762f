//! JSON read in place: spans instead of values, nothing allocated.
//!
//! Of a body a gateway wants a few members and where they stand; all else is checked and stepped over in the same
//! pass. The grammar is that of RFC 8259; lone surrogate escapes are let through, as clients do send them.

use std::ops::Range;

pub(crate) use self::string::JsonStr;

mod lex;
pub(crate) mod members;
mod string;
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
            Some(_) => JsonError::Syntax {
                at: error.valid_up_to(),
            },
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

    /// A second cursor, before the value at `at`, for a part that has to be read after what follows it.
    pub(crate) fn back_at(&self, at: usize) -> Self {
        Self {
            text: self.text,
            at,
            depth: self.depth,
        }
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
        Ok(whole
            .or_else(|| number.parse::<f64>().ok().map(|n| n as u64))
            .unwrap_or(0))
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
