//! Sessions of all client keys, and the state that they are in, for operators: listed, shown, deleted, carried away and
//! brought back.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actix_web::body::SizedStream;
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use futures::stream::{self, Stream};
use serde::Deserialize;
use serde_json::json;
use understudy_actors::session::failure;
use understudy_actors::session::store::{SESSION_TABLES, SessionStore, portable};
use understudy_actors::state::backup as copy;
use understudy_messages::ids::{Name, SessionKey};
use understudy_messages::session::SessionFault;
use understudy_messages::terminal::TurnFailure;

use super::body;
use super::error::Refused;
use super::sessions::{answered, deleted, inspected, key_of, listed, unknown};
use crate::app::Shared;
use crate::sessions::{BadListing, Listing};

/// The largest session that is brought back; a transcript has 4 MiB, and grows as JSON.
const MOST_IMPORTED: usize = 32 << 20;
/// Where a copy of the state lies until it has been read.
const COPY: &str = "state.copy";
/// How much of it is in memory at once.
const CHUNK: usize = 256 << 10;

/// Which client key's session is meant, and what may be done to it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Which {
    client_key: Option<u32>,
    /// The name that an imported session gets; else it keeps its own.
    id: Option<Name>,
    #[serde(default)]
    force: bool,
}

impl From<BadListing> for Refused {
    fn from(bad: BadListing) -> Self {
        TurnFailure::ours(400, "invalid_request", &format!("{bad}.")).into()
    }
}

impl Which {
    fn of(shared: &Shared, request: &HttpRequest) -> Result<Self, TurnFailure> {
        let invalid = |hint: &str| TurnFailure::ours(400, "invalid_request", hint);
        let which = web::Query::<Self>::from_query(request.query_string());
        let which = which.map_err(|_| invalid("Say `clientKey`, `id` and `force`, and nothing else."))?;
        let known = shared.config.client_keys.len();
        if which.client_key.is_some_and(|place| place as usize >= known) {
            let hint = format!("There are {known} client keys: `clientKey` is the place of one, from 0.");
            return Err(invalid(&hint));
        }
        Ok(which.into_inner())
    }
}

/// `GET /admin/v1/sessions`
pub(super) async fn list(shared: web::Data<Shared>, request: HttpRequest) -> HttpResponse {
    let page = async {
        let listing = web::Query::<Listing>::from_query(request.query_string()).map_err(|_| BadListing)?;
        let known = shared.config.client_keys.len();
        let list = async |ask| listed(&shared, ask).await.map_err(Refused::from);
        Ok(HttpResponse::Ok().json(listing.page(known, list).await?))
    };
    answered(page.await)
}

/// `GET /admin/v1/sessions/{id}`
pub(super) async fn get(shared: web::Data<Shared>, request: HttpRequest) -> HttpResponse {
    let shown = async { inspected(&shared, &key(&shared, &request)?).await };
    answered(shown.await)
}

/// `DELETE /admin/v1/sessions/{id}`
pub(super) async fn delete(shared: web::Data<Shared>, request: HttpRequest) -> HttpResponse {
    let deleted = async { deleted(&shared, &key(&shared, &request)?).await };
    answered(deleted.await)
}

/// `GET /admin/v1/sessions/{id}/export`: as it was last kept.
pub(super) async fn export(shared: web::Data<Shared>, request: HttpRequest) -> HttpResponse {
    let exported = async {
        let session = key(&shared, &request)?;
        let loaded = store(&shared)?.load(&session).await;
        let stored = loaded.map_err(|fault| failure(&fault, &session))?.ok_or_else(unknown)?;
        let id = session.key().cloned().unwrap_or_default();
        let written = web::block(move || portable::written(&id, &stored)).await;
        let lines = written.ok().and_then(Result::ok).ok_or_else(unwritten)?;
        Ok(HttpResponse::Ok().content_type("application/jsonl").body(lines))
    };
    answered(exported.await)
}

/// `POST /admin/v1/sessions`: a session comes back; one that is there stays, unless `force` is said.
pub(super) async fn import(shared: web::Data<Shared>, request: HttpRequest, payload: web::Payload) -> HttpResponse {
    answered(imported(&shared, &request, payload).await)
}

