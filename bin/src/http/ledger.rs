//! `/admin/v1/providers`: how the candidates and credentials are, and an operator's word that they are well again.

use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpResponse, web};
use serde::{Deserialize, Serialize};
use understudy_actors::catalog::CatalogView;
use understudy_actors::provider::ledger::{CandidateView, CredentialView, Ledger, Ledgers};
use understudy_messages::failure::Reason;
use understudy_messages::ids::Name;
use understudy_messages::request::Endpoint;
use understudy_messages::terminal::TurnFailure;

use super::error;
use super::occupancy::Occupancy;
use crate::app::Shared;

#[derive(Serialize)]
struct Page {
    providers: Vec<Provider>,
}

#[derive(Serialize)]
struct Provider {
    name: Name,
    candidates: Vec<Candidate>,
    credentials: Vec<Credential>,
    /// `null` for one that may be asked as often as one likes.
    occupancy: Option<Occupancy>,
    /// `null` for one that is not asked.
    catalog: Option<Catalog>,
}

/// What the provider lists, and how the next look at its list stands.
#[derive(Serialize)]
struct Catalog {
    state: &'static str,
    version: u64,
    models: usize,
    skipped: usize,
    cut: bool,
    age_seconds: Option<f64>,
    refresh_seconds: f64,
    again_in_seconds: Option<f64>,
    failures: u32,
    failure: Option<String>,
}

#[derive(Serialize)]
struct Candidate {
    model: Name,
    state: &'static str,
    reason: Option<Reason>,
    until_seconds: Option<f64>,
    stated: bool,
    failures: u32,
}

/// A credential is named by its place in the list: no part of the key leaves the process.
#[derive(Serialize)]
struct Credential {
    place: usize,
    uses: u64,
    reason: Option<Reason>,
    until_seconds: Option<f64>,
}

/// Every provider as it is now.
pub(super) async fn list(shared: web::Data<Shared>) -> HttpResponse {
    let ledgers = serving(&shared);
    let providers = ledgers.iter().map(|ledger| provider(&shared, ledger));
    HttpResponse::Ok().json(Page {
        providers: providers.collect(),
    })
}

/// The ledgers of the generation that serves.
fn serving(shared: &Shared) -> Arc<Ledgers> {
    let serving = shared.published.load();
    serving.map(|serving| serving.ledgers.clone()).unwrap_or_default()
}

/// Which model to reset; without one the whole provider is.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    model: Option<String>,
}

/// Forgets the windows and breakers of a provider, or of one of its models.
pub(super) async fn reset(
    shared: web::Data<Shared>,
    name: web::Path<String>,
    which: web::Query<Which>,
) -> HttpResponse {
    let ledgers = serving(&shared);
    let Some(ledger) = ledgers.iter().find(|ledger| **ledger.provider() == **name) else {
        return unknown();
    };
    let model = which.model.as_deref().map(Name::from);
    ledger.reset(model.as_ref());
    shared.ledger_keeper.keep().await;
    tracing::info!(provider = %ledger.provider(), model = which.model.as_deref(), "ledger reset by an operator");
    HttpResponse::Ok().json(provider(&shared, ledger))
}

/// Asks a provider for its list of models, whatever is known of it: it is asked in the background.
pub(super) async fn refresh_catalog(shared: web::Data<Shared>, name: web::Path<String>) -> HttpResponse {
    let now = shared.clock.now();
    if shared.published.refresh_catalog(&name, now)
        && let Some(catalog) = catalog_of(&shared, &name)
    {
        tracing::info!(provider = %name, "list of models asked for by an operator");
        return HttpResponse::Accepted().json(catalog);
    }
    if serving(&shared).iter().all(|ledger| **ledger.provider() != **name) {
        return unknown();
    }
    let hint = "This provider is not asked for its models. Set `catalog: true` at the provider.";
    error::respond(Endpoint::Chat, &TurnFailure::ours(409, "no_catalog", hint), None)
}

fn unknown() -> HttpResponse {
    let hint = "No provider of this name is configured. GET /admin/v1/providers lists them.";
    let failure = TurnFailure::ours(404, "provider_not_found", hint);
    error::respond(Endpoint::Chat, &failure, None)
}

fn catalog_of(shared: &Shared, provider: &str) -> Option<Catalog> {
    let serving = shared.published.load()?;
    let catalog = serving.roster.catalogs().find(provider)?;
    Some(catalog_view(catalog.view(shared.clock.now())))
}

fn provider(shared: &Shared, ledger: &Ledger) -> Provider {
    let view = ledger.view(shared.clock.now());
    Provider {
        catalog: catalog_of(shared, &view.name),
        occupancy: Occupancy::of_provider(shared, &view.name, ledger.bound()),
        name: view.name,
        candidates: view.candidates.into_iter().map(candidate).collect(),
        credentials: view.credentials.into_iter().map(credential).collect(),
    }
}

fn catalog_view(view: CatalogView) -> Catalog {
    Catalog {
        state: view.state,
        version: view.version,
        models: view.models,
        skipped: view.skipped,
        cut: view.cut,
        age_seconds: view.age.map(seconds),
        refresh_seconds: seconds(view.refresh),
        again_in_seconds: view.again_in.map(seconds),
        failures: view.failures,
        failure: view.failure,
    }
}

fn candidate(view: CandidateView) -> Candidate {
    Candidate {
        model: view.model,
        state: view.state.as_label(),
        until_seconds: view.reason.map(|_| seconds(view.remaining)),
        reason: view.reason,
        stated: view.stated,
        failures: view.failures,
    }
}

fn credential(view: CredentialView) -> Credential {
    Credential {
        place: view.place,
        uses: view.uses,
        until_seconds: view.reason.map(|_| seconds(view.remaining)),
        reason: view.reason,
    }
}

/// To a millisecond: more digits would be noise.
fn seconds(remaining: Duration) -> f64 {
    (remaining.as_secs_f64() * 1e3).round() / 1e3
}
