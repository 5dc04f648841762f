//! `/admin/v1/providers`: how the candidates and credentials are, and an operator's word that they are well again.

use std::sync::Arc;
use std::time::Duration;

use actix_web::{HttpResponse, web};
use serde::{Deserialize, Serialize};
use understudy_actors::provider::ledger::{CandidateView, CredentialView, Ledgers, ProviderView};
use understudy_messages::failure::Reason;
use understudy_messages::ids::Name;
use understudy_messages::request::Endpoint;
use understudy_messages::terminal::TurnFailure;

use super::error;
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
    let now = shared.clock.now();
    let ledgers = serving(&shared);
    let providers = ledgers.iter().map(|ledger| provider(ledger.view(now)));
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
        let hint = "No provider of this name is configured. GET /admin/v1/providers lists them.";
        return error::respond(
            Endpoint::Chat,
            &TurnFailure::ours(404, "provider_not_found", hint),
            None,
        );
    };
    let model = which.model.as_deref().map(Name::from);
    ledger.reset(model.as_ref());
    tracing::info!(provider = %ledger.provider(), model = which.model.as_deref(), "ledger reset by an operator");
    HttpResponse::Ok().json(provider(ledger.view(shared.clock.now())))
}

fn provider(view: ProviderView) -> Provider {
    Provider {
        name: view.name,
        candidates: view.candidates.into_iter().map(candidate).collect(),
        credentials: view.credentials.into_iter().map(credential).collect(),
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
