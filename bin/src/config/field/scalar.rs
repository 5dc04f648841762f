//! Readers of single values.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use secrecy::SecretString;

use super::Field;
use crate::config::raw::Value;
use crate::config::substitution::substitute;
use crate::config::words::Words;
use crate::config::{quantity, suggestion};

/// Text as it was written and with its variables replaced. Only the former may be shown.
pub(crate) struct Text {
    pub(crate) written: String,
    pub(crate) value: String,
}

impl Field<'_> {
    /// Text, with its variables replaced.
    pub(crate) fn text(&self) -> Option<Text> {
        match self.value {
            Value::Null => None,
            Value::Text(written) => self.substituted(written),
            Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => {
                self.wrong_kind("text");
                None
            }
        }
    }

    fn substituted(&self, written: &str) -> Option<Text> {
        match substitute(written, self.reading.env) {
            Ok(value) => Some(Text {
                written: written.to_owned(),
                value,
            }),
            Err(errors) => {
                for error in errors {
                    self.refuse(error.to_string(), error.fix());
                }
                None
            }
        }
    }

    /// Text that must be there and not be empty.
    pub(crate) fn required_text(&self, fix: &str) -> Option<Text> {
        if self.is_absent() {
            self.refuse("is missing", fix);
        }
        let text = self.text()?;
        if text.value.is_empty() {
            self.refuse_text(&text, "is empty", fix);
            return None;
        }
        Some(text)
    }

    /// A text or number that `parse` understands. `fix` says how to write it.
    pub(crate) fn parsed<T, E: Display>(&self, parse: impl Fn(&str) -> Result<T, E>, fix: &str) -> Option<T> {
        let text = match self.value {
            Value::Null => None,
            Value::Number(written) | Value::Text(written) => self.substituted(written),
            Value::Bool(_) | Value::List(_) | Value::Map(_) => {
                self.wrong_kind("a plain value");
                None
            }
        }?;
        parse(&text.value)
            .map_err(|error| self.refuse_text(&text, error.to_string(), fix))
            .ok()
    }

    pub(crate) fn duration(&self) -> Option<Duration> {
        self.parsed(
            quantity::duration,
            "write a whole number and a unit: 250ms, 30s, 5m, 2h",
        )
    }

    pub(crate) fn size(&self) -> Option<usize> {
        self.parsed(
            quantity::size,
            "write bytes, with or without a unit: 20MB, 512KiB, 65536",
        )
    }

    pub(crate) fn size_on_disk(&self) -> Option<usize> {
        let fix = "write bytes, with or without a unit: 20MB, 512MiB, 100GiB";
        self.parsed(quantity::size_on_disk, fix)
    }

    pub(crate) fn count(&self) -> Option<u64> {
        self.parsed(quantity::count, "write a whole number")
    }

    /// A whole number within `range`.
    pub(crate) fn whole(&self, range: RangeInclusive<u32>) -> Option<u32> {
        let fix = format!("write a whole number from {} to {}", range.start(), range.end());
        self.parsed(|text| quantity::whole(text, &range), &fix)
    }

    /// A number of zero or more, with or without a fraction.
    pub(crate) fn decimal(&self) -> Option<f64> {
        self.parsed(quantity::decimal, "write a number such as 1.5")
    }

    /// `true` or `false`.
    pub(crate) fn flag(&self) -> Option<bool> {
        match self.value {
            Value::Bool(value) => Some(*value),
            Value::Null | Value::Number(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => {
                let parse = |text: &str| text.parse().map_err(|_| "is neither true nor false");
                self.parsed::<bool, _>(parse, "write true or false")
            }
        }
    }

    /// Text that is never shown: visible ASCII, so that it fits a header.
    pub(crate) fn secret(&self) -> Option<SecretString> {
        let text = self.text()?;
        if text.value.is_empty() {
            self.refuse("is empty", "write the secret, or remove the key");
            return None;
        }
        if !text.value.bytes().all(|byte| byte.is_ascii_graphic()) {
            self.refuse(
                "has characters that no key or token has",
                "check for spaces, line breaks and letters outside ASCII",
            );
            return None;
        }
        Some(text.value.into())
    }

    /// One word of a closed list.
    pub(crate) fn choice<T: Words>(&self) -> Option<T> {
        let named = |name: &str| {
            T::WORDS
                .iter()
                .find(|(word, _)| *word == name)
                .map(|(_, choice)| *choice)
        };
        // YAML takes `off` for a yes or no, and whoever writes it means the word
        if let (Value::Bool(false), Some(off)) = (self.value, named("off")) {
            return Some(off);
        }
        let text = self.text()?;
        let names = || T::WORDS.iter().map(|(name, _)| *name);
        if let Some(choice) = named(&text.value) {
            return Some(choice);
        }
        self.refuse_text(
            &text,
            "is none of the known words",
            suggestion::instead_of(&text.value, names()),
        );
        None
    }
}
