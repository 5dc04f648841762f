//! `/admin/v1/config`: what serves, and how it is changed while turns run.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::{self, ETAG, IF_MATCH, RETRY_AFTER};
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Serialize;
use serde_json::{Value, json};
use understudy_messages::registry::{Phase, ReloadError, ReloadOutcome};

use super::edge;
use super::plugins::Refusal;
use crate::app::Shared;
use crate::config::{Problem, ServerConfig, show};
use crate::configuration::{Change, Changed, Fault, Refused};

/// What was accepted last, with every default filled in and every secret hidden.
#[derive(Serialize)]
struct Page<'a, C> {
    revision: &'a str,
    applied: bool,
    serving: &'a str,
    previous: Option<&'a str>,
    fault: Option<&'a Fault>,
    config: C,
}

/// `GET /admin/v1/config`
pub(super) async fn get(shared: web::Data<Shared>) -> HttpResponse {
    let known = shared.configuration.known();
    let saved = known.saved();
    let lost = known.lost.as_ref().map(|lost| lost.stored.id.as_str());
    HttpResponse::Ok().insert_header((ETAG, tag(&saved.id))).json(Page {
        revision: &saved.id,
        applied: known.waiting.is_none(),
        serving: &known.serving.id,
        previous: known.before().map(|before| before.id.as_str()).or(lost),
        fault: known.fault.as_ref(),
        config: show::with_references(&saved.config),
    })
}

/// The largest configuration that is taken.
pub(super) fn payload() -> web::PayloadConfig {
    web::PayloadConfig::new(usize::try_from(ServerConfig::MAX_FILE).unwrap_or(usize::MAX))
}

/// `PUT /admin/v1/config`: once it has been checked the change goes on, though whoever asked for it may be gone.
pub(super) async fn put(shared: web::Data<Shared>, request: HttpRequest, body: web::Bytes) -> HttpResponse {
    let Ok(text) = String::from_utf8(body.to_vec()) else {
        return refuse(StatusCode::BAD_REQUEST, "The configuration is not UTF-8.", &[]);
    };
    let Some(replaces) = replaces(&request) else {
        let hint = "Say which revision this is to replace: If-Match with the ETag of GET /admin/v1/config, or *.";
        return refuse(StatusCode::PRECONDITION_REQUIRED, hint, &[]);
    };
    let origin = edge::origin(request.headers());
    answer(shared.configuration.change(Change::To(text), replaces, origin).await)
}

/// `POST /admin/v1/config/rollback`
pub(super) async fn rollback(shared: web::Data<Shared>, request: HttpRequest) -> HttpResponse {
    let replaces = replaces(&request).unwrap_or_else(|| "*".to_owned());
    let origin = edge::origin(request.headers());
    answer(shared.configuration.change(Change::Back, replaces, origin).await)
}

fn replaces(request: &HttpRequest) -> Option<String> {
    let given = request.headers().get(IF_MATCH)?.to_str().ok()?;
    Some(given.trim().trim_start_matches("W/").trim_matches('"').to_owned())
}

fn tag(revision: &str) -> String {
    format!("\"{revision}\"")
}

fn answer(ended: Result<Changed, Refused>) -> HttpResponse {
    match ended {
        Ok(changed) => changed_to(&changed),
        Err(Refused::Busy) => {
            let hint = "Another change of the configuration is under way. Try again in a second.";
            let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, hint, &[]);
            response
                .headers_mut()
                .insert(RETRY_AFTER, header::HeaderValue::from_static("1"));
            response
        }
        Err(Refused::Replaced(revision)) => {
            let hint = format!("The configuration is at revision {revision} by now. Read it again, and change that.");
            refuse(StatusCode::PRECONDITION_FAILED, &hint, &[])
        }
        Err(Refused::Invalid(problems)) => {
            let hint = "The configuration is not valid. Nothing was changed.";
            refuse(StatusCode::UNPROCESSABLE_ENTITY, hint, &problems)
        }
        Err(Refused::NeedsRestart(problems)) => {
            let hint = "This needs a restart. Nothing was changed.";
            refuse(StatusCode::CONFLICT, hint, &problems)
        }
        Err(Refused::NothingBefore) => refuse(StatusCode::CONFLICT, "There is no revision before this one.", &[]),
        Err(Refused::Lost(lost)) => {
            let hint = format!("The revision before, {}, cannot serve: {}.", lost.stored.id, lost.why);
            refuse(StatusCode::CONFLICT, &hint, &[])
        }
        Err(Refused::NotWritten(error)) => {
            let hint = format!("The file cannot be written: {error}. Nothing was changed.");
            refuse(StatusCode::INTERNAL_SERVER_ERROR, &hint, &[])
        }
    }
}

fn changed_to(changed: &Changed) -> HttpResponse {
    let status = match &changed.error {
        None => StatusCode::OK,
        Some(_) if changed.deferred => StatusCode::ACCEPTED,
        Some(error) => status(error),
    };
    let mut response = HttpResponse::build(status);
    response.insert_header((ETAG, tag(&changed.revision)));
    let wait = changed.error.as_ref().and_then(|error| error.retry_after_ms);
    if let Some(wait) = wait {
        response.insert_header((RETRY_AFTER, Duration::from_millis(wait).as_secs().max(1)));
    }
    let mut told = json!(changed);
    if let Some(error) = &changed.error {
        told["error"] = json!(Refusal::from(error));
    }
    response.json(told)
}

fn status(error: &ReloadError) -> StatusCode {
    match (error.outcome, error.phase) {
        _ if error.retry_after_ms.is_some() => StatusCode::SERVICE_UNAVAILABLE,
        (ReloadOutcome::Rejected, Phase::Prepare) => StatusCode::BAD_REQUEST,
        _ => StatusCode::CONFLICT,
    }
}

fn refuse(status: StatusCode, message: &str, problems: &[Problem]) -> HttpResponse {
    let mut error = json!({ "message": message });
    if let (Value::Object(error), false) = (&mut error, problems.is_empty()) {
        error.insert("problems".to_owned(), json!(problems));
    }
    HttpResponse::build(status).json(json!({ "applied": false, "deferred": false, "error": error }))
}
