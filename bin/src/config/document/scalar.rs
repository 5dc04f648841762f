//! Single values as the file writes them.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::config::quantity::{self, MAX_COUNT, SIZE_UNITS, TIME_UNITS};
use crate::config::words::Words;

/// A length of time: `30s`.
pub(crate) struct Time(pub(crate) Duration);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&quantity::written_duration(self.0))
    }
}

/// A size: `20MB`.
pub(crate) struct Bytes(pub(crate) usize);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&quantity::written_size(self.0))
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Serialize)]
pub(crate) struct Whole<const MIN: u32, const MAX: u32>(u32);

/// How many of something.
pub(crate) type Count = Whole<1, MAX_COUNT>;
/// A status of an error.
pub(crate) type Status = Whole<400, 599>;
/// Extra tries after the first.
pub(crate) type Retries = Whole<0, 20>;
/// How many may wait.
pub(crate) type Queue = Whole<0, 100_000>;
/// Attempts of one turn.
pub(crate) type Attempts = Whole<1, 100>;

impl<const MIN: u32, const MAX: u32> Whole<MIN, MAX> {
    /// What may be written.
    pub(crate) const RANGE: RangeInclusive<u32> = MIN..=MAX;
}

impl<const MIN: u32, const MAX: u32> From<u32> for Whole<MIN, MAX> {
    fn from(number: u32) -> Self {
        Self(number)
    }
}

/// A number of zero or more, with or without a fraction.
pub(crate) struct Decimal;

/// `true` or `false`.
#[derive(Default, Serialize)]
pub(crate) struct Flag(pub(crate) bool);

/// One word of a closed list.
#[derive(Default)]
pub(crate) struct Word<T>(pub(crate) T);

impl<T: Words> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.word())
    }
}

/// What is shown in the place of a secret.
pub(crate) const HIDDEN: &str = "***";

/// A credential, of which nothing is shown but the variable that holds it, where that is known.
pub(crate) struct Secret(pub(crate) Option<String>);

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_deref().unwrap_or(HIDDEN))
    }
}

/// A value of the schema `plain`, or text with a reference to an environment variable, which may hold any value.
fn or_reference(plain: Value) -> Schema {
    json_schema!({ "anyOf": [plain, { "type": "string", "pattern": r"\$\{" }] })
}

fn quantity_pattern(units: &[(&str, u64)]) -> String {
    let units: Vec<&str> = units.iter().map(|(unit, _)| *unit).collect();
    format!("^[0-9]+ *({})$", units.join("|"))
}

/// Single values have no name in the schema: they stand where they are used.
macro_rules! inline_schema {
    ($([$($generic:tt)*] $type:ty => $schema:expr),+ $(,)?) => {$(
        impl<$($generic)*> JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )+};
}

inline_schema! {
    [] Time => or_reference(json!({ "type": "string", "pattern": quantity_pattern(&TIME_UNITS) })),
    [] Bytes => or_reference(json!({ "type": ["integer", "string"], "minimum": 1, "pattern": quantity_pattern(&SIZE_UNITS) })),
    [] Decimal => or_reference(json!({ "type": "number", "minimum": 0 })),
    [] Flag => or_reference(json!({ "type": "boolean" })),
    [] Secret => json_schema!({ "type": "string", "pattern": "^[!-~]+$" }),
    [const MIN: u32, const MAX: u32] Whole<MIN, MAX> => or_reference(json!({ "type": "integer", "minimum": MIN, "maximum": MAX })),
    [T: Words] Word<T> => or_reference(json!({ "enum": T::WORDS.iter().map(|(word, _)| *word).collect::<Vec<_>>() })),
}
