//! `GET /admin/v1/plugins`

use actix_web::{HttpResponse, web};

use crate::app::Shared;

/// Every plugin, and what people should know about them.
pub(super) async fn list(shared: web::Data<Shared>) -> HttpResponse {
    HttpResponse::Ok().json(shared.plugins.report())
}
