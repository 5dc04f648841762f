//! `fetch`, for plugins that were granted origins: one request, without redirects, within bounds.
//!
//! A request ends with the calls that it was made for: what the thread does on behalf of one call is that call's, and what follows
//! an `await` belongs to all calls that are at work then. Nobody waits for it any longer when all of them are over.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use futures::{FutureExt, StreamExt};
use reqwest::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE,
};
use reqwest::{Client, Method, Response, Url};
use serde::Deserialize;
use understudy_messages::clock::Clock;
use understudy_messages::origin::{ORIGIN_HEADER, OriginToken};

use super::shared::Interest;
use crate::listeners::Listeners;

/// The longest body of a request, and of an answer.
const LONGEST_BODY: usize = 1 << 20;
/// As many requests may run at the same time.
const MOST: usize = 64;
/// How long one may take, whoever waits for it.
const LONGEST: Duration = Duration::from_secs(30);
/// Headers that say how a request is carried, or to whom: those are not the plugin's to write.
const CARRIERS: [HeaderName; 5] = [HOST, CONTENT_LENGTH, CONNECTION, TRANSFER_ENCODING, UPGRADE];

/// What a plugin may fetch, and what it is fetching.
pub(super) struct Fetching {
    origins: Vec<String>,
    listeners: Listeners,
    client: RefCell<Option<Client>>,
    clock: Clock,
    begun: RefCell<Vec<Fetch>>,
    running: Cell<usize>,
}

/// A request on its way: its number, and what came of it.
pub(super) type Fetch = BoxFuture<'static, (u64, Result<Fetched, String>)>;

/// An answer.
pub(super) struct Fetched {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

/// A request as the plugin writes it.
#[derive(Deserialize)]
struct Written {
    url: String,
    method: Option<String>,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl Fetching {
    /// `origins` as `scheme://host[:port]`; `*` is any.
    pub(super) const fn new(origins: Vec<String>, listeners: Listeners, clock: Clock) -> Self {
        Self {
            origins,
            listeners,
            client: RefCell::new(None),
            clock,
            begun: RefCell::new(Vec::new()),
            running: Cell::new(0),
        }
    }

    /// Begins a request for these calls. To the gateway itself it says from which of them it comes, unless the plugin does.
    ///
    /// # Errors
    /// Why it may not be made.
    pub(super) fn begin(
        &self,
        number: u64,
        written: &str,
        calls: Vec<Interest>,
        origin: impl FnOnce() -> Option<OriginToken>,
    ) -> Result<(), String> {
        let request = self.request(written, origin)?;
        if self.running.get() >= MOST {
            return Err(format!("more than {MOST} requests at the same time"));
        }
        self.running.set(self.running.get() + 1);
        let clock = self.clock.clone();
        let fetch = async move {
            let given_up = async {
                if calls.is_empty() {
                    std::future::pending::<()>().await;
                }
                join_all(calls.iter().map(|call| call.cancel.cancelled())).await;
            };
            let answer = clock.timeout_at(clock.now() + LONGEST, perform(request));
            let outcome = tokio::select! {
                biased;
                () = given_up => Err("nobody waits for it any longer".to_owned()),
                answer = answer => answer.unwrap_or_else(|_| Err(format!("no answer within {LONGEST:?}"))),
            };
            (number, outcome)
        };
        self.begun.borrow_mut().push(fetch.boxed());
        Ok(())
    }

    /// The requests that have begun since this was last asked.
    pub(super) fn begun(&self) -> Vec<Fetch> {
        self.begun.take()
    }

    /// One of them is over.
    pub(super) fn ended(&self) {
        self.running.set(self.running.get().saturating_sub(1));
    }

    fn request(
        &self,
        written: &str,
        named: impl FnOnce() -> Option<OriginToken>,
    ) -> Result<reqwest::RequestBuilder, String> {
        if self.origins.is_empty() {
            return Err("fetch is not granted to this plugin".to_owned());
        }
        let written: Written = serde_json::from_str(written).map_err(|_| "the request is none")?;
        let url = Url::parse(&written.url).map_err(|error| format!("the url is none: {error}"))?;
        let origin = url.origin().ascii_serialization();
        let is_it = |granted: &String| granted == "*" || *granted == origin;
        if !matches!(url.scheme(), "http" | "https") || !self.origins.iter().any(is_it) {
            return Err(format!("fetch from {origin} is not granted to this plugin"));
        }
        let method = written.method.unwrap_or_default().to_ascii_uppercase();
        let method = match &*method {
            "" => Method::GET,
            "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" => {
                Method::from_bytes(method.as_bytes()).map_err(|_| "the method is none")?
            }
            other => return Err(format!("the method {} is not here", other.escape_debug())),
        };
        if written.body.as_ref().is_some_and(|body| body.len() > LONGEST_BODY) {
            return Err("the body is larger than 1 MiB".to_owned());
        }
        let mut headers = headers(&written.headers)?;
        if self.listeners.answer(&url)
            && !headers.contains_key(ORIGIN_HEADER)
            && let Some(token) = named().and_then(|token| HeaderValue::from_str(&token.expose()).ok())
        {
            headers.insert(ORIGIN_HEADER, token);
        }
        let request = self.client()?.request(method, url).headers(headers);
        Ok(match written.body {
            Some(body) => request.body(body),
            None => request,
        })
    }

    /// One client for each engine: its connections live on the engine's thread.
    fn client(&self) -> Result<Client, String> {
        if let Some(client) = &*self.client.borrow() {
            return Ok(client.clone());
        }
        let client = crate::webhook::http_client().map_err(|error| format!("TLS cannot be set up: {error}"))?;
        self.client.replace(Some(client.clone()));
        Ok(client)
    }
}

fn headers(written: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in written {
        let shown = name.escape_debug();
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("the header {shown} is none"))?;
        if CARRIERS.contains(&name) {
            return Err(format!("the header {name} is not the plugin's to write"));
        }
        let value = HeaderValue::from_str(value).map_err(|_| format!("the value of the header {name} is none"))?;
        headers.append(name, value);
    }
    Ok(headers)
}

async fn perform(request: reqwest::RequestBuilder) -> Result<Fetched, String> {
    let response = request.send().await.map_err(|error| match error.is_connect() {
        true => "it could not be reached".to_owned(),
        false => "the connection was lost".to_owned(),
    })?;
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = response.headers().iter();
    let headers = headers
        .map(|(name, value)| (name.as_str().to_owned(), text(value)))
        .collect();
    Ok(Fetched {
        status: response.status().as_u16(),
        headers,
        body: body(response).await?,
    })
}

async fn body(response: Response) -> Result<String, String> {
    let (mut body, mut chunks) = (Vec::new(), response.bytes_stream());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| "the answer was cut short")?;
        if body.len() + chunk.len() > LONGEST_BODY {
            return Err("the answer is larger than 1 MiB".to_owned());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}
