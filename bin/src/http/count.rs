//! `POST /v1/messages/count_tokens` where no candidate counts: the gateway estimates, and says so.

use std::sync::Arc;

use actix_web::HttpResponse;
use actix_web::http::header::HeaderName;
use serde_json::json;
use understudy_messages::request::Endpoint;
use understudy_messages::settings::Api;
use understudy_messages::turn::{Candidate, TurnRequest};
use understudy_providers::anthropic::messages::count;

use crate::app::Shared;

const ESTIMATED: HeaderName = HeaderName::from_static("x-understudy-estimated");

/// The estimate, where a count is asked for and no candidate speaks Anthropic's format.
pub(super) fn estimate(shared: &Shared, request: &TurnRequest) -> Option<HttpResponse> {
    let candidates = candidates(shared, request)?;
    let counts = candidates.iter().any(|it| it.api == Api::AnthropicMessages);
    (!counts).then(|| estimated(request))
}

/// What was answered; the estimate where a count was asked for and those who might count do not: many that speak
/// Anthropic's format know no such path.
pub(super) fn or_estimate(shared: &Shared, request: &TurnRequest, answered: HttpResponse) -> HttpResponse {
    let uncounted = matches!(answered.status().as_u16(), 404 | 405 | 500..);
    match candidates(shared, request) {
        Some(_) if uncounted => estimated(request),
        Some(_) | None => answered,
    }
}

/// Who might be asked, where a count is asked for.
fn candidates(shared: &Shared, request: &TurnRequest) -> Option<Vec<Arc<Candidate>>> {
    if request.endpoint != Endpoint::CountTokens {
        return None;
    }
    let serving = shared.published.load()?;
    let facts = &request.facts;
    let cast = serving.roster.cast(&facts.model, facts.fallbacks.as_deref()).ok()?;
    Some(cast.candidates)
}

fn estimated(request: &TurnRequest) -> HttpResponse {
    let tokens = count::estimate(&request.body, &request.facts);
    let mut response = HttpResponse::Ok();
    response.insert_header((ESTIMATED, "true"));
    response.json(json!({ "input_tokens": tokens }))
}
