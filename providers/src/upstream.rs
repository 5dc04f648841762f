//! One provider's API: one attempt, from the request's head to the answer's last byte. No retry, no metrics.

mod ask;
mod delivery;
mod fault;
mod frames;
pub mod going_on;
mod heads;
mod heard;
mod holding;
mod kept;
mod relay;
mod rest;
mod whole;

pub use self::rest::Rest;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Response;
use reqwest::header::HeaderMap;
use sha2::{Digest, Sha256};
use understudy_messages::client::{AnswerHead, ClientFrame};
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::failure::{CancelCause, Failure};
use understudy_messages::provider::{Answered, Attempt, AttemptError, AttemptLimits};
use understudy_messages::settings::ProviderSettings;

use self::ask::Places;
pub(crate) use self::ask::version;
pub(crate) use self::fault::fault;
use self::frames::Frames;
use self::heads::Heads;
pub(crate) use self::heads::{AGENT, ANTHROPIC_VERSION, credential};
use crate::classify::{Signal, TransportFault, classify, transport};

/// How much of an error's body is read.
const ERROR_BODY: usize = 64 << 10;
/// How long an error's body may take to arrive, once its status is there.
const ERROR_BODY_WAIT: Duration = Duration::from_secs(5);
/// How long an unused connection is kept.
const POOL_IDLE: Duration = Duration::from_secs(90);
/// Response headers that reach the client, beside `x-ratelimit-*`.
const TO_CLIENT: [&str; 2] = ["openai-processing-ms", "openai-version"];
/// Where a provider names a request of its own; the client sees it as `x-upstream-request-id`.
const REQUEST_IDS: [&str; 2] = ["x-request-id", "request-id"];

/// An HTTP client for one arbiter: its connections are driven by the thread that opened them.
///
/// # Errors
/// When TLS cannot be set up.
pub fn http_client(connect: Duration) -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .tcp_nodelay(true)
        .connect_timeout(connect)
        .pool_idle_timeout(POOL_IDLE)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .build()
}

/// One provider's API, as seen from one arbiter.
pub struct Upstream {
    settings: Arc<ProviderSettings>,
    places: Places,
    heads: Heads,
    client: reqwest::Client,
    clock: Clock,
}

impl Upstream {
    /// The API that `settings` describe, reached through `client`.
    pub fn new(settings: Arc<ProviderSettings>, client: reqwest::Client, clock: Clock) -> Self {
        Self {
            places: Places::of(&settings),
            heads: Heads::of(&settings),
            settings,
            client,
            clock,
        }
    }

    /// Asks once, and lets the answer through to the turn's client as it comes. What the provider may still say after its
    /// answer is left to be read.
    ///
    /// The result is an error when this is no answer; the turn's progress tells what the client has seen of it.
    pub async fn attempt(&self, attempt: &Attempt) -> (Result<Answered, AttemptError>, Option<Rest>) {
        match Exchange::new(self, attempt).run().await {
            Ok((answered, rest)) => (Ok(answered), rest),
            Err(error) => (Err(error), None),
        }
    }
}

/// One attempt under way.
struct Exchange<'a> {
    upstream: &'a Upstream,
    attempt: &'a Attempt,
    limits: AttemptLimits,
    sent: Instant,
    /// Whether the provider speaks the client's format: then bytes pass as they are.
    verbatim: bool,
}

impl<'a> Exchange<'a> {
    fn new(upstream: &'a Upstream, attempt: &'a Attempt) -> Self {
        Self {
            limits: limits(attempt),
            sent: upstream.clock.now(),
            verbatim: attempt.turn.request.endpoint.is_spoken_by(upstream.settings.api),
            upstream,
            attempt,
        }
    }

    async fn run(&self) -> Result<(Answered, Option<Rest>), AttemptError> {
        let stream = self.attempt.turn.request.facts.stream;
        let limit = if stream {
            self.limits.first_content
        } else {
            self.limits.whole
        };
        let cut = if stream {
            TransportFault::FirstContentLimit
        } else {
            TransportFault::WholeLimit
        };
        let deadline = self.sent + limit;
        let (request, dropped) = self.ask()?;
        let mut response = self
            .within(deadline, cut, self.upstream.client.execute(request))
            .await?
            .map_err(|error| failed(transport(fault(&error, TransportFault::LostBeforeFirstByte))))?;
        self.note_head(&response);
        if !response.status().is_success() {
            return Err(failed(self.refused(response).await?));
        }
        match (stream, Frames::announced(&response, self.upstream.settings.api)) {
            (true, Some(frames)) => {
                let relay = relay::Relay::new(self, deadline, &response, frames, dropped);
                // on the heap, so that answers that come whole do not carry the space of a stream about
                let answered = Box::pin(relay.run(&mut response)).await?;
                Ok((answered, Rest::of(response, &self.upstream.clock)))
            }
            (false, None | Some(Frames::Array(_))) => Ok((self.whole(response, deadline, dropped).await?, None)),
            (true, None) | (false, Some(Frames::Events(_))) => {
                Err(failed(self.other_kind(response, deadline, cut).await?))
            }
        }
    }

    /// Whether a report of tokens was asked for that the client did not ask for.
    fn asks_usage(&self) -> bool {
        self.upstream.settings.ask_usage && self.attempt.turn.request.facts.usage_edit.is_some()
    }

    /// Whether the client gets the provider's own bytes: not where somebody else's answer is gone on with.
    fn passes_bytes(&self) -> bool {
        self.verbatim && self.attempt.prompt.continuation.is_none()
    }

