//! The two listeners: routes, and nothing that decides.

mod admin;
mod answer;
mod chat;
mod edge;
mod error;
mod headers;
mod models;

use std::sync::Arc;
use std::time::Duration;

use actix_web::middleware::from_fn;
use actix_web::web::{self, ServiceConfig};

use crate::app::Shared;

/// How long the ending of a turn may take once it has been cancelled.
pub(crate) const ENDING_GRACE: Duration = Duration::from_secs(5);

/// The API listener.
pub(crate) fn api(routes: &mut ServiceConfig, shared: &Arc<Shared>) {
    routes.app_data(web::Data::from(shared.clone())).service(
        web::scope("")
            .wrap(from_fn(edge::authorize_client))
            .wrap(from_fn(edge::observe))
            .route("/v1/chat/completions", web::post().to(chat::completions))
            .route("/v1/models", web::get().to(models::list))
            .route("/v1/models/{id:.*}", web::get().to(models::get))
            .default_service(web::to(error::not_found)),
    );
}

/// The admin listener. Probes need no token.
pub(crate) fn admin(routes: &mut ServiceConfig, shared: &Arc<Shared>) {
    routes.app_data(web::Data::from(shared.clone())).service(
        web::scope("")
            .wrap(from_fn(edge::authorize_operator))
            .wrap(from_fn(edge::observe))
            .route("/metrics", web::get().to(admin::metrics))
            .route("/livez", web::get().to(admin::livez))
            .route("/readyz", web::get().to(admin::readyz))
            .route("/startupz", web::get().to(admin::startupz))
            .route("/admin/v1/status", web::get().to(admin::status))
            .default_service(web::to(error::not_found)),
    );
}
