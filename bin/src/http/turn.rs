//! The paths that ask a model: from a request to a turn.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::{HttpMessage, HttpRequest, HttpResponse, web};
use bytes::Bytes;
use understudy_actors::capacity::{CapacityPermit, Whose};
use understudy_actors::telemetry::Shed;
use understudy_messages::cancel::TurnCancel;
use understudy_messages::client::ClientChannel;
use understudy_messages::clock::Instant;
use understudy_messages::failure::CancelCause;
use understudy_messages::ids::{Name, SessionKey, ShardIndex};
use understudy_messages::lease::TurnPermit;
use understudy_messages::request::Endpoint;
use understudy_messages::session::{RunTurn, RunTurnError};
use understudy_messages::terminal::TurnFailure;
use understudy_messages::turn::TurnRequest;
use understudy_providers::native::Ask;
use understudy_providers::wire::{RequestError, scan};

use super::answer::{self, Frames};
use super::body;
use super::edge::{Passed, RequestId};
use super::error::Refused;
use super::responses::Recalled;
use super::{count, edge, error, headers, responses, sessions};
use crate::app::Shared;
use crate::arbiter::SessionArbiter;

const SESSION: HeaderName = HeaderName::from_static("x-session-id");
const SESSION_LONG: HeaderName = HeaderName::from_static("x-understudy-session");
const AGENT: HeaderName = HeaderName::from_static("x-understudy-agent");
const TIMEOUT: HeaderName = HeaderName::from_static("x-understudy-timeout-ms");

type Arbiter = web::Data<Rc<SessionArbiter>>;

/// `POST /v1/chat/completions`
pub(super) async fn chat(arbiter: Arbiter, request: HttpRequest, payload: web::Payload) -> HttpResponse {
    run(Endpoint::Chat, &arbiter, &request, payload).await
}

/// `POST /v1/responses`
pub(super) async fn responses(arbiter: Arbiter, request: HttpRequest, payload: web::Payload) -> HttpResponse {
    run(Endpoint::Responses, &arbiter, &request, payload).await
}

/// `POST /v1/messages`
pub(super) async fn messages(arbiter: Arbiter, request: HttpRequest, payload: web::Payload) -> HttpResponse {
    run(Endpoint::Messages, &arbiter, &request, payload).await
}

/// `POST /v1/messages/count_tokens`
pub(super) async fn count_tokens(arbiter: Arbiter, request: HttpRequest, payload: web::Payload) -> HttpResponse {
    run(Endpoint::CountTokens, &arbiter, &request, payload).await
}

/// `POST /v1/embeddings`
pub(super) async fn embeddings(arbiter: Arbiter, request: HttpRequest, payload: web::Payload) -> HttpResponse {
    run(Endpoint::Embeddings, &arbiter, &request, payload).await
}

/// `POST /v1/sessions/{id}/turns`
pub(super) async fn native(arbiter: Arbiter, request: HttpRequest, payload: web::Payload) -> HttpResponse {
    run(Endpoint::Native, &arbiter, &request, payload).await
}

/// Runs one turn.
async fn run(
    endpoint: Endpoint,
    arbiter: &SessionArbiter,
    request: &HttpRequest,
    payload: web::Payload,
) -> HttpResponse {
    let answered = async {
        let until = deadline(request.headers(), arbiter.shared.clock.now())?;
        // the place before the body: what waits in memory is counted
        let place = place(&arbiter.shared, request.headers(), until).await?;
        let body = body::read(&arbiter.shared, request, payload).await?;
        let turn = admit(endpoint, arbiter, request, body, (place, until)).await?;
        let request = turn.request.clone();
        let session = request.session.clone();
        if let Some(estimate) = count::estimate(&arbiter.shared, &request) {
            return Ok((session, estimate));
        }
        let answered = answer::respond(start(arbiter, turn).await?).await;
        Ok::<_, Refused>((session, count::or_estimate(&arbiter.shared, &request, answered)))
    };
    match answered.await {
        Ok((session, response)) => name_session(response, &session),
        Err(refused) => error::respond(endpoint, &refused.failure, refused.param),
    }
}

