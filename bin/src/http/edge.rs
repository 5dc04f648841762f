//! What every request passes: its id, its metrics, its credentials.

use std::pin::Pin;
use std::task::{self, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{ConnectionType, Method, Version};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, web};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;
use understudy_actors::telemetry::Route;
use understudy_messages::clock::Instant;
use understudy_messages::ids::{Name, TurnId};
use understudy_messages::origin::{ORIGIN_HEADER, OriginToken};
use understudy_messages::terminal::TurnFailure;

use super::error;
use crate::app::Shared;

/// The header that names a request in logs and support tickets.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What a request is called.
#[derive(Clone, Debug)]
pub(super) struct RequestId {
    /// What the client sees: its own id where that is plain, else one that is made from the turn's.
    pub(super) name: Name,
    /// The id of the turn that it becomes, if it becomes one.
    pub(super) turn: TurnId,
}

/// What is known of a request from its head.
#[derive(Clone, Debug)]
pub(super) struct Passed {
    /// What it is called.
    pub(super) id: RequestId,
    /// Which client key sent it; `None` where none are configured.
    pub(super) owner: Option<u32>,
}

/// Which client key a request brings, or what it is told that brings none.
type Authorize = fn(&Shared, &ServiceRequest) -> Result<Option<u32>, &'static str>;

/// The turn or call that a request says it comes from. What is no name of one says nothing.
pub(super) fn origin(headers: &HeaderMap) -> Option<OriginToken> {
    OriginToken::read(headers.get(ORIGIN_HEADER)?.to_str().ok()?)
}

/// What every request of the API passes.
pub(super) async fn client(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    pass(request, next, client_key).await
}

/// What every request of an operator passes.
pub(super) async fn operator(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    pass(request, next, admin_token).await
}

/// Gives the request its id, counts it, lets it go on where it may, and measures it until its last byte.
async fn pass(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
    authorize: Authorize,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let Some(shared) = request.app_data::<web::Data<Shared>>().cloned() else {
        return next.call(request).await.map(ServiceResponse::map_into_boxed_body);
    };
    let id = RequestId::of(request.headers());
    let (method, version, name) = (method_label(request.method()), request.version(), id.name.clone());
    let route = Route::from_pattern(request.match_pattern().as_deref());
    let authorized = authorize(&shared, &request);
    let open = OpenRequest::new(shared, route);
    let mut response = match authorized {
        Ok(owner) => {
            request.extensions_mut().insert(Passed { id, owner });
            next.call(request).await?.map_into_boxed_body()
        }
        Err(hint) => unauthorized(request, hint),
    };
    let telemetry = &open.shared.supervision.telemetry;
    telemetry.http_request(route, method, response.status().as_u16());
    if let Ok(value) = HeaderValue::from_str(&name) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    if version < Version::HTTP_11 {
        end_with_the_connection(&mut response);
    }
    if open.shared.published.closing() {
        // so that its client does not ask on a connection that is about to go
        let head = response.response_mut().head_mut();
        head.set_connection_type(ConnectionType::Close);
    }
    Ok(response.map_body(|_, body| Observed { body, _open: open }.boxed()))
}

/// HTTP/1.0 knows no chunks: there a body of unknown length ends where its connection does.
fn end_with_the_connection(response: &mut ServiceResponse<impl MessageBody>) {
    if response.response().body().size() == BodySize::Stream {
        let head = response.response_mut().head_mut();
        head.no_chunking(true);
        head.set_connection_type(ConnectionType::Close);
    }
}

/// Lets pass who brings one of the client keys, where there are any.
fn client_key(shared: &Shared, request: &ServiceRequest) -> Result<Option<u32>, &'static str> {
    let keys = &shared.config.client_keys;
    if keys.is_empty() {
        return Ok(None);
    }
    let given = credential(request.headers()).and_then(|given| position(keys, given));
    given
        .map(Some)
        .ok_or("Give one of the gateway's client keys as a bearer token.")
}

/// Lets pass who brings the admin token, where there is one; probes always pass.
fn admin_token(shared: &Shared, request: &ServiceRequest) -> Result<Option<u32>, &'static str> {
    let probe = matches!(request.path(), "/livez" | "/readyz" | "/startupz");
    let allowed = match &shared.config.admin_token {
        None => true,
        Some(token) => probe || credential(request.headers()).is_some_and(|given| same(token, given)),
    };
    allowed.then_some(None).ok_or("Give the admin token as a bearer token.")
}

fn unauthorized(request: ServiceRequest, hint: &str) -> ServiceResponse<BoxBody> {
    let mut response = error::respond_at(request.path(), &TurnFailure::ours(401, "invalid_api_key", hint));
    let scheme = HeaderValue::from_static("Bearer");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    request.into_response(response)
}

/// The credential of a request: a bearer token, or `x-api-key`.
fn credential(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
    });
    bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes))
}

/// Which key it is. Every key is compared, each in constant time.
fn position(keys: &[SecretString], given: &[u8]) -> Option<u32> {
    let mut found = None;
    for (place, key) in (0..).zip(keys) {
        if same(key, given) {
            found = Some(place);
        }
    }
    found
}

fn same(key: &SecretString, given: &[u8]) -> bool {
    key.expose_secret().as_bytes().ct_eq(given).into()
}

impl RequestId {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let turn = TurnId::new();
        let plain = |id: &&str| (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
        let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
        let name = given
            .filter(plain)
            .map_or_else(|| format!("req_{turn}").into(), Name::from);
        Self { name, turn }
    }
}

fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

/// A request that counts as open until it drops.
struct OpenRequest {
    shared: web::Data<Shared>,
    route: Route,
    began: Instant,
}

impl OpenRequest {
    fn new(shared: web::Data<Shared>, route: Route) -> Self {
        shared.supervision.telemetry.http().began(route);
        let began = shared.clock.now();
        Self { shared, route, began }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let duration = self.shared.clock.now().duration_since(self.began);
        self.shared.supervision.telemetry.http().ended(self.route, duration);
    }
}

/// A body that keeps its request open.
struct Observed {
    body: BoxBody,
    _open: OpenRequest,
}

impl MessageBody for Observed {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
    ) -> Poll<Option<Result<web::Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_str(value).expect("plain"),
        );
        headers
    }

    #[test]
    fn bearer_and_api_key_are_both_credentials() {
        assert_eq!(credential(&headers("authorization", "bearer  k1 ")), Some(&b"k1"[..]));
        assert_eq!(credential(&headers("x-api-key", "k2")), Some(&b"k2"[..]));
        assert_eq!(credential(&headers("authorization", "Basic k3")), None);
        assert_eq!(credential(&headers("authorization", "Bear")), None);
    }

    #[test]
    fn the_place_of_a_key_is_its_owner() {
        let keys = [SecretString::from("one"), SecretString::from("two")];
        assert_eq!(position(&keys, b"two"), Some(1));
        assert_eq!(position(&keys, b"tw"), None);
    }

    #[test]
    fn a_plain_request_id_is_kept_and_any_other_is_replaced() {
        let name = |given: &str| RequestId::of(&headers("x-request-id", given)).name;
        assert_eq!(&*name("abc-1"), "abc-1");
        assert!(name("a b").starts_with("req_"));
        assert!(name(&"x".repeat(129)).starts_with("req_"));
    }
}
