//! One connection to a gateway: HTTP/1.1 as plain as it gets, so that the driver costs little.

use std::io;
use std::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};
use httparse::{EMPTY_HEADER, Header, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How much is read at once.
const READ: usize = 8 << 10;
/// The longest head of a response.
const LONGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 64;

/// Why a request has no whole response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the connection failed")]
    Io(#[from] io::Error),
    #[error("the response ended early")]
    Early,
    #[error("the response is not HTTP/1.1")]
    Garbled,
}

/// A connection that is kept.
pub(crate) struct Connection {
    stream: TcpStream,
    received: BytesMut,
}

/// What a response begins with.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// How many models were asked, as the gateway tells.
    pub(crate) attempts: u32,
    /// When to come back, in seconds.
    pub(crate) retry_after: Option<u64>,
    /// Whether it is a stream of events.
    pub(crate) events: bool,
    /// Whether the connection can carry another request.
    pub(crate) keep: bool,
    /// What is still to come.
    pub(crate) body: Left,
}

/// What is left of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    Bytes(u64),
    /// The size of a chunk comes next.
    Size,
    /// The rest of a chunk.
    Chunk(u64),
    /// The line end behind a chunk.
    ChunkEnd,
    /// The line end behind the last one.
    LastEnd,
    UntilClosed,
    Nothing,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, Broken> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            received: BytesMut::new(),
        })
    }

    pub(crate) async fn send(&mut self, request: &[u8]) -> Result<(), Broken> {
        Ok(self.stream.write_all(request).await?)
    }

    /// Reads up to the body. Headers of other lengths than a gateway's are refused.
    pub(crate) async fn head(&mut self) -> Result<Head, Broken> {
        loop {
            if let Some((length, head)) = head(&self.received)? {
                self.received.advance(length);
                if head.status >= 200 {
                    return Ok(head);
                }
            } else if self.received.len() > LONGEST_HEAD {
                return Err(Broken::Garbled);
            } else if self.read().await? == 0 {
                return Err(Broken::Early);
            }
        }
    }

    /// The next piece of a body, `None` behind the last one.
    pub(crate) async fn piece(&mut self, left: &mut Left) -> Result<Option<Bytes>, Broken> {
        loop {
            if let Some(piece) = cut(&mut self.received, left)? {
                return Ok(Some(piece));
            }
            if *left == Left::Nothing {
                return Ok(None);
            }
            if self.read().await? == 0 {
                return match left {
                    Left::UntilClosed => Ok(None),
                    Left::Bytes(_) | Left::Size | Left::Chunk(_) | Left::ChunkEnd | Left::LastEnd | Left::Nothing => {
                        Err(Broken::Early)
                    }
                };
            }
        }
    }

    async fn read(&mut self) -> Result<usize, Broken> {
        self.received.reserve(READ);
        Ok(self.stream.read_buf(&mut self.received).await?)
    }
}

/// The head that stands at the beginning, and its length; `None` as long as it is not whole.
fn head(received: &[u8]) -> Result<Option<(usize, Head)>, Broken> {
    let mut headers = [EMPTY_HEADER; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let Status::Complete(length) = response.parse(received).map_err(|_| Broken::Garbled)? else {
        return Ok(None);
    };
    let says = |name, word| value(response.headers, name).is_some_and(|it| contains(it, word));
    let body = match number(response.headers, "content-length") {
        _ if says("transfer-encoding", "chunked") => Left::Size,
        Some(0) => Left::Nothing,
        Some(length) => Left::Bytes(length),
        None => Left::UntilClosed,
    };
    let head = Head {
        status: response.code.unwrap_or_default(),
        attempts: number(response.headers, "x-understudy-attempts").map_or(1, |it| u32::try_from(it).unwrap_or(1)),
        retry_after: number(response.headers, "retry-after"),
        events: says("content-type", "text/event-stream"),
        keep: body != Left::UntilClosed && !says("connection", "close"),
        body,
    };
    Ok(Some((length, head)))
}

fn value<'a>(headers: &[Header<'a>], name: &str) -> Option<&'a [u8]> {
    let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    header.map(|header| header.value)
}

