//! The two listeners: routes, and nothing that decides.

mod admin;
mod answer;
mod body;
mod config;
mod count;
mod edge;
mod error;
mod exposed;
mod gathered;
mod headers;
mod kept;
mod ledger;
mod models;
mod native;
mod occupancy;
mod plugins;
mod responses;
mod sessions;
mod turn;
mod unread;

use std::sync::Arc;

use actix_web::middleware::from_fn;
use actix_web::web::{self, ServiceConfig};
use actix_web::{FromRequest, Handler, HttpRequest, Resource, Responder};

pub(crate) use self::body::arriving;
pub(crate) use self::responses::Responses;
pub(crate) use self::sessions::{Shown, Whole};
pub(crate) use self::unread::bound_unread;
use crate::app::Shared;

/// Methods of a path that only tells something.
const READ: &str = "GET, HEAD, OPTIONS";
/// Methods of a path that does something.
const ACT: &str = "POST, OPTIONS";
/// Methods of a path that does something and tells how far it has got.
const LOOK_AND_ACT: &str = "GET, HEAD, POST, OPTIONS";

/// Methods of a path that names something which can be forgotten.
const KEEP: &str = "GET, HEAD, DELETE, OPTIONS";

/// Methods of a path that names something which can also be changed.
const CHANGE: &str = "GET, HEAD, PATCH, DELETE, OPTIONS";

/// Methods of a path that is there once and can be replaced.
const REPLACE: &str = "GET, HEAD, PUT, OPTIONS";

/// The API listener.
pub(crate) fn api(routes: &mut ServiceConfig, shared: &Arc<Shared>) {
    routes.app_data(web::Data::from(shared.clone())).service(
        web::scope("")
            .wrap(from_fn(edge::client))
            .service(path("/v1/chat/completions", ACT).post(turn::chat))
            .service(path("/v1/responses", ACT).post(turn::responses))
            .service(read_or_delete("/v1/responses/{id}"))
            .service(read("/v1/responses/{id}/input_items", responses::input_items))
            .service(path("/v1/messages", ACT).post(turn::messages))
            .service(path("/v1/messages/count_tokens", ACT).post(turn::count_tokens))
            .service(path("/v1/embeddings", ACT).post(turn::embeddings))
            .service(path("/v1/sessions/{id}/turns", ACT).post(turn::native))
            .service(read("/v1/sessions", sessions::list))
            .service(session("/v1/sessions/{id}"))
            .service(read("/v1/models", models::list))
            .service(read("/v1/models/{id:.*}", models::get))
            .service(web::resource("/plugins/{place:.*}").to(exposed::call))
            .default_service(web::to(error::not_found)),
    );
}

/// The admin listener. Probes need no token.
pub(crate) fn admin(routes: &mut ServiceConfig, shared: &Arc<Shared>) {
    routes.app_data(web::Data::from(shared.clone())).service(
        web::scope("")
            .wrap(from_fn(edge::operator))
            .service(read("/metrics", admin::metrics))
            .service(read("/livez", admin::livez))
            .service(read("/readyz", admin::readyz))
            .service(read("/startupz", admin::startupz))
            .service(read("/admin/v1/status", admin::status))
            .service(configuration("/admin/v1/config"))
            .service(path("/admin/v1/config/rollback", ACT).post(config::rollback))
            .service(read("/admin/v1/plugins", plugins::list))
            .service(reload("/admin/v1/plugins/reload"))
            .service(path("/admin/v1/plugins/refresh", ACT).post(plugins::refresh))
            .service(read("/admin/v1/plugins/{id:.*}", plugins::inspect))
            .service(read("/admin/v1/generations", admin::generations))
            .service(read("/admin/v1/providers", ledger::list))
            .service(path("/admin/v1/providers/{provider}/reset", ACT).post(ledger::reset))
            .service(path("/admin/v1/providers/{provider}/catalog/refresh", ACT).post(ledger::refresh_catalog))
            .service(kept_sessions("/admin/v1/sessions"))
            .service(
                path("/admin/v1/sessions/{id}", KEEP)
                    .get(kept::get)
                    .head(kept::get)
                    .delete(kept::delete),
            )
            .service(read("/admin/v1/sessions/{id}/export", kept::export))
            .service(path("/admin/v1/state/backup", ACT).post(kept::backup))
            .default_service(web::to(error::not_found)),
    );
}

/// A path that knows which methods it takes.
fn path(path: &str, methods: &'static str) -> Resource {
    web::resource(path).default_service(web::to(move |request: HttpRequest| {
        error::other_method(request, methods)
    }))
}

fn read_or_delete(at: &str) -> Resource {
    path(at, KEEP)
        .get(responses::get)
        .head(responses::get)
        .delete(responses::delete)
}

fn reload(at: &str) -> Resource {
    path(at, LOOK_AND_ACT)
        .app_data(plugins::asked())
        .get(plugins::progress)
        .head(plugins::progress)
        .post(plugins::reload)
}

fn session(at: &str) -> Resource {
    path(at, CHANGE)
        .get(sessions::get)
        .head(sessions::get)
        .patch(sessions::choose)
        .delete(sessions::delete)
}

fn kept_sessions(at: &str) -> Resource {
    path(at, LOOK_AND_ACT)
        .get(kept::list)
        .head(kept::list)
        .post(kept::import)
}

fn configuration(at: &str) -> Resource {
    path(at, REPLACE)
        .app_data(config::payload())
        .get(config::get)
        .head(config::get)
        .put(config::put)
}

fn read<F, Args>(at: &str, handler: F) -> Resource
where
    F: Handler<Args> + Clone,
    Args: FromRequest + 'static,
    F::Output: Responder + 'static,
{
    path(at, READ).get(handler.clone()).head(handler)
}
