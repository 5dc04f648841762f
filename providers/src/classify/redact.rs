//! A provider's words, made fit for the client who asked: no control characters, nothing that may be a credential.

use secrecy::{ExposeSecret, SecretString};

const MASK: &str = "***";

/// How the keys of well-known providers begin.
const KEY_PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "pk-",
    "rk-",
    "ck-",
    "csk-",
    "gsk_",
    "xai-",
    "hf_",
    "r8_",
    "fw_",
    "tgp_",
    "pplx-",
    "nvapi-",
    "key-",
    "sess-",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AIza",
    "AQ.",
    "ya29.",
    "AKIA",
    "ASIA",
    "eyJ",
];

/// Words after which a credential follows.
const SCHEMES: &[&str] = &["bearer", "basic"];

/// Names of query parameters that hold a credential.
const PARAMETERS: &[&str] = &["key", "token", "secret", "password", "sig", "signature"];

/// The words without anything that may be a credential, `secrets` among it.
pub(super) fn redact(words: &str, secrets: &[SecretString]) -> String {
    let mut plain: String = words
        .chars()
        .filter(|c| !is_invisible(*c))
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let secrets = secrets.iter().map(ExposeSecret::expose_secret);
    for secret in secrets.filter(|secret| !secret.is_empty()) {
        plain = plain.replace(secret, MASK);
    }
    let mut kept = String::with_capacity(plain.len());
    let mut rest = plain.as_str();
    while let Some(start) = rest.find(is_token) {
        let length = rest[start..].find(|c| !is_token(c)).unwrap_or(rest.len() - start);
        let (before, token) = (&rest[..start], &rest[start..start + length]);
        kept.push_str(before);
        let word = token.trim_end_matches('.');
        let hides = looks_secret(word) || announced(&kept);
        kept.push_str(if hides { MASK } else { word });
        kept.push_str(&token[word.len()..]);
        rest = &rest[start + length..];
    }
    kept.push_str(rest);
    kept
}

/// Whether a text holds nothing that would be hidden.
pub(super) fn is_harmless(text: &str, secrets: &[SecretString]) -> bool {
    redact(text, secrets) == text
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '~')
}

/// Zero-width and direction marks: they could split a key in two.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A credential is due after these words: `Bearer `, `?api_key=`.
fn announced(before: &str) -> bool {
    let ends_with = |text: &str, words: &[&str]| {
        let word = text
            .rsplit(|c: char| !c.is_ascii_alphabetic())
            .next()
            .unwrap_or_default();
        words.iter().any(|announces| word.eq_ignore_ascii_case(announces))
    };
    match before.strip_suffix('=') {
        Some(name) => ends_with(name, PARAMETERS),
        None => before.ends_with([' ', ':']) && ends_with(before.trim_end_matches([' ', ':']), SCHEMES),
    }
}

fn looks_secret(token: &str) -> bool {
    let has_prefix = KEY_PREFIXES
        .iter()
        .any(|prefix| token.len() > prefix.len() + 3 && token.starts_with(prefix));
    has_prefix || is_uuid(token) || token.split(|c: char| !c.is_ascii_alphanumeric()).any(looks_random)
}

/// Letters and digits mixed for long, or so many letters that no word has them.
fn looks_random(run: &str) -> bool {
    let letters = run.bytes().filter(u8::is_ascii_alphabetic).count();
    let digits = run.len() - letters;
    (run.len() >= 16 && letters > 0 && digits > 0) || run.len() >= 40
}

fn is_uuid(token: &str) -> bool {
    let parts = token
        .split('-')
        .map(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(part.len()));
    parts.eq([8, 4, 4, 4, 12].map(Some))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_looks_like_a_credential_is_masked() {
        for (words, kept) in [
            (
                "Incorrect API key provided: sk-CANARY1111111111111111.",
                "Incorrect API key provided: ***.",
            ),
            ("key AIzaCANARY0000000000000000 is bad", "key *** is bad"),
            ("Authorization: Bearer letmein", "Authorization: Bearer ***"),
            ("GET /v1/models?key=letmein&alt=sse", "GET /v1/models?key=***&alt=sse"),
            ("0123456789abcdef0123456789abcdef", "***"),
            ("123e4567-e89b-12d3-a456-426614174000", "***"),
            ("split sk-CAN\u{200b}ARY11111111", "split ***"),
        ] {
            assert_eq!(redact(words, &[]), kept);
        }
    }

    #[test]
    fn models_parameters_and_numbers_stay_readable() {
        for words in [
            "Invalid 'temperature': got 99.0, expected at most 2.",
            "The model `gpt-4o-mini-2024-07-18` does not exist",
            "model: claude-haiku-4-5-20251001 at https://docs.example.com/errors#models",
            "meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8 is gone",
            "1250025 tokens > 200000 maximum",
            "Unrecognized key: 'presence_penalty'",
        ] {
            assert_eq!(redact(words, &[]), words);
        }
    }

    #[test]
    fn the_credential_in_use_is_masked_whatever_it_looks_like() {
        assert_eq!(
            redact("key swordfish refused", &["swordfish".into()]),
            "key *** refused"
        );
        assert!(!is_harmless("swordfish", &["swordfish".into()]));
    }

    #[test]
    fn control_characters_become_spaces() {
        assert_eq!(redact("a\r\nb\u{1b}[31mc", &[]), "a  b [31mc");
    }
}
