//! How a webhook knows that it is the gateway that calls.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// The signature of a body that is sent at `timestamp`: HMAC-SHA256 of the timestamp, a dot and the body.
pub(super) fn sign(secret: &SecretString, timestamp: &str, body: &[u8]) -> Option<String> {
    // a key of any length will do
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes()).ok()?;
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(body);
    let mut signature = "sha256=".to_owned();
    for byte in mac.finalize().into_bytes() {
        write!(signature, "{byte:02x}").ok()?;
    }
    Some(signature)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_what_any_other_hmac_says() {
        // printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key
        let signature = sign(&"key".into(), "1700000000", br#"{"a":1}"#).expect("a signature");
        assert_eq!(
            signature,
            "sha256=a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03"
        );
    }
}
