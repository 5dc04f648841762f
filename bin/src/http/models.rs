//! `GET /v1/models`: every name that a request may ask for, in OpenAI's form, or in Anthropic's for its SDKs.

use actix_web::http::header::HeaderMap;
use actix_web::{HttpRequest, HttpResponse, web};
use serde::Serialize;
use understudy_messages::request::Endpoint;
use understudy_messages::terminal::TurnFailure;

use super::error;
use crate::app::Shared;

#[derive(Serialize)]
struct List {
    object: &'static str,
    data: Vec<Model>,
}

#[derive(Serialize)]
struct Model {
    id: String,
    object: &'static str,
    created: u64,
    owned_by: String,
}

/// All of them as Anthropic lists them, on one page.
#[derive(Serialize)]
struct Page<'a> {
    data: Vec<Named<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Named<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    display_name: &'a str,
    /// The epoch: Anthropic's word for an unknown date.
    created_at: &'static str,
}

impl<'a> Named<'a> {
    fn of(model: &'a Model) -> Self {
        Self {
            kind: "model",
            id: &model.id,
            display_name: &model.id,
            created_at: "1970-01-01T00:00:00Z",
        }
    }
}

/// Whether one of Anthropic's SDKs asks: they name the version that they speak.
fn is_anthropics(headers: &HeaderMap) -> bool {
    headers.contains_key("anthropic-version")
}

fn models(shared: &Shared) -> Vec<Model> {
    let names = shared
        .published
        .load()
        .map_or_else(Vec::new, |serving| serving.roster.names());
    let model = |(id, owned_by)| Model {
        id,
        object: "model",
        created: shared.started,
        owned_by,
    };
    names.into_iter().map(model).collect()
}

/// All of them.
pub(super) async fn list(shared: web::Data<Shared>, request: HttpRequest) -> HttpResponse {
    let models = models(&shared);
    if is_anthropics(request.headers()) {
        return HttpResponse::Ok().json(Page {
            data: models.iter().map(Named::of).collect(),
            has_more: false,
            first_id: models.first().map(|model| &*model.id),
            last_id: models.last().map(|model| &*model.id),
        });
    }
    HttpResponse::Ok().json(List {
        object: "list",
        data: models,
    })
}

/// One of them; its name may contain slashes.
pub(super) async fn get(shared: web::Data<Shared>, id: web::Path<String>, request: HttpRequest) -> HttpResponse {
    let anthropics = is_anthropics(request.headers());
    match models(&shared).into_iter().find(|model| model.id == *id) {
        Some(model) if anthropics => HttpResponse::Ok().json(Named::of(&model)),
        Some(model) => HttpResponse::Ok().json(model),
        None => {
            let hint = "No model, alias or agent of this name is configured. GET /v1/models lists them.";
            let endpoint = if anthropics { Endpoint::Messages } else { Endpoint::Chat };
            error::respond(
                endpoint,
                &TurnFailure::ours(404, "model_not_found", hint),
                Some("model"),
            )
        }
    }
}
