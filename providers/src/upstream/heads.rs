//! What the head of every request to a provider says, whatever is asked: made once for each credential.

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use secrecy::{ExposeSecret, SecretString};
use understudy_messages::settings::{Api, ProviderSettings};

/// The version of Anthropic's API that is spoken where the client names none.
pub(crate) const ANTHROPIC_VERSION: (HeaderName, HeaderValue) = (
    HeaderName::from_static("anthropic-version"),
    HeaderValue::from_static("2023-06-01"),
);

/// Who asks.
pub(crate) const AGENT: &str = concat!("understudy/", env!("CARGO_PKG_VERSION"));

/// The heads of one provider's requests.
pub(super) struct Heads {
    /// By credential, in the order of the settings.
    by_credential: Vec<Head>,
    /// Of a request that carries none.
    bare: Head,
}

struct Head {
    whole: HeaderMap,
    stream: HeaderMap,
}

impl Heads {
    pub(super) fn of(settings: &ProviderSettings) -> Self {
        let keys = settings.api_keys.iter();
        Self {
            by_credential: keys.map(|key| Head::new(settings.api, Some(key))).collect(),
            bare: Head::new(settings.api, None),
        }
    }

    /// What a request by the credential at this place says before the client's own headers are added.
    pub(super) fn find(&self, credential: usize, stream: bool) -> &HeaderMap {
        let head = self.by_credential.get(credential).unwrap_or(&self.bare);
        if stream { &head.stream } else { &head.whole }
    }
}

impl Head {
    fn new(api: Api, key: Option<&SecretString>) -> Self {
        let accepting = |accept| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
            headers.extend((api == Api::AnthropicMessages).then_some(ANTHROPIC_VERSION));
            headers.extend(key.and_then(|key| credential(api, key.expose_secret())));
            headers
        };
        Self {
            whole: accepting("application/json"),
            stream: accepting("text/event-stream"),
        }
    }
}

/// Whether a client may say otherwise than `head` does.
pub(super) fn yields(head: &HeaderMap, name: &HeaderName) -> bool {
    *name == ANTHROPIC_VERSION.0 || !head.contains_key(name)
}

/// The credential under the name that an API knows it by.
pub(crate) fn credential(api: Api, key: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = match api {
        Api::OpenaiChat | Api::OpenaiResponses => (AUTHORIZATION, HeaderValue::try_from(format!("Bearer {key}"))),
        Api::AnthropicMessages => (HeaderName::from_static("x-api-key"), HeaderValue::try_from(key)),
        Api::Gemini => (HeaderName::from_static("x-goog-api-key"), HeaderValue::try_from(key)),
    };
    let mut value = value.ok()?;
    value.set_sensitive(true);
    Some((name, value))
}
