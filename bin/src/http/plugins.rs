//! `/admin/v1/plugins`: what there is, and how it is replaced.

use std::collections::BTreeMap;
use std::time::Duration;

use actix_web::error::InternalError;
use actix_web::http::StatusCode;
use actix_web::http::header::RETRY_AFTER;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use understudy_actors::inventory::{About, Report};
use understudy_actors::registry::Retained;
use understudy_messages::ids::{GenerationId, Name};
use understudy_messages::registry::{Phase, Receipt, Reload, ReloadError, ReloadOutcome, Trigger};

use super::edge;
use crate::app::Shared;

/// Every plugin, and what people should know about them.
pub(super) async fn list(shared: web::Data<Shared>) -> HttpResponse {
    let serving = shared.published.load();
    HttpResponse::Ok().json(serving.map(|serving| Listed {
        generation: serving.id,
        report: serving.inventory.report(),
    }))
}

/// What a generation has.
#[derive(Serialize)]
struct Listed {
    generation: GenerationId,
    #[serde(flatten)]
    report: Report,
}

/// One plugin, and who keeps its instances.
pub(super) async fn inspect(shared: web::Data<Shared>, id: web::Path<String>) -> HttpResponse {
    let Some(serving) = shared.published.load() else {
        return unavailable();
    };
    let inspected = Inspected {
        generation: serving.id,
        about: serving.inventory.about(&id),
        runtime_retention: shared.published.retention(&id, shared.clock.now()),
    };
    if inspected.about.is_none() && inspected.runtime_retention.is_empty() {
        let told = format!("There is no plugin {id}. GET /admin/v1/plugins lists them.");
        return HttpResponse::NotFound().json(json!({ "error": { "message": told } }));
    }
    HttpResponse::Ok().json(inspected)
}

/// What the serving generation has of a plugin; one that has left it may still be kept.
#[derive(Serialize)]
struct Inspected {
    generation: GenerationId,
    #[serde(flatten)]
    about: Option<About>,
    #[serde(rename = "runtimeRetention")]
    runtime_retention: Vec<Retained>,
}

/// The reload under way, or one that left something which does not serve; `null` when there is none.
pub(super) async fn progress(shared: web::Data<Shared>) -> HttpResponse {
    HttpResponse::Ok().json(shared.published.reload(shared.clock.now()))
}

/// What is to be replaced.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    plugins: Vec<Name>,
    #[serde(default)]
    wait: bool,
    /// What the sources of some of them have to be.
    #[serde(default)]
    digests: BTreeMap<Name, String>,
}

impl Ask {
    /// The plugins, each once: a name is the same in capitals.
    fn folded(plugins: Vec<Name>) -> Vec<Name> {
        let mut once: Vec<Name> = Vec::new();
        for id in plugins {
            if !once.iter().any(|known| known.eq_ignore_ascii_case(&id)) {
                once.push(id);
            }
        }
        once
    }
}

/// How what is asked is read: what cannot be read is answered like any other error.
pub(super) fn asked() -> web::JsonConfig {
    web::JsonConfig::default().error_handler(|error, _| {
        let told = json!({ "error": { "message": format!("The request cannot be read: {error}") } });
        InternalError::from_response(error, HttpResponse::BadRequest().json(told)).into()
    })
}

/// Replaces plugins. One that asks for it from inside of its own call, or of a turn, is refused. The reload is cancelled with its request, as long as nothing was stopped.
pub(super) async fn reload(shared: web::Data<Shared>, request: HttpRequest, ask: web::Json<Ask>) -> HttpResponse {
    let Some(registry) = shared.registry.get() else {
        return unavailable();
    };
    let requester = CancellationToken::new();
    let _cancels_with_the_request = requester.clone().drop_guard();
    let Ask { plugins, wait, digests } = ask.into_inner();
    let reload = Reload {
        plugins: Ask::folded(plugins),
        digests,
        settings: None,
        wait,
        trigger: Trigger::Api,
        origin: edge::origin(request.headers()),
        requester,
        superseded: CancellationToken::new(),
    };
    match registry.reload.send(reload).await {
        Ok(Ok(receipt)) => HttpResponse::Ok().json(Done { ok: true, receipt }),
        Ok(Err(error)) => failed(&error),
        Err(_registry_gone) => unavailable(),
    }
}

/// Looks at the folders of all plugins, and at the file: what is new there serves, and what is gone goes.
pub(super) async fn refresh(shared: web::Data<Shared>, request: HttpRequest) -> HttpResponse {
    match shared.configuration.refresh(edge::origin(request.headers())).await {
        Ok(receipt) => HttpResponse::Ok().json(Done { ok: true, receipt }),
        Err(error) => failed(&error),
    }
}

/// A reload that was carried out.
#[derive(Serialize)]
struct Done {
    ok: bool,
    #[serde(flatten)]
    receipt: Receipt,
}

fn failed(error: &ReloadError) -> HttpResponse {
    let mut response = HttpResponse::build(status(error));
    if let Some(wait) = error.retry_after_ms {
        response.insert_header((RETRY_AFTER, Duration::from_millis(wait).as_secs().max(1)));
    }
    response.json(json!({ "error": Refusal::from(error) }))
}

/// A reload that failed; `details.runtime` has the contract's fields (§6).
#[derive(Serialize)]
pub(super) struct Refusal<'a> {
    #[serde(flatten)]
    error: &'a ReloadError,
    details: Details<'a>,
}

impl<'a> From<&'a ReloadError> for Refusal<'a> {
    fn from(error: &'a ReloadError) -> Self {
        let details = Details { runtime: error.into() };
        Self { error, details }
    }
}

#[derive(Serialize)]
struct Details<'a> {
    runtime: Runtime<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Runtime<'a> {
    operation_id: &'a Option<String>,
    generation: Option<GenerationId>,
    plugin_ids: &'a [Name],
    phase: Phase,
    committed: bool,
}

impl<'a> From<&'a ReloadError> for Runtime<'a> {
    fn from(error: &'a ReloadError) -> Self {
        Self {
            operation_id: &error.operation_id,
            generation: error.generation,
            plugin_ids: &error.plugin_ids,
            phase: error.phase,
            committed: error.committed,
        }
    }
}

/// Busy and drained in vain may be tried again; a refused candidate is the asker's to mend.
fn status(error: &ReloadError) -> StatusCode {
    match (error.outcome, error.phase) {
        (ReloadOutcome::Deferred, _) => StatusCode::ACCEPTED,
        _ if error.retry_after_ms.is_some() => StatusCode::SERVICE_UNAVAILABLE,
        (ReloadOutcome::Rejected, Phase::Prepare) => StatusCode::BAD_REQUEST,
        (ReloadOutcome::DrainTimeout, _) => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::CONFLICT,
    }
}

fn unavailable() -> HttpResponse {
    let error = json!({ "error": { "message": "The registry is being started. Try again in a second." } });
    HttpResponse::ServiceUnavailable()
        .insert_header((RETRY_AFTER, 1))
        .json(error)
}
