//! The yardstick: the barest honest forwarder in the gateway's own stack. It reads no JSON, decides nothing and counts
//! nothing; a body goes up, an answer comes down, whole or chunk by chunk.

use actix_web::http::StatusCode;
use actix_web::http::header::CONTENT_TYPE;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use bytes::Bytes;

/// The argument that makes this program the forwarder.
pub const ROLE: &str = "forwarder";

struct Forwarder {
    client: reqwest::Client,
    upstream: String,
}

/// Serves for ever on a free port, and says where.
pub fn serve(upstream: String) {
    understudy::install_tls();
    let served = actix_web::rt::System::new().block_on(async {
        let server = HttpServer::new(move || {
            let client = reqwest::Client::builder().tcp_nodelay(true).no_proxy().build();
            let forwarder = web::Data::new(Forwarder {
                client: client.expect("a client"),
                upstream: upstream.clone(),
            });
            App::new()
                .app_data(forwarder)
                .app_data(web::PayloadConfig::new(1 << 20))
                .default_service(web::to(forward))
        });
        let server = server.workers(1).tcp_nodelay(true).bind(("127.0.0.1", 0))?;
        println!("{}", serde_json::json!({ "api": server.addrs()[0] }));
        server.run().await
    });
    served.expect("the forwarder serves");
}

async fn forward(forwarder: web::Data<Forwarder>, request: HttpRequest, body: Bytes) -> HttpResponse {
    let url = format!("{}{}", forwarder.upstream, request.path());
    let asked = forwarder
        .client
        .post(url)
        .header("content-type", "application/json")
        .body(body);
    let Ok(answer) = asked.send().await else {
        return HttpResponse::BadGateway().finish();
    };
    let status = StatusCode::from_u16(answer.status().as_u16()).expect("a status is a status");
    let mut response = HttpResponse::build(status);
    if let Some(kind) = answer.headers().get("content-type") {
        response.insert_header((CONTENT_TYPE, kind.as_bytes()));
    }
    match answer.content_length() {
        None => response.streaming(answer.bytes_stream()),
        Some(_) => match answer.bytes().await {
            Ok(whole) => response.body(whole),
            Err(_broken) => HttpResponse::BadGateway().finish(),
        },
    }
}
