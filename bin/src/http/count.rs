//! `POST /v1/messages/count_tokens` where no candidate can count: the gateway estimates, and says so.

use actix_web::HttpResponse;
use actix_web::http::header::HeaderName;
use serde_json::json;
use understudy_messages::request::Endpoint;
use understudy_messages::settings::Api;
use understudy_messages::turn::TurnRequest;
use understudy_providers::anthropic::messages::count;

use crate::app::Shared;

const ESTIMATED: HeaderName = HeaderName::from_static("x-understudy-estimated");

/// The estimate, where a count is asked for and no candidate speaks Anthropic's format.
pub(super) fn estimate(shared: &Shared, request: &TurnRequest) -> Option<HttpResponse> {
    if request.endpoint != Endpoint::CountTokens {
        return None;
    }
    let serving = shared.published.load()?;
    let facts = &request.facts;
    let cast = serving.roster.cast(&facts.model, facts.fallbacks.as_deref()).ok()?;
    if cast.candidates.iter().any(|it| it.api == Api::AnthropicMessages) {
        return None;
    }
    let tokens = count::estimate(&request.body, facts);
    let mut response = HttpResponse::Ok();
    response.insert_header((ESTIMATED, "true"));
    Some(response.json(json!({ "input_tokens": tokens })))
}
