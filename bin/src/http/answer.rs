//! From the frames of a turn to an HTTP response.

use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::{HttpResponse, HttpResponseBuilder};
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;
use understudy_messages::cancel::CancelOnDrop;
use understudy_messages::client::{AnswerHead, ClientFrame};
use understudy_messages::terminal::TurnFailure;

use super::{error, headers};

const SERVED_BY: HeaderName = HeaderName::from_static("x-understudy-served-by");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-understudy-attempts");
/// The closing frame of a stream whose provider sent none.
const DONE: &[u8] = b"data: [DONE]\n\n";

/// The receiving side of one turn. Dropping it before the end cancels the turn.
pub(super) struct Frames {
    pub(super) frames: mpsc::Receiver<ClientFrame>,
    pub(super) client_left: CancelOnDrop,
}

/// Waits for the head, then answers: whole, or as a stream.
pub(super) async fn respond(mut turn: Frames) -> HttpResponse {
    let response = match turn.frames.recv().await {
        Some(ClientFrame::Head(head)) if head.streaming => return stream(&head, turn),
        Some(ClientFrame::Head(head)) => whole(&head, &mut turn.frames).await,
        Some(ClientFrame::Failed(failure)) => error::respond(&failure, None),
        Some(ClientFrame::Data(_) | ClientFrame::End { .. }) | None => lost(),
    };
    turn.client_left.disarm();
    response
}

async fn whole(head: &AnswerHead, frames: &mut mpsc::Receiver<ClientFrame>) -> HttpResponse {
    let mut body = Bytes::new();
    loop {
        match frames.recv().await {
            Some(ClientFrame::Data(bytes)) if body.is_empty() => body = bytes,
            Some(ClientFrame::Data(bytes)) => body = [body, bytes].concat().into(),
            Some(ClientFrame::End { .. }) => return begin(head).content_type("application/json").body(body),
            Some(ClientFrame::Failed(failure)) => return error::respond(&failure, None),
            Some(ClientFrame::Head(_)) | None => return lost(),
        }
    }
}

fn stream(head: &AnswerHead, turn: Frames) -> HttpResponse {
    let body = stream::unfold(Some(turn), |turn| async move {
        let mut turn = turn?;
        let (bytes, more) = match turn.frames.recv().await? {
            ClientFrame::Data(bytes) => (bytes, true),
            ClientFrame::End { last } => (last.unwrap_or(Bytes::from_static(DONE)), false),
            ClientFrame::Failed(failure) => (error_frame(&failure), false),
            ClientFrame::Head(_) => (Bytes::new(), true),
        };
        if more {
            return Some((Ok(bytes), Some(turn)));
        }
        turn.client_left.disarm();
        Some((Ok::<_, actix_web::Error>(bytes), None))
    });
    let mut response = begin(head);
    response.content_type("text/event-stream; charset=utf-8");
    response.insert_header((header::CACHE_CONTROL, "no-cache"));
    response.insert_header((HeaderName::from_static("x-accel-buffering"), "no"));
    response.streaming(body)
}

fn begin(head: &AnswerHead) -> HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    headers::to_client(&mut response, &head.headers);
    if let Ok(served_by) = HeaderValue::from_bytes(head.served_by.to_string().as_bytes()) {
        response.insert_header((SERVED_BY, served_by));
    }
    response.insert_header((ATTEMPTS, head.attempts));
    response
}

/// The protocol's way to end a stream that is not whole: an error, and no closing frame.
fn error_frame(failure: &TurnFailure) -> Bytes {
    let mut frame = b"data: ".to_vec();
    frame.extend_from_slice(&error::body(failure, None));
    frame.extend_from_slice(b"\n\n");
    frame.into()
}

/// Conductor and session are both gone.
fn lost() -> HttpResponse {
    let hint = "The gateway lost this turn. Please try again.";
    error::respond(&TurnFailure::ours(500, "turn_lost", hint), None)
}
