//! The admin listener: metrics, probes, status.

use actix_web::{HttpResponse, web};
use serde::Serialize;
use understudy_messages::registry::{AdmissionState, GetRegistryStatus, RegistryStatus, ReloadStatus};

use crate::app::Shared;

/// The scrape. Rendered off the arbiter: it takes milliseconds.
pub(super) async fn metrics(shared: web::Data<Shared>) -> HttpResponse {
    let render = move || {
        let telemetry = &shared.supervision.telemetry;
        telemetry.show_health(&shared.ledgers, shared.clock.now());
        if let Some(serving) = shared.published.load() {
            serving.inventory.show(telemetry);
        }
        telemetry.render()
    };
    match web::block(render).await {
        Ok(scrape) => HttpResponse::Ok()
            .content_type("text/plain; version=0.0.4; charset=utf-8")
            .body(scrape),
        Err(_pool_is_gone) => HttpResponse::ServiceUnavailable().finish(),
    }
}

/// The process answers.
pub(super) async fn livez() -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain").body("ok\n")
}

/// Turns are admitted, or wait for a moment only, and every guard that has to be there is.
pub(super) async fn readyz(shared: web::Data<Shared>) -> HttpResponse {
    match (shared.published.load(), shared.published.closing()) {
        (Some(serving), false) => {
            let mut missing: Vec<String> = serving.inventory.missing().map(|id| format!("plugin:{id}")).collect();
            let reload = shared.published.reload(shared.clock.now());
            let reload = reload.filter(ReloadStatus::holds_turns).map(without_holders);
            missing.extend(reload.as_ref().map(|_| "plugin-reload".to_owned()));
            let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
            respond(&Probe {
                ready: missing.is_empty(),
                failing: &missing,
                reload,
            })
        }
        (_, true) => probe(false, &["shutting-down"]),
        (None, false) => probe(false, &["starting"]),
    }
}

/// The first generation has been published.
pub(super) async fn startupz(shared: web::Data<Shared>) -> HttpResponse {
    match shared.published.load() {
        Some(_) => probe(true, &[]),
        None => probe(false, &["starting"]),
    }
}

#[derive(Serialize)]
struct Probe<'a> {
    ready: bool,
    failing: &'a [&'a str],
    /// The reload that turns wait for, or what one left behind: which plugins, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    reload: Option<ReloadStatus>,
}

/// Who asks a probe need not be an operator: sessions are nothing of theirs.
fn without_holders(mut reload: ReloadStatus) -> ReloadStatus {
    reload.omitted += reload.holders.drain(..).count();
    reload
}

fn probe(ready: bool, failing: &[&str]) -> HttpResponse {
    respond(&Probe {
        ready,
        failing,
        reload: None,
    })
}

fn respond(probe: &Probe<'_>) -> HttpResponse {
    let status = if probe.ready { 200 } else { 503 };
    let status = actix_web::http::StatusCode::from_u16(status).unwrap_or_default();
    HttpResponse::build(status).json(probe)
}

/// What the gateway is and does.
#[derive(Serialize)]
struct Status {
    version: &'static str,
    uptime_seconds: u64,
    admission: AdmissionState,
    generation: Option<u64>,
    turns_in_flight: u64,
    turns_waiting: usize,
    arbiters: usize,
    providers: Vec<String>,
    models: usize,
}

/// `GET /admin/v1/status`
pub(super) async fn status(shared: web::Data<Shared>) -> HttpResponse {
    let Some(registry) = shared.registry.get() else {
        return HttpResponse::ServiceUnavailable().finish();
    };
    match registry.status.send(GetRegistryStatus).await {
        Ok(status) => HttpResponse::Ok().json(describe(&shared, &status)),
        Err(_registry_gone) => HttpResponse::ServiceUnavailable().finish(),
    }
}

fn describe(shared: &Shared, status: &RegistryStatus) -> Status {
    let settings = &shared.config.settings;
    Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: crate::unix_seconds(&shared.clock).saturating_sub(shared.started),
        admission: status.admission,
        generation: status.generation.map(|generation| generation.0),
        turns_in_flight: status.leases,
        turns_waiting: status.waiting,
        arbiters: status.shards,
        providers: settings.providers.keys().map(ToString::to_string).collect(),
        models: shared
            .published
            .load()
            .map_or(0, |serving| serving.roster.names().len()),
    }
}
