//! Lines of a child, no longer than they may be.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

/// Reads lines; what is too long is passed over, and said to have been.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    longest: usize,
    line: Vec<u8>,
    too_long: bool,
    /// Whether the line that is held was given out.
    given: bool,
}

/// One line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// It was longer than it may be.
    TooLong,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R, longest: usize) -> Self {
        Self {
            reader: BufReader::new(reader),
            longest,
            line: Vec::new(),
            too_long: false,
            given: false,
        }
    }

    /// The next line; `None` at the end. **Cancel safety:** safe.
    pub(super) async fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        if std::mem::take(&mut self.given) {
            self.line.clear();
            self.too_long = false;
        }
        loop {
            let bytes = self.reader.fill_buf().await?;
            if bytes.is_empty() {
                if self.line.is_empty() && !self.too_long {
                    return Ok(None);
                }
                break;
            }
            let end = memchr::memchr(b'\n', bytes);
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.too_long || self.line.len() + part.len() > self.longest {
                self.too_long = true;
                self.line = Vec::new();
            } else {
                self.line.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(end.is_some());
            self.reader.consume(taken);
            if end.is_some() {
                break;
            }
        }
        self.given = true;
        Ok(Some(match self.too_long {
            true => Line::TooLong,
            false => Line::Whole(&self.line),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_line_too_long_is_passed_over_and_the_next_one_is_read() {
        let text = b"one\n\nabcdefgh\nexactly\nlast";
        let mut lines = Lines::new(&text[..], 7);
        let mut read = Vec::new();
        while let Some(line) = lines.next().await.expect("bytes") {
            read.push(match line {
                Line::Whole(line) => String::from_utf8_lossy(line).into_owned(),
                Line::TooLong => "-".to_owned(),
            });
        }
        assert_eq!(read, ["one", "", "-", "exactly", "last"]);
    }
}
