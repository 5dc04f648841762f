//! `GET /admin/v1/plugins`

use actix_web::{HttpResponse, web};

use crate::app::Shared;

/// Every plugin, and what people should know about them.
pub(super) async fn list(shared: web::Data<Shared>) -> HttpResponse {
    let serving = shared.published.load();
    HttpResponse::Ok().json(serving.map(|serving| serving.inventory.report()))
}
