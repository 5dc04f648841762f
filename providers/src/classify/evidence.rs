//! What an error body says, taken out of whatever shape it came in.
//!
//! Providers nest: `error` in `error`, a JSON body as the text of a message, the first provider's error in an
//! aggregator's `metadata.raw`. The search is bounded in depth, nodes and size, and follows no references.

use serde_json::{Map, Value};

use super::pattern::Text;

const MAX_BODY: usize = 256 * 1024;
const MAX_DEPTH: usize = 25;
const MAX_NODES: usize = 256;
const MAX_ITEMS: usize = 16;
const MAX_MESSAGE: usize = 2000;
const MAX_TEXT: usize = 8000;

/// Members that hold words.
const MESSAGES: &[&str] = &[
    "message",
    "msg",
    "error_message",
    "errorMessage",
    "error_description",
    "status_msg",
];

/// Members that hold a code or the name of a kind, the most telling first.
const CODES: &[&str] = &[
    "code",
    "error_code",
    "errorCode",
    "status",
    "reason",
    "type",
    "error_type",
    "__type",
];

/// Members that hold a status as a number.
const STATUSES: &[&str] = &[
    "code",
    "status",
    "status_code",
    "statusCode",
    "http_code",
    "raw_status_code",
];

/// Members that hold a further error, or words when they are strings.
const NESTED: &[&str] = &[
    "error",
    "errors",
    "detail",
    "details",
    "cause",
    "innererror",
    "inner_error",
    "metadata",
    "raw",
    "response",
    "body",
    "violations",
    "base_resp",
];

/// Names that say nothing.
const EMPTY_CODES: &[&str] = &["error", "none", "null", "unknown"];

/// What aggregators write around the words that matter.
const WRAPPERS: &[&str] = &["provider returned error", "upstream error", "bad request", "error"];

/// Everything that the tables look at.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// Codes and kinds as spelled, outermost first.
    pub(super) codes: Vec<String>,
    /// Statuses that the body names, outermost first.
    pub(super) statuses: Vec<u16>,
    /// Google's `retryDelay`, as in `34.4s`.
    pub(super) retry_delay: Option<String>,
    /// The body is a web page.
    pub(super) html: bool,
    /// All words together, normalised.
    pub(super) text: Text,
    messages: Vec<String>,
    quotas: Vec<String>,
    nodes: usize,
}

impl Evidence {
    /// Reads a response body: JSON, JSON with something around it, a web page, plain text or nothing.
    pub(super) fn from_body(body: &[u8]) -> Self {
        let body = String::from_utf8_lossy(&body[..body.len().min(MAX_BODY)]);
        let mut evidence = Self {
            html: is_html(&body),
            ..Self::default()
        };
        evidence.hear(&body, 0);
        evidence.finish()
    }

    /// Takes an error that was already taken apart.
    pub(super) fn from_parts(status: Option<u16>, codes: [Option<&str>; 2], message: Option<&str>) -> Self {
        let mut evidence = Self::default();
        evidence
            .statuses
            .extend(status.filter(|status| is_error_status(u64::from(*status))));
        for code in codes.into_iter().flatten() {
            evidence.add_code(code);
            evidence.add_status(&Value::from(code));
        }
        evidence.hear(message.unwrap_or_default(), 0);
        evidence.finish()
    }

    /// Nothing was said at all.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.codes.is_empty() && self.statuses.is_empty()
    }

    /// The words that explain the error best.
    pub(super) fn best_message(&self) -> Option<&str> {
        let wraps = |message: &&String| !WRAPPERS.contains(&message.trim_end_matches('.').to_lowercase().as_str());
        let telling = self.messages.iter().find(wraps).or(self.messages.first());
        telling.filter(|_| !self.html).map(String::as_str)
    }

    fn finish(mut self) -> Self {
        let words: Vec<&str> = self.messages.iter().chain(&self.quotas).map(String::as_str).collect();
        let words = words.join("\n");
        self.text = Text::new(&words[..words.floor_char_boundary(MAX_TEXT)]);
        self
    }

    /// Words, or JSON written as words.
    fn hear(&mut self, words: &str, depth: usize) {
        let words = words.trim();
        if words.is_empty() || depth > MAX_DEPTH {
            return;
        }
        match (!self.html).then(|| parse(words)).flatten() {
            Some((before, value)) => {
                self.add_status(&Value::from(before));
                self.walk(&value, depth + 1);
            }
            None if self.messages.len() < MAX_ITEMS => self.messages.push(words.chars().take(MAX_MESSAGE).collect()),
            None => {}
        }
    }

    fn walk(&mut self, value: &Value, depth: usize) {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            return;
        }
        match value {
            Value::Object(members) => self.read(members, depth),
            Value::Array(items) => items.iter().take(MAX_ITEMS).for_each(|item| self.walk(item, depth + 1)),
            Value::String(words) => self.hear(words, depth),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn read(&mut self, members: &Map<String, Value>, depth: usize) {
        let strings = |names: &'static [&str]| names.iter().filter_map(|name| members.get(*name)?.as_str());
        for words in strings(MESSAGES) {
            self.hear(words, depth);
        }
        for code in strings(CODES) {
            self.add_code(code);
        }
        for value in STATUSES.iter().filter_map(|name| members.get(*name)) {
            self.add_status(value);
        }
        self.quotas
            .extend(strings(&["quotaId"]).take(MAX_ITEMS).map(str::to_owned));
        if let Some(delay) = strings(&["retryDelay"]).next() {
            self.retry_delay.get_or_insert_with(|| delay.to_owned());
        }
        for value in NESTED.iter().filter_map(|name| members.get(*name)) {
            self.walk(value, depth + 1);
        }
    }

    fn add_code(&mut self, code: &str) {
        let says_nothing = EMPTY_CODES.contains(&code.to_ascii_lowercase().as_str());
        let number = code.bytes().all(|byte| byte.is_ascii_digit());
        if !says_nothing && !number && code.len() <= MAX_MESSAGE && self.codes.len() < MAX_ITEMS {
            self.codes.push(code.to_owned());
        }
    }

    fn add_status(&mut self, value: &Value) {
        let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
        let status = number
            .filter(|number| is_error_status(*number))
            .and_then(|number| u16::try_from(number).ok());
        if self.statuses.len() < MAX_ITEMS {
            self.statuses.extend(status);
        }
    }
}

fn is_error_status(number: u64) -> bool {
    (400..600).contains(&number)
}

/// The JSON that `words` are, and the status or stream field that may stand before it (`429 {…}`, `data: {…}`).
fn parse(words: &str) -> Option<(&str, Value)> {
    let (before, json) = words.split_at(words.find(['{', '['])?);
    let before = before.trim();
    let json = match before.strip_suffix("data:") {
        Some(_) => json.lines().next()?,
        None if before.bytes().all(|byte| byte.is_ascii_digit()) => json,
        None => return None,
    };
    Some((before, serde_json::from_str(json).ok()?))
}

fn is_html(body: &str) -> bool {
    let start = body.trim_start().as_bytes();
    ["<!doctype html", "<html"].iter().any(|tag| {
        start
            .get(..tag.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(tag.as_bytes()))
    })
}
