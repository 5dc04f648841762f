//! Responses by their id: a request goes on from an earlier one, and an answer is kept, found again and forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix_web::{HttpMessage, HttpRequest, HttpResponse, web};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use understudy_actors::session::failure;
use understudy_actors::session::store::StateSessions;
use understudy_actors::session::transcripts::{Node, Transcript, TranscriptLimits, Transcripts};
use understudy_actors::supervision::Tasks;
use understudy_messages::clock::Clock;
use understudy_messages::ids::{Name, SessionKey};
use understudy_messages::request::{Demand, Endpoint, RequestFacts};
use understudy_messages::session::SessionFault;
use understudy_messages::terminal::TurnFailure;
use understudy_providers::openai::responses::request::{TooLarge, dereference, expand, identified, own_items};
use understudy_providers::wire::{Kept, scan};

use super::edge::Passed;
use super::error::{self, Refused};
use super::turn::unreadable;
use crate::app::Shared;

/// How many responses can be found in memory.
const COUNT: usize = 100_000;
/// How many bytes all of them take.
const BYTES: usize = 256 << 20;

/// The responses of one app.
pub(crate) enum Responses {
    /// They end with the process.
    InMemory(Mutex<Transcripts>, Clock),
    /// They are in the state file; what is kept there is seen through by tasks.
    Stored(Arc<StateSessions>, Tasks),
}

impl Responses {
    /// Without any; each is found until nobody has used it for `idle`.
    pub(crate) fn in_memory(clock: Clock, idle: Duration) -> Self {
        let limits = TranscriptLimits {
            count: COUNT,
            bytes: BYTES,
            idle,
        };
        Self::InMemory(Mutex::new(Transcripts::new(limits)), clock)
    }

    /// Those that a store has.
    pub(crate) fn stored(store: Arc<StateSessions>, tasks: Tasks) -> Self {
        Self::Stored(store, tasks)
    }

    async fn find(&self, owner: Option<u32>, id: &str) -> Result<Option<Arc<Node>>, TurnFailure> {
        match self {
            Self::InMemory(all, clock) => Ok(of(all).find(owner, id, clock.now())),
            Self::Stored(store, _) => store
                .response(owner, &id.into())
                .await
                .map_err(|fault| failed(&fault, &format!("the response `{id}`"))),
        }
    }

    /// Those of some items that are found, until they are longer than `most`.
    async fn find_items(
        &self,
        owner: Option<u32>,
        ids: BTreeSet<Name>,
        most: usize,
    ) -> Result<BTreeMap<Name, String>, TurnFailure> {
        match self {
            Self::InMemory(all, clock) => {
                let item = |id: Name| {
                    let node = of(all).find_item(owner, &id, clock.now())?;
                    let text = node.item(&id)?.to_owned();
                    Some((id, text))
                };
                Ok(ids.into_iter().filter_map(item).collect())
            }
            Self::Stored(store, _) => {
                let found = store.items(owner, ids, most).await;
                found.map_err(|fault| failed(&fault, "an item that it names"))
            }
        }
    }

    async fn keep(&self, owner: Option<u32>, id: &str, transcript: Transcript) -> Result<(), TurnFailure> {
        match self {
            Self::InMemory(all, clock) => of(all).keep(owner, id, transcript, clock.now()),
            Self::Stored(store, tasks) => {
                let (store, name) = (store.clone(), Name::from(id));
                let keep = async move { store.keep_response(owner, &name, transcript).await };
                let kept = tasks.see_through("keeping of a response", keep).await;
                let kept = kept.unwrap_or_else(|_panicked| Err(SessionFault::Store("its writer was lost".into())));
                kept.map_err(|fault| failed(&fault, &format!("the response `{id}`")))?;
            }
        }
        Ok(())
    }

    async fn forget(&self, owner: Option<u32>, id: &str) -> Result<bool, TurnFailure> {
        match self {
            Self::InMemory(all, _) => Ok(of(all).forget(owner, id)),
            Self::Stored(store, _) => {
                let forgotten = store.forget_response(owner, &id.into()).await;
                forgotten.map_err(|fault| failed(&fault, &format!("the response `{id}`")))
            }
        }
    }
}

