//! Reading HTTP/1.1 requests: heads, sized and chunked bodies, all bounded.
//!
//! A server of our own, because a simulated upstream must control every write and every way to break off.
//! Neither pipelining nor `expect: 100-continue` is answered.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use httparse::Status;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::headers::RequestHeaders;

/// The largest request body, in bytes.
pub(crate) const MAX_BODY: usize = 32 * 1024 * 1024;
/// The largest head, chunk line or block of trailers, in bytes.
const MAX_HEAD: usize = 64 * 1024;
const MAX_HEADERS: usize = 128;

/// One request, whole.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: RequestHeaders,
    pub(crate) body: Bytes,
    /// Whether the client wants to use the connection again.
    pub(crate) keep_alive: bool,
}

/// Why there is no request to answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadRequestError {
    #[error("the client left within a request")]
    Left,
    #[error("the connection broke")]
    Broken(#[from] io::Error),
    #[error("the request is not HTTP/1.1")]
    Malformed,
    #[error("the request is larger than the simulator takes")]
    TooLarge,
}

struct Head {
    request: Request,
    body: BodyLength,
}

enum BodyLength {
    Sized(usize),
    Chunked,
}

/// Reads the next request; `None` when the client closed between two. What was read too far stays in `buffer`.
pub(crate) async fn read_request<R: AsyncRead + Unpin>(
    reader: &mut R,
    buffer: &mut BytesMut,
) -> Result<Option<Request>, ReadRequestError> {
    let head = loop {
        if let Some(head) = parse_head(buffer)? {
            break head;
        }
        if buffer.len() > MAX_HEAD {
            return Err(ReadRequestError::TooLarge);
        }
        match fill(reader, buffer).await {
            Err(ReadRequestError::Left) if buffer.is_empty() => return Ok(None),
            filled => filled?,
        }
    };
    let body = match head.body {
        BodyLength::Sized(length) => read_sized(reader, buffer, length).await?,
        BodyLength::Chunked => read_chunked(reader, buffer).await?,
    };
    Ok(Some(Request { body, ..head.request }))
}

