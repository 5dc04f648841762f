//! From the frames of a turn to an HTTP response.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::{HttpResponse, HttpResponseBuilder};
use bytes::Bytes;
use futures::stream;
use tokio::sync::mpsc;
use understudy_messages::cancel::CancelOnDrop;
use understudy_messages::client::{AnswerHead, ClientFrame, Keeping};
use understudy_messages::clock::Clock;
use understudy_messages::ids::SessionKey;
use understudy_messages::request::Endpoint;
use understudy_messages::terminal::TurnFailure;
use understudy_messages::tools::TurnNote;
use understudy_messages::turn::TurnRequest;
use understudy_providers::wire::{Kept, Style, Writer, kept};

use super::gathered::{Gathered, REMOVED};
use super::responses::Memory;
use super::{error, headers, native};

const SERVED_BY: HeaderName = HeaderName::from_static("x-understudy-served-by");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-understudy-attempts");
/// What of the request had no place in the wire format of whoever answers.
const DROPPED: HeaderName = HeaderName::from_static("x-understudy-dropped");

/// The receiving side of one turn. Dropping it before the end cancels the turn.
pub(super) struct Frames {
    pub(super) request: Arc<TurnRequest>,
    pub(super) clock: Clock,
    pub(super) frames: mpsc::Receiver<ClientFrame>,
    /// Whether the session has kept the turn.
    pub(super) keeping: Keeping,
    /// Where the answer is kept, if it is to be found again.
    pub(super) memory: Option<Memory>,
    pub(super) client_left: CancelOnDrop,
}

impl Frames {
    fn endpoint(&self) -> Endpoint {
        self.request.endpoint
    }

    /// Waits until the session has kept the turn, as durably as it promises: only then is the end of an answer said. What is
    /// told meanwhile goes to `told`.
    ///
    /// # Errors
    /// What the client is told instead of the end.
    pub(super) async fn settled(&mut self, mut told: impl FnMut(&TurnNote)) -> Result<(), TurnFailure> {
        if self.request.session == SessionKey::Ephemeral {
            return Ok(());
        }
        let mut failed = None;
        while let Some(frame) = self.frames.recv().await {
            match frame {
                ClientFrame::Note(note) => told(&note),
                ClientFrame::Failed(failure) => failed = Some(failure),
                ClientFrame::Head(_)
                | ClientFrame::Data(_)
                | ClientFrame::Pieces(_)
                | ClientFrame::Seam(_)
                | ClientFrame::KeepAlive
                | ClientFrame::End { .. } => {}
            }
        }
        match (failed, self.keeping.is_kept()) {
            (Some(failure), _) => Err(failure),
            (None, true) => Ok(()),
            (None, false) => Err(turn_lost()),
        }
    }

    /// Keeps the answer, once it is whole: before the client can go on from it.
    ///
    /// # Errors
    /// What the client is told instead of the end.
    async fn keep(&mut self, kept: impl FnOnce() -> Option<Kept>) -> Result<(), TurnFailure> {
        if self.memory.is_some()
            && let Some(kept) = kept()
            && let Some(memory) = self.memory.take()
        {
            return memory.keep(kept).await;
        }
        Ok(())
    }

    pub(super) fn writer(&self, head: &AnswerHead) -> Writer {
        let since = self.clock.wall().duration_since(UNIX_EPOCH);
        Writer::new(Style {
            request: self.request.clone(),
            served_by: head.served_by.clone(),
            created: since.unwrap_or_default().as_secs(),
        })
    }
}

/// Waits for the head, then answers: whole, or as a stream.
pub(super) async fn respond(mut turn: Frames) -> HttpResponse {
    if turn.endpoint() == Endpoint::Native {
        return native::respond(turn).await;
    }
    let response = match turn.frames.recv().await {
        Some(ClientFrame::Head(head)) if head.streaming => return stream(&head, turn),
        Some(ClientFrame::Head(head)) => whole(&head, &mut turn).await,
        Some(ClientFrame::Failed(failure)) => error::respond(turn.endpoint(), &failure, None),
        Some(_) | None => lost(turn.endpoint()),
    };
    turn.client_left.disarm();
    response
}

