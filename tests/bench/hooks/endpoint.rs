//! The service behind a quiet plugin that is a webhook.

use actix_web::{App, HttpResponse, HttpServer, web};
use bytes::Bytes;

/// The argument that makes this program the service.
pub const ROLE: &str = "endpoint";

/// Serves for ever on a free port, and says where.
pub fn serve() {
    let served = actix_web::rt::System::new().block_on(async {
        let server = HttpServer::new(|| {
            App::new()
                .app_data(web::PayloadConfig::new(1 << 20))
                .default_service(web::to(say_nothing))
        });
        let server = server.workers(1).tcp_nodelay(true).bind(("127.0.0.1", 0))?;
        println!("{}", serde_json::json!({ "api": server.addrs()[0] }));
        server.run().await
    });
    served.expect("the service serves");
}

async fn say_nothing(_read_to_its_end: Bytes) -> HttpResponse {
    HttpResponse::NoContent().finish()
}
