//! A whole, non-streaming answer: read to its end before the client sees any of it, so that the turn can still move on.

use bytes::{Bytes, BytesMut};
use reqwest::Response;
use understudy_messages::answer::Progress;
use understudy_messages::client::ClientFrame;
use understudy_messages::clock::Instant;
use understudy_messages::failure::{Cut, Failure, Reason};
use understudy_messages::provider::{Answered, AttemptError};

use super::fault::fault;
use super::heard::text_of;
use super::{Exchange, failed, passing, unguarded};
use crate::classify::{TransportFault, transport};
use crate::wire::{self, Whole};

/// The largest answer that is held.
const LARGEST: usize = 32 << 20;

impl Exchange<'_> {
    pub(super) async fn whole(
        &self,
        response: Response,
        deadline: Instant,
        dropped: Vec<String>,
    ) -> Result<Answered, AttemptError> {
        let headers = response.headers().clone();
        let reading = self.read(response);
        let body = self.within(deadline, TransportFault::WholeLimit, reading).await??;
        let (endpoint, api) = (self.attempt.turn.request.endpoint, self.upstream.settings.api);
        let mut pieces = Vec::new();
        let listens = self.attempt.turn.wants_text();
        let taken_apart = (!self.verbatim || listens).then_some(&mut pieces);
        let answer = wire::read_whole(endpoint, api, &body, taken_apart);
        let answer = answer.map_err(|error| failed(error.observed()))?;
        if answer.error.is_some() {
            return Err(failed(self.classified(None, &headers, &body)));
        }
        if answer.calls_tools && self.guards_tools() {
            return Err(failed(unguarded()));
        }
        if answer.is_empty() {
            return Err(failed(Failure::observed(Reason::EmptyResponse, Cut::CleanEnd)));
        }
        let text = listens.then(|| text_of(&pieces));
        self.attempt.turn.client.note(progress(&answer));
        let head = self.head(passing(&headers), dropped);
        self.send(ClientFrame::Head(head)).await?;
        let out = match self.verbatim {
            true => ClientFrame::Data(body),
            false => ClientFrame::Pieces(pieces),
        };
        self.send(out).await?;
        Ok(Answered {
            finish: answer.finish,
            usage: answer.usage,
            text,
            ..Answered::default()
        })
    }

    async fn read(&self, mut response: Response) -> Result<Bytes, AttemptError> {
        let too_large = || failed(Failure::observed(Reason::Unclassified, Cut::TooLarge));
        let announced = response.content_length().unwrap_or_default();
        let announced = usize::try_from(announced)
            .ok()
            .filter(|length| *length <= LARGEST)
            .ok_or_else(too_large)?;
        let mut body = BytesMut::with_capacity(announced);
        let lost = |error: reqwest::Error| failed(transport(fault(&error, TransportFault::Lost)));
        while let Some(bytes) = response.chunk().await.map_err(lost)? {
            self.note_heard(&bytes);
            if body.len() + bytes.len() > LARGEST {
                return Err(too_large());
            }
            if body.is_empty() && bytes.len() >= announced && announced > 0 {
                return Ok(bytes);
            }
            body.extend_from_slice(&bytes);
        }
        Ok(body.freeze())
    }
}

fn progress(answer: &Whole) -> Progress {
    match answer.calls_tools {
        false => Progress::Content,
        true => Progress::ToolCall,
    }
}
