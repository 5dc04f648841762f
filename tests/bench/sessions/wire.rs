//! HTTP/1.1 as plain as it gets, on connections that are kept: it shall cost little beside what is measured.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use httparse::{EMPTY_HEADER, Header, Request, Response, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How much is read at once: more than most messages.
const READ: usize = 8 << 10;

/// A request or a response. Both have a content length.
pub struct Message {
    /// The status; of a request 0.
    pub status: u16,
    /// What follows the head.
    pub body: Bytes,
}

/// What has been received on one connection, and was not looked at.
#[derive(Default)]
pub struct Received(BytesMut);

impl Received {
    /// The next message, whole; `None` when the connection has ended.
    pub async fn next(&mut self, connection: &mut TcpStream) -> Option<Message> {
        loop {
            if let Some(message) = self.take() {
                return Some(message);
            }
            self.0.reserve(READ);
            if !matches!(connection.read_buf(&mut self.0).await, Ok(1..)) {
                return None;
            }
        }
    }

    fn take(&mut self) -> Option<Message> {
        let mut headers = [EMPTY_HEADER; 32];
        let (head, status, length) = match self.0.starts_with(b"HTTP/") {
            true => {
                let mut response = Response::new(&mut headers);
                let head = response.parse(&self.0).expect("HTTP");
                (head, response.code.unwrap_or_default(), length(response.headers))
            }
            false => {
                let mut request = Request::new(&mut headers);
                let head = request.parse(&self.0).expect("HTTP");
                (head, 0, length(request.headers))
            }
        };
        let Status::Complete(head) = head else { return None };
        if self.0.len() < head + length {
            return None;
        }
        let body = self.0.split_to(head + length).freeze().slice(head..);
        Some(Message { status, body })
    }
}

fn length(headers: &[Header<'_>]) -> usize {
    let found = headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let text = found.and_then(|header| std::str::from_utf8(header.value).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// What there is at a path.
pub async fn get(address: SocketAddr, path: &str) -> String {
    let mut connection = TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n");
    connection.write_all(request.as_bytes()).await.expect("it reads");
    let response = Received::default().next(&mut connection).await.expect("it answers");
    String::from_utf8_lossy(&response.body).into_owned()
}
