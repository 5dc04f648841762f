//! Answers of the native API. A turn's last word is said when its session has kept it, so that whoever has read it finds it
//! there.

use actix_web::HttpResponse;
use actix_web::http::header::{self, HeaderName};
use bytes::Bytes;
use futures::stream;
use understudy_messages::client::{AnswerHead, ClientFrame};
use understudy_messages::request::Endpoint;
use understudy_messages::terminal::TurnFailure;
use understudy_providers::wire::Writer;

use super::answer::{Frames, begin, lost, written};
use super::error;

/// Waits for the head, then answers: whole, or as events.
pub(super) async fn respond(mut turn: Frames) -> HttpResponse {
    let response = match turn.frames.recv().await {
        Some(ClientFrame::Head(head)) if head.streaming => return events(&head, turn),
        Some(ClientFrame::Head(head)) => whole(&head, &mut turn).await,
        Some(ClientFrame::Failed(failure)) => failed(&mut turn, &failure).await,
        Some(_) | None => lost(Endpoint::Native),
    };
    turn.client_left.disarm();
    response
}

fn events(head: &AnswerHead, turn: Frames) -> HttpResponse {
    let writer = turn.writer(head);
    let body = stream::unfold(Some((turn, writer)), |turn| async move {
        let (mut turn, mut writer) = turn?;
        loop {
            let frame = turn.frames.recv().await?;
            if let ClientFrame::End { .. } | ClientFrame::Failed(_) = frame {
                let last = last_words(&mut turn, &mut writer, frame).await;
                turn.client_left.disarm();
                return Some((Ok::<_, actix_web::Error>(last), None));
            }
            let (bytes, _) = written(frame, &mut writer);
            if !bytes.is_empty() {
                return Some((Ok(bytes), Some((turn, writer))));
            }
        }
    });
    let mut response = begin(head);
    response.content_type("text/event-stream; charset=utf-8");
    response.insert_header((header::CACHE_CONTROL, "no-cache"));
    response.insert_header((HeaderName::from_static("x-accel-buffering"), "no"));
    response.streaming(body)
}

async fn whole(head: &AnswerHead, turn: &mut Frames) -> HttpResponse {
    let mut writer = turn.writer(head);
    loop {
        match turn.frames.recv().await {
            Some(ClientFrame::Failed(failure)) => return failed(turn, &failure).await,
            Some(ClientFrame::End { .. }) => break,
            Some(frame) => drop(written(frame, &mut writer)),
            None => return lost(Endpoint::Native),
        }
    }
    if let Err(failure) = turn.settled(|note| drop(writer.note(note))).await {
        return error::respond(Endpoint::Native, &failure, None);
    }
    begin(head)
        .content_type("application/json")
        .body(writer.whole(Vec::new()))
}

/// What is told when all has been said, and then the end.
async fn last_words(turn: &mut Frames, writer: &mut Writer, end: ClientFrame) -> Bytes {
    let mut told = Vec::new();
    let settled = turn.settled(|note| told.extend_from_slice(&writer.note(note))).await;
    let end = match (settled, end) {
        (Err(failure), ClientFrame::End { .. }) => ClientFrame::Failed(failure),
        (Ok(()) | Err(_), end) => end,
    };
    let (end, _) = written(end, writer);
    [told, end.into()].concat().into()
}

async fn failed(turn: &mut Frames, failure: &TurnFailure) -> HttpResponse {
    while turn.frames.recv().await.is_some() {}
    error::respond(Endpoint::Native, failure, None)
}
