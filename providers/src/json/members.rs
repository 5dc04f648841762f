//! An object of a request taken apart: each member taken once and of the type that it must have. What nobody took is left.

use std::borrow::Cow;

use super::{Cursor, JsonError, Kind};
use crate::request_error::RequestError;

/// The members of one object, nulls left out.
#[derive(Debug)]
pub(crate) struct Members<'a>(Vec<(Cow<'a, str>, &'a str)>);

impl<'a> Members<'a> {
    /// The members of the object that a whole body is.
    pub(crate) fn of_body(body: &'a [u8]) -> Result<Self, RequestError> {
        let mut cursor = Cursor::new(body)?;
        if cursor.kind()? != Kind::Object {
            return Err(RequestError::NotAnObject);
        }
        let members = Self::read(&mut cursor)?;
        cursor.end()?;
        Ok(members)
    }

    /// The members of `value`, which `key` names and which must be an object.
    pub(crate) fn of(value: &'a str, key: &'static str) -> Result<Self, RequestError> {
        let mut cursor = Cursor::over(value);
        match cursor.kind()? {
            Kind::Object => Ok(Self::read(&mut cursor)?),
            _ => Err(wrong(key, "an object")),
        }
    }

    fn read(cursor: &mut Cursor<'a>) -> Result<Self, JsonError> {
        let mut members = Vec::new();
        cursor.object(|cursor, key| {
            let value = cursor.value()?;
            if value != "null" {
                members.push((key.decode(), value));
            }
            Ok::<_, JsonError>(())
        })?;
        Ok(Self(members))
    }

    /// A member as it is written.
    pub(crate) fn raw(&mut self, key: &str) -> Option<&'a str> {
        let place = self.0.iter().position(|(name, _)| name == key)?;
        Some(self.0.remove(place).1)
    }

    /// A string.
    pub(crate) fn string(&mut self, key: &'static str) -> Result<Option<String>, RequestError> {
        self.raw(key).map(|value| string(value, key)).transpose()
    }

    /// A string that must be there.
    pub(crate) fn required(&mut self, key: &'static str) -> Result<String, RequestError> {
        self.string(key)?.ok_or(RequestError::Missing { key })
    }

    /// True or false.
    pub(crate) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, RequestError> {
        match self.raw(key) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(wrong(key, "true or false")),
        }
    }

    /// A number.
    pub(crate) fn number(&mut self, key: &'static str) -> Result<Option<f64>, RequestError> {
        let number = |value: &str| value.parse().map_err(|_| wrong(key, "a number"));
        self.raw(key).map(number).transpose()
    }

    /// A whole number that is not negative.
    pub(crate) fn count(&mut self, key: &'static str) -> Result<Option<u64>, RequestError> {
        let count = |number: f64| {
            let whole = number.fract() == 0.0 && (0.0..=9e15).contains(&number);
            whole.then_some(number as u64).ok_or(wrong(key, "a whole number"))
        };
        self.number(key)?.map(count).transpose()
    }

    /// A whole number.
    pub(crate) fn integer(&mut self, key: &'static str) -> Result<Option<i64>, RequestError> {
        let integer = |value: &str| value.parse().map_err(|_| wrong(key, "a whole number"));
        self.raw(key).map(integer).transpose()
    }

    /// An object.
    pub(crate) fn object(&mut self, key: &'static str) -> Result<Option<Members<'a>>, RequestError> {
        self.raw(key).map(|value| Members::of(value, key)).transpose()
    }

    /// A list, its elements as they are written.
    pub(crate) fn list(&mut self, key: &'static str) -> Result<Option<Vec<&'a str>>, RequestError> {
        self.raw(key).map(|value| list(value, key)).transpose()
    }

    /// The names of what was not taken and says something.
    pub(crate) fn left(self) -> impl Iterator<Item = String> {
        let says = |(_, value): &(_, &str)| !matches!(*value, "[]" | "{}" | "\"\"");
        self.0.into_iter().filter(says).map(|(name, _)| name.into_owned())
    }
}

/// The elements of `value`, which `key` names and which must be a list.
pub(crate) fn list<'a>(value: &'a str, key: &'static str) -> Result<Vec<&'a str>, RequestError> {
    let mut cursor = Cursor::over(value);
    if cursor.kind()? != Kind::Array {
        return Err(wrong(key, "a list"));
    }
    let mut elements = Vec::new();
    cursor.array(|cursor| {
        elements.push(cursor.value()?);
        Ok::<_, JsonError>(())
    })?;
    Ok(elements)
}

/// What `value` says, which `key` names and which must be a string.
pub(crate) fn string(value: &str, key: &'static str) -> Result<String, RequestError> {
    let text = Cursor::over(value).text()?;
    Ok(text.ok_or(wrong(key, "a string"))?.decode().into_owned())
}

/// `key` is of the wrong type.
pub(crate) fn wrong(key: &'static str, expected: &'static str) -> RequestError {
    RequestError::WrongType { key, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(body: &str) -> Members<'_> {
        Members::of_body(body.as_bytes()).expect("an object")
    }

    #[test]
    fn a_member_is_taken_once_and_null_is_none() {
        let mut object = members(r#"{"a":"x","b":null,"c":2.0,"d":true,"e":[1,"2"],"f":-3}"#);
        assert_eq!(object.string("a"), Ok(Some("x".to_owned())));
        assert_eq!(object.string("a"), Ok(None));
        assert_eq!(object.string("b"), Ok(None));
        assert_eq!(object.count("c"), Ok(Some(2)));
        assert_eq!(object.flag("d"), Ok(Some(true)));
        assert_eq!(object.list("e"), Ok(Some(vec!["1", "\"2\""])));
        assert_eq!(object.integer("f"), Ok(Some(-3)));
        assert_eq!(object.left().count(), 0);
    }

    #[test]
    fn what_says_nothing_is_not_left() {
        let object = members(r#"{"\u0061":1,"b":[],"c":{},"d":"","e":false}"#);
        assert_eq!(object.left().collect::<Vec<_>>(), ["a", "e"]);
    }

    #[test]
    fn a_wrong_type_names_the_member() {
        let mut object = members(r#"{"a":1,"b":"x","c":-1,"d":1.5,"e":{}}"#);
        assert_eq!(object.string("a"), Err(wrong("a", "a string")));
        assert_eq!(object.number("b"), Err(wrong("b", "a number")));
        assert_eq!(object.count("c"), Err(wrong("c", "a whole number")));
        assert_eq!(object.count("d"), Err(wrong("d", "a whole number")));
        assert_eq!(object.list("e"), Err(wrong("e", "a list")));
        assert!(matches!(Members::of_body(b"[]"), Err(RequestError::NotAnObject)));
    }
}
