//! `${NAME}` in a value becomes the environment variable's text; `$${` stands for a plain `${`.
//!
//! Replacement happens in values that were already parsed, so that no variable can add keys to the document.

use super::Environment;

/// Why a reference cannot be replaced.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubstitutionError {
    /// The variable named is not set.
    #[error("environment variable {0} is not set")]
    Unset(String),
    /// `${` without a name and `}` after it.
    #[error("`${{` does not begin a reference to a variable")]
    Malformed,
}

impl SubstitutionError {
    /// What to do about it.
    pub(crate) const fn fix(&self) -> &'static str {
        match self {
            Self::Unset(_) => "set the variable, or write `$${` for a plain `${`",
            Self::Malformed => "write `${NAME}` and nothing else between the braces, or `$${` for a plain `${`",
        }
    }
}

/// The text with every reference replaced.
///
/// # Errors
/// All references that cannot be replaced, in their order.
pub(crate) fn substitute(text: &str, env: &Environment<'_>) -> Result<String, Vec<SubstitutionError>> {
    let mut output = String::with_capacity(text.len());
    let mut errors = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, reference) = rest.split_at(start);
        if let Some(escaped) = before.strip_suffix('$') {
            output.push_str(escaped);
            output.push_str("${");
            rest = &reference[2..];
            continue;
        }
        output.push_str(before);
        let Some((name, after)) = reference[2..].split_once('}').filter(|(n, _)| is_name(n)) else {
            errors.push(SubstitutionError::Malformed);
            rest = &reference[2..];
            continue;
        };
        match env(name) {
            Some(value) => output.push_str(&value),
            None => errors.push(SubstitutionError::Unset(name.to_owned())),
        }
        rest = after;
    }
    output.push_str(rest);
    if errors.is_empty() { Ok(output) } else { Err(errors) }
}

fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("example.com".to_owned()),
            "NESTED" => Some("${HOST}".to_owned()),
            _ => None,
        }
    }

    fn unset(name: &str) -> SubstitutionError {
        SubstitutionError::Unset(name.to_owned())
    }

    #[test]
    fn references_are_replaced_where_they_stand() {
        assert_eq!(
            substitute("https://${HOST}/v1?h=${HOST}", &env),
            Ok("https://example.com/v1?h=example.com".to_owned())
        );
    }

    #[test]
    fn an_escaped_reference_stays_as_text() {
        assert_eq!(
            substitute("$${HOST} $ $$ {HOST}", &env),
            Ok("${HOST} $ $$ {HOST}".to_owned())
        );
    }

    #[test]
    fn a_variable_that_holds_a_reference_is_not_read_again() {
        assert_eq!(substitute("${NESTED}", &env), Ok("${HOST}".to_owned()));
    }

    #[test]
    fn every_missing_variable_is_named() {
        assert_eq!(
            substitute("${ONE} ${HOST} ${TWO}", &env),
            Err(vec![unset("ONE"), unset("TWO")])
        );
    }

    #[test]
    fn a_reference_without_a_proper_name_is_malformed() {
        for text in ["${", "${}", "${HOST", "${1A}", "${A-B}", "${HOST:-x}"] {
            assert_eq!(
                substitute(text, &env),
                Err(vec![SubstitutionError::Malformed]),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn escaping_every_reference_gives_the_text_back(text in r"[a-z${}é]{0,40}") {
            let escaped = text.replace("${", "$${");
            prop_assert_eq!(substitute(&escaped, &env), Ok(text));
        }
    }
}
