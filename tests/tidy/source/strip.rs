//! Just enough of a lexer to tell code from comments and literals.

use super::is_word;

/// A string literal as it stands between its quotes.
#[derive(Debug, PartialEq)]
pub(crate) struct Literal {
    pub line: usize,
    pub text: String,
}

/// Blanks comments and insides of literals, and gives the string literals apart.
pub(crate) fn strip(text: &str) -> (String, Vec<Literal>) {
    let (mut code, mut literals) = (String::with_capacity(text.len()), Vec::new());
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let token = Token::first_of(rest, code.chars().next_back());
        let (head, tail) = rest.split_at(token.length.max(first.len_utf8()));
        match token.inside {
            None if token.length == 0 => code.push_str(head),
            None => code.extend(head.chars().map(blank)),
            Some((start, end)) => {
                code.push_str(&head[..start]);
                code.extend(head[start..end].chars().map(blank));
                code.push_str(&head[end..]);
                if token.is_string {
                    let text = head[start..end].to_owned();
                    literals.push(Literal { line, text });
                }
            }
        }
        line += head.matches('\n').count();
        rest = tail;
    }
    (code, literals)
}

fn blank(c: char) -> char {
    if c == '\n' { '\n' } else { ' ' }
}

/// A comment (no inside) or a literal at the beginning of a text; length 0 is neither.
#[derive(Default)]
struct Token {
    length: usize,
    inside: Option<(usize, usize)>,
    is_string: bool,
}

impl Token {
    fn first_of(text: &str, before: Option<char>) -> Self {
        let in_word = before.is_some_and(is_word);
        match text.as_bytes() {
            [b'/', b'/', ..] => Self::comment(text.find('\n').unwrap_or(text.len())),
            [b'/', b'*', ..] => Self::comment(block_comment(text)),
            [b'"', ..] => Self::string(1, quoted(text, '"')),
            [b'r' | b'b' | b'c', ..] if !in_word => Self::raw_string(text),
            [b'\'', ..] => Self::character(text),
            _ => Self::default(),
        }
    }

    fn comment(length: usize) -> Self {
        Self {
            length,
            ..Self::default()
        }
    }

    /// A literal whose inside ends one byte before `length`.
    fn string(start: usize, length: usize) -> Self {
        Self {
            length,
            inside: Some((start, length.saturating_sub(1).max(start))),
            is_string: true,
        }
    }

    /// `r"…"` and `r#"…"#`, also with `b` or `c` before the `r`.
    fn raw_string(text: &str) -> Self {
        let prefix = if text.starts_with('r') { 1 } else { 2 };
        let Some(hashes) = text.get(prefix..).map(|rest| rest.bytes().take_while(|b| *b == b'#')) else {
            return Self::default();
        };
        let hashes = hashes.count();
        let start = prefix + hashes + 1;
        if text.as_bytes().get(prefix - 1) != Some(&b'r') || !text[prefix + hashes..].starts_with('"') {
            return Self::default();
        }
        let close = format!("\"{}", "#".repeat(hashes));
        let end = text[start..].find(&close).map_or(text.len(), |at| start + at);
        Self {
            length: (end + close.len()).min(text.len()),
            inside: Some((start, end)),
            is_string: true,
        }
    }

    /// `'x'` or `'\n'`; a lifetime is neither.
    fn character(text: &str) -> Self {
        let mut chars = text.chars().skip(1);
        let (first, second) = (chars.next(), chars.next());
        if first != Some('\\') && second != Some('\'') {
            return Self::default();
        }
        Self {
            is_string: false,
            ..Self::string(1, quoted(text, '\''))
        }
    }
}

/// Length of a quoted literal at the beginning of `text`, both quotes included.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Length of a block comment at the beginning of `text`; such comments nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let step = match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        at += step;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}