fn of(all: &Mutex<Transcripts>) -> MutexGuard<'_, Transcripts> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A fault of the store, as whoever asks for `what` is told.
fn failed(fault: &SessionFault, what: &str) -> TurnFailure {
    match fault {
        SessionFault::Damaged(_) => {
            let hint = format!(
                "What the gateway keeps of {what}, or of a response that this goes on from, is damaged; others are not. \
                 Begin anew without it, or have its operator put back a copy of the state."
            );
            TurnFailure::ours(500, "response_damaged", &hint)
        }
        SessionFault::Store(_) | SessionFault::Full | SessionFault::Busy | SessionFault::Changed => {
            failure(fault, &SessionKey::Ephemeral)
        }
    }
}

/// What is kept of a turn, once its answer is whole.
pub(super) struct Memory {
    responses: Arc<Responses>,
    owner: Option<u32>,
    parent: Option<Arc<Node>>,
    input: Box<str>,
}

impl Memory {
    /// Keeps the turn with its answer.
    ///
    /// # Errors
    /// What the client is told instead of the end.
    pub(super) async fn keep(self, kept: Kept) -> Result<(), TurnFailure> {
        let transcript = Transcript {
            parent: self.parent,
            input: self.input,
            items: identified(kept.response.get(kept.output.clone()).unwrap_or_default()),
            response: kept.response,
            output: kept.output,
        };
        self.responses.keep(self.owner, &kept.id, transcript).await
    }
}

/// A request that stands for itself.
pub(super) struct Recalled {
    pub(super) body: Bytes,
    pub(super) facts: RequestFacts,
    pub(super) memory: Option<Memory>,
}

/// Puts into the request what it goes on from, and the kept items that it names. Any other request stays as it is.
pub(super) async fn recall(
    shared: &Shared,
    owner: Option<u32>,
    body: Bytes,
    facts: RequestFacts,
) -> Result<Recalled, Refused> {
    let (body, facts) = match facts.demands.contains(Demand::ProviderState) {
        true => with_items(shared, owner, body, facts).await?,
        false => (body, facts),
    };
    let Some(of_responses) = &facts.responses else {
        let memory = None;
        return Ok(Recalled { body, facts, memory });
    };
    if facts.demands.contains(Demand::Background) {
        let hint = "Answers in the background are not supported. Ask without `background`.";
        return Err(Refused {
            failure: TurnFailure::ours(400, "unsupported", hint).into(),
            param: Some("background"),
        });
    }
    let parent = match of_responses.previous.as_deref() {
        Some(id) => {
            let found = shared.responses.find(owner, id).await?;
            Some(found.ok_or_else(unknown_previous)?)
        }
        None => None,
    };
    let is_kept = of_responses.store && !of_responses.has_conversation;
    let memory = is_kept.then(|| Memory {
        responses: shared.responses.clone(),
        owner,
        parent: parent.clone(),
        input: own_items(&body, &facts).into(),
    });
    let (body, facts) = match parent {
        Some(parent) => expanded(shared, &parent, &body, &facts)?,
        None => (body, facts),
    };
    Ok(Recalled { body, facts, memory })
}

/// The request with the kept items that it names; one that names none stays as it is.
async fn with_items(
    shared: &Shared,
    owner: Option<u32>,
    body: Bytes,
    facts: RequestFacts,
) -> Result<(Bytes, RequestFacts), Refused> {
    let limit = shared.config.settings.limits.body;
    let too_large = |TooLarge| {
        let hint = format!("With the items that it names, the request is larger than {limit} bytes (limits.body).");
        Refused {
            failure: TurnFailure::ours(413, "body_too_large", &hint).into(),
            param: Some("input"),
        }
    };
    let mut named = BTreeSet::new();
    let note = |id: &str| {
        named.insert(Name::from(id));
        None
    };
    let _nothing_was_put_in = dereference(&body, &facts, limit, note).map_err(too_large)?;
    let found = shared.responses.find_items(owner, named, limit).await?;
    let find = |id: &str| found.get(id).cloned();
    let Some(body) = dereference(&body, &facts, limit, find).map_err(too_large)? else {
        return Ok((body, facts));
    };
    let facts = scan(Endpoint::Responses, &body).map_err(|error| unreadable(Endpoint::Responses, error))?;
    Ok((body, facts))
}