/// A place among the turns in flight, if there is one in time and the gateway stays. Agents share what becomes free.
async fn place(shared: &Shared, headers: &HeaderMap, until: Option<Instant>) -> Result<CapacityPermit, Refused> {
    let stays = || match shared.published.closing() {
        true => Err(TurnFailure::ours(503, "shutting_down", "The gateway is shutting down.")),
        false => Ok(()),
    };
    stays()?;
    let limits = &shared.config.settings.limits;
    let (bound, lane) = (limits.bound(limits.in_flight), lane(shared, text(headers, AGENT)?));
    let entered = shared.capacities.enter(&Whose::Gateway, &bound, &lane, until).await;
    stays()?;
    let is_over = || until.is_some_and(|until| until <= shared.clock.now());
    Ok(entered.map_err(|why| match is_over() {
        true => TurnFailure::cancelled(CancelCause::CallerDeadline, 0),
        false => busy(why),
    })?)
}

/// The agent that a request names, where there is one of that name; else the default one.
fn lane(shared: &Shared, named: Option<&str>) -> Name {
    let serving = shared.published.load();
    let settings = serving.as_ref().map(|serving| serving.roster.settings());
    let agent = settings.and_then(|settings| {
        let named = named.and_then(|named| settings.agents.iter().find(|agent| &*agent.name == named));
        named.or_else(|| settings.agents.get(settings.default_agent))
    });
    agent.map_or_else(|| "".into(), |agent| agent.name.clone())
}

/// What goes to the session, and what stays here.
struct Admitted {
    request: Arc<TurnRequest>,
    run: RunTurn,
    frames: Frames,
    shard: ShardIndex,
}

async fn admit(
    endpoint: Endpoint,
    arbiter: &SessionArbiter,
    request: &HttpRequest,
    body: Bytes,
    (permit, deadline): (CapacityPermit, Option<Instant>),
) -> Result<Admitted, Refused> {
    let shared = &arbiter.shared;
    let received = shared.clock.now();
    let home = arbiter.place().ok_or_else(starting)?;
    let (Ask { body, names_model }, session) = asked(endpoint, shared, request, body)?;
    let facts = scan(endpoint, &body).map_err(|error| unreadable(endpoint, error))?;
    let Recalled { body, facts, memory } = responses::recall(shared, responses::owner(request), body, facts).await?;
    let id = request.extensions().get::<Passed>().map(|passed| passed.id.clone());
    let id = id.unwrap_or_else(|| RequestId::of(request.headers()));
    let turn = Arc::new(TurnRequest {
        id: id.turn,
        request_id: id.name,
        session,
        agent: text(request.headers(), AGENT)?.map(Name::from),
        headers: headers::to_provider(request.headers()),
        endpoint,
        body,
        facts,
    });
    let (client, frames) = ClientChannel::open();
    let cancel = TurnCancel::new();
    Ok(Admitted {
        shard: shard_of(
            &turn.session,
            home,
            shared.published.load().map_or(1, |serving| serving.shard_count()),
        ),
        frames: Frames {
            request: turn.clone(),
            clock: shared.clock.clone(),
            frames,
            keeping: client.keeping(),
            memory,
            client_left: cancel.on_drop(CancelCause::Client),
        },
        run: RunTurn {
            request: turn.clone(),
            client,
            cancel,
            home,
            received,
            deadline,
            permit: TurnPermit::new(permit),
            names_model,
            origin: edge::origin(request.headers()),
        },
        request: turn,
    })
}

/// What is asked, and in which session: the native API says so in its path, and its bodies are put into the words of Responses.
fn asked(
    endpoint: Endpoint,
    shared: &Shared,
    request: &HttpRequest,
    body: Bytes,
) -> Result<(Ask, SessionKey), TurnFailure> {
    match endpoint {
        Endpoint::Native => {
            let ask = sessions::ask(shared, text(request.headers(), AGENT)?, &body)?;
            Ok((ask, sessions::key(request)?))
        }
        Endpoint::Chat | Endpoint::Responses | Endpoint::Messages | Endpoint::CountTokens | Endpoint::Embeddings => {
            let names_model = true;
            Ok((Ask { body, names_model }, session_key(request)?))
        }
    }
}

/// Hands the turn to its session; one that belongs to none runs here.
async fn start(arbiter: &SessionArbiter, turn: Admitted) -> Result<Frames, TurnFailure> {
    if turn.request.session == SessionKey::Ephemeral {
        arbiter.turns.run_alone(turn.run);
        return Ok(turn.frames);
    }
    let shard = arbiter
        .shared
        .published
        .load()
        .and_then(|serving| serving.shard(turn.shard));
    let port = shard.and_then(|shard| shard.sessions.get()).ok_or_else(starting)?;
    match port.run.send(turn.run).await {
        Ok(Ok(())) => Ok(turn.frames),
        Ok(Err(RunTurnError::QueueFull)) => Err(TurnFailure::ours(
            429,
            "session_queue_full",
            "Too many turns of this session wait already.",
        )),
        Ok(Err(RunTurnError::TooManySessions)) => Err(TurnFailure::ours(
            503,
            "too_many_sessions",
            "The gateway remembers as many sessions as it may.",
        )),
        Ok(Err(RunTurnError::Lost)) | Err(_) => Err(TurnFailure::ours(
            503,
            "session_lost",
            "The session is being restarted. Please try again.",
        )),
    }
}

