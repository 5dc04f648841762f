//! Sessions by their names: what was said in them, which model answers, and how they are forgotten.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use actix::{Message, Recipient};
use actix_web::{HttpRequest, HttpResponse, web};
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use understudy_actors::session::{failure, transcript};
use understudy_messages::ids::{ModelRef, Name, SessionKey, ShardIndex};
use understudy_messages::ports::ShardPort;
use understudy_messages::request::Endpoint;
use understudy_messages::session::{
    ForgetError, ForgetSession, InspectSession, ListSessions, PinModel, SessionInfo, SessionView,
};
use understudy_messages::terminal::TurnFailure;
use understudy_providers::native::{self, Ask, AskError};

use super::body;
use super::error::{self, Refused};
use super::responses::owner;
use super::turn::{shard_of, starting};
use crate::app::Shared;

/// How many sessions one page has, unless asked otherwise.
const PAGE: usize = 20;
/// How many it may have.
const MOST_ON_A_PAGE: usize = 100;

/// A session as it is shown.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    id: Name,
    agent: Option<Name>,
    /// The model that was chosen for it.
    model: Option<Name>,
    last_model: Option<ModelRef>,
    fallback: Option<Standing>,
    turns: u64,
    created: u64,
    updated: u64,
}

/// A fallback that is not over.
#[derive(Serialize)]
struct Standing {
    selected: String,
    active: String,
    text: String,
}

/// A session and what was said in it.
#[derive(Serialize)]
pub(crate) struct Whole {
    #[serde(flatten)]
    session: Shown,
    messages: Vec<Value>,
}

