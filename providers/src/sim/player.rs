//! Plays a response on a connection, and notices when the client leaves meanwhile.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use understudy_messages::clock::Clock;

use super::call::Then;
use super::journal::OpenCall;
use super::response::Response;

/// The most that a client may send while its answer is being played, in bytes.
const MAX_AHEAD: usize = 64 * 1024;

/// How a played call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Played {
    /// Everything was sent.
    Whole,
    /// Everything was sent, and the connection is to be reset.
    Reset,
    /// The client left before.
    PeerLeft,
}

/// Plays `response` until its end or until the client leaves, in whatever phase. **Cancel safety:** drop ends it.
pub(crate) async fn play<R, W>(
    (reader, writer): (&mut R, &mut W),
    ahead: &mut BytesMut,
    response: &Response,
    clock: &Clock,
    call: &mut OpenCall,
) -> Played
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    tokio::select! {
        biased;
        played = send(writer, response, clock, call) => played.unwrap_or(Played::PeerLeft),
        () = peer_left(reader, ahead) => Played::PeerLeft,
    }
}

async fn send<W: AsyncWrite + Unpin>(
    writer: &mut W,
    response: &Response,
    clock: &Clock,
    call: &mut OpenCall,
) -> io::Result<Played> {
    let mut status = response.status;
    for piece in &response.pieces {
        for _ in 0..piece.count {
            if !piece.after.is_zero() {
                clock.sleep(piece.after).await;
            }
            let mut rest = &piece.bytes[..];
            while !rest.is_empty() {
                let written = writer.write(rest).await?;
                if written == 0 {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                call.wrote(status.take(), written as u64);
                rest = &rest[written..];
            }
        }
    }
    match response.then {
        Then::Close => Ok(Played::Whole),
        Then::Reset => Ok(Played::Reset),
        Then::Hang => std::future::pending().await,
    }
}

/// Waits until the client has closed or reset; what it sends until then is kept for the next request.
async fn peer_left<R: AsyncRead + Unpin>(reader: &mut R, ahead: &mut BytesMut) {
    while ahead.len() < MAX_AHEAD {
        ahead.reserve(1024);
        match reader.read_buf(ahead).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
