//! Expectations on single values.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// A number, or a range with both ends.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Number {
    Exactly(u64),
    Between([u64; 2]),
}

impl Number {
    pub(crate) fn admits(self, seen: u64) -> bool {
        match self {
            Self::Exactly(number) => seen == number,
            Self::Between([least, most]) => (least..=most).contains(&seen),
        }
    }
}

/// One value, or any of several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum AnyOf<T> {
    One(T),
    Several(Vec<T>),
}

impl<T: PartialEq> AnyOf<T> {
    pub(crate) fn admits(&self, seen: &T) -> bool {
        match self {
            Self::One(value) => seen == value,
            Self::Several(values) => values.contains(seen),
        }
    }
}

/// A header's value; `null`: the header is absent.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum HeaderRule {
    Absent,
    Is(String),
    Whole(IntBetween),
}

/// A whole number between two, both included.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IntBetween {
    int_between: [u64; 2],
}

impl HeaderRule {
    pub(crate) fn admits(&self, seen: Option<&str>) -> bool {
        match self {
            Self::Absent => seen.is_none(),
            Self::Is(value) => seen == Some(value),
            Self::Whole(IntBetween { int_between }) => {
                let number = seen.and_then(|value| value.parse().ok());
                number.is_some_and(|number| Number::Between(*int_between).admits(number))
            }
        }
    }
}

/// Whether `seen` has everything that `expected` has: members of objects may be more, elements of lists may not.
pub(crate) fn is_part_of(expected: &Value, seen: &Value) -> bool {
    match (expected, seen) {
        (Value::Object(expected), Value::Object(seen)) => {
            let has = |(key, value)| seen.get(key).is_some_and(|seen| is_part_of(value, seen));
            expected.iter().all(has)
        }
        (Value::Array(expected), Value::Array(seen)) => {
            let pairs = expected.iter().zip(seen);
            expected.len() == seen.len() && pairs.into_iter().all(|(expected, seen)| is_part_of(expected, seen))
        }
        (expected, seen) => expected == seen,
    }
}

/// The entries of a map whose name is `pattern`, or begins with what stands before its `*`.
pub(crate) fn named<'a, T>(entries: &'a BTreeMap<String, T>, pattern: &str) -> Vec<(&'a String, &'a T)> {
    let matches = |name: &str| match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    };
    entries.iter().filter(|(name, _)| matches(name)).collect()
}