    /// The provider answered with an error status.
    async fn refused(&self, response: Response) -> Result<Failure, AttemptError> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = self.some_of(response).await?;
        Ok(self.classified(Some(status), &headers, &body))
    }

    /// A stream where a whole answer was asked for, or the other way round: an error with status 200, or no answer.
    async fn other_kind(
        &self,
        response: Response,
        deadline: Instant,
        cut: TransportFault,
    ) -> Result<Failure, AttemptError> {
        let headers = response.headers().clone();
        let body = self.within(deadline, cut, self.some_of(response)).await??;
        Ok(self.classified(None, &headers, &body))
    }

    fn classified(&self, status: Option<u16>, headers: &HeaderMap, body: &[u8]) -> Failure {
        classify(&Signal {
            provider: &self.upstream.settings.name,
            status,
            headers: &|name| headers.get(name).and_then(|value| value.to_str().ok()),
            body,
            secrets: &self.upstream.settings.api_keys,
            now: self.upstream.clock.wall(),
        })
    }

    /// As much of an error's body as comes in time and fits.
    async fn some_of(&self, mut response: Response) -> Result<Vec<u8>, AttemptError> {
        let deadline = self.upstream.clock.now() + ERROR_BODY_WAIT;
        let mut body = Vec::new();
        while body.len() < ERROR_BODY {
            let read = self.within(deadline, TransportFault::Lost, response.chunk()).await;
            match read {
                Ok(Ok(Some(bytes))) => {
                    self.note_heard(&bytes);
                    body.extend_from_slice(&bytes);
                }
                Ok(Ok(None) | Err(_)) | Err(AttemptError::Failed { .. }) => break,
                Err(AttemptError::Cancelled) => return Err(AttemptError::Cancelled),
            }
        }
        body.truncate(ERROR_BODY);
        Ok(body)
    }

    /// Notes that a response has begun, for those who want to know.
    fn note_head(&self, response: &Response) {
        if let Some(traffic) = &self.attempt.traffic {
            let after = self.upstream.clock.now().duration_since(self.sent);
            let mut ids = REQUEST_IDS.iter().filter_map(|name| response.headers().get(*name));
            traffic.began(after, ids.next().map(|id| digest(id.as_bytes())));
        }
    }

    /// Notes that more of a response has come, for those who want to know.
    fn note_heard(&self, bytes: &Bytes) {
        if let Some(traffic) = &self.attempt.traffic {
            traffic.heard(bytes.len());
        }
    }

    /// Waits for `work` until `deadline`, where it fails with `fault`, or the attempt is cancelled.
    async fn within<F: Future>(
        &self,
        deadline: Instant,
        fault: TransportFault,
        work: F,
    ) -> Result<F::Output, AttemptError> {
        tokio::select! {
            biased;
            () = self.attempt.cancel.cancelled() => Err(AttemptError::Cancelled),
            done = work => Ok(done),
            () = self.upstream.clock.sleep_until(deadline) => Err(failed(transport(fault))),
        }
    }

    /// Sends a frame to the client, who may be slow, until the attempt is cancelled.
    async fn send(&self, frame: ClientFrame) -> Result<(), AttemptError> {
        let (turn, cancel) = (&self.attempt.turn, &self.attempt.cancel);
        if cancel.is_cancelled() {
            return Err(AttemptError::Cancelled);
        }
        tokio::select! {
            biased;
            // first: mostly there is room, and nothing to wait for
            sent = turn.client.send(frame) => sent.map_err(|_client_gone| {
                turn.cancel.cancel(CancelCause::Client);
                AttemptError::Cancelled
            }),
            () = cancel.cancelled() => Err(AttemptError::Cancelled),
        }
    }

    fn head(&self, headers: Vec<(Bytes, Bytes)>, dropped: Vec<String>) -> AnswerHead {
        AnswerHead {
            served_by: self.attempt.candidate.model.clone(),
            attempts: self.attempt.number,
            streaming: self.attempt.turn.request.facts.stream,
            headers,
            dropped,
        }
    }
}

fn failed(failure: Failure) -> AttemptError {
    AttemptError::Failed {
        failure,
        malformed: 0,
        usage: None,
        delivered: None,
    }
}

/// A short digest of a provider's name for a request: it tells requests apart and gives nothing away.
fn digest(id: &[u8]) -> String {
    let digest = Sha256::digest(id);
    let hex = digest.iter().take(6).map(|byte| format!("{byte:02x}"));
    hex.fold("sha256:".to_owned(), |text, byte| text + &byte)
}

/// The response headers that may reach the client; the provider's request id under a name of its own.
fn passing(headers: &HeaderMap) -> Vec<(Bytes, Bytes)> {
    let mut passing = Vec::new();
    for (name, value) in headers {
        let value = || Bytes::copy_from_slice(value.as_bytes());
        match name.as_str() {
            name if REQUEST_IDS.contains(&name) => {
                passing.push((Bytes::from_static(b"x-upstream-request-id"), value()))
            }
            name if name.starts_with("x-ratelimit-")
                || name.starts_with("anthropic-ratelimit-")
                || TO_CLIENT.contains(&name) =>
            {
                passing.push((Bytes::copy_from_slice(name.as_bytes()), value()));
            }
            _ => {}
        }
    }
    passing
}

/// Design §6, "Timeouts": shorter while a later candidate is usable; a model's own first-content limit stands.
fn limits(attempt: &Attempt) -> AttemptLimits {
    let timeouts = &attempt.turn.timeouts;
    let (first_content, whole) = match attempt.successor {
        true => (timeouts.first_content, timeouts.whole),
        false => (timeouts.first_content_last, timeouts.whole_last),
    };
    AttemptLimits {
        first_content: attempt.candidate.settings.first_content.unwrap_or(first_content),
        idle: timeouts.idle,
        whole,
    }
}