fn number(headers: &[Header<'_>], name: &str) -> Option<u64> {
    std::str::from_utf8(value(headers, name)?).ok()?.trim().parse().ok()
}

fn contains(value: &[u8], word: &str) -> bool {
    value
        .windows(word.len())
        .any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}

/// Takes what has arrived of the body; `None` when more has to arrive, or nothing is left.
fn cut(received: &mut BytesMut, left: &mut Left) -> Result<Option<Bytes>, Broken> {
    loop {
        match *left {
            Left::Nothing => return Ok(None),
            Left::UntilClosed => return Ok((!received.is_empty()).then(|| received.split().freeze())),
            Left::Bytes(length) | Left::Chunk(length) => {
                let there = received.len().min(usize::try_from(length).unwrap_or(usize::MAX));
                let rest = length - there as u64;
                *left = match *left {
                    Left::Chunk(_) if rest == 0 => Left::ChunkEnd,
                    Left::Chunk(_) => Left::Chunk(rest),
                    _ if rest == 0 => Left::Nothing,
                    _ => Left::Bytes(rest),
                };
                return Ok((there > 0).then(|| received.split_to(there).freeze()));
            }
            Left::ChunkEnd | Left::LastEnd => {
                if received.len() < 2 {
                    return Ok(None);
                }
                if !received.starts_with(b"\r\n") {
                    return Err(Broken::Garbled);
                }
                received.advance(2);
                *left = if *left == Left::LastEnd {
                    Left::Nothing
                } else {
                    Left::Size
                };
            }
            Left::Size => match httparse::parse_chunk_size(received).map_err(|_| Broken::Garbled)? {
                Status::Partial => return Ok(None),
                Status::Complete((start, length)) => {
                    received.advance(start);
                    *left = if length == 0 {
                        Left::LastEnd
                    } else {
                        Left::Chunk(length)
                    };
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that is cut out of a body that arrives in pieces of `size`.
    fn body(bytes: &[u8], mut left: Left, size: usize) -> (Vec<u8>, Left) {
        let (mut received, mut whole) = (BytesMut::new(), Vec::new());
        for piece in bytes.chunks(size) {
            received.extend_from_slice(piece);
            while let Some(cut) = cut(&mut received, &mut left).expect("is well-formed") {
                whole.extend_from_slice(&cut);
            }
        }
        (whole, left)
    }

    #[test]
    fn a_chunked_body_is_the_same_wherever_the_reads_were_cut() {
        for size in 1..30 {
            let cut = body(b"5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\n\r\n", Left::Size, size);
            assert_eq!(cut, (b"hello, world".to_vec(), Left::Nothing), "{size}");
        }
        assert_eq!(body(b"5\r\nhel", Left::Size, 3).1, Left::Chunk(2));
    }

    #[test]
    fn a_body_with_a_length_ends_there() {
        assert_eq!(body(b"hello", Left::Bytes(5), 2), (b"hello".to_vec(), Left::Nothing));
        assert_eq!(body(b"hel", Left::Bytes(5), 2).1, Left::Bytes(2));
    }

    #[test]
    fn a_head_tells_how_its_body_ends() {
        let read = |text: &str| head(text.as_bytes()).expect("is HTTP").map(|(_, head)| head);
        assert!(read("HTTP/1.1 200 OK\r\ncontent-le").is_none());
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\nx-understudy-attempts: 2\r\n\r\n";
        let head = read(chunked).expect("is whole");
        assert_eq!(
            (head.status, head.attempts, head.events, head.keep),
            (200, 2, true, true)
        );
        assert_eq!(head.body, Left::Size);
        let closing = read("HTTP/1.1 503 No\r\nconnection: Close\r\nRetry-After: 7\r\ncontent-length: 0\r\n\r\n")
            .expect("is whole");
        assert_eq!(
            (closing.status, closing.keep, closing.body, closing.retry_after),
            (503, false, Left::Nothing, Some(7))
        );
        let old = read("HTTP/1.1 200 OK\r\n\r\n").expect("is whole");
        assert_eq!((old.keep, old.body), (false, Left::UntilClosed));
    }
}