async fn imported(shared: &Shared, request: &HttpRequest, payload: web::Payload) -> Result<HttpResponse, Refused> {
    let (which, store) = (Which::of(shared, request)?, store(shared)?);
    let body = body::read_up_to(shared, request, payload, MOST_IMPORTED).await?;
    let now = shared.clock.wall();
    let read = web::block(move || portable::read(&String::from_utf8_lossy(&body), now)).await;
    let bad = |hint: &str| TurnFailure::ours(400, "invalid_session", hint);
    let read = read.map_err(|_| unwritten())?;
    let (id, session) = read.map_err(|line| bad(&format!("This is no session: {line}.")))?;
    let id = which.id.unwrap_or(id);
    let session_key = SessionKey::Keyed {
        owner: which.client_key,
        key: id.clone(),
    };
    let turns = session.header.turns;
    let (store, key, force) = (store.clone(), session_key.clone(), which.force);
    let restore = async move { store.restore(&key, session, force).await };
    let tasks = &shared.supervision.tasks;
    let restored = tasks.see_through("import of a session", restore).await;
    match restored.map_err(|_panicked| unwritten())? {
        Ok(()) => Ok(HttpResponse::Ok().json(json!({ "id": id, "clientKey": which.client_key, "turns": turns }))),
        Err(SessionFault::Changed) => {
            let hint =
                "There is a session of this name. Say `force` to put this one in its place, or give it another `id`.";
            Err(TurnFailure::ours(409, "session_exists", hint).into())
        }
        Err(fault) => Err(failure(&fault, &session_key).into()),
    }
}

/// `POST /admin/v1/state/backup`: everything as it is at one moment, as a file. One at a time.
pub(super) async fn backup(shared: web::Data<Shared>) -> HttpResponse {
    let file = async {
        let Ok(_alone) = shared.backups.try_acquire() else {
            let hint = "A copy of the state is being made. Ask again when it is there.";
            return Err(TurnFailure::ours(409, "backup_running", hint).into());
        };
        let at = copied(&shared).await?;
        let opened = web::block(move || unnamed(&at)).await.map_err(|_| unwritten())?;
        let (file, length) = opened.map_err(|_| unwritten())?;
        Ok(HttpResponse::Ok()
            .content_type("application/octet-stream")
            .body(SizedStream::new(length, chunks(file))))
    };
    answered(file.await)
}

/// The file, which nobody finds any more and which goes when it has been read.
fn unnamed(at: &Path) -> io::Result<(File, u64)> {
    let file = File::open(at)?;
    fs::remove_file(at)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

fn chunks(file: File) -> impl Stream<Item = io::Result<Bytes>> {
    stream::try_unfold(file, |mut file| async {
        let read = web::block(move || {
            let mut chunk = Vec::with_capacity(CHUNK);
            let limit = u64::try_from(CHUNK).unwrap_or(u64::MAX);
            (&mut file).take(limit).read_to_end(&mut chunk)?;
            Ok::<_, io::Error>((chunk, file))
        });
        let (chunk, file) = read.await.map_err(io::Error::other)??;
        Ok((!chunk.is_empty()).then(|| (chunk.into(), file)))
    })
}

/// Makes the copy beside the file: there is a disk for it.
async fn copied(shared: &web::Data<Shared>) -> Result<PathBuf, TurnFailure> {
    let Some(dir) = shared.state.dir() else {
        let hint = "State is in memory: there is nothing that outlives the process. See `state.store`.";
        return Err(TurnFailure::ours(409, "no_state", hint));
    };
    let (at, state) = (dir.folder().join(COPY), shared.state.clone());
    let to = at.clone();
    let made = web::block(move || copy(&state, &to, &SESSION_TABLES)).await;
    match made {
        Ok(Ok(())) => Ok(at),
        Ok(Err(error)) => {
            tracing::error!(%error, "state could not be copied");
            Err(unwritten())
        }
        Err(_pool_is_gone) => Err(unwritten()),
    }
}

fn key(shared: &Shared, request: &HttpRequest) -> Result<SessionKey, TurnFailure> {
    key_of(Which::of(shared, request)?.client_key, request)
}

fn store(shared: &Shared) -> Result<&Arc<dyn SessionStore>, TurnFailure> {
    shared.sessions.as_ref().ok_or_else(|| {
        let hint =
            "Sessions are in memory only, and cannot be carried away. See `session.durability` and `state.store`.";
        TurnFailure::ours(409, "sessions_not_stored", hint)
    })
}

fn unwritten() -> TurnFailure {
    let hint = "The gateway could not do this. Its log says why: look at the disk of `state.dir`.";
    TurnFailure::ours(503, "state_failed", hint)
}
