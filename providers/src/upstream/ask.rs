//! The HTTP request of one attempt: where it goes, what it carries, by which credential.

use std::borrow::Cow;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Url};
use understudy_messages::conversation::{Message, Part};
use understudy_messages::failure::{Cut, ErrorCode, Failure, Nuance, ProviderWords, Reason};
use understudy_messages::provider::AttemptError;
use understudy_messages::request::Endpoint;
use understudy_messages::settings::{Api, ProviderSettings};

use super::heads::yields;
use super::{Exchange, failed};
use crate::continuation;
use crate::wire::{self, RequestError, Target, Written};

/// Where one provider is asked for what. `None` for a base URL that is none, which configuration refuses.
pub(super) struct Places {
    answers: Option<Url>,
    embeddings: Option<Url>,
    counts: Option<Url>,
}

impl Places {
    pub(super) fn of(settings: &ProviderSettings) -> Self {
        let base = &settings.base_url;
        let place = |path: &str| Url::parse(&format!("{base}{path}")).ok();
        let version = version(settings);
        match settings.api {
            Api::OpenaiChat => Self {
                answers: place("/chat/completions"),
                embeddings: place("/embeddings"),
                counts: None,
            },
            Api::OpenaiResponses => Self {
                answers: place("/responses"),
                embeddings: place("/embeddings"),
                counts: None,
            },
            Api::AnthropicMessages => Self {
                answers: place(&format!("{version}/messages")),
                embeddings: None,
                counts: place(&format!("{version}/messages/count_tokens")),
            },
            Api::Gemini => Self {
                answers: place(&format!("{version}/models/")),
                embeddings: None,
                counts: None,
            },
        }
    }

    fn find(&self, endpoint: Endpoint, api: Api, model: &str, stream: bool) -> Option<Url> {
        match (endpoint, api) {
            (Endpoint::Embeddings, _) => self.embeddings.clone(),
            (Endpoint::CountTokens, _) => self.counts.clone(),
            (_, Api::Gemini) => {
                let mut url = self.answers.clone()?;
                let method = if stream {
                    "streamGenerateContent"
                } else {
                    "generateContent"
                };
                url.path_segments_mut()
                    .ok()?
                    .pop_if_empty()
                    .push(&format!("{model}:{method}"));
                url.set_query(stream.then_some("alt=sse"));
                Some(url)
            }
            (_, Api::OpenaiChat | Api::OpenaiResponses | Api::AnthropicMessages) => self.answers.clone(),
        }
    }
}

/// What stands between a provider's address and its paths: Anthropic's and Google's own SDKs take the address without the
/// version, everybody else's with it.
pub(crate) fn version(settings: &ProviderSettings) -> &'static str {
    match settings.api {
        Api::AnthropicMessages | Api::Gemini if ends_in_a_version(&settings.base_url) => "",
        Api::Gemini => "/v1beta",
        Api::AnthropicMessages => "/v1",
        Api::OpenaiChat | Api::OpenaiResponses => "",
    }
}

/// Whether an address has a version of an API at its end, or, for Google's cloud, before the publisher of its models.
fn ends_in_a_version(base: &str) -> bool {
    let last = base.rsplit('/').next().unwrap_or_default();
    let number = last.strip_prefix('v').unwrap_or_default();
    number.starts_with(|first: char| first.is_ascii_digit()) || base.ends_with("/publishers/google")
}

