//! What a continuation repeats of the text that it goes on from is taken out of it, as it streams. Pure.
//!
//! A model that is to go on with an answer may go on exactly, take up the last words again, or start over from the first.
//! What it repeats is the longest beginning of the continuation that is also an end of the text. White space counts as
//! equal to any other white space, and what a continuation begins with does not count at all. To be a repetition such an
//! overlap must begin where a word of the text begins, and be more than chance:
//!
//! * it has at least [`WORDS`] words, of which [`DIFFERENT`] differ; or
//! * the two would otherwise run together (`Let me` + `Let me see`): the continuation does not begin with white space, the
//!   overlap has at least [`LETTERS`] different letters, and it is the whole text, or the text ends and the continuation
//!   begins with a letter.
//!
//! So a shared space, a common word or a row of the same figures never takes text away. White space at the text's end is
//! not told to the models, so that they may give it again, or only its end, such as the indentation of a line: of it only
//! what the continuation repeats exactly is taken out.

use std::collections::BTreeSet;

#[cfg(test)]
mod tests;

/// How many words are no accident.
const WORDS: usize = 5;
/// How many of them must differ: rows of figures and refrains repeat themselves.
const DIFFERENT: usize = 4;
/// How many different letters in a place where words would run together are no accident.
const LETTERS: usize = 3;
/// How far back a repetition may begin, in words and in bytes, when it is not all of the text.
const REACH_WORDS: usize = 1000;
/// See [`REACH_WORDS`].
const REACH_BYTES: usize = 64 << 10;
/// How much more than the text itself is held back: a repetition may be laid out with more white space.
const MORE: usize = 4 << 10;
/// From here on scripts are written without spaces: each character is a word.
const UNSPACED: char = '\u{2e80}';

/// Takes one continuation in and lets through what is new in it.
///
/// Text is held back only as long as it may still be a repetition, and no more of it than there was of the text.
#[derive(Debug)]
pub(crate) struct Overlap {
    /// The text, white space as single spaces, none at its end.
    told: String,
    /// The white space at the text's end, as long as the continuation may still repeat it.
    tail: String,
    /// Where in `told` the repetition may have begun, ascending.
    starts: Vec<usize>,
    /// Bytes of `told` that the continuation has repeated from each of them.
    repeated: usize,
    /// Continuation that was not let through yet.
    held: String,
    /// The most of it that is held.
    most: usize,
    /// Whether white space came after what was repeated so far.
    gap: bool,
    /// Whether the continuation began with white space.
    spaced: bool,
    /// How much of `held` the longest repetition so far takes.
    taken: usize,
}

impl Overlap {
    /// For a continuation of `text`.
    pub(crate) fn new(text: &str) -> Self {
        let end = text.trim_end().len();
        let told = text[..end].split_whitespace().collect::<Vec<_>>().join(" ");
        Self {
            starts: starts(&told),
            tail: text[end..].to_owned(),
            most: text.len() + MORE,
            told,
            repeated: 0,
            held: String::new(),
            gap: false,
            spaced: false,
            taken: 0,
        }
    }

    /// What may be let through now that `text` has come.
    pub(crate) fn push(&mut self, text: &str) -> String {
        for c in text.chars() {
            self.held.push(c);
            if !self.starts.is_empty() {
                self.follow(c);
            }
        }
        if self.starts.is_empty() {
            self.let_go(false)
        } else {
            String::new()
        }
    }

    /// What was held back and is new; the continuation has ended.
    pub(crate) fn finish(&mut self) -> String {
        self.starts.clear();
        self.let_go(true)
    }

    fn follow(&mut self, c: char) {
        if self.held.len() > self.most {
            self.starts.clear();
        } else if !c.is_whitespace() {
            if std::mem::take(&mut self.gap) {
                self.advance(' ');
            }
            self.advance(c);
        } else if self.repeated > 0 {
            self.gap = true;
        } else {
            self.spaced = true;
        }
    }

    /// Keeps the places from where the text reads on with `c`.
    fn advance(&mut self, c: char) {
        let (told, repeated) = (&self.told, self.repeated);
        self.starts.retain(|start| told[start + repeated..].starts_with(c));
        self.repeated += c.len_utf8();
        let ended = self.told.len().checked_sub(self.repeated);
        let ended = ended.filter(|start| self.starts.last() == Some(start));
        if let Some(start) = ended {
            self.starts.pop();
            if self.is_no_accident(start) {
                self.taken = self.held.len();
            }
        }
    }

    /// Whether the end of the text from `start` on, which the continuation begins with, was meant to be a repetition.
    fn is_no_accident(&self, start: usize) -> bool {
        let overlap = &self.told[start..];
        let is_letter = |c: Option<char>| c.is_some_and(|c| c.is_alphabetic() && c < UNSPACED);
        let runs_together =
            self.tail.is_empty() && is_letter(overlap.chars().next()) && is_letter(overlap.chars().last());
        has_enough_words(overlap) || !self.spaced && (start == 0 || runs_together) && has_different_letters(overlap)
    }

    fn let_go(&mut self, is_last: bool) -> String {
        let mut new = self.held.split_off(std::mem::take(&mut self.taken));
        self.held.clear();
        let space = new.len() - new.trim_start().len();
        if !is_last && space == new.len() && space < self.tail.len() {
            // more white space may follow
            self.held = new;
            return String::new();
        }
        let tail = std::mem::take(&mut self.tail);
        let mut ends = tail.char_indices().map(|(at, _)| &tail[at..]);
        let end = ends.find(|end| new.starts_with(end)).map_or(0, str::len);
        new.drain(..end.max(shared(&tail, &new)));
        new
    }
}

/// How many bytes two texts have in common at their beginnings.
fn shared(one: &str, other: &str) -> usize {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other);
    same.map(|(c, _)| c.len_utf8()).sum()
}

/// Where a repetition may begin: at the beginning, and at the words within reach of the end.
fn starts(told: &str) -> Vec<usize> {
    let within_reach = |at: &usize| told.len() - at <= REACH_BYTES;
    let mut before = told.chars().rev().skip(1).map(Some).chain([None]);
    let places = told.char_indices().rev().zip(std::iter::from_fn(|| before.next()));
    let begins = places.filter(|((_, c), before)| begins_word(*before, *c));
    let mut starts: Vec<usize> = begins
        .map(|((at, _), _)| at)
        .take_while(within_reach)
        .take(REACH_WORDS)
        .collect();
    if !told.is_empty() && starts.last() != Some(&0) {
        starts.push(0);
    }
    starts.reverse();
    starts
}

fn begins_word(before: Option<char>, c: char) -> bool {
    match before {
        None | Some(' ') => c != ' ',
        Some(before) => c.is_alphanumeric() && (c >= UNSPACED || !before.is_alphanumeric()),
    }
}

fn has_enough_words(text: &str) -> bool {
    let (mut words, mut count) = (BTreeSet::new(), 0);
    let spaced = text.split(|c: char| !c.is_alphanumeric());
    let all = spaced.flat_map(|word| word.split_inclusive(|c: char| c >= UNSPACED));
    all.filter(|word| !word.is_empty()).any(|word| {
        words.insert(word);
        count += 1;
        count >= WORDS && words.len() >= DIFFERENT
    })
}

fn has_different_letters(text: &str) -> bool {
    let mut letters = BTreeSet::new();
    text.chars().filter(|c| c.is_alphabetic()).any(|c| {
        letters.extend(c.to_lowercase());
        letters.len() >= LETTERS
    })
}
