//! Request headers as they came, with credentials that print only as fingerprints.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

/// Headers whose values never leave this type.
const SECRET: [&str; 6] = [
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "cookie",
];

/// A key that came with a request. It prints as its end: at most four characters, and at most a quarter of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(transparent)]
pub struct Credential(String);

impl Credential {
    /// Whether it is this key.
    pub fn is(&self, key: &str) -> bool {
        self.0 == key
    }

    fn fingerprint(&self) -> String {
        let length = self.0.chars().count();
        let shown = (length / 4).min(4);
        let end: String = self.0.chars().skip(length - shown).collect();
        format!("…{end}")
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fingerprint())
    }
}

impl Serialize for Credential {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.fingerprint())
    }
}

/// Headers in the order in which they came, names in lower case. Secret values print as fingerprints.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RequestHeaders(Vec<(String, String)>);

impl RequestHeaders {
    /// The first value of a header; `None` when absent, and for every header that carries a secret.
    pub fn get(&self, name: &str) -> Option<&str> {
        let secret = SECRET.iter().any(|it| it.eq_ignore_ascii_case(name));
        self.raw(name).filter(|_| !secret)
    }

    /// The names in the order in which they came.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Whether `text` occurs in any value, secret ones included: what a test for leaks asks.
    pub fn mention(&self, text: &str) -> bool {
        self.0.iter().any(|(_, value)| value.contains(text))
    }

    /// The bearer token, or else the value of `x-api-key`.
    pub(crate) fn credential(&self) -> Option<Credential> {
        let bearer = self.raw("authorization").and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token)
        });
        let key = bearer.or_else(|| self.raw("x-api-key"))?;
        Some(Credential(key.trim().to_owned()))
    }

    /// The first value of a header, whatever it carries.
    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(it, _)| it.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    fn printable(&self) -> impl Iterator<Item = (&str, String)> {
        self.0.iter().map(|(name, value)| {
            let shown = if SECRET.contains(&name.as_str()) {
                Credential(value.clone()).fingerprint()
            } else {
                value.clone()
            };
            (name.as_str(), shown)
        })
    }
}

impl FromIterator<(String, String)> for RequestHeaders {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(headers: I) -> Self {
        let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), value);
        Self(headers.into_iter().map(lower).collect())
    }
}

impl fmt::Debug for RequestHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.printable()).finish()
    }
}

impl Serialize for RequestHeaders {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.printable() {
            map.serialize_entry(name, &value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> RequestHeaders {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn a_key_prints_as_at_most_its_last_four_characters() {
        let headers = headers(&[
            ("Authorization", "Bearer sk-very-secret-7777"),
            ("X-Api-Key", "sk-other-secret-8888"),
            ("Accept", "text/event-stream"),
        ]);
        let json = serde_json::to_string(&headers).expect("prints");
        for printed in [json, format!("{headers:?}")] {
            assert!(!printed.contains("secret"), "{printed}");
            assert!(printed.contains("…7777") && printed.contains("…8888"));
            assert!(printed.contains("text/event-stream"));
        }
    }

    #[test]
    fn a_short_key_does_not_print_whole() {
        assert_eq!(format!("{:?}", Credential("abc".into())), "…");
        assert_eq!(format!("{:?}", Credential("key-a".into())), "…a");
    }

    #[test]
    fn a_bearer_token_comes_before_an_api_key() {
        let both = headers(&[("x-api-key", "k1"), ("authorization", "bearer k2")]);
        assert!(both.credential().is_some_and(|key| key.is("k2")));
        let one = headers(&[("x-api-key", "k1"), ("authorization", "Basic zzz")]);
        assert!(one.credential().is_some_and(|key| key.is("k1")));
        assert_eq!(headers(&[]).credential(), None);
    }

    #[test]
    fn a_secret_value_can_be_searched_but_not_read() {
        let headers = headers(&[("cookie", "session=s3cr3t"), ("accept", "*/*")]);
        assert_eq!(headers.get("Cookie"), None);
        assert_eq!(headers.get("Accept"), Some("*/*"));
        assert!(headers.mention("s3cr3t"));
    }
}