impl Exchange<'_> {
    /// The request, and the members of the client's that had no place in it.
    pub(super) fn ask(&self) -> Result<(Request, Vec<String>), AttemptError> {
        let turn = &self.attempt.turn.request;
        let settings = &self.upstream.settings;
        let model = &self.attempt.candidate.model.model;
        let Written { body, dropped } = self.written()?;
        let nowhere = || failed(Failure::observed(Reason::Unknown, Cut::Refused));
        let places = &self.upstream.places;
        let url = places.find(turn.endpoint, settings.api, model, turn.facts.stream);
        let mut request = Request::new(Method::POST, url.ok_or_else(nowhere)?);
        *request.headers_mut() = self.headers();
        if let Some(traffic) = &self.attempt.traffic {
            traffic.asked(body.len());
        }
        *request.body_mut() = Some(body.into());
        Ok((request, dropped))
    }

    /// The body: the client's own where the provider speaks its format, else what was said in it in the provider's. Behind it
    /// what was said in this turn already.
    fn written(&self) -> Result<Written, AttemptError> {
        let target = Target {
            model: &self.attempt.candidate.model.model,
            ask_usage: self.upstream.settings.ask_usage,
        };
        match self.verbatim {
            true => self.extended(&target),
            false => self.translated(&target),
        }
    }

    fn extended(&self, target: &Target<'_>) -> Result<Written, AttemptError> {
        let (turn, prompt) = (&self.attempt.turn.request, &self.attempt.prompt);
        let body = continuation::extended(
            turn.endpoint,
            &prompt.body,
            &prompt.rounds,
            prompt.continuation.as_deref(),
        );
        let body = body.map_err(|error| unfit(&error.to_string()))?;
        let body = body.ok_or_else(|| unfit("an answer to this cannot be gone on with"))?;
        let facts = match body.as_ptr() == prompt.body.as_ptr() {
            true => Cow::Borrowed(prompt.facts(turn)),
            false => Cow::Owned(wire::scan(turn.endpoint, &body).map_err(|error| unfit(&error.to_string()))?),
        };
        Ok(Written {
            body: wire::for_model(turn.endpoint, &body, &facts, target),
            dropped: Vec::new(),
        })
    }

    fn translated(&self, target: &Target<'_>) -> Result<Written, AttemptError> {
        let prompt = &self.attempt.prompt;
        let mut conversation = wire::read(self.attempt.turn.request.endpoint, &prompt.body).map_err(unread)?;
        let own_failures = conversation.messages.iter().any(tells_of_a_failed_tool);
        let behind = continuation::behind(&prompt.rounds, prompt.continuation.as_deref());
        conversation.messages.extend(behind);
        let written = wire::write(self.upstream.settings.api, &conversation, target);
        let mut written = written.map_err(|error| unfit(&error.to_string()))?;
        // what failed here is no member of the client's request
        written.dropped.retain(|name| own_failures || name != "is_error");
        Ok(written)
    }

    /// What is always said, and what the client wants the provider to hear.
    fn headers(&self) -> HeaderMap {
        let turn = &self.attempt.turn.request;
        let head = self.upstream.heads.find(self.attempt.credential, turn.facts.stream);
        let mut headers = head.clone();
        for (name, value) in &turn.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
                && (self.verbatim || !name.as_str().starts_with("anthropic-"))
                && yields(head, &name)
            {
                headers.insert(name, value);
            }
        }
        headers
    }
}

fn tells_of_a_failed_tool(message: &Message) -> bool {
    let failed = |part: &Part| matches!(part, Part::ToolResult(result) if result.is_error);
    message.parts.iter().any(failed)
}

/// The request cannot be taken apart: for want of words, or because it is none.
fn unread(error: RequestError) -> AttemptError {
    let mut unfit = unfit(&error.to_string());
    if let (AttemptError::Failed { failure, .. }, false) =
        (&mut unfit, matches!(error, RequestError::Untranslatable { .. }))
    {
        failure.code = ErrorCode::new("invalid_request");
    }
    unfit
}

/// The request cannot be put into the provider's words; ours for it may go to the client.
fn unfit(why: &str) -> AttemptError {
    let mut failure = Failure::observed(Reason::Format, Cut::Refused);
    failure.nuance = Some(Nuance::Untranslatable);
    failure.code = ErrorCode::new("unsupported_by_target");
    failure.words = Some(ProviderWords::new(why));
    failed(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_leave_out_the_version() {
        for (base, versioned) in [
            ("https://example.com", false),
            ("https://example.com/v1/account/google-ai-studio", false),
            ("https://example.com/vertex", false),
            ("https://example.com/v1", true),
            ("https://example.com/v1beta", true),
            ("https://example.com/v1/projects/p/locations/l/publishers/google", true),
        ] {
            assert_eq!(ends_in_a_version(base), versioned, "{base}");
        }
    }
}
