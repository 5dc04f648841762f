//! The document as YAML gives it: values and their lines, not yet settings.
//!
//! A tree instead of derived structs, because deserialization into structs ends at the first mistake.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Error, Spanned};

use super::{ConfigError, Problem};

/// A value and where it stands.
pub(crate) type Node = Spanned<Value>;

/// Any value that a document can hold.
#[derive(Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// As it was written, up to the notation of the number.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Value {
    /// What people call a value of this kind.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a section",
        }
    }
}

/// Reads one YAML document. An empty one is [`Value::Null`].
///
/// # Errors
/// One problem with line and column and without any of the document's text, which may hold secrets.
pub(crate) fn parse(text: &str) -> Result<Node, ConfigError> {
    let options = serde_saphyr::options! {
        // far deeper than any valid document, and far from the end of the stack
        budget: serde_saphyr::budget! { max_depth: 32 },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 10_000 },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| ConfigError::Invalid(vec![syntax_problem(&error)]))
}

fn syntax_problem(error: &Error) -> Problem {
    if let Error::AliasError { error, .. } = error {
        return syntax_problem(error);
    }
    let message = match error {
        // the parser's own words: fixed sentences, never the document's text
        Error::ExternalMessage { msg, .. } => msg.as_str(),
        Error::DuplicateMappingKey { .. } => "a key is given twice in one section",
        Error::MultipleDocuments { .. } => "there is more than one document in the file",
        Error::UnknownAnchor { .. } => "an alias refers to an anchor that does not exist",
        Error::Budget { .. } | Error::AliasReplayLimitExceeded { .. } => {
            "the document is nested too deeply or repeats too much"
        }
        _ => "this cannot be read as a value or a key",
    };
    let place = error.location();
    Problem {
        path: String::new(),
        line: place.map(|place| place.line()),
        column: place.map(|place| place.column()),
        found: None,
        message: format!("not valid YAML: {message}"),
        fix: "correct the file near this place".to_owned(),
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Number(number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<String>()? {
            map.push((key, entries.next_value()?));
        }
        Ok(Value::Map(map))
    }
}
