//! An error as a provider put it into a body, before anyone has judged it.

use std::fmt;

use understudy_messages::failure::ProviderWords;

use crate::json::{Cursor, JsonError, Kind};

/// What a provider says about an error: read leniently, nothing concluded.
///
/// `Debug` shows the status alone: the rest are a provider's words.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct WireError {
    /// The HTTP status that it names: `status`, `status_code`, or a `code` that can only be one.
    pub status: Option<u16>,
    /// Its code as text, numbers too; at most 64 characters.
    pub code: Option<String>,
    /// Its type, or the name of its status; at most 64 characters.
    pub kind: Option<String>,
    /// Its message.
    pub message: Option<ProviderWords>,
}

impl WireError {
    /// Reads the value of an `error` member; `None` when it says that there is none (null, false, empty).
    pub(crate) fn read(value: &str) -> Result<Option<Self>, JsonError> {
        let mut cursor = Cursor::over(value);
        match cursor.kind()? {
            Kind::Null | Kind::Number | Kind::Bool => Ok((value == "true").then(Self::default)),
            Kind::String => {
                let text = cursor.text()?.filter(|text| !text.is_empty());
                Ok(text.map(|text| Self::words(&text.decode())))
            }
            Kind::Array => Ok((value != "[]").then(Self::default)),
            Kind::Object => Self::members(value),
        }
    }

    /// An error of which nothing but a text is known.
    pub(crate) fn words(text: &str) -> Self {
        Self {
            message: Some(ProviderWords::new(text)),
            ..Self::default()
        }
    }

    fn members(value: &str) -> Result<Option<Self>, JsonError> {
        let mut error = Self::default();
        let mut any = false;
        Cursor::over(value).object(|cursor, key| {
            any = true;
            match &*key.decode() {
                "message" => error.message = cursor.text()?.map(|text| ProviderWords::new(&text.decode())),
                "type" => error.kind = label(cursor)?,
                "code" => {
                    error.code = label(cursor)?;
                    error.status = error.status.or(error.code.as_deref().and_then(http_status));
                }
                "status" | "status_code" => {
                    let named = label(cursor)?;
                    match named.as_deref().and_then(http_status) {
                        Some(status) => error.status = Some(status),
                        None => error.kind = error.kind.take().or(named),
                    }
                }
                _ => cursor.skip()?,
            }
            Ok::<_, JsonError>(())
        })?;
        Ok(any.then_some(error))
    }
}

impl fmt::Debug for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WireError")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// A string or a number as text.
fn label(cursor: &mut Cursor<'_>) -> Result<Option<String>, JsonError> {
    const LIMIT: usize = 64;
    let text = match cursor.kind()? {
        Kind::String => cursor.text()?.map(|text| text.decode()),
        Kind::Number => Some(cursor.value()?.into()),
        Kind::Object | Kind::Array | Kind::Bool | Kind::Null => {
            cursor.skip()?;
            None
        }
    };
    Ok(text.map(|text| text.chars().take(LIMIT).collect()))
}

/// The text as the status of a failed request.
fn http_status(text: &str) -> Option<u16> {
    text.parse().ok().filter(|status| (400..600).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Option<WireError> {
        WireError::read(value).expect("json")
    }

    fn message(error: &WireError) -> &str {
        error.message.as_ref().map_or("", ProviderWords::reveal)
    }

    #[test]
    fn an_error_that_says_nothing_is_none() {
        for value in ["null", "false", "\"\"", "{}", "[]", "0"] {
            assert_eq!(read(value), None, "{value}");
        }
    }

    #[test]
    fn a_code_may_be_a_status_a_number_or_a_word() {
        let router = read(r#"{"code":502,"message":"Provider returned error"}"#).expect("error");
        assert_eq!((router.status, router.code.as_deref()), (Some(502), Some("502")));
        let vendor = read(r#"{"code":"1113","status":429}"#).expect("error");
        assert_eq!((vendor.status, vendor.code.as_deref()), (Some(429), Some("1113")));
        let named = read(r#"{"code":null,"status":"RESOURCE_EXHAUSTED","type":"quota"}"#).expect("error");
        assert_eq!((named.status, named.kind.as_deref()), (None, Some("quota")));
    }

    #[test]
    fn an_error_may_be_a_bare_string() {
        assert_eq!(message(&read("\"no \\u00fc\"").expect("error")), "no ü");
    }

    #[test]
    fn the_words_stay_out_of_debug() {
        let error = read(r#"{"code":"sk-1","type":"sk-2","message":"sk-3","status":400}"#).expect("error");
        assert_eq!(format!("{error:?}"), "WireError { status: Some(400), .. }");
    }
}
