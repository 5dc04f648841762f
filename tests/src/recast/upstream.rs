//! The model, and the service behind the plugin that is a webhook: one server.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use actix_web::dev::ServerHandle;
use actix_web::{App, HttpResponse, HttpServer, web};
use bytes::Bytes;
use futures::StreamExt;
use serde_json::{Value, json};
use understudy_messages::clock::Clock;

use super::plugins::{PLUGINS, WEBHOOK, answer, stamp, tool};

/// The frames of text in an answer, and the time before each: two answers make a turn of 200 ms.
const FRAMES: u32 = 4;
const BETWEEN: Duration = Duration::from_millis(25);

/// The server, in a thread of its own. Dropped, it stops.
pub struct Service {
    pub origin: String,
    server: ServerHandle,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    pub fn start(clock: Clock) -> Self {
        let (up, is_up) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let served = actix_web::rt::System::new().block_on(async move {
                let server = HttpServer::new(move || {
                    App::new()
                        .app_data(web::Data::new(clock.clone()))
                        .app_data(web::PayloadConfig::new(1 << 20))
                        .route("/v1/chat/completions", web::post().to(play))
                        .route("/hooks/{instance}", web::post().to(guard))
                });
                let server = server.workers(1).tcp_nodelay(true).disable_signals();
                let server = server.bind(("127.0.0.1", 0))?;
                let address = server.addrs()[0];
                let server = server.run();
                up.send((address, server.handle())).expect("somebody waits");
                server.await
            });
            served.expect("it serves");
        });
        let (address, server) = is_up.recv().expect("it is up");
        Self {
            origin: format!("http://{address}"),
            server,
            thread: Some(thread),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.server.stop(false));
        if let Some(thread) = self.thread.take() {
            let _its_panic_was_printed = thread.join();
        }
    }
}

/// First calls a tool of every plugin; once it has heard of them, says which stamps it has seen.
async fn play(clock: web::Data<Clock>, request: Bytes) -> HttpResponse {
    let asked = String::from_utf8_lossy(&request);
    let frames = match asked.contains(r#""role":"tool""#) {
        false => stream_of("let me see", Some(calls())),
        true => stream_of(&stamps(&asked).concat(), None),
    };
    let paced = futures::stream::iter(frames).then(move |(wait, frame)| {
        let clock = clock.clone();
        async move {
            clock.sleep(wait).await;
            Ok::<_, actix_web::Error>(frame)
        }
    });
    HttpResponse::Ok().content_type("text/event-stream").streaming(paced)
}

/// What stands between double brackets, in order.
pub fn stamps(text: &str) -> Vec<String> {
    let parts = text.split("[[").skip(1);
    let insides = parts.filter_map(|part| part.split_once("]]"));
    insides.map(|(inside, _)| format!("[[{inside}]]")).collect()
}

fn calls() -> Value {
    let call = |(index, plugin): (usize, &&str)| {
        let function = json!({ "name": tool(plugin), "arguments": "{}" });
        json!({ "index": index, "id": format!("call_{index}"), "type": "function", "function": function })
    };
    PLUGINS.iter().enumerate().map(call).collect()
}

fn stream_of(text: &str, calls: Option<Value>) -> Vec<(Duration, Bytes)> {
    let mut deltas = vec![(BETWEEN, json!({ "role": "assistant", "content": "" }))];
    deltas.extend((2..FRAMES).map(|_| (BETWEEN, json!({ "content": "" }))));
    deltas.push((BETWEEN, json!({ "content": text })));
    let reason = if calls.is_some() { "tool_calls" } else { "stop" };
    deltas.extend(calls.map(|calls| (Duration::ZERO, json!({ "tool_calls": calls }))));
    let mut frames: Vec<(Duration, Bytes)> = deltas
        .into_iter()
        .map(|(wait, delta)| (wait, frame(&delta, None)))
        .collect();
    frames.push((Duration::ZERO, frame(&json!({}), Some(reason))));
    frames.push((Duration::ZERO, Bytes::from_static(b"data: [DONE]\n\n")));
    frames
}

fn frame(delta: &Value, reason: Option<&str>) -> Bytes {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
    let chunk =
        json!({ "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice] });
    format!("data: {chunk}\n\n").into()
}

async fn guard(instance: web::Path<u32>, call: web::Json<Value>) -> HttpResponse {
    let hook = call["hook"].as_str().expect("a hook");
    HttpResponse::Ok().json(answer(hook, &stamp(WEBHOOK, instance)))
}