pub(super) fn unreadable(endpoint: Endpoint, error: RequestError) -> TurnFailure {
    let what = match endpoint {
        Endpoint::Chat => "a chat completion",
        Endpoint::Responses => "a Responses request",
        Endpoint::Messages => "a Messages request",
        Endpoint::CountTokens => "a request to count tokens",
        Endpoint::Embeddings => "a request for embeddings",
        Endpoint::Native => "a turn of a session",
    };
    let hint = format!("The request's body is not {what}: {error}.");
    TurnFailure::ours(400, "invalid_request", &hint)
}

fn busy(why: Shed) -> TurnFailure {
    let hint = format!("As many turns are in flight as the gateway takes (limits.in_flight), and {why}.");
    TurnFailure::ours(503, "gateway_busy", &hint)
}

pub(super) fn starting() -> TurnFailure {
    TurnFailure::ours(503, "starting", "The gateway is starting.")
}

/// Keyed sessions live on the shard that their key hashes to, ephemeral ones where their connection is.
pub(super) fn shard_of(session: &SessionKey, home: ShardIndex, shards: usize) -> ShardIndex {
    match session {
        SessionKey::Ephemeral => home,
        SessionKey::Keyed { .. } => {
            let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(session);
            ShardIndex(usize::try_from(hash % shards.max(1) as u64).unwrap_or_default())
        }
    }
}

fn session_key(request: &HttpRequest) -> Result<SessionKey, TurnFailure> {
    let headers = request.headers();
    let key = match text(headers, SESSION)? {
        Some(key) => Some(key),
        None => text(headers, SESSION_LONG)?,
    };
    let owner = responses::owner(request);
    Ok(key.map_or(SessionKey::Ephemeral, |key| SessionKey::Keyed {
        owner,
        key: key.into(),
    }))
}

/// A header's value: 1 to 256 visible characters.
fn text(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, TurnFailure> {
    let Some(value) = headers.get(&name) else {
        return Ok(None);
    };
    let plain = |value: &&str| (1..=256).contains(&value.len());
    match value.to_str().ok().filter(plain) {
        Some(value) => Ok(Some(value)),
        None => Err(bad_header(&name, "1 to 256 visible characters")),
    }
}

fn deadline(headers: &HeaderMap, received: Instant) -> Result<Option<Instant>, TurnFailure> {
    let Some(value) = text(headers, TIMEOUT)? else {
        return Ok(None);
    };
    match value.parse::<u32>() {
        Ok(millis @ 1..) => Ok(Some(received + Duration::from_millis(u64::from(millis)))),
        Ok(0) | Err(_) => Err(bad_header(&TIMEOUT, "a whole number of milliseconds, at least 1")),
    }
}

fn bad_header(name: &HeaderName, right: &str) -> TurnFailure {
    TurnFailure::ours(400, "invalid_header", &format!("The header {name} must be {right}."))
}

fn name_session(mut response: HttpResponse, session: &SessionKey) -> HttpResponse {
    if let Some(Ok(value)) = session.key().map(|key| HeaderValue::from_str(key)) {
        response.headers_mut().insert(SESSION, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_stays_on_its_shard_and_an_ephemeral_one_at_home() {
        let keyed = SessionKey::Keyed {
            owner: None,
            key: "s1".into(),
        };
        let shard = shard_of(&keyed, ShardIndex(0), 8);
        assert_eq!(shard_of(&keyed, ShardIndex(5), 8), shard);
        assert_eq!(shard_of(&SessionKey::Ephemeral, ShardIndex(5), 8), ShardIndex(5));
    }

    #[test]
    fn a_deadline_is_a_positive_number_of_milliseconds() {
        let now = understudy_messages::clock::Clock::real().now();
        let header = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(TIMEOUT, HeaderValue::from_static(value));
            headers
        };
        let hundred = deadline(&header("100"), now).expect("fine");
        assert_eq!(hundred, Some(now + Duration::from_millis(100)));
        for bad in ["0", "-1", "1.5", "soon"] {
            assert!(deadline(&header(bad), now).is_err(), "{bad}");
        }
    }
}