async fn whole(head: &AnswerHead, turn: &mut Frames) -> HttpResponse {
    let mut gathered = Gathered::default();
    loop {
        match turn.frames.recv().await {
            Some(ClientFrame::Data(bytes)) => gathered.data(bytes),
            Some(ClientFrame::Pieces(pieces)) => gathered.pieces(pieces),
            Some(ClientFrame::Seam(seam)) => gathered.seam(&seam),
            Some(ClientFrame::Note(note)) => gathered.note(&note),
            Some(ClientFrame::KeepAlive) => {}
            Some(ClientFrame::End { .. }) => break,
            Some(ClientFrame::Failed(failure)) => return error::respond(turn.endpoint(), &failure, None),
            Some(ClientFrame::Head(_)) | None => return lost(turn.endpoint()),
        }
    }
    if let Err(failure) = turn.settled(|_| {}).await {
        return error::respond(turn.endpoint(), &failure, None);
    }
    let pieces = gathered.take_pieces();
    let is_kept = if !pieces.is_empty() {
        let mut writer = turn.writer(head);
        gathered.body = writer.whole(pieces);
        turn.keep(|| writer.kept()).await
    } else {
        turn.keep(|| kept(&gathered.body)).await
    };
    if let Err(failure) = is_kept {
        return error::respond(turn.endpoint(), &failure, None);
    }
    let mut response = begin(head);
    if let Some(removed) = gathered.removed() {
        response.insert_header((REMOVED, removed));
    }
    response.content_type("application/json").body(gathered.body)
}

fn stream(head: &AnswerHead, turn: Frames) -> HttpResponse {
    let writer = turn.writer(head);
    let body = stream::unfold(Some((turn, writer)), |turn| async move {
        let (mut turn, mut writer) = turn?;
        loop {
            let frame = match turn.frames.recv().await? {
                end @ ClientFrame::End { .. } => turn.settled(|_| {}).await.map_or_else(ClientFrame::Failed, |()| end),
                frame => frame,
            };
            let (mut bytes, mut more) = written(frame, &mut writer);
            if let Err(failure) = turn.keep(|| writer.kept()).await {
                (bytes, more) = (writer.fail(&failure), false);
            }
            if !more {
                turn.client_left.disarm();
                return Some((Ok::<_, actix_web::Error>(bytes), None));
            }
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

/// A frame in the client's format, and whether more will come.
pub(super) fn written(frame: ClientFrame, writer: &mut Writer) -> (Bytes, bool) {
    match frame {
        ClientFrame::Data(bytes) => (writer.pass(bytes), true),
        ClientFrame::Pieces(pieces) => (writer.pieces(pieces), true),
        ClientFrame::Seam(seam) => (writer.seam(&seam), true),
        ClientFrame::Note(note) => (writer.note(&note), true),
        ClientFrame::KeepAlive => (writer.keep_alive(), true),
        ClientFrame::Head(_) => (Bytes::new(), true),
        ClientFrame::End { last } => (writer.end(last), false),
        ClientFrame::Failed(failure) => (writer.fail(&failure), false),
    }
}

pub(super) fn begin(head: &AnswerHead) -> HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    headers::to_client(&mut response, &head.headers);
    if let Ok(served_by) = HeaderValue::from_bytes(head.served_by.to_string().as_bytes()) {
        response.insert_header((SERVED_BY, served_by));
    }
    response.insert_header((ATTEMPTS, head.attempts));
    if let Ok(dropped) = HeaderValue::from_str(&head.dropped.join(", "))
        && !dropped.is_empty()
    {
        response.insert_header((DROPPED, dropped));
    }
    response
}

/// Conductor and session are both gone.
pub(super) fn lost(endpoint: Endpoint) -> HttpResponse {
    error::respond(endpoint, &turn_lost(), None)
}

pub(super) fn turn_lost() -> TurnFailure {
    TurnFailure::ours(500, "turn_lost", "The gateway lost this turn. Please try again.")
}

#[cfg(test)]
mod tests;
