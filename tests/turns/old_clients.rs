//! Clients and proxies that speak HTTP/1.0: they know no chunks.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::stage::{DONE, Stage, finish, question, stream, text};

/// Everything that comes back until the gateway closes the connection.
async fn speak(stage: &Stage, request: String) -> String {
    let address = stage.gateway.api("").replace("http://", "");
    let mut socket = TcpStream::connect(address).await.expect("a connection");
    socket.write_all(request.as_bytes()).await.expect("sent");
    let mut response = String::new();
    socket.read_to_string(&mut response).await.expect("a response");
    response
}

#[tokio::test]
async fn a_stream_to_an_http_1_0_client_has_no_chunks_and_ends_with_the_connection() {
    let call = stream([&*text("once"), &finish(), DONE], "close");
    let stage = Stage::set(json!({ "a/m": { "calls": [call] } })).await;
    let body = question(true).to_string();
    for connection in ["close", "keep-alive"] {
        let response = speak(
            &stage,
            format!(
                "POST /v1/chat/completions HTTP/1.0\r\nconnection: {connection}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ),
        )
        .await;
        let (head, body) = response.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.0 200"), "{head}");
        assert!(!head.contains("transfer-encoding"), "{head}");
        assert_eq!(body, [text("once"), finish(), DONE.to_owned()].concat());
    }
}
