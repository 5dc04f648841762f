//! `/admin/v1/plugins`: what there is, and how it is replaced.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::RETRY_AFTER;
use actix_web::{HttpResponse, web};
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use understudy_messages::ids::Name;
use understudy_messages::registry::{Phase, Reload, ReloadError, ReloadOutcome, Trigger};

use crate::app::Shared;

/// Every plugin, and what people should know about them.
pub(super) async fn list(shared: web::Data<Shared>) -> HttpResponse {
    let serving = shared.published.load();
    HttpResponse::Ok().json(serving.map(|serving| serving.inventory.report()))
}

/// What is to be replaced.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ask {
    plugins: Vec<Name>,
    #[serde(default)]
    wait: bool,
}

/// Replaces plugins. The reload is cancelled with its request, as long as nothing was stopped.
pub(super) async fn reload(shared: web::Data<Shared>, ask: web::Json<Ask>) -> HttpResponse {
    let Some(registry) = shared.registry.get() else {
        return unavailable();
    };
    let requester = CancellationToken::new();
    let _cancels_with_the_request = requester.clone().drop_guard();
    let Ask { plugins, wait } = ask.into_inner();
    let reload = Reload {
        plugins,
        settings: None,
        wait,
        trigger: Trigger::Api,
        requester,
        superseded: CancellationToken::new(),
    };
    match registry.reload.send(reload).await {
        Ok(Ok(receipt)) => HttpResponse::Ok().json(receipt),
        Ok(Err(error)) => failed(&error),
        Err(_registry_gone) => unavailable(),
    }
}

fn failed(error: &ReloadError) -> HttpResponse {
    let mut response = HttpResponse::build(status(error));
    if let Some(wait) = error.retry_after_ms {
        response.insert_header((RETRY_AFTER, Duration::from_millis(wait).as_secs().max(1)));
    }
    response.json(json!({ "error": error }))
}

/// Busy and drained in vain may be tried again; a refused candidate is the asker's to mend.
fn status(error: &ReloadError) -> StatusCode {
    match (error.outcome, error.phase) {
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
