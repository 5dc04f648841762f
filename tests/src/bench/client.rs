//! One client's connection: HTTP/1.1 as plain as it gets, so that the client costs little, and every answer compared.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::target::Target;

/// How much is read at once: more than a whole answer.
const READ: usize = 16 << 10;

/// A connection that is kept, and the one request that it sends again and again.
pub struct Client<'a> {
    connection: TcpStream,
    request: Vec<u8>,
    received: BytesMut,
    expected: &'a [(&'a str, &'a str)],
    answer: &'a [u8],
}

impl<'a> Client<'a> {
    /// Connects to `target`; `number` names the client, `answer` is what it must get.
    pub async fn connect(target: &Target<'a>, number: usize, body: &str, answer: &'a [u8]) -> Self {
        let address = target.program.address;
        let connection = TcpStream::connect(address).await.expect("the target listens");
        connection.set_nodelay(true).expect("a TCP socket");
        let mut request = format!(
            "POST {} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            target.path,
            body.len()
        );
        if target.sessions {
            request.push_str(&format!("x-session-id: bench-{number}\r\n"));
        }
        request.push_str("\r\n");
        request.push_str(body);
        Self {
            connection,
            request: request.into_bytes(),
            received: BytesMut::with_capacity(READ),
            expected: target.expected,
            answer,
        }
    }

    /// Asks once and reads the answer to its end.
    ///
    /// # Panics
    /// When it is not the right one.
    pub async fn ask(&mut self) {
        self.connection
            .write_all(&self.request)
            .await
            .expect("the target reads");
        self.received.clear();
        loop {
            self.received.reserve(READ);
            let read = self.connection.read_buf(&mut self.received).await;
            assert_ne!(
                read.expect("the target answers"),
                0,
                "the connection was closed in mid-answer"
            );
            if self.is_whole() {
                return;
            }
        }
    }

    /// Whether the answer is there to its last byte; right it must be.
    fn is_whole(&self) -> bool {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut head = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(length) = head.parse(&self.received).expect("HTTP") else {
            return false;
        };
        let Some(body) = body(head.headers, &self.received[length..]) else {
            return false;
        };
        let said = || String::from_utf8_lossy(&self.received);
        assert_eq!(head.code, Some(200), "{}", said());
        for (name, value) in self.expected {
            assert_eq!(header(head.headers, name), Some(value.as_bytes()), "{name}: {}", said());
        }
        assert!(*body == *self.answer, "not what the upstream sent: {}", said());
        true
    }
}

/// The body, once it is whole.
fn body<'a>(headers: &[httparse::Header<'_>], received: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let Some(length) = header(headers, "content-length") else {
        return received
            .ends_with(b"\r\n0\r\n\r\n")
            .then(|| Cow::Owned(joined(received)));
    };
    let length = std::str::from_utf8(length)
        .ok()
        .and_then(|length| length.parse::<usize>().ok());
    (received.len() >= length.expect("a number")).then_some(Cow::Borrowed(received))
}

/// What the chunks of a body hold.
fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(chunks.len());
    while let Ok(httparse::Status::Complete((start, length @ 1..))) = httparse::parse_chunk_size(chunks) {
        let end = start + usize::try_from(length).expect("what fits in memory");
        joined.put_slice(&chunks[start..end]);
        chunks = &chunks[end + 2..];
    }
    joined
}

fn header<'a>(headers: &[httparse::Header<'a>], name: &str) -> Option<&'a [u8]> {
    let found = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    found.map(|header| header.value)
}
