//! `GET /v1/models`: every name that a request may ask for.

use actix_web::{HttpResponse, web};
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
pub(super) async fn list(shared: web::Data<Shared>) -> HttpResponse {
    HttpResponse::Ok().json(List {
        object: "list",
        data: models(&shared),
    })
}

/// One of them; its name may contain slashes.
pub(super) async fn get(shared: web::Data<Shared>, id: web::Path<String>) -> HttpResponse {
    match models(&shared).into_iter().find(|model| model.id == *id) {
        Some(model) => HttpResponse::Ok().json(model),
        None => {
            let hint = "No model, alias or agent of this name is configured. GET /v1/models lists them.";
            error::respond(
                Endpoint::Chat,
                &TurnFailure::ours(404, "model_not_found", hint),
                Some("model"),
            )
        }
    }
}
