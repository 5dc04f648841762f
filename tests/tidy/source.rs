//! One Rust file taken apart, as far as the rules need it: code without comments and literals, functions, tests.

use strip::{Literal, strip};

mod strip;

/// A function with a body; lines count from 1.
#[derive(Debug, PartialEq)]
pub(crate) struct Function {
    pub name: String,
    pub line: usize,
    /// The line of the brace that opens its body, and of the one that closes it.
    pub body: (usize, usize),
}

/// A Rust file. In `code` and `production`, comments and insides of literals are blanks; lines stay where they were.
pub(crate) struct Source {
    pub path: String,
    /// Everything, tests included.
    pub code: String,
    /// What is compiled outside tests: items under `#[cfg(test)]` are blanks, and files of tests are all blank.
    pub production: String,
    /// String literals outside tests.
    pub literals: Vec<Literal>,
    /// Lines outside tests; blank lines and comments count.
    pub production_lines: usize,
}

impl Source {
    /// Takes a file apart; `all_test` says that none of it is compiled outside tests.
    pub(crate) fn read(path: &str, text: &str, all_test: bool) -> Self {
        let (code, literals) = strip(text);
        let lines = text.lines().count();
        let mut is_test = vec![all_test; lines + 1];
        for (first, last) in test_items(&code) {
            is_test[first..=last].fill(true);
        }
        let production = code
            .split_inclusive('\n')
            .zip(1..)
            .map(|(line, number)| if is_test[number] { "\n" } else { line })
            .collect();
        Self {
            path: path.to_owned(),
            production,
            literals: literals.into_iter().filter(|literal| !is_test[literal.line]).collect(),
            production_lines: is_test[1..].iter().filter(|test| !**test).count(),
            code,
        }
    }

    /// Line numbers and lines of the code outside tests.
    pub(crate) fn production_numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.production.lines())
    }
}

/// The modules that `text` declares under `#[cfg(test)]` and keeps in files of their own: paths without `.rs`.
pub(crate) fn test_modules(path: &str, text: &str) -> Vec<String> {
    let stem = path.trim_end_matches(".rs");
    let (parent, file) = stem.rsplit_once('/').unwrap_or(("", stem));
    let is_root = ["lib", "main", "mod"].contains(&file);
    let folder = if is_root { parent } else { stem };
    let (code, _) = strip(text);
    let items = code.split("#[cfg(test)]").skip(1);
    items
        .filter_map(|item| item.split_once(';')?.0.split_once("mod "))
        .filter(|(visibility, _)| !visibility.contains(['{', '=']))
        .map(|(_, name)| name.trim())
        .filter(|name| name.chars().all(is_word))
        .map(|name| format!("{folder}/{name}"))
        .collect()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// First and last lines of the items under `#[cfg(test)]`.
fn test_items(code: &str) -> Vec<(usize, usize)> {
    let lines = |at: usize| line_of(code, at);
    code.match_indices("#[cfg(test)]")
        .map(|(at, attribute)| (lines(at), lines(end_of_item(code, at + attribute.len()))))
        .collect()
}

/// Where an item ends: at the brace that closes its first block, or at a semicolon before any block.
fn end_of_item(code: &str, start: usize) -> usize {
    match body_of_item(code, start) {
        Body::Block(_, end) | Body::None(end) => end,
    }
}

/// The braces of an item's body, or where an item without body ends.
enum Body {
    Block(usize, usize),
    None(usize),
}

fn body_of_item(code: &str, start: usize) -> Body {
    let mut depth = 0_i32;
    let mut open = None;
    for (offset, byte) in code[start..].bytes().enumerate() {
        let at = start + offset;
        match byte {
            b'{' if depth == 0 && open.is_none() => {
                open = Some(at);
                depth += 1;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b';' if depth == 0 => return Body::None(at),
            _ => {}
        }
        if let (Some(open), b'}', 0) = (open, byte, depth) {
            return Body::Block(open, at);
        }
    }
    Body::None(code.len().saturating_sub(1))
}

/// The functions with a body in `code`, nested ones included.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    words(code, "fn")
        .filter_map(|at| {
            let after = code[at + 2..].trim_start();
            let name: String = after.chars().take_while(|c| is_word(*c)).collect();
            let Body::Block(open, close) = body_of_item(code, at) else {
                return None;
            };
            let body = (line_of(code, open), line_of(code, close));
            let line = line_of(code, at);
            (!name.is_empty()).then_some(Function { name, line, body })
        })
        .collect()
}

/// Header, first line and last line of each `impl` block in `code`.
pub(crate) fn impls(code: &str) -> Vec<(&str, usize, usize)> {
    words(code, "impl")
        .filter(|at| starts_line(code, *at))
        .filter_map(|at| match body_of_item(code, at) {
            Body::Block(open, close) => Some((&code[at..open], line_of(code, open), line_of(code, close))),
            Body::None(_) => None,
        })
        .collect()
}

fn starts_line(code: &str, at: usize) -> bool {
    let line = code[..at].rsplit('\n').next().unwrap_or_default();
    line.trim().is_empty() || line.trim() == "unsafe"
}

/// Where `word` stands on its own.
fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at.min(code.len())].matches('\n').count() + 1
}

#[cfg(test)]
mod tests;
