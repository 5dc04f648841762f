//! A request's body on its way in: bounded in size, in time, and in what all of them take together.

use std::time::Duration;

use actix_web::http::header;
use actix_web::{HttpRequest, web};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use understudy_messages::terminal::TurnFailure;

use crate::app::Shared;

/// How long a request's body may take to arrive.
const WAIT: Duration = Duration::from_secs(60);
/// What bodies that are still arriving may take together, in KiB; one of the largest size always fits.
const ARRIVING: usize = 512 << 10;
/// The most memory that is set aside because a head announced that much.
const ON_CREDIT: usize = 64 << 10;
const KIB: usize = 1024;

/// The permits of bodies that are still arriving, in KiB, where one may have `limit` bytes.
pub(crate) fn arriving(limit: usize) -> usize {
    ARRIVING.max(limit.div_ceil(KIB))
}

/// Reads the whole body. A client that announces no length is taken to send the most that it may.
pub(super) async fn read(shared: &Shared, request: &HttpRequest, payload: web::Payload) -> Result<Bytes, TurnFailure> {
    read_up_to(shared, request, payload, shared.config.settings.limits.body).await
}

/// The same, where a body may not have more than `limit` bytes.
pub(super) async fn read_up_to(
    shared: &Shared,
    request: &HttpRequest,
    payload: web::Payload,
    limit: usize,
) -> Result<Bytes, TurnFailure> {
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let announced: usize = announced.unwrap_or(limit);
    if announced > limit {
        return Err(too_large(limit));
    }
    let room = u32::try_from(announced.div_ceil(KIB)).unwrap_or(u32::MAX);
    let _room = shared.arriving.try_acquire_many(room).map_err(|_| {
        TurnFailure::ours(
            503,
            "gateway_busy",
            "Too many large requests are arriving at the same time.",
        )
    })?;
    let deadline = shared.clock.now() + WAIT;
    let too_slow = |_| TurnFailure::ours(408, "body_timeout", "The request's body did not arrive in time.");
    let read = shared.clock.timeout_at(deadline, collect(announced, payload, limit));
    read.await.map_err(too_slow)?
}

/// Takes the memory that the body needs and no more: it is kept as long as its turn.
async fn collect(announced: usize, mut payload: web::Payload, limit: usize) -> Result<Bytes, TurnFailure> {
    let mut body = BytesMut::with_capacity(announced.min(ON_CREDIT));
    while let Some(bytes) = payload.next().await {
        let broken = |_| TurnFailure::ours(400, "body_unreadable", "The request's body broke off.");
        let bytes = bytes.map_err(broken)?;
        if bytes.len() > limit - body.len() {
            return Err(too_large(limit));
        }
        body.extend_from_slice(&bytes);
    }
    Ok(body.freeze())
}

fn too_large(limit: usize) -> TurnFailure {
    let hint = format!("The request's body is larger than {limit} bytes, more than limits.body or this path takes.");
    TurnFailure::ours(413, "body_too_large", &hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_body_of_the_largest_size_always_fits() {
        assert_eq!(arriving(20_000_000), ARRIVING);
        assert_eq!(arriving(1 << 30), 1 << 20);
    }
}