/// The head at the front of the buffer, taken off it; `None` while it is not whole.
fn parse_head(buffer: &mut BytesMut) -> Result<Option<Head>, ReadRequestError> {
    let mut slots = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut parsed = httparse::Request::new(&mut slots);
    let length = match parsed.parse(buffer) {
        Ok(Status::Complete(length)) => length,
        Ok(Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(ReadRequestError::TooLarge),
        Err(_) => return Err(ReadRequestError::Malformed),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields = parsed.headers.iter();
    let headers: RequestHeaders = fields.map(|it| (it.name.to_owned(), text(it.value))).collect();
    let says = |name, word: &str| {
        let value = headers.raw(name).unwrap_or_default();
        value.to_ascii_lowercase().contains(word)
    };
    let keep_alive = parsed.version == Some(1) && !says("connection", "close");
    let body = body_length(says("transfer-encoding", "chunked"), headers.raw("content-length"))?;
    let request = Request {
        method: parsed.method.unwrap_or_default().to_owned(),
        path: parsed.path.unwrap_or_default().to_owned(),
        keep_alive,
        headers,
        body: Bytes::new(),
    };
    buffer.advance(length);
    Ok(Some(Head { request, body }))
}

fn body_length(chunked: bool, length: Option<&str>) -> Result<BodyLength, ReadRequestError> {
    if chunked {
        return Ok(BodyLength::Chunked);
    }
    let length: usize = match length.map(str::parse) {
        None => 0,
        Some(Ok(length)) => length,
        Some(Err(_)) => return Err(ReadRequestError::Malformed),
    };
    if length > MAX_BODY {
        return Err(ReadRequestError::TooLarge);
    }
    Ok(BodyLength::Sized(length))
}

async fn read_sized<R: AsyncRead + Unpin>(
    reader: &mut R,
    buffer: &mut BytesMut,
    length: usize,
) -> Result<Bytes, ReadRequestError> {
    while buffer.len() < length {
        fill(reader, buffer).await?;
    }
    Ok(buffer.split_to(length).freeze())
}

async fn read_chunked<R: AsyncRead + Unpin>(reader: &mut R, buffer: &mut BytesMut) -> Result<Bytes, ReadRequestError> {
    let mut body = BytesMut::new();
    loop {
        let size = read_chunk_size(reader, buffer).await?;
        if size == 0 {
            skip_trailers(reader, buffer).await?;
            return Ok(body.freeze());
        }
        if size > MAX_BODY - body.len() {
            return Err(ReadRequestError::TooLarge);
        }
        body.extend_from_slice(&read_sized(reader, buffer, size).await?);
        if read_sized(reader, buffer, 2).await? != "\r\n" {
            return Err(ReadRequestError::Malformed);
        }
    }
}

async fn read_chunk_size<R: AsyncRead + Unpin>(
    reader: &mut R,
    buffer: &mut BytesMut,
) -> Result<usize, ReadRequestError> {
    loop {
        match httparse::parse_chunk_size(buffer) {
            Ok(Status::Complete((line, size))) => {
                buffer.advance(line);
                return usize::try_from(size).map_err(|_| ReadRequestError::TooLarge);
            }
            Ok(Status::Partial) if buffer.len() > MAX_HEAD => {
                return Err(ReadRequestError::TooLarge);
            }
            Ok(Status::Partial) => fill(reader, buffer).await?,
            Err(httparse::InvalidChunkSize) => return Err(ReadRequestError::Malformed),
        }
    }
}

/// Reads up to and with the empty line that ends a chunked body.
async fn skip_trailers<R: AsyncRead + Unpin>(reader: &mut R, buffer: &mut BytesMut) -> Result<(), ReadRequestError> {
    let mut skipped = 0;
    loop {
        match memchr::memchr(b'\n', buffer) {
            Some(end) => {
                let line = buffer.split_to(end + 1);
                skipped += line.len();
                if line.as_ref() == b"\r\n" {
                    return Ok(());
                }
            }
            None => fill(reader, buffer).await?,
        }
        if skipped + buffer.len() > MAX_HEAD {
            return Err(ReadRequestError::TooLarge);
        }
    }
}

/// Reads more into the buffer.
async fn fill<R: AsyncRead + Unpin>(reader: &mut R, buffer: &mut BytesMut) -> Result<(), ReadRequestError> {
    buffer.reserve(8 * 1024);
    match reader.read_buf(buffer).await? {
        0 => Err(ReadRequestError::Left),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use proptest::prelude::*;

    use super::*;

    async fn read(bytes: &[u8]) -> Result<Option<Request>, ReadRequestError> {
        read_request(&mut &bytes[..], &mut BytesMut::new()).await
    }

    #[tokio::test]
    async fn a_chunked_body_is_read_with_its_extensions_and_trailers() {
        let wire = b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
            3;x=1\r\nabc\r\n2\r\nde\r\n0\r\nt: 1\r\n\r\nGET";
        let (mut reader, mut buffer) = (&wire[..], BytesMut::new());
        let request = read_request(&mut reader, &mut buffer).await;
        let request = request.expect("reads").expect("is there");
        assert_eq!(request.body, "abcde");
        assert_eq!(&buffer[..], b"GET");
    }

    #[tokio::test]
    async fn a_client_that_leaves_within_a_body_is_no_request() {
        let cut = read(b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nabc").await;
        assert!(matches!(cut, Err(ReadRequestError::Left)));
        assert!(matches!(read(b"").await, Ok(None)));
    }

    #[tokio::test]
    async fn a_body_beyond_the_bound_is_refused_before_it_is_read() {
        let sized = format!("POST / HTTP/1.1\r\ncontent-length: {}\r\n\r\n", MAX_BODY + 1);
        let refused = read(sized.as_bytes()).await;
        assert!(matches!(refused, Err(ReadRequestError::TooLarge)));
        let chunked = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nfffffff\r\n";
        let refused = read(chunked).await;
        assert!(matches!(refused, Err(ReadRequestError::TooLarge)));
    }

    #[tokio::test]
    async fn an_endless_head_is_refused() {
        let mut wire = b"POST / HTTP/1.1\r\nx: ".to_vec();
        wire.resize(2 * MAX_HEAD, b'x');
        assert!(matches!(read(&wire).await, Err(ReadRequestError::TooLarge)));
    }

    #[tokio::test]
    async fn a_wrong_chunk_end_is_malformed() {
        let wire = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc";
        assert!(matches!(read(wire).await, Err(ReadRequestError::Malformed)));
    }

    proptest! {
        #[test]
        fn a_body_cut_into_any_chunks_is_whole_again(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..20),
        ) {
            let mut wire = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
            for part in &parts {
                wire.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                wire.extend_from_slice(part);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(b"0\r\n\r\n");
            let request = read(&wire).now_or_never().expect("is ready").expect("reads");
            prop_assert_eq!(&request.expect("is there").body[..], parts.concat());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(read(&bytes).now_or_never().is_some());
        }
    }
}
