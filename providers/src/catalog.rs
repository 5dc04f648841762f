//! What a provider's own list of models says: read page by page, within bounds.

mod page;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue, USER_AGENT};
use reqwest::{Method, Request, Response, Url};
use secrecy::{ExposeSecret, SecretString};
use tokio_util::sync::CancellationToken;
use understudy_messages::catalog::{CatalogError, CatalogSource, Listed, Listing, Progress, Stage};
use understudy_messages::clock::Clock;
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::settings::{Api, ProviderSettings};

use crate::classify::{Signal, TransportFault, classify, transport};
use crate::upstream::{AGENT, ANTHROPIC_VERSION, credential, fault, version};

/// The most pages of one list.
const MOST_PAGES: usize = 64;
/// The most bytes of one list, all its pages together.
const MOST_BYTES: usize = 16 << 20;
/// How much of an error's body is read.
const ERROR_BODY: usize = 64 << 10;
/// How long an error's body may take to arrive, once its status is there.
const ERROR_BODY_WAIT: Duration = Duration::from_secs(5);

/// The list of a provider from configuration, over HTTP.
pub struct HttpCatalog(Arc<Reader>);

struct Reader {
    settings: Arc<ProviderSettings>,
    client: reqwest::Client,
    clock: Clock,
}

impl HttpCatalog {
    /// The list of the provider that `settings` describe, read through `client`.
    pub fn new(settings: Arc<ProviderSettings>, client: reqwest::Client, clock: Clock) -> Self {
        Self(Arc::new(Reader {
            settings,
            client,
            clock,
        }))
    }
}

impl CatalogSource for HttpCatalog {
    fn list(&self, progress: Progress, cancel: CancellationToken) -> Listed {
        let reader = self.0.clone();
        Box::pin(async move {
            tokio::select! {
                biased;
                () = cancel.cancelled() => Err(CatalogError::Lost),
                listed = reader.list(&progress) => listed,
            }
        })
    }
}

impl Reader {
    /// The list, by the first credential that is let in.
    async fn list(&self, progress: &Progress) -> Result<Listing, CatalogError> {
        progress.note(Stage::Discovery);
        let mut keys = self.settings.api_keys.iter();
        let mut key = keys.next();
        loop {
            let listed = self.pages(key, progress).await;
            key = match (&listed, keys.next()) {
                (Err(error), Some(next)) if is_about_the_key(error) => Some(next),
                (Ok(_) | Err(_), _) => return listed,
            };
        }
    }

    async fn pages(&self, key: Option<&SecretString>, progress: &Progress) -> Result<Listing, CatalogError> {
        let (mut listing, mut room) = (Listing::default(), MOST_BYTES);
        let mut after: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let body = self.page(key, after.as_deref(), room).await?;
            progress.note(Stage::Discovery);
            room = room.saturating_sub(body.len());
            let next = page::read(self.settings.api, &self.settings.name, &body, &mut listing)?;
            // a list that leads back to where it was has no end
            let leads_on = next.is_some() && next != after;
            if !leads_on || listing.cut {
                listing.cut |= next.is_some();
                return ended(listing);
            }
            after = next;
        }
        listing.cut = true;
        ended(listing)
    }

    async fn page(
        &self,
        key: Option<&SecretString>,
        after: Option<&str>,
        room: usize,
    ) -> Result<Vec<u8>, CatalogError> {
        let lost = |fault_at| move |error: reqwest::Error| unanswered(&transport(fault(&error, fault_at)));
        let request = self.ask(key, after).ok_or(failed(Reason::Unknown))?;
        let response = self.client.execute(request).await;
        let mut response = response.map_err(lost(TransportFault::LostBeforeFirstByte))?;
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let mut body = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(lost(TransportFault::Lost))? {
            if body.len() + bytes.len() > room {
                return Err(CatalogError::TooLong);
            }
            body.extend_from_slice(&bytes);
        }
        Ok(body)
    }

    fn ask(&self, key: Option<&SecretString>, after: Option<&str>) -> Option<Request> {
        let settings = &self.settings;
        let path = format!("{}{}/models", settings.base_url, version(settings));
        let mut url = Url::parse(&path).ok()?;
        for (name, value) in page::query(settings.api, after) {
            url.query_pairs_mut().append_pair(name, value);
        }
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        if settings.api == Api::AnthropicMessages {
            headers.extend([ANTHROPIC_VERSION]);
        }
        headers.extend(key.and_then(|key| credential(settings.api, key.expose_secret())));
        let mut request = Request::new(Method::GET, url);
        *request.headers_mut() = headers;
        Some(request)
    }

    /// What an error status means. The provider's words are read for it, and kept nowhere.
    async fn refused(&self, mut response: Response) -> CatalogError {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let (deadline, mut body) = (self.clock.now() + ERROR_BODY_WAIT, Vec::new());
        while body.len() < ERROR_BODY {
            match self.clock.timeout_at(deadline, response.chunk()).await {
                Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
                Ok(Ok(None) | Err(_)) | Err(_) => break,
            }
        }
        body.truncate(ERROR_BODY);
        let failure = classify(&Signal {
            provider: &self.settings.name,
            status: Some(status),
            headers: &|name| headers.get(name).and_then(|value| value.to_str().ok()),
            body: &body,
            secrets: &self.settings.api_keys,
            now: self.clock.wall(),
        });
        CatalogError::Failed {
            reason: failure.reason,
            status: Some(status),
        }
    }
}

/// A list without a model tells nothing: to believe it would be to serve nobody.
fn ended(listing: Listing) -> Result<Listing, CatalogError> {
    match listing.models().is_empty() {
        true => Err(CatalogError::NoList),
        false => Ok(listing),
    }
}

fn unanswered(failure: &Failure) -> CatalogError {
    match (failure.reason, failure.cut) {
        (Reason::Timeout, Cut::Refused) => CatalogError::Unreached,
        (reason, _) => failed(reason),
    }
}

const fn failed(reason: Reason) -> CatalogError {
    CatalogError::Failed { reason, status: None }
}

/// Whether another credential may do.
fn is_about_the_key(error: &CatalogError) -> bool {
    let CatalogError::Failed { reason, .. } = error else {
        return false;
    };
    matches!(
        reason,
        Reason::Auth | Reason::AuthPermanent | Reason::Billing | Reason::RateLimit
    )
}
