//! The admin listener: metrics, probes, status.

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use actix_web::{HttpResponse, HttpResponseBuilder, web};
use serde::Serialize;
use understudy_messages::ids::Name;
use understudy_messages::registry::{AdmissionState, GetRegistryStatus, RegistryStatus, ReloadStatus};

use super::occupancy::{self, Bounded};
use crate::app::Shared;
use crate::config::Store;
use crate::config::words::Words;
use crate::configuration::Fault;

/// The scrape. Rendered off the arbiter: it takes milliseconds.
pub(super) async fn metrics(shared: web::Data<Shared>) -> HttpResponse {
    let render = move || {
        let telemetry = &shared.supervision.telemetry;
        telemetry.show_tasks(shared.supervision.tasks.running());
        telemetry.show_generations(&shared.published, shared.clock.now());
        if let Some(serving) = shared.published.load() {
            telemetry.show_health(&serving.ledgers, shared.clock.now());
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
    HttpResponse::Ok().json(serde_json::json!({ "ok": true, "status": "live" }))
}

/// Turns are admitted, or wait for a moment only, every guard that has to be there is, and state can be written.
pub(super) async fn readyz(shared: web::Data<Shared>) -> HttpResponse {
    let mut failing: Vec<String> = Vec::new();
    let mut held = None;
    match (shared.published.load(), shared.published.closing()) {
        (_, true) => failing.push("draining".to_owned()),
        (None, false) => failing.push("starting".to_owned()),
        (Some(serving), false) => {
            failing.extend(serving.inventory.missing().map(|id| format!("plugin:{id}")));
            let reload = shared.published.reload(shared.clock.now());
            held = reload.filter(ReloadStatus::holds_turns);
            failing.extend(held.as_ref().map(|_| "plugin-reload".to_owned()));
        }
    }
    failing.extend(shared.state.file().is_failing().then(|| "state".to_owned()));
    let ready = failing.is_empty();
    probe(ready).json(Readiness {
        ready,
        failing,
        uptime_ms: uptime(&shared),
        plugin_reload: held.map(|reload| Holding::new(reload, &shared)),
    })
}

/// The first generation has been published, and the gateway is not about to stop.
pub(super) async fn startupz(shared: web::Data<Shared>) -> HttpResponse {
    let status = match (shared.published.load(), shared.published.closing()) {
        (_, true) => "draining",
        (None, false) => "starting",
        (Some(_), false) => "started",
    };
    let started = status == "started";
    probe(started).json(serde_json::json!({ "ok": started, "status": status }))
}

fn probe(is_well: bool) -> HttpResponseBuilder {
    match is_well {
        true => HttpResponse::Ok(),
        false => HttpResponse::ServiceUnavailable(),
    }
}

/// Milliseconds since the start.
fn uptime(shared: &Shared) -> u64 {
    let up = shared.clock.now().duration_since(shared.began);
    u64::try_from(up.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Readiness {
    ready: bool,
    failing: Vec<String>,
    uptime_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin_reload: Option<Holding>,
}

/// A reload that turns wait for, or that left something which does not serve (contract §6).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Holding {
    phase: &'static str,
    plugin_ids: Vec<Name>,
    /// When it gives up, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Holding {
    fn new(reload: ReloadStatus, shared: &Shared) -> Self {
        let now = shared.clock.wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_millis()).unwrap_or_default();
        let inside = reload.holders.len() + reload.omitted;
        let waits = (inside > 0).then(|| format!("Waiting for {inside} that use what is to be replaced."));
        Self {
            phase: reload.phase,
            plugin_ids: reload.plugin_ids,
            deadline_at_ms: reload.deadline_in_ms.map(|left| now.saturating_add(left)),
            reason: reload.reason.or(waits),
        }
    }
}

/// `GET /admin/v1/generations`: the serving one, and those that somebody still holds.
pub(super) async fn generations(shared: web::Data<Shared>) -> HttpResponse {
    let generations = shared.published.generations(shared.clock.now());
    HttpResponse::Ok().json(serde_json::json!({ "generations": generations }))
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
    bounds: Vec<Bounded>,
    arbiters: usize,
    providers: Vec<String>,
    models: usize,
    configuration: Configuration,
    state: State,
}

/// Where what outlives the process lies.
#[derive(Serialize)]
struct State {
    store: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dir: Option<PathBuf>,
    /// Whether something could not be written, and it is tried again.
    failing: bool,
    /// How many changes are visible and not on the disk yet (`durability: interval`).
    unwritten: usize,
}

impl State {
    fn of(shared: &Shared) -> Self {
        let dir = shared.state.dir().map(|dir| dir.folder().to_owned());
        let store = if dir.is_some() { Store::File } else { Store::Memory };
        Self {
            store: store.word(),
            dir,
            failing: shared.state.file().is_failing(),
            unwritten: shared.state.file().owed(),
        }
    }
}

/// Which configuration serves, and why not the one that was saved last.
#[derive(Serialize)]
struct Configuration {
    serving: String,
    waiting: Option<String>,
    fault: Option<Fault>,
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
    let (serving, known) = (shared.published.load(), shared.configuration.known());
    Status {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: crate::unix_seconds(&shared.clock).saturating_sub(shared.started),
        admission: status.admission,
        generation: status.generation.map(|generation| generation.0),
        turns_in_flight: status.leases,
        turns_waiting: status.waiting,
        bounds: serving
            .as_ref()
            .map_or_else(Vec::new, |it| occupancy::all(shared, it.roster.settings())),
        arbiters: status.shards,
        providers: serving.as_ref().map_or_else(Vec::new, |it| {
            it.roster.settings().providers.keys().map(ToString::to_string).collect()
        }),
        models: serving.map_or(0, |serving| serving.roster.names().len()),
        configuration: Configuration {
            serving: known.serving.id.clone(),
            waiting: known.waiting.as_ref().map(|revision| revision.id.clone()),
            fault: known.fault.clone(),
        },
        state: State::of(shared),
    }
}
