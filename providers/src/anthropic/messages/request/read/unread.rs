//! The names of what no other format has a place for.

use crate::json::members::Members;

/// More names than any request has; they end in one header.
const MOST: usize = 32;
/// Longer than any member's name.
const LONGEST: usize = 64;

/// Names, each once. They reach a header: one that could not stand there is `other`.
#[derive(Debug, Default)]
pub(super) struct Unread(Vec<String>);

impl Unread {
    /// Notes a name.
    pub(super) fn note(&mut self, name: &str) {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        let fits = (1..=LONGEST).contains(&name.len()) && name.bytes().all(plain);
        let name = if fits { name } else { "other" };
        if self.0.len() < MOST && self.0.iter().all(|noted| noted != name) {
            self.0.push(name.to_owned());
        }
    }

    /// Notes what nobody took of an object.
    pub(super) fn left(&mut self, members: Members<'_>) {
        members.left().for_each(|name| self.note(&name));
    }

    /// All of them, in order.
    pub(super) fn names(mut self) -> Vec<String> {
        self.0.sort_unstable();
        self.0
    }
}