impl From<SessionView> for Whole {
    /// A long transcript takes its time.
    fn from(view: SessionView) -> Self {
        Self {
            messages: transcript(&view.transcript),
            session: view.info.into(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    data: Vec<Shown>,
    next_cursor: Option<Name>,
}

#[derive(Serialize)]
struct Deleted<'a> {
    id: &'a str,
    deleted: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    limit: Option<usize>,
    cursor: Option<String>,
}

impl Shown {
    /// Its name.
    #[cfg(test)]
    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

impl From<SessionInfo> for Shown {
    fn from(info: SessionInfo) -> Self {
        Self {
            id: info.id,
            agent: info.agent,
            model: info.pinned,
            last_model: info.last_model,
            fallback: info.fallback.map(|notice| Standing {
                selected: notice.selected,
                active: notice.active,
                text: notice.text,
            }),
            turns: info.turns,
            created: seconds(info.created),
            updated: seconds(info.updated),
        }
    }
}

/// A turn as its client asks for it; one that names no model is for the agent's.
pub(super) fn ask(shared: &Shared, agent: Option<&str>, body: &[u8]) -> Result<Ask, TurnFailure> {
    let serving = shared.published.load().ok_or_else(starting)?;
    let settings = serving.roster.settings();
    let default = settings.agents.get(settings.default_agent);
    let model = agent.or(default.map(|agent| &*agent.name));
    native::read(body, model.unwrap_or("default")).map_err(|error| unreadable("a turn of a session", &error))
}

/// The session that the path names.
pub(super) fn key(request: &HttpRequest) -> Result<SessionKey, TurnFailure> {
    key_of(owner(request), request)
}

/// The session of this client key that the path names.
pub(super) fn key_of(owner: Option<u32>, request: &HttpRequest) -> Result<SessionKey, TurnFailure> {
    let id: String = request.match_info().load().unwrap_or_default();
    let plain = (1..=256).contains(&id.len()) && id.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    match plain {
        true => Ok(SessionKey::Keyed { owner, key: id.into() }),
        false => Err(TurnFailure::ours(
            400,
            "invalid_session_id",
            "The name of a session must be 1 to 256 visible characters.",
        )),
    }
}

/// `GET /v1/sessions`
pub(super) async fn list(shared: web::Data<Shared>, request: HttpRequest) -> HttpResponse {
    answered(page(&shared, &request).await.map(|page| HttpResponse::Ok().json(page)))
}

/// `GET /v1/sessions/{id}`
pub(super) async fn get(shared: web::Data<Shared>, request: HttpRequest) -> HttpResponse {
    let shown = async { inspected(&shared, &key(&request)?).await };
    answered(shown.await)
}

/// `PATCH /v1/sessions/{id}`
pub(super) async fn choose(shared: web::Data<Shared>, request: HttpRequest, payload: web::Payload) -> HttpResponse {
    answered(chosen(&shared, &request, payload).await)
}

/// `DELETE /v1/sessions/{id}`
pub(super) async fn delete(shared: web::Data<Shared>, request: HttpRequest) -> HttpResponse {
    let deleted = async { deleted(&shared, &key(&request)?).await };
    answered(deleted.await)
}

pub(super) fn answered(answer: Result<HttpResponse, Refused>) -> HttpResponse {
    answer.unwrap_or_else(|refused| error::respond(Endpoint::Native, &refused.failure, refused.param))
}

async fn page(shared: &Shared, request: &HttpRequest) -> Result<Page, Refused> {
    let listing = web::Query::<Listing>::from_query(request.query_string()).map_err(|_| bad_listing())?;
    let limit = listing.limit.unwrap_or(PAGE);
    if !(1..=MOST_ON_A_PAGE).contains(&limit) {
        return Err(bad_listing());
    }
    let ask = ListSessions {
        owner: owner(request),
        after: listing.cursor.as_deref().map(Name::from),
        // one more tells whether that is all
        limit: limit + 1,
    };
    let mut found = listed(shared, ask).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    Ok(Page {
        next_cursor: found.last().filter(|_| more).map(|last| last.id.clone()),
        data: found.into_iter().map(Shown::from).collect(),
    })
}

/// What is stored; where nothing is, what all shards have in memory.
pub(super) async fn listed(shared: &Shared, ask: ListSessions) -> Result<Vec<SessionInfo>, TurnFailure> {
    if let Some(store) = &shared.sessions {
        let page = store.page(ask.owner, ask.after, ask.limit).await;
        return page.map_err(|fault| failure(&fault, &SessionKey::Ephemeral));
    }
    let shards = shards(shared)?;
    let asked = shards.iter().map(|shard| tell(&shard.list, ask.clone()));
    let mut found: Vec<SessionInfo> = Vec::new();
    for listed in join_all(asked).await {
        found.extend(listed?);
    }
    found.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    Ok(found)
}

pub(super) async fn inspected(shared: &Shared, session: &SessionKey) -> Result<HttpResponse, Refused> {
    let ask = InspectSession {
        session: session.clone(),
    };
    let view = tell(&shard(shared, session)?.inspect, ask)
        .await?
        .map_err(|fault| failure(&fault, session))?
        .ok_or_else(unknown)?;
    let whole = web::block(move || Whole::from(view)).await.map_err(|_| lost())?;
    Ok(HttpResponse::Ok().json(whole))
}

async fn chosen(shared: &Shared, request: &HttpRequest, payload: web::Payload) -> Result<HttpResponse, Refused> {
    let session = key(request)?;
    let body = body::read(shared, request, payload).await?;
    let model = native::read_choice(&body).map_err(|error| unreadable("the choice of a model", &error))?;
    let serving = shared.published.load().ok_or_else(starting)?;
    if model
        .as_deref()
        .is_some_and(|name| serving.roster.cast(name, None).is_err())
    {
        let hint = "No model, alias or agent of this name is configured or listed. GET /v1/models lists them.";
        return Err(Refused {
            failure: TurnFailure::ours(404, "model_not_found", hint).into(),
            param: Some("model"),
        });
    }
    let port = shard(shared, &session)?;
    let model = model.map(Name::from);
    let pin = PinModel {
        session: session.clone(),
        model,
    };
    let info = tell(&port.pin, pin)
        .await?
        .map_err(|fault| failure(&fault, &session))?
        .ok_or_else(unknown)?;
    Ok(HttpResponse::Ok().json(Shown::from(info)))
}

pub(super) async fn deleted(shared: &Shared, session: &SessionKey) -> Result<HttpResponse, Refused> {
    let id = session.key().cloned().unwrap_or_default();
    forgotten(shared, session).await?;
    Ok(HttpResponse::Ok().json(Deleted { id: &id, deleted: true }))
}

/// Forgets a session that is not at work.
async fn forgotten(shared: &Shared, session: &SessionKey) -> Result<(), TurnFailure> {
    let forget = ForgetSession {
        session: session.clone(),
    };
    match tell(&shard(shared, session)?.forget, forget).await? {
        Ok(()) => Ok(()),
        Err(ForgetError::Unknown) => Err(unknown()),
        Err(ForgetError::Fault(fault)) => Err(failure(&fault, session)),
        Err(ForgetError::Busy) => {
            let hint = "A turn of this session is running or waits. Delete it when all have ended.";
            Err(TurnFailure::ours(409, "session_busy", hint))
        }
    }
}

/// The shard of a session.
fn shard(shared: &Shared, session: &SessionKey) -> Result<Arc<ShardPort>, TurnFailure> {
    let serving = shared.published.load().ok_or_else(starting)?;
    let place = shard_of(session, ShardIndex(0), serving.shard_count());
    let shard = serving.shard(place).and_then(|shard| shard.sessions.get());
    shard.ok_or_else(starting)
}

fn shards(shared: &Shared) -> Result<Vec<Arc<ShardPort>>, TurnFailure> {
    let serving = shared.published.load().ok_or_else(starting)?;
    let ports = (0..serving.shard_count()).map(|place| serving.shard(ShardIndex(place))?.sessions.get());
    ports.collect::<Option<_>>().ok_or_else(starting)
}

async fn tell<M>(shard: &Recipient<M>, message: M) -> Result<M::Result, TurnFailure>
where
    M: Message + Send + 'static,
    M::Result: Send,
{
    shard.send(message).await.map_err(|_| lost())
}

fn unreadable(what: &str, error: &AskError) -> TurnFailure {
    let hint = format!("The request's body is not {what}: {error}.");
    TurnFailure::ours(400, "invalid_request", &hint)
}

fn bad_listing() -> Refused {
    let hint =
        format!("`limit` must be 1 to {MOST_ON_A_PAGE}, `cursor` the `nextCursor` of a page; there is nothing else.");
    TurnFailure::ours(400, "invalid_request", &hint).into()
}

pub(super) fn unknown() -> TurnFailure {
    let hint = "No session of this name was found: it had no turn, belongs to another key, was deleted, or nobody used it for too long.";
    TurnFailure::ours(404, "session_not_found", hint)
}

fn lost() -> TurnFailure {
    TurnFailure::ours(503, "session_lost", "The session is being restarted. Please try again.")
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