fn expanded(
    shared: &Shared,
    parent: &Node,
    body: &Bytes,
    facts: &RequestFacts,
) -> Result<(Bytes, RequestFacts), Refused> {
    let limit = shared.config.settings.limits.body;
    if body.len().saturating_add(parent.history_len()) > limit {
        let hint =
            format!("Together with what it goes on from, the request is larger than {limit} bytes (limits.body).");
        return Err(Refused {
            failure: TurnFailure::ours(413, "body_too_large", &hint).into(),
            param: Some("previous_response_id"),
        });
    }
    let body = expand(body, facts, &parent.history());
    let mut expanded = scan(Endpoint::Responses, &body).map_err(|error| unreadable(Endpoint::Responses, error))?;
    if let (Some(expanded), Some(facts)) = (&mut expanded.responses, &facts.responses) {
        // the answer names it
        expanded.previous = facts.previous.clone();
    }
    Ok((body, expanded))
}

fn unknown_previous() -> Refused {
    let hint = "The previous response was not found: it was never stored, made with another key, or too long ago.";
    Refused {
        failure: TurnFailure::ours(400, "previous_response_not_found", hint).into(),
        param: Some("previous_response_id"),
    }
}

fn unknown() -> HttpResponse {
    let hint = "No response of this id was found: it was never stored, made with another key, or too long ago.";
    let failure = TurnFailure::ours(404, "response_not_found", hint);
    error::respond(Endpoint::Responses, &failure, None)
}

/// Which client key sent a request.
pub(super) fn owner(request: &HttpRequest) -> Option<u32> {
    request.extensions().get::<Passed>().and_then(|passed| passed.owner)
}

/// `GET /v1/responses/{id}`
pub(super) async fn get(shared: web::Data<Shared>, request: HttpRequest, id: web::Path<String>) -> HttpResponse {
    match shared.responses.find(owner(&request), &id).await {
        Ok(Some(node)) => HttpResponse::Ok()
            .content_type("application/json")
            .body(node.response().to_owned()),
        Ok(None) => unknown(),
        Err(failure) => error::respond(Endpoint::Responses, &failure, None),
    }
}

#[derive(Serialize)]
struct Deleted<'a> {
    id: &'a str,
    object: &'static str,
    deleted: bool,
}

/// `DELETE /v1/responses/{id}`
pub(super) async fn delete(shared: web::Data<Shared>, request: HttpRequest, id: web::Path<String>) -> HttpResponse {
    match shared.responses.forget(owner(&request), &id).await {
        Ok(true) => HttpResponse::Ok().json(Deleted {
            id: &id,
            object: "response",
            deleted: true,
        }),
        Ok(false) => unknown(),
        Err(failure) => error::respond(Endpoint::Responses, &failure, None),
    }
}

/// In which order items are listed: the newest first, unless asked otherwise.
#[derive(Deserialize)]
pub(super) struct Listing {
    order: Option<String>,
}

#[derive(Serialize)]
struct Items<'a> {
    object: &'static str,
    data: Vec<&'a RawValue>,
    first_id: Option<String>,
    last_id: Option<String>,
    has_more: bool,
}

#[derive(Deserialize)]
struct Identified {
    id: Option<String>,
}

/// `GET /v1/responses/{id}/input_items`: all of them at once, as they were sent.
pub(super) async fn input_items(
    shared: web::Data<Shared>,
    request: HttpRequest,
    id: web::Path<String>,
    listing: web::Query<Listing>,
) -> HttpResponse {
    let node = match shared.responses.find(owner(&request), &id).await {
        Ok(Some(node)) => node,
        Ok(None) => return unknown(),
        Err(failure) => return error::respond(Endpoint::Responses, &failure, None),
    };
    let list = format!("[{}]", node.input().join(","));
    let mut data: Vec<&RawValue> = serde_json::from_str(&list).unwrap_or_default();
    if listing.order.as_deref() != Some("asc") {
        data.reverse();
    }
    let id = |item: Option<&&RawValue>| serde_json::from_str::<Identified>(item?.get()).ok()?.id;
    HttpResponse::Ok().json(Items {
        object: "list",
        first_id: id(data.first()),
        last_id: id(data.last()),
        has_more: false,
        data,
    })
}

#[cfg(test)]
mod tests;
