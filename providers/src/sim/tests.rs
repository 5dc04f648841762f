use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::entries::{End, EndedBy, Record};
use super::*;

mod playing;
mod ports;
mod scripts;

async fn simulator(plan: Value) -> Simulator {
    simulator_on(Clock::real(), plan).await
}

async fn simulator_on(clock: Clock, plan: Value) -> Simulator {
    let plan = serde_json::from_value(plan).expect("plan parses");
    let options = SimOptions {
        clock,
        ..SimOptions::default()
    };
    Simulator::start(plan, options).await.expect("starts")
}

fn target() -> ModelRef {
    ModelRef::new("a", "m1")
}

fn client() -> reqwest::Client {
    // fails when another test was first
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy();
    client
        .connect_timeout(Duration::from_millis(200))
        .build()
        .expect("builds")
}

fn ask(client: &reqwest::Client, simulator: &Simulator, body: &Value) -> reqwest::RequestBuilder {
    let url = format!("{}/chat/completions", simulator.base_url_of(&target()));
    client.post(url).body(body.to_string())
}

fn chat(text: &str, stream: bool) -> Value {
    json!({ "model": "m1", "stream": stream, "messages": [{ "role": "user", "content": text }] })
}

async fn status(client: &reqwest::Client, simulator: &Simulator) -> u16 {
    let sent = ask(client, simulator, &chat("hi", false)).send().await;
    sent.expect("is answered").status().as_u16()
}

/// A raw connection with one request on it.
async fn raw(simulator: &Simulator) -> TcpStream {
    let mut stream = TcpStream::connect(simulator.shared).await.expect("connects");
    let body = chat("hi", true).to_string();
    let length = body.len();
    let request = format!("POST /a/v1/chat/completions HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.expect("sends");
    stream
}

async fn read_until(stream: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut read = Vec::new();
    while !read.ends_with(end) {
        let byte = stream.read_u8().await;
        read.push(byte.unwrap_or_else(|error| panic!("{error} after {read:?}")));
    }
    read
}

fn last_record(simulator: &Simulator) -> Record {
    let record = simulator.journal().read(|it| it.records().next_back().cloned());
    record.expect("there is a record")
}

async fn ended(simulator: &Simulator) -> End {
    let journal = simulator.journal();
    journal
        .wait_until(|it| it.records().next_back().is_some_and(|it| it.end.is_some()))
        .await;
    last_record(simulator).end.expect("has ended")
}
