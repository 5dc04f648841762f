//! A call made into the bytes that go over the wire, and when: pure.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::answer::MadeAnswer;
use super::asked::Asked;
use super::call::{Call, Connect, Content, Piece, Then};

/// Everything that is sent to one request.
#[derive(Debug)]
pub(crate) struct Response {
    /// The status in the first piece; `None` when nothing, or no status line, is sent.
    pub(crate) status: Option<u16>,
    /// Network writes in order, the head first.
    pub(crate) pieces: Vec<Piece>,
    /// What follows the last piece.
    pub(crate) then: Then,
    /// Whether the connection can carry another request after a proper end.
    pub(crate) reusable: bool,
}

/// How the body's end is told to the client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Chunked,
    Length,
    /// As the script's own headers say, or not at all.
    Bare,
}

/// The body before it is framed.
struct Draft {
    delay: Duration,
    status: u16,
    headers: Vec<(String, String)>,
    pieces: Vec<Piece>,
}

impl Response {
    /// What `call` sends to a request that asks this and is the target's `number`-th.
    ///
    /// A refusal or a black hole that meets a connection already open becomes a reset or a silence without a byte.
    pub(crate) fn new(call: &Call, asked: &Asked<'_>, number: u64) -> Self {
        match call.connect {
            Connect::Accept => Self::framed(call, Draft::new(call, asked, number)),
            Connect::Refuse => Self::without_a_byte(Then::Reset),
            Connect::Blackhole => Self::without_a_byte(Then::Hang),
        }
    }

    /// An error of the simulator itself.
    pub(crate) fn error(status: u16, code: &str, message: &str) -> Self {
        let error = json!({ "type": "simulator_error", "code": code, "message": message });
        Self::json(status, &json!({ "error": error }))
    }

    /// A JSON body.
    pub(crate) fn json(status: u16, body: &serde_json::Value) -> Self {
        let body = body.to_string();
        let length = body.len();
        let reason = reason_phrase(status);
        let bytes = format!(
            "HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        Self {
            status: Some(status),
            pieces: vec![Piece::once(Duration::ZERO, bytes)],
            then: Then::Close,
            reusable: true,
        }
    }

    fn without_a_byte(then: Then) -> Self {
        Self {
            status: None,
            pieces: Vec::new(),
            then,
            reusable: false,
        }
    }

    fn framed(call: &Call, mut draft: Draft) -> Self {
        let then = call.then.unwrap_or_default();
        let framing = draft.framing(call.head);
        match framing {
            Framing::Chunked => draft.chunk(then),
            Framing::Length => draft.announce_length(then),
            Framing::Bare => {}
        }
        let mut pieces = draft.pieces;
        if call.head {
            let head = head(draft.status, &draft.headers);
            let joins = |body: &&mut Piece| body.after.is_zero() && body.count == 1;
            match pieces.first_mut().filter(joins) {
                Some(body) if framing == Framing::Length => {
                    *body = Piece::once(draft.delay, [head.as_bytes(), &body.bytes].concat());
                }
                Some(_) | None => pieces.insert(0, Piece::once(draft.delay, head)),
            }
        } else {
            pieces.insert(0, Piece::once(draft.delay, Bytes::new()));
        }
        Self {
            status: call.head.then_some(draft.status),
            pieces,
            then,
            reusable: framing != Framing::Bare,
        }
    }
}

impl Draft {
    fn new(call: &Call, asked: &Asked<'_>, number: u64) -> Self {
        let headers = call.headers.iter();
        let mut draft = Self {
            delay: call.delay,
            status: call.status.unwrap_or(200),
            headers: headers.map(|(k, v)| (k.clone(), v.clone())).collect(),
            pieces: Vec::new(),
        };
        match &call.content {
            Content::Body(body) => draft.pieces.push(Piece::once(Duration::ZERO, body.clone())),
            Content::Timed(pieces) => draft.pieces.clone_from(pieces),
            Content::Answer(answer) => {
                let answer = MadeAnswer::new(answer, asked, number);
                if asked.stream() {
                    draft.pieces = answer.frames();
                    draft.default_type("text/event-stream");
                } else {
                    let (takes, body) = answer.whole();
                    draft.delay += takes;
                    draft.pieces.push(Piece::once(Duration::ZERO, body));
                    draft.default_type("application/json");
                }
            }
            // replaced by its content at the start
            Content::Recording(_) => {}
        }
        draft
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(it, _)| it.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    fn default_type(&mut self, media_type: &str) {
        if self.header("content-type").is_none() {
            self.headers.push(("content-type".into(), media_type.into()));
        }
    }

    /// A script that writes framing headers, or no head, frames for itself.
    fn framing(&self, head: bool) -> Framing {
        let own = ["content-length", "transfer-encoding"];
        let stream = self
            .header("content-type")
            .is_some_and(|media_type| media_type.starts_with("text/event-stream"));
        if !head || own.iter().any(|name| self.header(name).is_some()) {
            Framing::Bare
        } else if self.status == 200 && stream {
            Framing::Chunked
        } else {
            Framing::Length
        }
    }

    /// One chunk a write, and the last one if the body is to end.
    fn chunk(&mut self, then: Then) {
        self.headers.push(("transfer-encoding".into(), "chunked".into()));
        for piece in &mut self.pieces {
            // an empty chunk would end the body
            if !piece.bytes.is_empty() {
                let size = format!("{:x}\r\n", piece.bytes.len());
                piece.bytes = Bytes::from([size.as_bytes(), &piece.bytes, b"\r\n"].concat());
            }
        }
        if then == Then::Close {
            self.pieces.push(Piece::once(Duration::ZERO, "0\r\n\r\n"));
        }
    }

    /// The length of the body, and one byte more if the body must not end.
    fn announce_length(&mut self, then: Then) {
        let pieces = self.pieces.iter();
        let sent: u64 = pieces.map(|it| it.bytes.len() as u64 * u64::from(it.count)).sum();
        let length = match then {
            Then::Close => sent,
            Then::Reset | Then::Hang => sent + 1,
        };
        self.headers.push(("content-length".into(), length.to_string()));
    }
}

fn head(status: u16, headers: &[(String, String)]) -> String {
    let mut head = format!("HTTP/1.1 {status} {}\r\n", reason_phrase(status));
    for (name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head + "\r\n"
}

/// The usual words behind a status; any will do.
fn reason_phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        529 => "Overloaded",
        _ => "Scripted",
    }
}

#[cfg(test)]
mod tests;
