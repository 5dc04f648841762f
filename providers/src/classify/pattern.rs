//! Wording families, written as short patterns and matched against normalised text.
//!
//! Providers reword their errors all the time, so a family is a list of
//! patterns, separated by bars, and any of them will do:
//!
//! * `rate limit`: these words, standing alone: no letter or digit touches them;
//! * `throttl*`, `*perday*`: a star at an edge lets the word go on there;
//! * `model*not found`: the second part follows the first within the same sentence;
//! * `^forbidden`: the text begins so; `=no body`: the text is exactly this;
//! * `#402`: the number as a status, not as a number in prose ("use a 402 bolt").

use memchr::memchr_iter;

/// The most bytes between two parts of a pattern.
const GAP: usize = 160;

/// What may stand before a number that is a status.
const STATUS_WORDS: &[&str] = &[
    "http",
    "http/1.1",
    "http/2",
    "status",
    "status code",
    "error",
    "error code",
];

/// Text made comparable: lower case, `_` and `-` as spaces, single spaces, straight apostrophes.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn new(raw: &str) -> Self {
        let mut text = String::with_capacity(raw.len());
        for c in raw.chars().flat_map(char::to_lowercase) {
            match c {
                '\n' => text.push('\n'),
                '_' | '-' => push_space(&mut text),
                '\u{2019}' => text.push('\''),
                c if c.is_whitespace() || c.is_control() => push_space(&mut text),
                c => text.push(c),
            }
        }
        Self(text.trim().to_owned())
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether any of the patterns matches; they are separated by bars.
    pub(super) fn says_any(&self, patterns: &str) -> bool {
        patterns.split('|').map(str::trim).any(|pattern| self.says(pattern))
    }

    pub(super) fn says(&self, pattern: &str) -> bool {
        if let Some(whole) = pattern.strip_prefix('=') {
            return self.0 == whole;
        }
        if let Some(number) = pattern.strip_prefix('#') {
            return self.names_status(number);
        }
        if let Some(start) = pattern.strip_prefix('^') {
            return self.0.starts_with(start);
        }
        self.finds(pattern)
    }

    /// The first number after `word`, as in `limit: 8,000`.
    pub(super) fn number_after(&self, word: &str) -> Option<u64> {
        self.0.match_indices(word).find_map(|(at, _)| {
            let rest = self.0[at + word.len()..].trim_start_matches([' ', ':', '=', '\'', '`']);
            let digits = rest.split(|c: char| !c.is_ascii_digit() && c != ',').next()?;
            digits.replace(',', "").parse().ok()
        })
    }

    fn finds(&self, pattern: &str) -> bool {
        let open_left = pattern.strip_prefix('*');
        let (first, later) = first_part(open_left.unwrap_or(pattern));
        places(&self.0, first)
            .any(|at| (open_left.is_some() || is_edge(&self.0, at)) && self.goes_on(at + first.len(), later))
    }

    /// Whether the parts of `pattern` follow one another from byte `from` on; `None`: there are no more.
    fn goes_on(&self, from: usize, pattern: Option<&str>) -> bool {
        let Some(pattern) = pattern else {
            return is_edge(&self.0, from);
        };
        if pattern.is_empty() {
            return true;
        }
        let (next, later) = first_part(pattern);
        places(sentence(&self.0[from..]), next).any(|at| self.goes_on(from + at + next.len(), later))
    }

    /// Whether `number` stands where a status stands: at the start, or after a word that announces one.
    fn names_status(&self, number: &str) -> bool {
        self.0.match_indices(number).any(|(at, _)| {
            let lead = self.0[..at].trim_end_matches([' ', ':', '=', '(', '[', '"']);
            let announced = |word: &&str| lead.ends_with(*word) && is_edge(lead, lead.len() - word.len());
            is_edge(&self.0, at)
                && is_edge(&self.0, at + number.len())
                && (at == 0 || STATUS_WORDS.iter().any(announced))
        })
    }

    /// The status that the text begins with, as in `503 try later`.
    pub(super) fn leading_status(&self) -> Option<u16> {
        let number = self.0.get(..3).filter(|_| is_edge(&self.0, 3))?;
        number.parse().ok().filter(|status| (400..600).contains(status))
    }
}

/// What comes before the first star, and what behind it.
fn first_part(pattern: &str) -> (&str, Option<&str>) {
    match pattern.split_once('*') {
        Some((first, later)) => (first, Some(later)),
        None => (pattern, None),
    }
}

/// Where `part` stands; nowhere if it is empty. Patterns are short and many, and most are not there: what has to be prepared
/// for a search would cost more than the search.
fn places(text: &str, part: &str) -> impl Iterator<Item = usize> {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    let begins = part.first().map(|first| memchr_iter(*first, text));
    let is_there = move |at: &usize| text.get(*at..).is_some_and(|rest| rest.starts_with(part));
    begins.into_iter().flatten().filter(is_there)
}

fn push_space(text: &mut String) {
    if !text.ends_with([' ', '\n']) {
        text.push(' ');
    }
}

/// No word is cut at byte `at`. Only ASCII makes words here: Chinese wording has no spaces.
fn is_edge(text: &str, at: usize) -> bool {
    let word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    !(word(at.checked_sub(1).and_then(|before| bytes.get(before))) && word(bytes.get(at)))
}

/// The rest of the sentence, at most [`GAP`] bytes.
fn sentence(rest: &str) -> &str {
    let near = &rest[..rest.floor_char_boundary(GAP)];
    let end = near.find(". ").into_iter().chain(near.find('\n')).min();
    &near[..end.unwrap_or(near.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(text: &str, pattern: &str) -> bool {
        Text::new(text).says(pattern)
    }

    #[test]
    fn words_stand_alone_unless_a_star_opens_them() {
        assert!(says("Rate-Limit hit", "rate limit"));
        assert!(!says("rate limited", "rate limit"));
        assert!(says("rate_limited", "rate limit*"));
        assert!(!says("separate limit", "rate limit"));
        assert!(says("RequestsPerDayPerProject", "*perday*"));
    }

    #[test]
    fn a_gap_does_not_cross_a_sentence() {
        assert!(says("The model `gpt-4.1` does not exist", "model*does not exist"));
        assert!(!says("Pick a model. The file does not exist", "model*does not exist"));
        assert!(!says(
            &format!("model {} not found", "x".repeat(200)),
            "model*not found"
        ));
    }

    #[test]
    fn a_number_in_prose_is_no_status() {
        for yes in [
            "402",
            "402: pay",
            "HTTP 402",
            "status code: 402",
            "error 402 x",
            "402 more words",
            "402 {}",
        ] {
            assert!(says(yes, "#402"), "{yes}");
        }
        for no in ["use a 402 bolt", "part 1402", "http 4020", "a403 402 z"] {
            assert!(!says(no, "#402"), "{no}");
        }
    }

    #[test]
    fn anchors_hold_the_text_at_its_ends() {
        assert!(says("Forbidden", "^forbidden"));
        assert!(!says("it is forbidden", "^forbidden"));
        assert!(says(" No body ", "=no body"));
        assert!(!says("no body at all", "=no body"));
    }

    #[test]
    fn numbers_are_read_past_punctuation_and_thousands() {
        let text = Text::new("Limit: 8,000, requested 8098.");
        assert_eq!(text.number_after("limit"), Some(8000));
        assert_eq!(text.number_after("requested"), Some(8098));
        assert_eq!(text.number_after("used"), None);
    }
}
