//! Which headers may pass, both ways. Everything that is not listed stays here: credentials, cookies, forwarding headers.

use actix_web::HttpResponseBuilder;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;

/// Request headers that reach the provider; Anthropic's own only one that speaks its format.
static TO_PROVIDER: [HeaderName; 7] = [
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("openai-beta"),
    HeaderName::from_static("anthropic-version"),
    HeaderName::from_static("anthropic-beta"),
];

/// The request headers that may pass to a provider.
pub(super) fn to_provider(headers: &HeaderMap) -> Vec<(Bytes, Bytes)> {
    let passing = TO_PROVIDER.iter().filter_map(|name| Some((name, headers.get(name)?)));
    passing
        .map(|(name, value)| {
            (
                Bytes::from_static(name.as_str().as_bytes()),
                Bytes::copy_from_slice(value.as_bytes()),
            )
        })
        .collect()
}

/// Adds the provider's headers that came with the answer's head.
pub(super) fn to_client(response: &mut HttpResponseBuilder, headers: &[(Bytes, Bytes)]) {
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            response.insert_header((name, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_cookies_and_forwarding_headers_do_not_pass() {
        let mut headers = HeaderMap::new();
        for name in [
            "authorization",
            "cookie",
            "x-forwarded-for",
            "x-api-key",
            "forwarded",
            "host",
            "traceparent",
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("v"));
        }
        let passing = to_provider(&headers);
        assert_eq!(
            passing,
            [(Bytes::from_static(b"traceparent"), Bytes::from_static(b"v"))]
        );
    }
}
