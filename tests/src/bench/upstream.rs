//! The upstream: answers at once, always the same; well under `/ok`, overloaded under `/bad`.

use std::sync::LazyLock;

use actix_web::http::StatusCode;
use actix_web::{App, HttpResponse, HttpServer, web};
use bytes::Bytes;
use futures::stream;

/// The argument that makes this program the upstream.
pub const ROLE: &str = "upstream";
/// The model that it serves.
pub const MODEL: &str = "m";
/// The events of one stream, from the first chunk to `[DONE]`.
pub const EVENTS: usize = CHUNKS + 3;

/// Chunks with content in one stream.
const CHUNKS: usize = 20;
const OVERLOADED: &str =
    r#"{"error":{"message":"Overloaded. Try again later.","type":"server_error","code":"server_is_overloaded"}}"#;

/// The whole answer.
pub static ANSWER: LazyLock<Bytes> = LazyLock::new(|| {
    let said = "The understudy knows every line of the play and waits in the wings, every night, for the lead to fail.";
    let answer = format!(
        r#"{{"id":"chatcmpl-bench","object":"chat.completion","created":1760000000,"model":"{MODEL}","choices":[{{"index":0,"message":{{"role":"assistant","content":"{said}","refusal":null}},"logprobs":null,"finish_reason":"stop"}}],"usage":{{"prompt_tokens":171,"completion_tokens":22,"total_tokens":193}},"system_fingerprint":"fp_bench"}}"#
    );
    Bytes::from(answer)
});

/// The frames of the streamed answer.
pub static FRAMES: LazyLock<Vec<Bytes>> = LazyLock::new(|| frames(CHUNKS, true));

/// The frames of a stream of so many chunks with content; `usage`: with a report of tokens before `[DONE]`.
pub fn frames(chunks: usize, usage: bool) -> Vec<Bytes> {
    let contents =
        (0..chunks).map(|n| format!(r#"[{{"index":0,"delta":{{"content":" word{n}"}},"finish_reason":null}}]"#));
    let finish = r#"[{"index":0,"delta":{},"finish_reason":"stop"}]"#.to_owned();
    let none = if usage { r#","usage":null"# } else { "" };
    let mut frames: Vec<Bytes> = contents.chain([finish]).map(|choices| frame(&choices, none)).collect();
    if usage {
        let tokens = r#","usage":{"prompt_tokens":171,"completion_tokens":22,"total_tokens":193}"#;
        frames.push(frame("[]", tokens));
    }
    frames.push(Bytes::from_static(b"data: [DONE]\n\n"));
    frames
}

fn frame(choices: &str, usage: &str) -> Bytes {
    let frame = format!(
        r#"data: {{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1760000000,"model":"{MODEL}","choices":{choices}{usage}}}"#
    );
    Bytes::from(frame + "\n\n")
}

/// Serves for ever on a free port, and says where.
pub fn serve() {
    let served = actix_web::rt::System::new().block_on(async {
        let server = HttpServer::new(|| {
            App::new()
                .app_data(web::PayloadConfig::new(1 << 20))
                .route("/ok/v1/chat/completions", web::post().to(answer))
                .route("/bad/v1/chat/completions", web::post().to(refuse))
        });
        let server = server.workers(1).tcp_nodelay(true).bind(("127.0.0.1", 0))?;
        println!("{}", serde_json::json!({ "api": server.addrs()[0] }));
        server.run().await
    });
    served.expect("the upstream serves");
}

async fn answer(request: Bytes) -> HttpResponse {
    if memchr::memmem::find(&request, br#""stream":true"#).is_none() {
        return HttpResponse::Ok().content_type("application/json").body(ANSWER.clone());
    }
    let frames = FRAMES.iter().cloned().map(Ok::<_, actix_web::Error>);
    HttpResponse::Ok()
        .content_type("text/event-stream")
        .streaming(stream::iter(frames))
}

async fn refuse(_read_to_its_end: Bytes) -> HttpResponse {
    let mut response = HttpResponse::build(StatusCode::SERVICE_UNAVAILABLE);
    response.content_type("application/json").body(OVERLOADED)
}
